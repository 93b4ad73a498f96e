#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "engine/session.h"
#include "repository/lock.h"
#include "repository/pruner.h"
#include "storage/object_store.h"

namespace csidelta::engine {

struct PruneJob {
  repository::UnusedLimit unused_max = {};
  int64_t repack_bytes_max = std::numeric_limits<int64_t>::max();
  bool is_dry_run = false;
  // As in repository::PruneOptions; empty: what repository::ReadDamaged() says.
  repository::DistrustedPacks distrusted = {};
};

// The deleted objects that a bucket with object lock keeps as versions.
struct LockedObjects {
  int64_t asked = 0;  // at most kLockedAskedMax
  int64_t locked = 0;
  absl::Time until = absl::InfinitePast();  // the last end of their locks
};
inline constexpr int64_t kLockedAskedMax = 100;

// Reads the retention of the first kLockedAskedMax of `keys`, before they are deleted. All 0 if it
// cannot be read, and in a store without object lock.
LockedObjects CountLocked(const CallContext& ctx, storage::ObjectStore& store,
                          absl::Span<const std::string> keys);

// "3 of the 7 deleted packs stay in the bucket as versions, locked until ..."; "" if none does.
// `what` names these objects, in the plural. Pure.
std::string TextOf(const LockedObjects& objects, absl::string_view what);

// "the store refuses to delete 2 objects: data/..., data/...: ...", as the error of the first; OK
// without any. Pure.
absl::Status StatusOf(const repository::RefusedDeletions& refused);

struct PruneOutcome {
  repository::PruneFigures figures = {};
  repository::PruneResult done = {};  // all 0 after a dry run
  LockedObjects locked = {};          // likewise: packs
  int64_t scratch_bytes = 0;          // the most that lay in scratch files
};

// Frees the space that no snapshot uses in the session's repository, which it opens alone.
absl::StatusOr<PruneOutcome> RunPrune(const CallContext& ctx, Session& session, const PruneJob& job,
                                      const Progress& progress);

// The same in `repository`, which the session has opened with LockKind::kExclusive, before its
// index was loaded.
absl::StatusOr<PruneOutcome> PruneOpened(const CallContext& ctx, Session& session,
                                         repository::Repository& repository, const PruneJob& job,
                                         const Progress& progress);

}  // namespace csidelta::engine
