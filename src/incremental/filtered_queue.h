#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "incremental/block_device.h"

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

}  // namespace csidelta::incremental
