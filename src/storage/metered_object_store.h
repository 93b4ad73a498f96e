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
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override {
    absl::Status status = pass(ctx);
    switch (call.kind) {
      case CallKind::kGet:
        meter_.Add(&StoreUsage::got_bytes, call.got_bytes);
        [[fallthrough]];
      case CallKind::kGetVersioned:
        meter_.Add(&StoreUsage::get_requests, 1);
        break;
      case CallKind::kPut:
        meter_.Add(&StoreUsage::put_bytes, status.ok() ? call.bytes : 0);
        meter_.Add(&StoreUsage::put_objects, status.ok() ? 1 : 0);
        [[fallthrough]];
      case CallKind::kPutVersioned:
        meter_.Add(&StoreUsage::put_requests, 1);
        break;
      case CallKind::kStat:
        meter_.Add(&StoreUsage::stat_requests, 1);
        break;
      case CallKind::kList:
      case CallKind::kListVersions:
        meter_.Add(&StoreUsage::list_requests, 1);
        break;
      case CallKind::kDelete:
      case CallKind::kDeleteVersion:
        meter_.Add(&StoreUsage::delete_requests, 1);
        break;
      case CallKind::kRemoveLeftovers:
        return status;
    }
    meter_.Add(&StoreUsage::failed_requests, status.ok() ? 0 : 1);
    return status;
  }

 private:
  StoreMeter& meter_;
};

}  // namespace csidelta::storage
