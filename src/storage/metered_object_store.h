#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "storage/forwarding_object_store.h"

namespace csidelta::storage {

// What a store was asked for. Requests are counted each time that they are made, so that a call
// which is tried three times counts three; a listing counts one for each page.
struct StoreUsage {
  int64_t put_requests = 0;
  int64_t get_requests = 0;  // whole objects and ranges
  int64_t stat_requests = 0;
  int64_t list_requests = 0;
  int64_t delete_requests = 0;
  int64_t failed_requests = 0;  // those among them that were not answered with OK
  int64_t retries = 0;          // those among them that repeat another
  int64_t put_bytes = 0;        // of objects stored; not of requests that failed
  int64_t got_bytes = 0;
  int64_t put_objects = 0;

  int64_t requests() const {
    return put_requests + get_requests + stat_requests + list_requests + delete_requests;
  }
  int64_t write_requests() const { return put_requests + delete_requests; }
  bool operator==(const StoreUsage&) const = default;
};

// Counts for the decorators of one store. Thread-safe; a snapshot that is taken while requests are
// under way may have counted parts of them.
class StoreMeter {
 public:
  using Counter = int64_t StoreUsage::*;

  void Add(Counter counter, int64_t count) {
    std::atomic_ref<int64_t>(usage_.*counter).fetch_add(count, std::memory_order_relaxed);
  }

  StoreUsage Snapshot() const {
    StoreUsage copy;
    for (const Counter counter :
         {&StoreUsage::put_requests, &StoreUsage::get_requests, &StoreUsage::stat_requests,
          &StoreUsage::list_requests, &StoreUsage::delete_requests, &StoreUsage::failed_requests,
          &StoreUsage::retries, &StoreUsage::put_bytes, &StoreUsage::got_bytes,
          &StoreUsage::put_objects}) {
      copy.*counter = std::atomic_ref<int64_t>(usage_.*counter).load(std::memory_order_relaxed);
    }
    return copy;
  }

 private:
  mutable StoreUsage usage_;  // Touched only through atomic_ref.
};

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
