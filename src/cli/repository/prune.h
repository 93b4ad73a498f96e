#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "engine/prune.h"

namespace csidelta::cli {

// The flags of prune and of forget --prune.
struct PruneFlags {
  std::string unused_max = "5%";
  int64_t repack_bytes_max = -1;  // no limit
};

void DeclarePruneFlags(ArgumentTable& table, PruneFlags& flags);

// The job of the flags. The caller sets is_dry_run.
absl::StatusOr<engine::PruneJob> ReadPruneFlags(const PruneFlags& flags);

// Warns of objects that the store refuses to delete; kIncomplete if there is one.
ExitCode WarnOfRefused(Console& console, const repository::RefusedDeletions& refused);

// The member "locked_until" of a result; null if nothing is locked.
Json LockedUntil(const engine::LockedObjects& objects);

void PrintPruned(Console& console, const engine::PruneOutcome& outcome, bool dry_run);

}  // namespace csidelta::cli
