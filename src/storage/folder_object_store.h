#pragma once

#include <string>
#include <utility>

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
  std::string Describe() const override;

 private:
  ObjectStore& inner_;
  const std::string folder_;
};

}  // namespace csidelta::storage
