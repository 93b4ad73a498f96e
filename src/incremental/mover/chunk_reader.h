#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/bounded_queue.h"
#include "base/call_context.h"
#include "base/worker_pool.h"
#include "incremental/mover/block_device.h"

namespace csidelta::incremental {

struct ChunkReaderOptions {
  int64_t chunk_bytes = 0;
  int queue_depth = 8;  // reads in flight
  int workers = 1;
  int buffers = 16;  // chunks in memory: in flight, waiting, or being worked on
};

// Reads chunks ahead of the workers that look at them:
//
//   Read() --> device queue --> queue --> one of `workers` threads: visit(bytes) --> buffer is free
//
// Memory is bounded by `buffers` chunks. Read() and Finish() belong to one thread. The first error,
// of a read or of a visit, ends all; it is what Read() and Finish() return from then on.
class ChunkReader {
 public:
  // Runs on a worker's thread; the bytes are valid until it returns.
  using Visit = std::function<absl::Status(absl::string_view bytes)>;

  static absl::StatusOr<std::unique_ptr<ChunkReader>> Make(const CallContext& ctx,
                                                           BlockDevice& device,
                                                           const ChunkReaderOptions& options);

  // Starts reading `extent`, which is at most a chunk; blocks until a buffer is free.
  absl::Status Read(const Extent& extent, Visit visit);

  // Blocks until all was visited. Last call.
  absl::Status Finish();

  // The caller's context, which ends when this pipeline does.
  const CallContext& context() const { return pool_.context(); }

  int64_t read_bytes() const { return read_bytes_; }

 private:
  struct Task {
    AlignedBuffer buffer;
    Extent extent;
    Visit visit;
  };

  ChunkReader(const CallContext& ctx, const ChunkReaderOptions& options);
  absl::Status Work(const CallContext& ctx);
  absl::StatusOr<AlignedBuffer> TakeBuffer();
  // Takes one read that is complete and hands it on.
  absl::Status Reap();
  // The error that stopped the pipeline.
  absl::Status Failure();

  const ChunkReaderOptions options_;
  BoundedQueue<AlignedBuffer> free_;
  BoundedQueue<Task> filled_;
  int64_t read_bytes_ = 0;
  std::vector<Task> in_flight_;  // by tag
  std::vector<uint64_t> free_tags_;
  std::unique_ptr<IoQueue> io_;  // behind the memory that it writes to
  WorkerPool pool_;              // last: its threads use all of the above
};

}  // namespace csidelta::incremental
