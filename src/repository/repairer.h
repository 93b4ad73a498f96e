#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "repository/blob.h"
#include "repository/blob_writer.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repository.h"

// Makes a damaged repository whole again, as far as its bytes allow. Both repairs may die anywhere
// and be run again. `repository`'s index is out of date after either: open it anew.
namespace csidelta::repository {

struct RepairIndexOptions {
  bool read_all_packs = false;  // Trust no index file: every pack's header is read.
  bool dry_run = false;
  ProgressReporter progress = nullptr;
};

struct RepairIndexResult {
  std::vector<Id> unreadable_files;   // Index files that were replaced.
  std::vector<PackId> packs_added;    // Listed anew, from their own headers.
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
absl::StatusOr<RepairIndexResult> RepairIndex(const CallContext& ctx, Repository& repository,
                                              Lock& lock, const RepairIndexOptions& options);

// Yields the plaintext of a blob from elsewhere, such as the live volume. NOT_FOUND when it has
// none. What does not hash to the blob's id is not used: a volume may have changed since.
using BlobRefill =
    std::function<absl::StatusOr<std::string>(const CallContext& ctx, const BlobHandle& handle)>;

// Where in a volume's snapshot these data blobs stand: of each one that does, its first chunk. With
// it a live volume, or an older image of it, can refill what was lost. Leaves that do not read are
// passed over; errors above them end it. REQUIRES a loaded index.
absl::StatusOr<absl::flat_hash_map<BlobId, Extent>> FindChunks(
    const CallContext& ctx, const Repository& repository, const RepoSnapshot& snapshot,
    const absl::flat_hash_set<BlobId>& blobs);

struct RepairPacksOptions {
  BlobRefill refill = nullptr;  // May be null.
  // Called once before the first call of `refill`, with all that it may be asked for. May be null.
  std::function<absl::Status(const CallContext& ctx, const absl::flat_hash_set<BlobId>& data)>
      prepare_refill = nullptr;
  // Remove packs also when some of their blobs are lost; the snapshots that need them are then
  // beyond repair. Else such packs stay as they are.
  bool drop_lost = false;
  BlobWriterOptions writer = {};
  ProgressReporter progress = nullptr;
};

struct PackRepair {
  PackId pack;
  int64_t blobs_intact = 0;     // Read from this pack.
  int64_t blobs_elsewhere = 0;  // Another pack has them.
  int64_t blobs_refilled = 0;
  std::vector<BlobHandle> lost;
  bool removed = false;  // Its blobs are in other packs now.
};

// Moves what is left of these packs to new ones. Order: new packs, their index, index without the
// old packs, old packs go. REQUIRES that `lock` is exclusive. FAILED_PRECONDITION when the index
// does not read; NOT_FOUND for a pack that it does not list.
absl::StatusOr<std::vector<PackRepair>> RepairPacks(const CallContext& ctx, Repository& repository,
                                                    Lock& lock, absl::Span<const PackId> packs,
                                                    const RepairPacksOptions& options);

}  // namespace csidelta::repository
