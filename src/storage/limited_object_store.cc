#include "storage/limited_object_store.h"

#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kSmallBytesMax = int64_t{16} << 10;

}  // namespace

class LimitedObjectStore::Slot {
 public:
  explicit Slot(LimitedObjectStore& store) : store_(store) {}
  ~Slot() { store_.ReleaseSlot(); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  LimitedObjectStore& store_;
};

LimitedObjectStore::LimitedObjectStore(ObjectStore& inner, const StoreLimits& limits)
    : ForwardingObjectStore(inner),
      requests_in_flight_max_(limits.requests_in_flight_max),
      requests_(limits.requests_per_second, limits.requests_per_second),
      upload_bytes_(static_cast<double>(limits.upload_bytes_per_second), 1),
      download_bytes_(static_cast<double>(limits.download_bytes_per_second), 1) {}

// Waits for a place in flight; one that leaves hands its place to the first who waits.
absl::Status LimitedObjectStore::TakeSlot(const CallContext& ctx) {
  RETURN_IF_ERROR(requests_.Take(ctx));
  Waiter own;
  {
    const MutexLock lock(mutex_);
    if (requests_in_flight_max_ <= 0 || in_flight_ < requests_in_flight_max_) {
      ++in_flight_;
      return absl::OkStatus();
    }
    own.ticket = next_ticket_++;
    queue_.push_back(own);
  }
  {
    const std::stop_callback forward(ctx.stop, [&own] { own.turn.request_stop(); });
    ctx.clock->SleepFor(ctx.TimeLeft(), own.turn.get_token());
  }
  const MutexLock lock(mutex_);
  const auto removed =
      std::erase_if(queue_, [&own](const Waiter& waiter) { return waiter.ticket == own.ticket; });
  if (removed == 0) {
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
      return;
    }
    next = std::move(queue_.front().turn);
    queue_.pop_front();
  }
  next.request_stop();
}

absl::Status LimitedObjectStore::Put(const CallContext& ctx, const std::string& key,
                                     absl::string_view bytes, const PutOptions& options) {
  const auto kind =
      std::ssize(bytes) <= kSmallBytesMax ? RateLimiter::Kind::kGoesOn : RateLimiter::Kind::kBegins;
  RETURN_IF_ERROR(upload_bytes_.Take(ctx, std::ssize(bytes), kind));
  RETURN_IF_ERROR(TakeSlot(ctx));
  const Slot slot(*this);
  return inner().Put(ctx, key, bytes, options);
}

absl::StatusOr<std::string> LimitedObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                    int64_t size_bytes_max) {
  RETURN_IF_ERROR(download_bytes_.Take(ctx, 0));
  RETURN_IF_ERROR(TakeSlot(ctx));
  const Slot slot(*this);
  absl::StatusOr<std::string> bytes = inner().Get(ctx, key, size_bytes_max);
  if (bytes.ok()) {
    download_bytes_.Charge(ctx, std::ssize(*bytes));
  }
  return bytes;
}

absl::StatusOr<std::string> LimitedObjectStore::GetRange(const CallContext& ctx,
                                                         const std::string& key, ByteRange range) {
  RETURN_IF_ERROR(download_bytes_.Take(ctx, range.length_bytes));
  RETURN_IF_ERROR(TakeSlot(ctx));
  const Slot slot(*this);
  return inner().GetRange(ctx, key, range);
}

absl::StatusOr<ObjectInfo> LimitedObjectStore::Stat(const CallContext& ctx,
                                                    const std::string& key) {
  RETURN_IF_ERROR(TakeSlot(ctx));
  const Slot slot(*this);
  return inner().Stat(ctx, key);
}

absl::Status LimitedObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                      ObjectSink sink) {
  RETURN_IF_ERROR(requests_.Take(ctx));
  return inner().List(ctx, prefix, sink);
}

absl::Status LimitedObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                            ObjectSink sink) {
  RETURN_IF_ERROR(requests_.Take(ctx));
  return inner().ListFolder(ctx, prefix, sink);
}

absl::Status LimitedObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(TakeSlot(ctx));
  const Slot slot(*this);
  return inner().Delete(ctx, key);
}

absl::Status LimitedObjectStore::Versioned(const CallContext& ctx, VersionedCall, PassedCall pass) {
  RETURN_IF_ERROR(TakeSlot(ctx));
  const Slot slot(*this);
  return pass(ctx);
}

}  // namespace csidelta::storage
