#pragma once

#include "absl/status/status.h"
#include "objects/outcome.h"

namespace csidelta::datamover {

using objects::BackupFigures;
using objects::CheckFigures;
using objects::LockFigures;
using objects::Outcome;
using objects::OutcomeCause;
using objects::OutcomeCode;
using objects::RestoreFigures;

// Code, cause and locks of work that failed with `status`, and its message. A worker that was told
// to stop has CANCELLED. REQUIRES an error.
Outcome OutcomeOf(const absl::Status& status);

}  // namespace csidelta::datamover
