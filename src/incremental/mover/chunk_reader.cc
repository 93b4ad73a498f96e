#include "incremental/mover/chunk_reader.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::incremental {

ChunkReader::ChunkReader(const CallContext& ctx, const ChunkReaderOptions& options)
    : options_(options),
      free_(options.buffers),
      filled_(options.buffers * options.chunk_bytes),
      in_flight_(static_cast<std::size_t>(options.queue_depth)),
      pool_(ctx) {}

absl::StatusOr<std::unique_ptr<ChunkReader>> ChunkReader::Make(const CallContext& ctx,
                                                               BlockDevice& device,
                                                               const ChunkReaderOptions& options) {
  CSIDELTA_CHECK(options.workers > 0 && options.buffers > 0 && options.chunk_bytes > 0);
  // Not make_unique: the constructor is private.
  std::unique_ptr<ChunkReader> reader(new ChunkReader(ctx, options));
  ASSIGN_OR_RETURN(reader->io_, device.OpenQueue(options.queue_depth));
  for (int i = 0; i < options.buffers; ++i) {
    reader->free_.Push(AlignedBuffer(options.chunk_bytes), 1, {});
  }
  for (int i = 0; i < options.queue_depth; ++i) {
    reader->free_tags_.push_back(static_cast<uint64_t>(i));
  }
  ChunkReader* const self = reader.get();
  reader->pool_.Start(options.workers, [self](const CallContext& worker_ctx, int) {
    return self->Work(worker_ctx);
  });
  return reader;
}

absl::Status ChunkReader::Work(const CallContext& ctx) {
  while (std::optional<Task> task = filled_.Pop(ctx.stop)) {
    RETURN_IF_ERROR(task->visit(task->buffer.View(task->extent.length_bytes)));
    free_.Push(std::move(task->buffer), 1, ctx.stop);
  }
  return ctx.Check();
}

absl::Status ChunkReader::Failure() {
  pool_.Fail(context().Check());  // A deadline stops nothing by itself.
  return pool_.Join();
}

absl::Status ChunkReader::Reap() {
  absl::StatusOr<IoCompletion> done = io_->Wait(context());
  if (!done.ok()) {
    pool_.Fail(done.status());
    return Failure();
  }
  Task task = std::move(in_flight_[done->tag]);
  free_tags_.push_back(done->tag);
  if (!done->status.ok()) {
    pool_.Fail(done->status);
    return Failure();
  }
  read_bytes_ += task.extent.length_bytes;
  const int64_t weight = task.extent.length_bytes;
  return filled_.Push(std::move(task), weight, context().stop) ? absl::OkStatus() : Failure();
}

absl::StatusOr<AlignedBuffer> ChunkReader::TakeBuffer() {
  while (true) {
    if (std::optional<AlignedBuffer> buffer = free_.TryPop()) {
      return *std::move(buffer);
    }
    if (io_->in_flight() > 0) {
      RETURN_IF_ERROR(Reap());
      continue;
    }
    if (std::optional<AlignedBuffer> buffer = free_.Pop(context().stop)) {
      return *std::move(buffer);
    }
    return Failure();
  }
}

absl::Status ChunkReader::Read(const Extent& extent, Visit visit) {
  CSIDELTA_CHECK(extent.length_bytes > 0 && extent.length_bytes <= options_.chunk_bytes);
  if (!context().Check().ok()) {
    return Failure();
  }
  ASSIGN_OR_RETURN(AlignedBuffer buffer, TakeBuffer());
  while (free_tags_.empty()) {
    RETURN_IF_ERROR(Reap());
  }
  const uint64_t tag = free_tags_.back();
  free_tags_.pop_back();
  in_flight_[tag] = {.buffer = std::move(buffer), .extent = extent, .visit = std::move(visit)};
  io_->Submit({.kind = IoKind::kRead,
               .offset_bytes = extent.offset_bytes,
               .length_bytes = extent.length_bytes,
               .memory = in_flight_[tag].buffer.data(),
               .tag = tag});
  return absl::OkStatus();
}

absl::Status ChunkReader::Finish() {
  while (io_->in_flight() > 0) {
    RETURN_IF_ERROR(Reap());
  }
  filled_.Close();
  return pool_.Join();
}

}  // namespace csidelta::incremental
