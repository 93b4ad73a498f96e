#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::repository {

// The bytes of a node's name, which restic writes as the inside of a quoted Go string.
// False when malformed.
bool UnquoteName(absl::string_view quoted, std::string& name);

}  // namespace csidelta::repository
