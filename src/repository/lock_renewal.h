#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "repository/maintenance.h"
#include "repository/repository.h"

// Object locks end. What live snapshots need is locked again before that, however long ago it was
// put: config, keys, index files, snapshots, their sidecars, and the packs that they use.
namespace csidelta::repository {

struct RenewLocksOptions {
  std::string mode = "GOVERNANCE";  // or "COMPLIANCE"
  int days = 30;
  // When the run before this ended without a failure, so that only objects whose turn has come
  // since are due: each object has one every days / 2 days. InfinitePast(): all objects are due.
  absl::Time renewed_at = absl::InfinitePast();
  int requests_per_second_max = 0;  // that count in RenewLocksResult::requests; 0: no limit
  ProgressReporter progress = nullptr;
};

struct RenewLocksResult {
  int64_t objects = 0;  // needed
  int64_t due = 0;      // looked at in this run; the numbers that follow count these
  int64_t extended = 0;
  int64_t skipped = 0;  // retained for long enough already
  int64_t failed = 0;   // not retained as long as they should be, or hidden: the first are named
  std::vector<std::string> failures = {};
  // The first end of a retention among the objects that are due, after this run. InfiniteFuture()
  // when none was due, InfinitePast() when an object has none.
  absl::Time earliest = absl::InfiniteFuture();
  int64_t requests = 0;  // that change or ask for a retention, or list versions; without retries
  // Why it cannot be told what snapshots need: then every object that is due was extended, hidden
  // ones too.
  std::string undecided = {};
};

// Extends the retention of every needed object that is due to `days` from now, unless half of the
// days will be left at its next turn. So from a run without a failure on, while such runs follow
// each day, each is retained for days / 2 at least, less the time between two runs. Where a key has
// several versions, the current one is extended if its bytes have the hash in its name. Otherwise
// the version that was put first is, and the object counts as failed: it was written over, and
// `repair versions` must bring it back. Objects that a delete marker hides are not needed, as after
// forget and prune, unless it cannot be told what is.
//
// Run it under a shared lock: prune must not run meanwhile, backups may; what these put has its
// retention from the start. A run that was interrupted is simply run again. Memory: that of
// PlanPrune(), and one page of versions. UNIMPLEMENTED when the store has no object locks;
// INVALID_ARGUMENT for a mode or days that do not exist.
absl::StatusOr<RenewLocksResult> RenewLocks(const CallContext& ctx, Repository& repository,
                                            const RenewLocksOptions& options);

}  // namespace csidelta::repository
