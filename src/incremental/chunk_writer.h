#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "incremental/block_device.h"
#include "incremental/tree_fetcher.h"
#include "repository/blob_codec.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

// Where a blob goes.
struct ChunkPlace {
  repository::BlobId id;
  int64_t chunk = 0;

  friend auto operator<=>(const ChunkPlace&, const ChunkPlace&) = default;
};

// Blobs of one range of a pack, and where each goes: part.tag is the first of its places in
// `places`, which is sorted.
struct RestoreTask {
  PackRange range;
  std::shared_ptr<const std::vector<ChunkPlace>> places;
};

// What all writers of a restore count together.
struct RestoreCounts {
  std::atomic<int64_t> written_bytes = 0;
  std::atomic<int64_t> fetched_bytes = 0;
  std::atomic<int64_t> damaged_copies = 0;
};

// Fetches ranges, proves their blobs and writes them to the target, with some writes in flight. For
// one thread. Borrows all it is given.
class ChunkWriter {
 public:
  // REQUIRES depth > 1: two chunks are in its hands at a time.
  static absl::StatusOr<std::unique_ptr<ChunkWriter>> Make(repository::Repository& repository,
                                                           const repository::VolumeLayout& layout,
                                                           BlockDevice& target, int depth,
                                                           RestoreCounts& counts);

  // Writes may be in flight still when it returns; an error of theirs comes with a later call.
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
    absl::Span<const ChunkPlace> places;
    std::size_t slot = 0;
  };

  ChunkWriter(repository::Repository& repository, const repository::VolumeLayout& layout,
              RestoreCounts& counts)
      : repository_(repository), layout_(layout), counts_(counts), codec_(repository.MakeCodec()) {}

  // A slot whose buffer nobody uses.
  absl::StatusOr<std::size_t> FreeSlot(const CallContext& ctx);
  absl::Status Reap(const CallContext& ctx);
  // One piece or two, which are proven together.
  absl::Status WritePieces(const CallContext& ctx, absl::Span<Piece> pieces);
  absl::Status CheckPlaces(const Piece& piece) const;
  // Fills the buffers from the envelopes, or from other copies where those are damaged.
  absl::Status Decode(const CallContext& ctx, absl::Span<const Piece> pieces);
  absl::Status TakeOtherCopy(const CallContext& ctx, const repository::BlobCodec::Sealed& damaged);
  absl::Status Submit(const CallContext& ctx, const Piece& piece);

  repository::Repository& repository_;
  const repository::VolumeLayout layout_;
  RestoreCounts& counts_;
  std::unique_ptr<repository::BlobCodec> codec_;
  std::vector<Slot> slots_;
  std::unique_ptr<IoQueue> io_;  // behind the memory that it reads from
};

}  // namespace csidelta::incremental
