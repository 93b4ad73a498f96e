#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/session.h"
#include "repository/pruner.h"

namespace csidelta::cli {

// The flags of prune, which forget --prune has too.
struct PruneFlags {
  std::string unused_max = "5%";
  int64_t repack_bytes_max = -1;  // no limit
};

void DeclarePruneFlags(ArgumentTable& table, PruneFlags& flags);

absl::StatusOr<repository::PruneOptions> ReadPruneFlags(const PruneFlags& flags,
                                                        const Session& session);

// Plans, shows the plan and, unless `dry_run`, does it; prints the result. REQUIRES the exclusive
// lock of `session`, taken before the repository's index was loaded.
absl::Status PlanAndPrune(const CallContext& ctx, Session& session,
                          repository::Repository& repository, repository::PruneOptions options,
                          bool dry_run);

}  // namespace csidelta::cli
