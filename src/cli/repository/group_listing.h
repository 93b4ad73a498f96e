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

// Below the folder that --repo names: CLUSTER/NAMESPACE/CLAIM-UID, which velero::RepositoryPath()
// puts there.
inline constexpr int kRepositoryDepthMax = 3;

inline constexpr int64_t kGroupMemoryMax = int64_t{256} << 20;

struct GroupListing {
  std::vector<std::string> names = {};  // of the groups; none: all
  SnapshotFilter filter = {};           // A group is shown whole that has one member which matches.
  int64_t latest = 0;                   // only the newest so many of each group; 0: all
};

// Prints the volume groups that the repositories in and below the place of --repo hold, and says on
// stderr which repositories or snapshots could not be read: then kIncomplete. An error when none of
// the repositories can be read, or none exists (IsNoRepository()). Takes no lock, and holds what
// is of groups in memory, kGroupMemoryMax at most (RESOURCE_EXHAUSTED).
absl::StatusOr<ExitCode> ListVolumeGroups(const CallContext& ctx, Session& session,
                                          const GroupListing& listing);

}  // namespace csidelta::cli
