#include "storage/metered_object_store.h"

#include <utility>

#include "base/status_macros.h"

namespace csidelta::storage {

template <typename Result>
Result MeteredObjectStore::Count(StoreMeter::Counter requests, Result result) {
  meter_.Add(requests, 1);
  if (!internal::ToStatus(result).ok()) {
    meter_.Add(&StoreUsage::failed_requests, 1);
  }
  return result;
}

absl::StatusOr<std::string> MeteredObjectStore::CountBytes(absl::StatusOr<std::string> result) {
  if (result.ok()) {
    meter_.Add(&StoreUsage::got_bytes, std::ssize(*result));
  }
  return Count(&StoreUsage::get_requests, std::move(result));
}

absl::Status MeteredObjectStore::Put(const CallContext& ctx, const std::string& key,
                                     absl::string_view bytes, const PutOptions& options) {
  absl::Status status = Count(&StoreUsage::put_requests, inner().Put(ctx, key, bytes, options));
  if (status.ok()) {
    meter_.Add(&StoreUsage::put_bytes, std::ssize(bytes));
    meter_.Add(&StoreUsage::put_objects, 1);
  }
  return status;
}

absl::StatusOr<std::string> MeteredObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                    int64_t size_bytes_max) {
  return CountBytes(inner().Get(ctx, key, size_bytes_max));
}

absl::StatusOr<std::string> MeteredObjectStore::GetRange(const CallContext& ctx,
                                                         const std::string& key, ByteRange range) {
  return CountBytes(inner().GetRange(ctx, key, range));
}

absl::StatusOr<ObjectInfo> MeteredObjectStore::Stat(const CallContext& ctx,
                                                    const std::string& key) {
  return Count(&StoreUsage::stat_requests, inner().Stat(ctx, key));
}

absl::Status MeteredObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                      ObjectSink sink) {
  return Count(&StoreUsage::list_requests, inner().List(ctx, prefix, sink));
}

absl::Status MeteredObjectStore::ListAfter(const CallContext& ctx, const std::string& prefix,
                                           const std::string& after, ObjectSink sink) {
  return Count(&StoreUsage::list_requests, inner().ListAfter(ctx, prefix, after, sink));
}

absl::Status MeteredObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                            ObjectSink sink) {
  return Count(&StoreUsage::list_requests, inner().ListFolder(ctx, prefix, sink));
}

absl::Status MeteredObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  return Count(&StoreUsage::delete_requests, inner().Delete(ctx, key));
}

absl::Status MeteredObjectStore::Versioned(const CallContext& ctx, VersionedCall call,
                                           PassedCall pass) {
  switch (call) {
    case VersionedCall::kGet:
      return Count(&StoreUsage::get_requests, pass(ctx));
    case VersionedCall::kPut:
      return Count(&StoreUsage::put_requests, pass(ctx));
    case VersionedCall::kList:
      return Count(&StoreUsage::list_requests, pass(ctx));
    case VersionedCall::kDelete:
      return Count(&StoreUsage::delete_requests, pass(ctx));
  }
  return pass(ctx);
}

}  // namespace csidelta::storage
