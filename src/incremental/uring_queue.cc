#include "incremental/uring_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "incremental/posix_file.h"

namespace csidelta::incremental {
namespace {

// How often a wait looks at its context.
constexpr int64_t kWaitSliceNs = 200'000'000;

}  // namespace

bool UringWorks() {
  io_uring ring{};
  if (io_uring_queue_init(2, &ring, 0) != 0) {
    return false;
  }
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  const bool works = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                     io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) {
    io_uring_free_probe(probe);
  }
  io_uring_queue_exit(&ring);
  return works;
}

absl::StatusOr<std::unique_ptr<UringQueue>> UringQueue::Make(const RawFile& file, int depth) {
  CSIDELTA_CHECK(depth >= 1 && depth <= kQueueDepthMax);
  // Not make_unique: the constructor is private.
  std::unique_ptr<UringQueue> queue(new UringQueue(file, depth));
  const int result = io_uring_queue_init(static_cast<unsigned>(depth), &queue->ring_, 0);
  if (result != 0) {
    queue->slots_.clear();  // There is no ring to tear down.
    return absl::UnavailableError(ErrnoToStatus(-result, "io_uring").message());
  }
  return queue;
}

UringQueue::~UringQueue() {
  if (slots_.empty()) {
    return;
  }
  // The kernel writes into the callers' memory until each transfer is complete.
  in_flight_ -= static_cast<int>(ready_.size());
  while (in_flight_ > 0) {
    io_uring_cqe* entry = nullptr;
    const int waited = io_uring_wait_cqe(&ring_, &entry);
    if (waited == -EINTR) {
      continue;
    }
    CSIDELTA_CHECK(waited == 0);
    io_uring_cqe_seen(&ring_, entry);
    --in_flight_;
  }
  io_uring_queue_exit(&ring_);
}

void UringQueue::Enqueue(std::size_t index) {
  Slot& slot = slots_[index];
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  CSIDELTA_CHECK(entry != nullptr);  // There are as many entries as slots.
  const auto left = static_cast<unsigned>(DirectLength(file_, slot.request) - slot.done_bytes);
  const auto at = static_cast<uint64_t>(slot.request.offset_bytes + slot.done_bytes);
  if (slot.request.kind == IoKind::kRead) {
    io_uring_prep_read(entry, file_.fd, slot.request.memory + slot.done_bytes, left, at);
  } else {
    io_uring_prep_write(entry, file_.fd, slot.request.memory + slot.done_bytes, left, at);
  }
  io_uring_sqe_set_data(entry, &slot);
  int submitted = 0;
  do {
    submitted = io_uring_submit(&ring_);
  } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
  CSIDELTA_CHECK(submitted == 1);
}

void UringQueue::Submit(const IoRequest& request) {
  CSIDELTA_CHECK(in_flight() < depth());
  CSIDELTA_CHECK(request.length_bytes > 0 && request.length_bytes <= kTransferBytesMax);
  if (DirectLength(file_, request) == 0) {
    // Nothing but a tail: at most once in a volume.
    ready_.push_back({.tag = request.tag, .status = WriteTail(file_, request)});
    ++in_flight_;
    return;
  }
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.busy; });
  CSIDELTA_CHECK(free != slots_.end());
  *free = {.request = request, .done_bytes = 0, .busy = true};
  ++in_flight_;
  Enqueue(static_cast<std::size_t>(free - slots_.begin()));
}

IoCompletion UringQueue::Release(std::size_t index, absl::Status status) {
  slots_[index].busy = false;
  --in_flight_;
  return {.tag = slots_[index].request.tag, .status = std::move(status)};
}

bool UringQueue::Take(std::size_t index, int result, absl::Status& status) {
  Slot& slot = slots_[index];
  const IoRequest& request = slot.request;
  const int64_t at = request.offset_bytes + slot.done_bytes;
  if (result == -EINTR || result == -EAGAIN) {
    Enqueue(index);
    return false;
  }
  if (result < 0) {
    status = TransferError(request.kind, at, -result);
    return true;
  }
  slot.done_bytes += result;
  const int64_t wanted = std::min(request.length_bytes, DirectLength(file_, request));
  if (slot.done_bytes >= wanted) {
    status = request.kind == IoKind::kWrite ? WriteTail(file_, request) : absl::OkStatus();
    return true;
  }
  if (result == 0 || result % file_.alignment_bytes != 0) {
    status = EarlyEnd(request.kind, at + result);
    return true;
  }
  Enqueue(index);
  return false;
}

absl::StatusOr<IoCompletion> UringQueue::Wait(const CallContext& ctx) {
  CSIDELTA_CHECK(in_flight_ > 0);
  if (!ready_.empty()) {
    IoCompletion done = std::move(ready_.front());
    ready_.pop_front();
    --in_flight_;
    return done;
  }
  while (true) {
    __kernel_timespec slice{.tv_sec = 0, .tv_nsec = kWaitSliceNs};
    io_uring_cqe* entry = nullptr;
    const int waited = io_uring_wait_cqe_timeout(&ring_, &entry, &slice);
    if (waited == -ETIME || waited == -EINTR || waited == -EAGAIN) {
      RETURN_IF_ERROR(ctx.Check());
      continue;
    }
    if (waited != 0) {
      return ErrnoToStatus(-waited, "wait for io_uring");
    }
    const auto index =
        static_cast<std::size_t>(static_cast<Slot*>(io_uring_cqe_get_data(entry)) - slots_.data());
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    absl::Status status;
    if (Take(index, result, status)) {
      return Release(index, std::move(status));
    }
  }
}

}  // namespace csidelta::incremental
