#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repository.h"
#include "repository/stored_packs.h"

namespace csidelta::repository {

// Of several threads at the same time.
using PackPredicate = absl::FunctionRef<bool(const PackId&)>;

struct IndexRewriteCounts {
  int64_t files_written = 0;
  int64_t files_removed = 0;
};

// Lists packs in new index files of the usual size, and may replace old files: it writes all new
// ones before it deletes the first old one. Between the two, packs are listed twice with the same
// blobs, which is legal; so a run may die anywhere. Thread-compatible.
class IndexRewriter {
 public:
  // `fence`: of SaveIndex(). Borrows `repository`.
  IndexRewriter(Repository& repository, LockFence fence)
      : repository_(repository),
        fence_(std::move(fence)),
        moved_(repository.index().pack_count()) {}

  // Lists a pack in a new file, which is written once it is full.
  absl::Status Add(const CallContext& ctx, const IndexedPack& pack);

  // Lists what a file lists, but for packs that are dropped, and has Commit() delete it. Of a pack
  // that several files list, and that the repository's index has, what the first of them lists.
  absl::Status Move(const CallContext& ctx, const FileInfo& file, PackPredicate dropped);

  // Has Commit() delete this file.
  void Supersede(const Id& file) { superseded_.push_back(file); }

  // Writes what is left.
  absl::Status Write(const CallContext& ctx);

  // Write(), then deletes the superseded files and sees that they are gone. REQUIRES that `lock` is
  // exclusive.
  absl::StatusOr<IndexRewriteCounts> Commit(const CallContext& ctx, Lock& lock);

 private:
  Repository& repository_;
  const LockFence fence_;
  std::vector<Id> superseded_;
  std::vector<IndexedPack> pending_;
  int64_t pending_blobs_ = 0;
  PackBits moved_;  // of the repository's index
  IndexRewriteCounts counts_;
};

// Takes `dropped` out of the index: rewrites the files that name any of them, and merges files that
// are far from full when there are several. REQUIRES that `lock` is exclusive and every file reads.
absl::StatusOr<IndexRewriteCounts> DropFromIndex(const CallContext& ctx, Repository& repository,
                                                 Lock& lock, PackPredicate dropped,
                                                 const ProgressReporter& progress);

// Lists in new files those of `packs`, by their ordinals in the repository's index, that no file
// written at `stays_since` or later lists.
absl::Status ListAgain(const CallContext& ctx, Repository& repository, PackBits packs,
                       absl::Time stays_since, const LockFence& fence);

// Whether any index file, as stored now, lists any of `packs`.
absl::StatusOr<bool> IsAnyListed(const CallContext& ctx, const Repository& repository,
                                 PackPredicate packs);

}  // namespace csidelta::repository
