#pragma once

#include <string>

#include "storage/object_store.h"

namespace csidelta::storage {

// Lets reading through to `inner` (borrowed) and answers PERMISSION_DENIED to everything else.
class ReadOnlyObjectStore : public ObjectStore {
 public:
  explicit ReadOnlyObjectStore(ObjectStore& inner) : inner_(inner) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override;
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          absl::FunctionRef<absl::Status(const ObjectInfo&)> sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  std::string Describe() const override { return inner_.Describe(); }

 private:
  ObjectStore& inner_;
};

}  // namespace csidelta::storage
