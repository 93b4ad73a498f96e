#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/memory_budget.h"
#include "repository/blob.h"
#include "repository/format.h"
#include "repository/index_rewriter.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repository.h"
#include "repository/stored_packs.h"

// Frees the space of blobs that no snapshot uses.
//
//   PlanPrune:  snapshots --walk--> used blobs --> which packs stay, go, or are repacked
//   RunPrune:   unindexed packs go -> packs without any used blob go, the index first -> new
//               packs -> their index -> index without the old packs -> old index files go ->
//               sidecars of removed snapshots go -> old packs go
//
// So what is not used makes room first: on a full disk only the index is written before. Other
// copies of used blobs stay until the one to keep has been read, if it is.
//
// Packs that were taken out of the index go last. If that takes long, clients that wait for the
// lock get it now and then; packs that they list again stay.
//
// Dead at any point of this, it leaves a repository that checks clean and that the next prune
// finishes. Memory is taken from the repository's budget: beside the index five bits per copy of a
// blob, 12 bytes per pack, 4 more for each that does not stay and 32 for each that no index lists;
// then what reads and packs take, see maintenance_memory.h.
// Of a blob with several copies one stays, and it is read only if its pack is written again: where
// damage is suspected, check with data reading first, and say what it found.
namespace csidelta::repository {

// How many bytes of what remains may be unused: a share of it, or a number.
struct UnusedLimit {
  double percent = 5;
  int64_t bytes = -1;  // Counts when it is not negative.
};

// "5%", "2G", "0" or "unlimited".
absl::StatusOr<UnusedLimit> ParseUnusedLimit(absl::string_view text);

struct PruneOptions {
  UnusedLimit unused_max = {};
  // Of the packs that are written again, as they are stored now.
  int64_t repack_bytes_max = std::numeric_limits<int64_t>::max();
  // Also merge packs below a quarter of the target, when ten or more of a type have come together.
  bool merge_small_packs = true;
  // A check found these damaged: where a blob has another copy, that one stays. What lies in them
  // alone stays as it is, for a repair.
  DistrustedPacks distrusted = {};
  int64_t pack_target_bytes = kPackTargetBytesLocal;
  int data_compression_level = kDataCompressionLevel;
  // Others who wait for the lock get it when so many packs that no index lists any more were
  // deleted, and it was held for so long. The clock is looked at no more often than that: so many
  // take seconds in batches, and one by one a few minutes.
  std::size_t packs_deleted_alone = 4000;
  absl::Duration deletes_alone_max = absl::Minutes(10);
  ProgressReporter progress = nullptr;
};

struct PruneFigures {
  int64_t snapshots = 0;
  // Blobs, and their sealed bytes. A duplicate is another copy of a used blob.
  int64_t blobs_used = 0;
  int64_t blobs_unused = 0;
  int64_t blobs_duplicate = 0;
  int64_t bytes_used = 0;
  int64_t bytes_unused = 0;
  int64_t bytes_duplicate = 0;
  // Packs and their stored bytes.
  int64_t packs_kept = 0;
  int64_t packs_removed = 0;
  int64_t packs_repacked = 0;
  int64_t packs_unindexed = 0;
  int64_t packs_missing = 0;  // Indexed, not stored as indexed, and not needed.
  int64_t bytes_removed = 0;
  int64_t bytes_repacked = 0;
  int64_t bytes_unindexed = 0;
  // What goes in all, and what stays unused because of the limits.
  int64_t bytes_freed = 0;
  int64_t bytes_unused_after = 0;
};

// What a prune would do. Holds for the index it was made with.
struct PrunePlan {
  PruneFigures figures;
  // Ordinals of packs in the index.
  std::vector<uint32_t> repack;
  std::vector<uint32_t> unused;   // without any used blob, and missing ones
  std::vector<uint32_t> removed;  // of which another copy of each used blob stays
  std::vector<PackId> unindexed;  // In no index; ascending.
  // Sidecars of snapshots that are gone, what no other sidecar names, and what runs left that did
  // not end.
  std::vector<std::string> sidecar_keys;
  // Which copies repacking carries over, by their number in the index.
  std::vector<bool> keepers;
  // The longest of these, up to kLargeBlobBytes: it closes a pack.
  int64_t blob_bytes_max = 0;
  MemoryBudget::Share share;  // What the plan holds of the repository's budget.
  MemoryBudget::Share lists_share;
};

// Reads every tree. FAILED_PRECONDITION, with the next step, when the repository is damaged such
// that what is used cannot be told: an unreadable snapshot or tree, a used blob that no stored pack
// holds, packs listed differently by two index files.
//
// To be run, the plan must be made under an exclusive lock that is older than the loaded index.
absl::StatusOr<PrunePlan> PlanPrune(const CallContext& ctx, Repository& repository,
                                    const PruneOptions& options);

struct PruneResult {
  int64_t packs_written = 0;
  int64_t packs_deleted = 0;
  int64_t index_files_written = 0;
  int64_t index_files_removed = 0;
  RefusedDeletions refused = {};  // packs and sidecars, which the next prune tries again
};

// Does it. REQUIRES that `lock` is exclusive and was held when the index was loaded; ABORTED when
// an index file tells that it was not. The index of `repository` is out of date afterwards: open it
// again.
absl::StatusOr<PruneResult> RunPrune(const CallContext& ctx, Repository& repository, Lock& lock,
                                     const PrunePlan& plan, const PruneOptions& options);

}  // namespace csidelta::repository
