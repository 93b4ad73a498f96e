#pragma once

#include <string>

#include "storage/forwarding_object_store.h"
#include "storage/store_meter.h"

namespace csidelta::storage {

// Counts in `meter` what passes to `inner` (both borrowed). Stands directly around the store and
// inside RetryingObjectStore, so that it sees every attempt.
class MeteredObjectStore : public ForwardingObjectStore {
 public:
  MeteredObjectStore(ObjectStore& inner, StoreMeter& meter)
      : ForwardingObjectStore(inner), meter_(meter) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override;
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override;
  absl::Status ListAfter(const CallContext& ctx, const std::string& prefix,
                         const std::string& after, ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;

 protected:
  absl::Status Versioned(const CallContext& ctx, VersionedCall call, PassedCall pass) override;

 private:
  // Counts one request and passes its result on.
  template <typename Result>
  Result Count(StoreMeter::Counter requests, Result result);
  absl::StatusOr<std::string> CountBytes(absl::StatusOr<std::string> result);

  StoreMeter& meter_;
};

}  // namespace csidelta::storage
