#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/status_macros.h"
#include "incremental/mover/block_device.h"

namespace csidelta::incremental {

// A queue that completes some transfers by itself: those for which `filter` has an answer. The
// others go on to `inner`, as `filter` left them.
class FilteredQueue : public IoQueue {
 public:
  using Filter = std::function<std::optional<absl::Status>(IoRequest& request)>;

  FilteredQueue(std::unique_ptr<IoQueue> inner, Filter filter)
      : inner_(std::move(inner)), filter_(std::move(filter)) {}

  int depth() const override { return inner_->depth(); }
  int in_flight() const override { return inner_->in_flight() + static_cast<int>(done_.size()); }

  void Submit(const IoRequest& request) override {
    IoRequest rest = request;
    if (std::optional<absl::Status> answer = filter_(rest)) {
      done_.push_back({.tag = request.tag, .status = *std::move(answer)});
    } else {
      inner_->Submit(rest);
    }
  }

  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override {
    if (done_.empty()) {
      return inner_->Wait(ctx);
    }
    IoCompletion completion = std::move(done_.front());
    done_.pop_front();
    return completion;
  }

 private:
  const std::unique_ptr<IoQueue> inner_;
  const Filter filter_;
  std::deque<IoCompletion> done_;
};

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
