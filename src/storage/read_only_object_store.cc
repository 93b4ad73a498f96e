#include "storage/read_only_object_store.h"

#include "absl/strings/str_cat.h"

namespace csidelta::storage {
namespace {

absl::Status Refuse(absl::string_view what, const std::string& key) {
  return absl::PermissionDeniedError(absl::StrCat(what, " ", key, ": opened for reading only"));
}

}  // namespace

absl::Status ReadOnlyObjectStore::Put(const CallContext&, const std::string& key, absl::string_view,
                                      const PutOptions&) {
  return Refuse("put", key);
}

absl::StatusOr<std::string> ReadOnlyObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                     int64_t size_bytes_max) {
  return inner_.Get(ctx, key, size_bytes_max);
}

absl::StatusOr<std::string> ReadOnlyObjectStore::GetRange(const CallContext& ctx,
                                                          const std::string& key, ByteRange range) {
  return inner_.GetRange(ctx, key, range);
}

absl::StatusOr<ObjectInfo> ReadOnlyObjectStore::Stat(const CallContext& ctx,
                                                     const std::string& key) {
  return inner_.Stat(ctx, key);
}

absl::Status ReadOnlyObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                       absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return inner_.List(ctx, prefix, sink);
}

absl::Status ReadOnlyObjectStore::ListFolder(
    const CallContext& ctx, const std::string& prefix,
    absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) {
  return inner_.ListFolder(ctx, prefix, sink);
}

absl::Status ReadOnlyObjectStore::Delete(const CallContext&, const std::string& key) {
  return Refuse("delete", key);
}

}  // namespace csidelta::storage
