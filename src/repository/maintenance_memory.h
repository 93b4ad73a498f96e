#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/memory_budget.h"
#include "repository/blob_writer.h"
#include "repository/index.h"
#include "repository/maintenance.h"

// How check, prune, copy and repair divide what their MemoryBudget leaves once the index is loaded.
// All of it is taken from the budget before it is allocated; where not even the least fits, the
// status is RESOURCE_EXHAUSTED and says how much would do.
namespace csidelta::repository {

inline constexpr int64_t kWrittenPackBytesMin = int64_t{4} << 20;

// Ranges of packs that a RangeFetcher holds, and threads that decode them.
struct FetchRoom {
  int ranges = 1;
  int decoders = 1;
  MemoryBudget::Share share = {};
};

// The longest range of one request, so that kRangesWanted of them may be in memory beside the
// threads that decode, each with `decode_bytes`: from 1 MiB to `range_bytes_max`. Pure.
inline constexpr int kRangesWanted = 32;
int64_t RangeBytesFor(int64_t free_bytes, int64_t decode_bytes, int64_t range_bytes_max);

// As many ranges as the budget bears, each of `range_bytes`, but no more than 64, nor than the
// `count` that there are. Decoders get a third, and two of them a half: a quarter of what is free
// is left for a blob that is longer than others.
absl::StatusOr<FetchRoom> TakeFetchRoom(MemoryBudget& memory, int64_t range_bytes,
                                        int64_t decode_bytes, absl::string_view what,
                                        int64_t count);

struct WriterRequest {
  int64_t free_bytes = 0;         // of the budget
  int64_t pack_bytes_wanted = 0;  // the target of the volume's packs
  int64_t blob_bytes_max = 0;     // the blob that closes a pack
};

// What the packs that are written take. A value.
struct WriterPlan {
  int64_t pack_bytes = 0;
  int open_packs = 1;
  int uploads_in_flight = 1;
  int64_t index_blobs = 0;   // of one index file
  int64_t held_bytes = 0;    // of all that
  int64_t needed_bytes = 0;  // free_bytes below which not even the least fits
};

// Five eighths of what is free: the rest reads what is written. First packs as long as wanted, but
// no longer than leaves room for two uploads; then up to four uploads, then up to four open packs.
// Where more is free, nothing is less, but for the packs beyond the wanted length. Pure.
WriterPlan PlanWriter(const WriterRequest& request);

// Options of a BlobWriter within the budget, the others as `like` has them, and what its packs
// hold. Outlives the writer.
struct WriterRoom {
  BlobWriterOptions options = {};
  MemoryBudget::Share share = {};
};
absl::StatusOr<WriterRoom> TakeWriterRoom(MemoryBudget& memory, WriterRequest request,
                                          const BlobWriterOptions& like);

// The same for a writer of blobs that `index` lists, in packs as long as theirs; where they do not
// tell, as long as `like` has them. Reads the whole index.
absl::StatusOr<WriterRoom> TakeWriterRoomLike(MemoryBudget& memory, const BlobIndex& index,
                                              const BlobWriterOptions& like);

// How long packs are to be that prune and copy write: as most bytes of data lie in already, at most
// 128 MiB and no less than VolumePackBytes() of them all; the default where all packs are short.
int64_t PackBytesLike(const BlobIndex& index, int64_t pack_bytes_default);

// The length of packs below which those of a volume of `volume_bytes` should not be, where memory
// allows: 64 TiB in packs of 8 MiB are 8 million objects. 0 below 1 TiB. Pure.
int64_t VolumePackBytes(int64_t volume_bytes);

// Blobs of packs to ask the index for at once, with their lists: an eighth of what is free. Pure.
inline constexpr int64_t kPassBytesPerBlob = 160;
int64_t BlobsPerPass(int64_t free_bytes);

}  // namespace csidelta::repository
