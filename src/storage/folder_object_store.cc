#include "storage/folder_object_store.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"

namespace csidelta::storage {

absl::Status FolderObjectStore::Put(const CallContext& ctx, const std::string& key,
                                    absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(CheckKey(key));
  return inner_.Put(ctx, folder_ + key, bytes, options);
}

absl::StatusOr<std::string> FolderObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                   int64_t size_bytes_max) {
  RETURN_IF_ERROR(CheckKey(key));
  return inner_.Get(ctx, folder_ + key, size_bytes_max);
}

absl::StatusOr<std::string> FolderObjectStore::GetRange(const CallContext& ctx,
                                                        const std::string& key, ByteRange range) {
  RETURN_IF_ERROR(CheckKey(key));
  return inner_.GetRange(ctx, folder_ + key, range);
}

absl::StatusOr<ObjectInfo> FolderObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  ASSIGN_OR_RETURN(ObjectInfo object, inner_.Stat(ctx, folder_ + key));
  object.key = key;
  return object;
}

absl::Status FolderObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                     ObjectSink sink) {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  return inner_.List(ctx, folder_ + prefix, [&](const ObjectInfo& object) {
    return sink({.key = object.key.substr(folder_.size()),
                 .size_bytes = object.size_bytes,
                 .modified_at = object.modified_at});
  });
}

absl::Status FolderObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                           ObjectSink sink) {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  return inner_.ListFolder(ctx, folder_ + prefix, [&](const ObjectInfo& object) {
    return sink({.key = object.key.substr(folder_.size()), .size_bytes = object.size_bytes});
  });
}

absl::Status FolderObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  return inner_.Delete(ctx, folder_ + key);
}

std::string FolderObjectStore::Describe() const {
  return folder_.empty()
             ? inner_.Describe()
             : absl::StrCat(inner_.Describe(), "/", folder_.substr(0, folder_.size() - 1));
}

}  // namespace csidelta::storage
