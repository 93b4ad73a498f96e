#pragma once

#include <liburing.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "incremental/block_device.h"
#include "incremental/raw_io.h"

namespace csidelta::incremental {

// Whether this kernel lets this process have io_uring with plain reads and writes. Containers
// often forbid it.
bool UringWorks();

// Transfers by io_uring.
class UringQueue : public IoQueue {
 public:
  // UNAVAILABLE when the kernel refuses the ring.
  static absl::StatusOr<std::unique_ptr<UringQueue>> Make(const RawFile& file, int depth);
  ~UringQueue() override;

  int depth() const override { return static_cast<int>(slots_.size()); }
  int in_flight() const override { return in_flight_; }
  void Submit(const IoRequest& request) override;
  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override;

 private:
  struct Slot {
    IoRequest request;
    int64_t done_bytes = 0;
    bool busy = false;
  };

  UringQueue(const RawFile& file, int depth)
      : file_(file), slots_(static_cast<std::size_t>(depth)) {}

  void Enqueue(std::size_t slot);
  // Takes one result of the kernel. True when the slot's transfer is complete.
  bool Take(std::size_t slot, int result, absl::Status& status);
  IoCompletion Release(std::size_t slot, absl::Status status);

  const RawFile file_;
  io_uring ring_{};
  std::vector<Slot> slots_;
  std::deque<IoCompletion> ready_;  // refused at once
  int in_flight_ = 0;
};

}  // namespace csidelta::incremental
