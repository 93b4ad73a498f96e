#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/blob_writer.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repository.h"

// Makes a damaged repository whole again, as far as its bytes allow. Both repairs may die anywhere
// and be run again. `repository`'s index is out of date after either: open it again.
namespace csidelta::repository {

struct RepairIndexOptions {
  bool read_all_packs = false;  // Trust no index file: every pack's header is read.
  bool dry_run = false;
  bool assume_ended = false;  // No client deletes packs any more, whatever MayStillDelete() says.
  ProgressReporter progress = nullptr;
};

struct RepairIndexResult {
  std::vector<Id> unreadable_files;   // Index files that were replaced.
  std::vector<PackId> packs_added;    // Listed again, from their own headers.
  std::vector<PackId> packs_dropped;  // Listed, but not stored.
  // Stored, but neither a header nor, for those in no index, anything else tells what they hold.
  // Those that an index lists stay listed, so that RepairPacks() can save what is in them.
  std::vector<PackId> packs_unreadable;
  int64_t files_written = 0;
  int64_t files_removed = 0;

  bool changed() const {
    return !unreadable_files.empty() || !packs_added.empty() || !packs_dropped.empty();
  }
};

// Makes the index agree with the packs: index files that do not read go, packs that are gone are
// dropped, and packs that no file lists, or lists with another length, or two list differently, are
// listed by their headers. REQUIRES that `lock` is exclusive. The index need not be loaded.
// FAILED_PRECONDITION, and nothing was changed, when packs that no file lists may still be deleted.
absl::StatusOr<RepairIndexResult> RepairIndex(const CallContext& ctx, Repository& repository,
                                              Lock& lock, const RepairIndexOptions& options);

// Yields the plaintext of a blob from elsewhere, such as the live volume. NOT_FOUND when it has
// none. What does not hash to the blob's id is not used: a volume may have changed since.
using BlobRepairSource =
    std::function<absl::StatusOr<std::string>(const CallContext& ctx, const BlobHandle& handle)>;

// A data blob that snapshots name, as a volume would hold it: it begins at a multiple of one of
// `chunk_bytes`.
struct WantedChunks {
  absl::flat_hash_set<BlobId> ids;
  std::set<int64_t> chunk_bytes;
  std::set<int64_t> tail_bytes;  // Lengths of those that are shorter, at the end of a volume.
};

struct RepairPacksOptions {
  BlobRepairSource repair_source = nullptr;  // May be null.
  // Called once before the first call of `repair_source`, with all that it may be asked for. May be
  // null.
  std::function<absl::Status(const CallContext& ctx, const WantedChunks& wanted)>
      prepare_repair_source = nullptr;
  // Which packs to remove also when some of their blobs are lost; the snapshots that need these are
  // then beyond repair. Else such packs stay as they are. Null: none.
  std::function<bool(const PackId& pack)> drops_lost = nullptr;
  BlobWriterOptions writer = {};
  ProgressReporter progress = nullptr;
};

struct PackRepair {
  PackId pack;
  int64_t blobs_intact = 0;     // Read from this pack.
  int64_t blobs_elsewhere = 0;  // Another pack has them.
  int64_t blobs_filled_in = 0;
  std::vector<BlobHandle> lost;
  bool removed = false;  // Its blobs are in other packs now.
};

struct RepairPacksResult {
  std::vector<PackRepair> packs;
  std::vector<PackId> unlisted;  // Asked for, and in no index: there is nothing to move.
  // Data blobs that snapshots name, beside those of `packs`: in no index, or only where no pack is.
  int64_t blobs_missing = 0;
  int64_t missing_filled_in = 0;
  int64_t trees_unreadable = 0;  // What they name is not known.

  int64_t lost() const {
    int64_t blobs = blobs_missing - missing_filled_in;
    for (const PackRepair& repair : packs) {
      blobs += static_cast<int64_t>(repair.lost.size());
    }
    return blobs;
  }
};

// Moves what is left of these packs to new ones, and fills in what the snapshots miss, whatever
// became of the packs that held it. Without `packs`, of all that are listed and not stored in their
// length. Order: new packs, their index, index without the old packs, old packs go. Reads every
// tree. REQUIRES that `lock` is exclusive. FAILED_PRECONDITION when the index does not read.
absl::StatusOr<RepairPacksResult> RepairPacks(const CallContext& ctx, Repository& repository,
                                              Lock& lock, absl::Span<const PackId> packs,
                                              const RepairPacksOptions& options);

}  // namespace csidelta::repository
