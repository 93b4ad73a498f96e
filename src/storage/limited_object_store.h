#pragma once

#include <cstdint>
#include <deque>
#include <stop_token>
#include <string>

#include "base/mutex.h"
#include "base/rate_limiter.h"
#include "storage/forwarding_object_store.h"

namespace csidelta::storage {

// 0: no limit.
struct StoreLimits {
  int64_t upload_bytes_per_second = 0;
  int64_t download_bytes_per_second = 0;
  int requests_per_second = 0;
  int requests_in_flight_max = 0;
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

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override;
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;

 protected:
  absl::Status Versioned(const CallContext& ctx, VersionedCall, PassedCall pass) override;

 private:
  // A place among the requests in flight, given back when it goes.
  class Slot;

  struct Waiter {
    uint64_t ticket = 0;
    std::stop_source turn;  // Requested when it has come.
  };

  absl::Status TakeSlot(const CallContext& ctx);
  void ReleaseSlot();

  const int requests_in_flight_max_;
  RateLimiter requests_;
  RateLimiter upload_bytes_;
  RateLimiter download_bytes_;
  Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Waiter> queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::storage
