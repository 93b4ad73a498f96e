#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/status_macros.h"
#include "incremental/block_device.h"
#include "incremental/filtered_queue.h"

namespace csidelta::incremental {

// Blocks until something may be written; an error: nothing may be any more.
using WriteGate = std::function<absl::Status()>;

// A device whose every write passes a gate first: a write that the gate refuses fails with its
// error, and nothing reaches the device. Reads and flushes pass. Borrows `device`.
class GatedBlockDevice : public BlockDevice {
 public:
  GatedBlockDevice(BlockDevice& device, WriteGate gate) : device_(device), gate_(std::move(gate)) {}

  const DeviceInfo& info() const override { return device_.info(); }
  absl::StatusOr<std::unique_ptr<IoQueue>> OpenQueue(int depth) override {
    ASSIGN_OR_RETURN(std::unique_ptr<IoQueue> queue, device_.OpenQueue(depth));
    return std::make_unique<FilteredQueue>(
        std::move(queue), [this](IoRequest& request) -> std::optional<absl::Status> {
          absl::Status allowed = request.kind == IoKind::kWrite ? gate_() : absl::OkStatus();
          return allowed.ok() ? std::nullopt : std::optional(std::move(allowed));
        });
  }
  absl::Status MakeZero(const CallContext& ctx, const Extent& extent) override {
    RETURN_IF_ERROR(gate_());
    return device_.MakeZero(ctx, extent);
  }
  absl::Status Flush(const CallContext& ctx) override { return device_.Flush(ctx); }

 private:
  BlockDevice& device_;
  const WriteGate gate_;
};

}  // namespace csidelta::incremental
