#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "engine/listener.h"
#include "engine/session.h"
#include "repository/pruner.h"

namespace csidelta::engine {

struct PruneJob {
  repository::UnusedLimit unused_max = {};
  int64_t repack_bytes_max = std::numeric_limits<int64_t>::max();
  bool is_dry_run = false;
  repository::DistrustedPacks distrusted = {};  // as in repository::PruneOptions
};

// Of the packs that a prune deletes, how many a bucket with object lock keeps as versions.
struct LockedPacks {
  int64_t asked = 0;  // at most kLockedPacksAskedMax
  int64_t locked = 0;
  absl::Time until = absl::InfinitePast();  // the last end of their locks
};
inline constexpr int64_t kLockedPacksAskedMax = 100;

// "3 of the deleted packs stay in the bucket as versions, locked until ..."; "" where none is.
// Pure.
std::string TextOf(const LockedPacks& packs);

struct PruneOutcome {
  repository::PruneFigures figures = {};
  repository::PruneResult done = {};  // all 0 after a dry run
  LockedPacks locked = {};            // likewise; all 0 also where it is not known
  int64_t scratch_bytes = 0;          // the most that lay in scratch files
};

// Frees the space of what no snapshot uses, in the session's repository, which it opens alone.
absl::StatusOr<PruneOutcome> RunPrune(const CallContext& ctx, Session& session, const PruneJob& job,
                                      const Progress& progress);

// The same in `repository`, which the session has opened with LockKind::kExclusive, before its
// index was loaded.
absl::StatusOr<PruneOutcome> PruneOpened(const CallContext& ctx, Session& session,
                                         repository::Repository& repository, const PruneJob& job,
                                         const Progress& progress);

}  // namespace csidelta::engine
