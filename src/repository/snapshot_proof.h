#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/blob_writer.h"
#include "repository/id_set.h"
#include "repository/lock.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"
#include "repository/stored_packs.h"
#include "repository/tree_locator.h"

// Before a repository snapshot is saved, it is proven that what it needs is in the store and in the
// index. All that save one come through here.
namespace csidelta::repository {

// How often a proof looks at what. Only tests have a reason to change it.
struct ProofLimits {
  // A repository of no more packs is listed before each snapshot; a larger one once the last
  // listing is so old, or of a time that is yet to come.
  int64_t packs_listed_at_once = kPacksListedAtOnce;
  absl::Duration listing_age_max = absl::Hours(24);
  int64_t recent_ids_max = 512;  // of an IdSet
};

// Finds out in which packs the blobs of a snapshot lie. Of the index that is loaded only packs
// count that are not in `unusable`. Thread-safe; borrows all.
class NeededBlobs {
 public:
  NeededBlobs(const Repository& repository, PackBits unusable,
              const DistrustedPacks& distrusted = {});

  // DATA_LOSS, which names the blob, when no such pack holds it.
  absl::Status AddTree(const BlobId& tree) { return LookUp({BlobType::kTree, tree}); }
  // Looked up by Resolve(), in the order of their ids.
  absl::Status AddData(absl::Span<const BlobId> blobs);
  // After the last of them: DATA_LOSS as above, or all that is needed. `listed_at` is when data/
  // was listed, by which the packs that are unusable are known.
  absl::Status Resolve();
  absl::StatusOr<SnapshotNeeds> ToNeeds(const CallContext& ctx, Repository& repository,
                                        absl::Time listed_at, const ProofLimits& limits);

 private:
  absl::Status LookUp(const BlobHandle& handle);
  std::string WhyUnusable(const PackId& pack) const;

  const BlobIndex& index_;
  StoredBlobs stored_;
  const DistrustedPacks distrusted_;
  IdSorter data_;
  Mutex mutex_;
  BlobId last_ ABSL_GUARDED_BY(mutex_);  // the same one is often named many times in a row
};

// A snapshot that a new one takes over, unread, in parts or as a whole.
struct Inherited {
  std::optional<SnapshotNeeds> needs = {};  // absent: unknown
  // Adds all its blobs. Null: this same run has stored it, so that nothing can be missing.
  std::function<absl::Status(NeededBlobs&)> walk = nullptr;
};

// Shows that what a snapshot needs of earlier ones is there. Made by ProveNeeds() alone.
class SnapshotProof {
 public:
  SnapshotProof(SnapshotProof&&) = default;
  SnapshotProof& operator=(SnapshotProof&&) = default;

  const SnapshotNeeds& needs() const { return needs_; }

 private:
  friend class Prover;
  friend struct SnapshotProofForTest;  // defined by tests alone
  explicit SnapshotProof(SnapshotNeeds needs) : needs_(std::move(needs)) {}

  SnapshotNeeds needs_;
};

// Which of what a new snapshot will need is not in the store, or not in the index? OK: nothing.
// Looked at are the packs of what `writer` found stored already, and what is `inherited`, if any.
//
// If all that is inherited is known, that costs a listing of index/ and one of data/; the index is
// loaded only when one of these objects is missing, or the needs are unknown. Then every blob
// that is inherited is looked up, and the needs are exact again. DATA_LOSS or NOT_FOUND names what
// is missing; other errors are those of the store.
absl::StatusOr<SnapshotProof> ProveNeeds(const CallContext& ctx, Repository& repository,
                                         const BlobWriter& writer, const Inherited* inherited,
                                         const ProofLimits& limits = {});

// Whether each pack of `needs` is in the index, which is loaded, and not in `unusable`. Needs that
// cannot be read are not.
absl::StatusOr<bool> AreIndexed(const CallContext& ctx, const Repository& repository,
                                const SnapshotNeeds& needs, const PackBits& unusable);

struct CommittedSnapshot {
  Id id;
  int64_t stored_bytes = 0;             // of the snapshot and its needs
  absl::StatusOr<SnapshotNeeds> needs;  // for its sidecar; an error leaves them unknown
};

// Flushes `writer`, looks at the fence, saves what `record` then says, and looks at the fence once
// more when the snapshot is in the store: between the first look and the end of a PUT that was
// repeated for minutes, or of a machine that was stopped, others may have removed the lock and then
// the packs. If they have, the snapshot is removed again, and the error says whether it is.
// `fence` may be null.
absl::StatusOr<CommittedSnapshot> CommitSnapshot(const CallContext& ctx, Repository& repository,
                                                 BlobWriter& writer, const SnapshotProof& proof,
                                                 const LockFence& fence,
                                                 absl::FunctionRef<RepoSnapshot()> record,
                                                 const ProofLimits& limits = {});

}  // namespace csidelta::repository
