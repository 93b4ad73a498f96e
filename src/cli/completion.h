#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/arguments.h"

// What a shell may put in place of the word at its cursor. Pure functions.
namespace csidelta::cli {

// The word, standing first, that asks for completions: "csi-delta __complete snap" prints them, one
// a line.
inline constexpr char kCompleteArgument[] = "__complete";

// What the last of `words` can become: verbs, long names of flags, or the values that a flag
// allows. Sorted; empty where anything may stand, such as the name of a file.
std::vector<std::string> Complete(absl::Span<const std::string> arguments,
                                  const ProgramSyntax& program, absl::Span<const VerbSyntax> verbs);

// The script that makes a shell ask. INVALID_ARGUMENT unless `shell` is bash, zsh or fish.
absl::StatusOr<std::string> CompletionScript(absl::string_view shell);

}  // namespace csidelta::cli
