#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "engine/prune.h"

namespace csidelta::cli {

// The flags of prune, which forget --prune has too.
struct PruneFlags {
  std::string unused_max = "5%";
  int64_t repack_bytes_max = -1;  // no limit
};

void DeclarePruneFlags(ArgumentTable& table, PruneFlags& flags);

// But for whether it is a dry run.
absl::StatusOr<engine::PruneJob> ReadPruneFlags(const PruneFlags& flags);

// Names what the store refuses to delete; kIncomplete when there is any.
ExitCode WarnOfRefused(Console& console, const repository::RefusedDeletions& refused);

// The member "locked_until" of a result; null where nothing is locked.
Json LockedUntil(const engine::LockedObjects& objects);

void PrintPruned(Console& console, const engine::PruneOutcome& outcome, bool dry_run);

}  // namespace csidelta::cli
