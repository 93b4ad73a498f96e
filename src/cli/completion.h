#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/arguments.h"

// Completions of the argument at the cursor of a shell. Pure functions.
namespace csidelta::cli {

// The first argument of a request for completions: "csi-delta __complete snap" prints them, one a
// line.
inline constexpr char kCompleteArgument[] = "__complete";

// Completions of the last argument: verbs, long names of flags, or the values that a flag allows.
// Sorted; empty if any value is allowed, such as the name of a file.
std::vector<std::string> Complete(absl::Span<const std::string> arguments,
                                  const ProgramSyntax& program, absl::Span<const VerbSyntax> verbs);

// The script that makes a shell request completions. INVALID_ARGUMENT unless `shell` is bash, zsh
// or fish.
absl::StatusOr<std::string> CompletionScript(absl::string_view shell);

}  // namespace csidelta::cli
