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
  absl::Status status = Count(&StoreUsage::put_requests, inner_.Put(ctx, key, bytes, options));
  if (status.ok()) {
    meter_.Add(&StoreUsage::put_bytes, std::ssize(bytes));
    meter_.Add(&StoreUsage::put_objects, 1);
  }
  return status;
}

absl::StatusOr<std::string> MeteredObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                    int64_t size_bytes_max) {
  return CountBytes(inner_.Get(ctx, key, size_bytes_max));
}

absl::StatusOr<std::string> MeteredObjectStore::GetRange(const CallContext& ctx,
                                                         const std::string& key, ByteRange range) {
  return CountBytes(inner_.GetRange(ctx, key, range));
}

absl::StatusOr<ObjectInfo> MeteredObjectStore::Stat(const CallContext& ctx,
                                                    const std::string& key) {
  return Count(&StoreUsage::stat_requests, inner_.Stat(ctx, key));
}

absl::Status MeteredObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                      absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return Count(&StoreUsage::list_requests, inner_.List(ctx, prefix, sink));
}

absl::Status MeteredObjectStore::ListFolder(
    const CallContext& ctx, const std::string& prefix,
    absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return Count(&StoreUsage::list_requests, inner_.ListFolder(ctx, prefix, sink));
}

absl::Status MeteredObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  return Count(&StoreUsage::delete_requests, inner_.Delete(ctx, key));
}

absl::StatusOr<int64_t> MeteredObjectStore::RemoveLeftovers(
    const CallContext& ctx, absl::Span<const std::string> folders,
    absl::FunctionRef<bool(absl::string_view key)> is_managed, absl::Duration age_min) {
  return inner_.RemoveLeftovers(ctx, folders, is_managed, age_min);
}

}  // namespace csidelta::storage
