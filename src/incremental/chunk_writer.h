#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "incremental/block_device.h"
#include "incremental/tree_fetcher.h"
#include "repository/blob_codec.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

// Where a blob goes.
struct ChunkPosition {
  repository::BlobId id;
  int64_t chunk = 0;

  friend auto operator<=>(const ChunkPosition&, const ChunkPosition&) = default;
};

// Blobs of one range of a pack, and where each goes: part.tag is the first of its places in
// `places`, which is sorted.
struct RestoreTask {
  PackRange range;
  std::shared_ptr<const std::vector<ChunkPosition>> places;
};

// What all writers of a restore count together.
struct RestoreCounts {
  std::atomic<int64_t> written_bytes = 0;
  std::atomic<int64_t> kept_bytes = 0;      // that the target held already
  std::atomic<int64_t> compared_bytes = 0;  // of the target, read to see that
  std::atomic<int64_t> fetched_bytes = 0;
  std::atomic<int64_t> damaged_copies = 0;
};

// One request; smaller than a pack, so that several workers share one.
inline constexpr int64_t kRangeBytesMax = int64_t{8} << 20;

struct ChunkWriterOptions {
  int depth = 0;  // writes in flight; > 1: two chunks are in its hands at a time
  // Chunks that the target holds already, by the hash of what it reads there, are neither fetched
  // nor written; of the others only blocks of kDifferenceBytes that differ. What does not read is
  // written.
  bool only_differing = false;
};

// Fetches ranges, proves their blobs and writes them to the target, with some writes in flight. For
// one thread. Borrows all it is given.
class ChunkWriter {
 public:
  static absl::StatusOr<std::unique_ptr<ChunkWriter>> Make(repository::Repository& repository,
                                                           const repository::VolumeLayout& layout,
                                                           BlockDevice& target,
                                                           const ChunkWriterOptions& options,
                                                           RestoreCounts& counts);

  // Writes may be in flight still when it returns; their errors come with a later call.
  absl::Status Do(const CallContext& ctx, const RestoreTask& task);

  // Waits for all writes.
  absl::Status Finish(const CallContext& ctx);

 private:
  struct Slot {
    AlignedBuffer buffer;
    int users = 0;  // writes in flight, and who fills it
  };

  // A blob of a range on its way to the target.
  struct Piece {
    const PackRange::Part* part;
    absl::string_view envelope;
    absl::Span<const ChunkPosition> places;
    std::size_t slot = 0;
  };

  ChunkWriter(repository::Repository& repository, const repository::VolumeLayout& layout,
              RestoreCounts& counts)
      : repository_(repository), layout_(layout), counts_(counts), codec_(repository.MakeCodec()) {}

  // A slot whose buffer is unused.
  absl::StatusOr<std::size_t> FreeSlot(const CallContext& ctx);
  absl::Status Reap(const CallContext& ctx);
  // One piece or two, which are proven together.
  absl::Status WritePieces(const CallContext& ctx, absl::Span<Piece> pieces);
  absl::Status CheckPlaces(const Piece& piece) const;
  // Fills the buffers from the envelopes, or from other copies where those are damaged.
  absl::Status Decode(const CallContext& ctx, absl::Span<const Piece> pieces);
  absl::Status TakeOtherCopy(const CallContext& ctx, const repository::BlobCodec::Sealed& damaged);
  absl::Status Submit(const CallContext& ctx, const Piece& piece);
  absl::Status SubmitRange(const CallContext& ctx, std::size_t slot, int64_t chunk,
                           const Extent& range);
  absl::Status WriteTask(const CallContext& ctx, const RestoreTask& task);

  // Where only what differs is written:
  // Reads what the target holds of a chunk into held_; false when it does not read.
  absl::StatusOr<bool> ReadHeld(const CallContext& ctx, int64_t chunk);
  absl::StatusOr<bool> Holds(const CallContext& ctx, const ChunkPosition& place);
  // The ranges of a chunk that are to be written so that it becomes `wanted`.
  absl::StatusOr<std::vector<Extent>> RangesToWrite(const CallContext& ctx, int64_t chunk,
                                                    absl::string_view wanted);
  absl::Status WriteDiffering(const CallContext& ctx, const RestoreTask& task);

  repository::Repository& repository_;
  const repository::VolumeLayout layout_;
  RestoreCounts& counts_;
  std::unique_ptr<repository::BlobCodec> codec_;
  std::vector<Slot> slots_;
  AlignedBuffer held_;  // a chunk of the target
  // Behind the memory that they use.
  std::unique_ptr<IoQueue> io_;
  std::unique_ptr<IoQueue> held_io_;  // nullptr: everything is written
};

}  // namespace csidelta::incremental
