#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"
#include "storage/object_store.h"

namespace csidelta::storage {

// The objects of `inner` (borrowed) whose keys begin with `folder` ("" or ending in "/"), under
// what stands behind that. So many folders of one place share its connections, credentials and
// limits.
class FolderObjectStore : public ObjectStore {
 public:
  FolderObjectStore(ObjectStore& inner, std::string folder)
      : inner_(inner), folder_(std::move(folder)) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override {
    RETURN_IF_ERROR(CheckKey(key));
    return inner_.Put(ctx, folder_ + key, bytes, options);
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    RETURN_IF_ERROR(CheckKey(key));
    return inner_.Get(ctx, folder_ + key, size_bytes_max);
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override {
    RETURN_IF_ERROR(CheckKey(key));
    return inner_.GetRange(ctx, folder_ + key, range);
  }
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override {
    RETURN_IF_ERROR(CheckKey(key));
    ASSIGN_OR_RETURN(ObjectInfo object, inner_.Stat(ctx, folder_ + key));
    object.key = key;
    return object;
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override {
    RETURN_IF_ERROR(CheckPrefix(prefix));
    return inner_.List(ctx, folder_ + prefix, Inside(sink));
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override {
    RETURN_IF_ERROR(CheckPrefix(prefix));
    return inner_.ListFolder(ctx, folder_ + prefix, Inside(sink));
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    RETURN_IF_ERROR(CheckKey(key));
    return inner_.Delete(ctx, folder_ + key);
  }
  std::string Describe() const override {
    return folder_.empty()
               ? inner_.Describe()
               : absl::StrCat(inner_.Describe(), "/", folder_.substr(0, folder_.size() - 1));
  }

 private:
  // Passes on keys without the folder.
  std::function<absl::Status(ObjectInfo)> Inside(ObjectSink sink) const {
    return [this, sink](ObjectInfo object) {
      object.key.erase(0, folder_.size());
      return sink(object);
    };
  }

  ObjectStore& inner_;
  const std::string folder_;
};

}  // namespace csidelta::storage
