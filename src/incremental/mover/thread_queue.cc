#include "incremental/mover/thread_queue.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/posix_file.h"

namespace csidelta::incremental {
namespace {

// How often a wait looks at its context.
constexpr std::chrono::milliseconds kWaitSlice{200};

absl::string_view KindName(IoKind kind) { return kind == IoKind::kRead ? "read" : "write"; }

absl::Status TransferError(IoKind kind, int64_t offset_bytes, int error) {
  return storage::ErrnoToStatus(error, absl::StrCat(KindName(kind), " at offset ", offset_bytes));
}

absl::Status EarlyEnd(IoKind kind, int64_t offset_bytes) {
  return absl::DataLossError(
      absl::StrCat(KindName(kind), " ended early, at offset ", offset_bytes));
}

// How many bytes of `request` one aligned system call can move: a read is rounded up to the
// alignment, a write's tail that is not aligned is left for WriteTail().
int64_t DirectLength(const OpenFile& file, const IoRequest& request) {
  return request.kind == IoKind::kRead
             ? RoundUp(request.length_bytes, file.info.alignment_bytes)
             : request.length_bytes - request.length_bytes % file.info.alignment_bytes;
}

// Moves [done, wanted) of a transfer whose calls may move up to `limit`. Returns how far it came.
absl::StatusOr<int64_t> Move(const OpenFile& file, const IoRequest& request, int64_t limit) {
  int64_t done = 0;
  while (done < request.length_bytes && done < limit) {
    const auto left = static_cast<std::size_t>(limit - done);
    const off_t at = request.offset_bytes + done;
    const ssize_t moved = request.kind == IoKind::kRead
                              ? ::pread(file.fd, request.memory + done, left, at)
                              : ::pwrite(file.fd, request.memory + done, left, at);
    if (moved < 0 && errno == EINTR) {
      continue;
    }
    if (moved < 0) {
      return TransferError(request.kind, at, errno);
    }
    done += moved;
    if (moved == 0 ||
        (done < request.length_bytes && done < limit && moved % file.info.alignment_bytes != 0)) {
      return EarlyEnd(request.kind, request.offset_bytes + done);
    }
  }
  return done;
}

// Writes the last bytes of `request`, by reading the block that they are in and writing it back.
absl::Status WriteTail(const OpenFile& file, const IoRequest& request) {
  const int64_t head = DirectLength(file, request);
  const int64_t tail = request.length_bytes - head;
  if (tail == 0) {
    return absl::OkStatus();
  }
  const int64_t at = request.offset_bytes + head;
  AlignedBuffer block(file.info.alignment_bytes);
  std::memset(block.data(), 0, static_cast<std::size_t>(block.capacity_bytes()));
  const auto block_bytes = static_cast<std::size_t>(file.info.alignment_bytes);
  // Short, or nothing, where the file ends: the rest is zeros then.
  if (::pread(file.fd, block.data(), block_bytes, at) < 0) {
    return TransferError(IoKind::kRead, at, errno);
  }
  std::memcpy(block.data(), request.memory + head, static_cast<std::size_t>(tail));
  const ssize_t written = ::pwrite(file.fd, block.data(), block_bytes, at);
  if (written < 0) {
    return TransferError(IoKind::kWrite, at, errno);
  }
  if (static_cast<std::size_t>(written) != block_bytes) {
    return EarlyEnd(IoKind::kWrite, at + written);
  }
  if (!file.info.is_block_device && at + file.info.alignment_bytes > file.info.size_bytes &&
      ::ftruncate(file.fd, file.info.size_bytes) != 0) {
    return TransferError(IoKind::kWrite, file.info.size_bytes, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DoTransfer(const OpenFile& file, const IoRequest& request) {
  RETURN_IF_ERROR(Move(file, request, DirectLength(file, request)).status());
  return request.kind == IoKind::kWrite ? WriteTail(file, request) : absl::OkStatus();
}

ThreadQueue::ThreadQueue(const OpenFile& file, int depth) : file_(file) {
  CSIDELTA_CHECK(depth >= 1 && depth <= kQueueDepthMax);
  for (int i = 0; i < depth; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

ThreadQueue::~ThreadQueue() {
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
  threads_.clear();  // Each ends the transfer that it is in.
}

std::optional<IoRequest> ThreadQueue::Take(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const bool is_there = submitted_.wait(
      lock, stop, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !waiting_.empty(); });
  if (!is_there || stop.stop_requested()) {
    return std::nullopt;
  }
  const IoRequest request = waiting_.front();
  waiting_.pop_front();
  return request;
}

void ThreadQueue::Work(const std::stop_token& stop) {
  while (const std::optional<IoRequest> request = Take(stop)) {
    absl::Status status = DoTransfer(file_, *request);
    const MutexLock lock(mutex_);
    ready_.push_back({.tag = request->tag, .status = std::move(status)});
    done_.notify_one();
  }
}

void ThreadQueue::Submit(const IoRequest& request) {
  CSIDELTA_CHECK(in_flight() < depth());
  CSIDELTA_CHECK(request.length_bytes > 0 && request.length_bytes <= kTransferBytesMax);
  ++in_flight_;
  const MutexLock lock(mutex_);
  waiting_.push_back(request);
  submitted_.notify_one();
}

absl::StatusOr<IoCompletion> ThreadQueue::Wait(const CallContext& ctx) {
  CSIDELTA_CHECK(in_flight_ > 0);
  MutexLock lock(mutex_);
  while (!done_.wait_for(lock, ctx.stop, kWaitSlice,
                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ready_.empty(); })) {
    RETURN_IF_ERROR(ctx.Check());
  }
  IoCompletion done = std::move(ready_.front());
  ready_.pop_front();
  --in_flight_;
  return done;
}

}  // namespace csidelta::incremental
