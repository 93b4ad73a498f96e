#include "incremental/gated_block_device.h"

#include <deque>

#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

class GatedQueue : public IoQueue {
 public:
  GatedQueue(std::unique_ptr<IoQueue> queue, const WriteGate& gate)
      : queue_(std::move(queue)), gate_(gate) {}

  int depth() const override { return queue_->depth(); }
  int in_flight() const override { return queue_->in_flight() + static_cast<int>(refused_.size()); }

  void Submit(const IoRequest& request) override {
    absl::Status allowed = request.kind == IoKind::kWrite ? gate_() : absl::OkStatus();
    if (allowed.ok()) {
      queue_->Submit(request);
    } else {
      refused_.push_back({.tag = request.tag, .status = std::move(allowed)});
    }
  }

  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override {
    if (refused_.empty()) {
      return queue_->Wait(ctx);
    }
    IoCompletion completion = std::move(refused_.front());
    refused_.pop_front();
    return completion;
  }

 private:
  const std::unique_ptr<IoQueue> queue_;
  const WriteGate& gate_;
  std::deque<IoCompletion> refused_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoQueue>> GatedBlockDevice::OpenQueue(int depth) {
  ASSIGN_OR_RETURN(std::unique_ptr<IoQueue> queue, device_.OpenQueue(depth));
  return std::make_unique<GatedQueue>(std::move(queue), gate_);
}

absl::Status GatedBlockDevice::MakeZero(const CallContext& ctx, const Extent& extent) {
  RETURN_IF_ERROR(gate_());
  return device_.MakeZero(ctx, extent);
}

}  // namespace csidelta::incremental
