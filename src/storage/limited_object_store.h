#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rate_limiter.h"
#include "storage/forwarding_object_store.h"

namespace csidelta::storage {

// The bytes of all stores that share it. Thread-safe.
struct ByteLimiters {
  explicit ByteLimiters(int64_t upload_per_second = 0, int64_t download_per_second = 0)
      : upload(static_cast<double>(upload_per_second), 1),
        download(static_cast<double>(download_per_second), 1) {}
  void SetRates(const Clock& clock, double upload_per_second, double download_per_second) {
    upload.SetRate(clock, upload_per_second);
    download.SetRate(clock, download_per_second);
  }

  RateLimiter upload;
  RateLimiter download;
};

// 0: no limit.
struct StoreLimits {
  int64_t upload_bytes_per_second = 0;
  int64_t download_bytes_per_second = 0;
  int requests_per_second = 0;
  int requests_in_flight_max = 0;
  std::shared_ptr<ByteLimiters> bytes = nullptr;  // in place of the first two
};

// Lets calls pass to `inner` (borrowed) no faster than `limits`. Bytes are paid for when their
// number is known: uploads and ranges before, whole objects after, so that one call never waits for
// more than those before it. A listing is one request, and never in flight: its sink may call this
// store. Calls wait in the order in which they came, but for uploads of a few KiB, which wait for
// each other only: the refresh of a lock must not stand behind packs. One whose deadline comes
// first is DEADLINE_EXCEEDED, at once where that can be foreseen.
class LimitedObjectStore : public ForwardingObjectStore {
 public:
  LimitedObjectStore(ObjectStore& inner, const StoreLimits& limits);

 protected:
  absl::Status Pass(const CallContext& ctx, const PassedCall& call,
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override;

 private:
  // A place among the requests in flight.
  absl::Status TakeSlot(const CallContext& ctx);
  void ReleaseSlot();

  const int requests_in_flight_max_;
  RateLimiter requests_;
  const std::shared_ptr<ByteLimiters> bytes_;
  Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::stop_source> queue_ ABSL_GUARDED_BY(mutex_);  // each requested at its turn
};

}  // namespace csidelta::storage
