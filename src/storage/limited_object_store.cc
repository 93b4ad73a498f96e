#include "storage/limited_object_store.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kSmallBytesMax = int64_t{16} << 10;

}  // namespace

LimitedObjectStore::LimitedObjectStore(ObjectStore& inner, const StoreLimits& limits)
    : ForwardingObjectStore(inner),
      requests_in_flight_max_(limits.requests_in_flight_max),
      requests_(limits.requests_per_second, limits.requests_per_second),
      bytes_(limits.bytes != nullptr
                 ? limits.bytes
                 : std::make_shared<ByteLimiters>(limits.upload_bytes_per_second,
                                                  limits.download_bytes_per_second)) {}

// Waits for a place in flight; one that leaves hands its place to the first who waits.
absl::Status LimitedObjectStore::TakeSlot(const CallContext& ctx) {
  RETURN_IF_ERROR(requests_.Take(ctx));
  std::stop_source turn;
  {
    const MutexLock lock(mutex_);
    if (requests_in_flight_max_ <= 0 || in_flight_ < requests_in_flight_max_) {
      ++in_flight_;
      return absl::OkStatus();
    }
    queue_.push_back(turn);
  }
  {
    const std::stop_callback forward(ctx.stop, [&turn] { turn.request_stop(); });
    ctx.clock->SleepFor(ctx.TimeLeft(), turn.get_token());
  }
  const MutexLock lock(mutex_);
  if (std::erase(queue_, turn) == 0) {
    return absl::OkStatus();  // Taken off the queue by the one whose place is now ours.
  }
  const absl::Status over = ctx.Check();
  return over.ok() ? absl::DeadlineExceededError("out of time") : over;
}

void LimitedObjectStore::ReleaseSlot() {
  std::stop_source next(std::nostopstate);
  {
    const MutexLock lock(mutex_);
    if (queue_.empty()) {
      --in_flight_;
      CSIDELTA_CHECK(in_flight_ >= 0);  // A slot is given back by the call that took it.
      return;
    }
    next = std::move(queue_.front());
    queue_.pop_front();
  }
  next.request_stop();
}

absl::Status LimitedObjectStore::Pass(const CallContext& ctx, const PassedCall& call,
                                      absl::FunctionRef<absl::Status(const CallContext&)> pass) {
  if (call.kind == CallKind::kRemoveLeftovers) {
    return pass(ctx);
  }
  if (call.kind == CallKind::kList) {
    RETURN_IF_ERROR(requests_.Take(ctx));
    return pass(ctx);
  }
  if (call.kind == CallKind::kPut) {
    const auto kind =
        call.bytes <= kSmallBytesMax ? RateLimiter::Kind::kGoesOn : RateLimiter::Kind::kBegins;
    RETURN_IF_ERROR(bytes_->upload.Take(ctx, call.bytes, kind));
  } else if (call.kind == CallKind::kGet) {
    RETURN_IF_ERROR(bytes_->download.Take(ctx, call.bytes));
  }
  RETURN_IF_ERROR(TakeSlot(ctx));
  const absl::Cleanup release = [this] { ReleaseSlot(); };
  absl::Status status = pass(ctx);
  if (call.kind == CallKind::kGet && call.bytes == 0 && status.ok()) {
    bytes_->download.Charge(ctx, call.got_bytes);
  }
  return status;
}

}  // namespace csidelta::storage
