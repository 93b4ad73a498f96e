#pragma once

#include <string>

#include "absl/strings/string_view.h"

// Where the tests were built. Functions, not macros: of an absolute path among its arguments the
// compiler cache makes other objects in every checkout.
namespace csidelta::support {

// A file or folder of the sources, by its path in them.
std::string SourcePath(absl::string_view relative);
// The text of such a file. Ends the program where none exists.
std::string ReadSource(absl::string_view relative);

// A program of the same build.
std::string BuiltProgram(absl::string_view name);

}  // namespace csidelta::support
