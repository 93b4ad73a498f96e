#pragma once

#include <condition_variable>
#include <deque>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "incremental/mover/block_device.h"

namespace csidelta::incremental {

// What plain system calls need to know of a file or device. The descriptor is borrowed.
struct OpenFile {
  int fd = -1;
  DeviceInfo info;
};

// Does a whole transfer by pread and pwrite. A write whose last block is not whole reads that block
// and writes it back; a file keeps its size. Blocks. Thread-safe for transfers that share no block.
absl::Status DoTransfer(const OpenFile& file, const IoRequest& request);

// Transfers by pread and pwrite, each on one of `depth` threads. Containers mostly forbid io_uring,
// which was about as fast.
class ThreadQueue : public IoQueue {
 public:
  ThreadQueue(const OpenFile& file, int depth);
  ~ThreadQueue() override;

  int depth() const override { return static_cast<int>(threads_.size()); }
  int in_flight() const override { return in_flight_; }
  void Submit(const IoRequest& request) override;
  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override;

 private:
  // The next one that waits; nothing once `stop` was requested.
  std::optional<IoRequest> Take(const std::stop_token& stop);
  void Work(const std::stop_token& stop);

  const OpenFile file_;
  int in_flight_ = 0;  // the owner's
  Mutex mutex_;
  std::condition_variable_any submitted_;
  std::condition_variable_any done_;
  std::deque<IoRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<IoCompletion> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace csidelta::incremental
