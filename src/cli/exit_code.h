#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/restore_target.h"

namespace csidelta::cli {

// The exit code of the program: a contract with scripts. The numbers are restic's where it has one.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kIncomplete = 3,  // done, except for something that was damaged or could not be removed
  kNoRepository = 10,
  kLocked = 11,  // also: another operation on the volume is under way
  kWrongPassword = 12,
  kAuditMismatch = 20,    // the backup is good, but its list was refused or found wrong
  kFallbackRefused = 21,  // --on-fallback fail
  kTargetTooSmall = 22,
  kProtected = 23,  // nothing was deleted: all named objects are protected
  kInterrupted = 130,
};

// Marks a status as kTargetTooSmall.
using engine::AsTargetTooSmall;

// REQUIRES an error.
ExitCode ExitCodeOf(const absl::Status& status);

// One sentence with the error and the next step, if that is the same for every verb. `location`
// names the repository, or is "". REQUIRES an error.
std::string Explain(const absl::Status& status, absl::string_view location);

}  // namespace csidelta::cli
