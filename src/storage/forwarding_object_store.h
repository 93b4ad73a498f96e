#pragma once

#include <cstdint>
#include <string>

#include "storage/object_store.h"

namespace csidelta::storage {

// Passes every call on to `inner` (borrowed): what stands around another store overrides the calls
// to which it adds something.
class ForwardingObjectStore : public ObjectStore {
 public:
  explicit ForwardingObjectStore(ObjectStore& inner) : inner_(inner) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override {
    return inner_.Put(ctx, key, bytes, options);
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    return inner_.Get(ctx, key, size_bytes_max);
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override {
    return inner_.GetRange(ctx, key, range);
  }
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override {
    return inner_.Stat(ctx, key);
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override {
    return inner_.List(ctx, prefix, sink);
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override {
    return inner_.ListFolder(ctx, prefix, sink);
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return inner_.Delete(ctx, key);
  }
  absl::StatusOr<int64_t> RemoveLeftovers(const CallContext& ctx,
                                          absl::Span<const std::string> folders,
                                          KeyPredicate is_managed,
                                          absl::Duration age_min) override {
    return inner_.RemoveLeftovers(ctx, folders, is_managed, age_min);
  }
  std::string Describe() const override { return inner_.Describe(); }

 protected:
  ObjectStore& inner() const { return inner_; }

 private:
  ObjectStore& inner_;
};

}  // namespace csidelta::storage
