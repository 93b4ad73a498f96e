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

  absl::Status ListAfter(const CallContext& ctx, const std::string& prefix,
                         const std::string& after, ObjectSink sink) override {
    return Pass(ctx, {CallKind::kList}, [&](const CallContext& passed) {
      return inner().ListAfter(passed, prefix, after, sink);
    });
  }

 protected:
  absl::Status Pass(const CallContext& ctx, const PassedCall& call,
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override;

 private:
  StoreMeter& meter_;
};

}  // namespace csidelta::storage
