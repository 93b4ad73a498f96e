#pragma once

#include <functional>
#include <string>

#include "storage/object_store.h"

namespace csidelta::support {

// Another store, beside whose puts a test does something. Borrows the store.
class WatchedStore : public storage::ObjectStore {
 public:
  explicit WatchedStore(storage::ObjectStore& inner) : inner_(inner) {}

  std::function<void(const std::string& key)> before_put;
  std::function<void(const std::string& key)> after_put;
  // Takes a conditional put for another one, as some stores do.
  bool ignores_conditions = false;

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    storage::PutOptions taken = options;
    taken.if_absent = options.if_absent && !ignores_conditions;
    if (before_put != nullptr) {
      before_put(key);
    }
    const absl::Status status = inner_.Put(ctx, key, bytes, taken);
    if (after_put != nullptr) {
      after_put(key);
    }
    return status;
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    return inner_.Get(ctx, key, size_bytes_max);
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    return inner_.GetRange(ctx, key, range);
  }
  absl::StatusOr<storage::ObjectInfo> Stat(const CallContext& ctx,
                                           const std::string& key) override {
    return inner_.Stat(ctx, key);
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    absl::FunctionRef<absl::Status(const storage::ObjectInfo&)> sink) override {
    return inner_.List(ctx, prefix, sink);
  }
  absl::Status ListFolder(
      const CallContext& ctx, const std::string& prefix,
      absl::FunctionRef<absl::Status(const storage::ObjectInfo&)> sink) override {
    return inner_.ListFolder(ctx, prefix, sink);
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return inner_.Delete(ctx, key);
  }
  std::string Describe() const override { return inner_.Describe(); }

 private:
  storage::ObjectStore& inner_;
};

}  // namespace csidelta::support
