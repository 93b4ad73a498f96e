#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/exit_code.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/session.h"

namespace csidelta::cli {

// Folders below --repo: CLUSTER/NAMESPACE/CLAIM-UID, as in velero::RepositoryPath().
inline constexpr int kRepositoryDepthMax = 3;

inline constexpr int64_t kGroupMemoryMax = int64_t{256} << 20;

struct GroupListing {
  std::vector<std::string> names = {};  // of groups; empty: all
  SnapshotFilter filter = {};           // a group is shown whole if one member matches
  int64_t latest = 0;                   // at most so many of each group, the newest; 0: all
};

// Prints the volume groups of the repositories in and below --repo. Repositories and snapshots that
// cannot be read are named on stderr: then kIncomplete. An error if no repository can be read, or
// if none was found (IsNoRepository()). Takes no lock. Holds the members of groups in
// memory, kGroupMemoryMax at most (RESOURCE_EXHAUSTED).
absl::StatusOr<ExitCode> ListVolumeGroups(const CallContext& ctx, Session& session,
                                          const GroupListing& listing);

}  // namespace csidelta::cli
