#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/restore_target.h"

namespace csidelta::cli {

// What the program ends with: a contract with scripts, and restic's numbers where it has them.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kIncomplete = 3,  // done, but for something that was damaged or could not be removed
  kNoRepository = 10,
  kLocked = 11,  // also: another operation on the volume is under way
  kWrongPassword = 12,
  kAuditMismatch = 20,    // the backup is good, but the list was not: refused, or found wrong
  kFallbackRefused = 21,  // --on-fallback fail
  kTargetTooSmall = 22,
  kProtected = 23,  // nothing was deleted: all that was named is kept for a reason
  kInterrupted = 130,
};

// What marks a status as kTargetTooSmall.
using engine::AsTargetTooSmall;

// REQUIRES an error.
ExitCode ExitCodeOf(const absl::Status& status);

// One sentence that says what is wrong and what to do next, where that is the same for every verb.
// `place` names the repository, or is "".
// REQUIRES an error.
std::string Explain(const absl::Status& status, absl::string_view location);

}  // namespace csidelta::cli
