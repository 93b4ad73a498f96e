#include "incremental/restore_mark.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace csidelta::incremental {

// Keeps the beginning of the volume back, and passes on what is behind it.
class MarkedTarget::Queue : public IoQueue {
 public:
  Queue(MarkedTarget& target, std::unique_ptr<IoQueue> inner)
      : target_(target), inner_(std::move(inner)) {}

  int depth() const override { return inner_->depth(); }
  int in_flight() const override {
    return inner_->in_flight() + static_cast<int>(kept_tags_.size());
  }

  void Submit(const IoRequest& request) override {
    if (request.kind == IoKind::kRead || request.offset_bytes > 0) {
      CSIDELTA_CHECK(request.kind == IoKind::kRead || request.offset_bytes >= kRestoreMarkBytes);
      inner_->Submit(request);
      return;
    }
    CSIDELTA_CHECK(request.length_bytes >= kRestoreMarkBytes);
    target_.Keep(request.memory);
    IoRequest rest = request;
    rest.offset_bytes += kRestoreMarkBytes;
    rest.length_bytes -= kRestoreMarkBytes;
    rest.memory += kRestoreMarkBytes;
    if (rest.length_bytes == 0) {
      kept_tags_.push_back(request.tag);
    } else {
      inner_->Submit(rest);
    }
  }

  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override {
    if (kept_tags_.empty()) {
      return inner_->Wait(ctx);
    }
    const uint64_t tag = kept_tags_.front();
    kept_tags_.pop_front();
    return IoCompletion{.tag = tag, .status = absl::OkStatus()};
  }

 private:
  MarkedTarget& target_;
  const std::unique_ptr<IoQueue> inner_;
  std::deque<uint64_t> kept_tags_;  // Transfers of which nothing was left to do.
};

void MarkedTarget::Keep(const uint8_t* bytes) {
  const MutexLock lock(mutex_);
  std::memcpy(beginning_.data(), bytes, beginning_.size());
}

absl::Status MarkedTarget::WriteBeginning(const CallContext& ctx, absl::string_view bytes) {
  const AlignedBuffer memory(kRestoreMarkBytes);
  std::memset(memory.data(), 0, static_cast<std::size_t>(kRestoreMarkBytes));
  std::memcpy(memory.data(), bytes.data(),
              std::min(bytes.size(), static_cast<std::size_t>(kRestoreMarkBytes)));
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, inner_.OpenQueue(1));
  RETURN_IF_ERROR(WriteFully(ctx, *queue, {0, kRestoreMarkBytes}, memory.data()));
  return inner_.Flush(ctx);
}

absl::Status MarkedTarget::Begin(const CallContext& ctx, absl::string_view text) {
  return is_marked_ ? WriteBeginning(ctx, absl::StrCat(kRestoreMark, text)) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IoQueue>> MarkedTarget::OpenQueue(int depth) {
  ASSIGN_OR_RETURN(std::unique_ptr<IoQueue> queue, inner_.OpenQueue(depth));
  return is_marked_ ? std::make_unique<Queue>(*this, std::move(queue)) : std::move(queue);
}

absl::Status MarkedTarget::MakeZero(const CallContext& ctx, const Extent& extent) {
  if (!is_marked_ || extent.offset_bytes > 0) {
    return inner_.MakeZero(ctx, extent);
  }
  CSIDELTA_CHECK(extent.length_bytes >= kRestoreMarkBytes);
  const std::array<uint8_t, kRestoreMarkBytes> zeros = {};
  Keep(zeros.data());
  const Extent rest{kRestoreMarkBytes, extent.length_bytes - kRestoreMarkBytes};
  return rest.length_bytes == 0 ? absl::OkStatus() : inner_.MakeZero(ctx, rest);
}

absl::Status MarkedTarget::Flush(const CallContext& ctx) {
  RETURN_IF_ERROR(inner_.Flush(ctx));
  if (!is_marked_) {
    return absl::OkStatus();
  }
  const MutexLock lock(mutex_);
  return WriteBeginning(ctx, {beginning_.data(), beginning_.size()});
}

absl::StatusOr<bool> HasRestoreMark(const CallContext& ctx, BlockDevice& device) {
  if (device.info().size_bytes < kRestoreMarkBytes) {
    return false;
  }
  const AlignedBuffer memory(kRestoreMarkBytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, device.OpenQueue(1));
  RETURN_IF_ERROR(ReadFully(ctx, *queue, {0, kRestoreMarkBytes}, memory.data()));
  return absl::StartsWith(memory.View(kRestoreMarkBytes), kRestoreMark);
}

}  // namespace csidelta::incremental
