#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace csidelta::reliability {

// One object; its bytes are shared by all copies of a store.
struct SharedObject {
  std::shared_ptr<const std::string> bytes;
  absl::Time modified_at;
};
using Objects = std::map<std::string, SharedObject>;

// Objects in memory. A copy of its objects costs a map of pointers, so a sweep can go on from one
// state tens of thousands of times. Thread-safe.
class SharedStore : public storage::ObjectStore {
 public:
  explicit SharedStore(Objects objects = {}) : objects_(std::move(objects)) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override;
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override;
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override;
  absl::StatusOr<storage::ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override;
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override;
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          storage::ObjectSink sink) override;
  absl::Status Delete(const CallContext& ctx, const std::string& key) override;
  std::string Describe() const override { return "shared memory"; }

  Objects objects() const;
  void SetObject(const std::string& key, SharedObject object);
  // What was there; without bytes where nothing was.
  SharedObject Remove(const std::string& key);

 private:
  // The bytes; null where there is no such object.
  std::shared_ptr<const std::string> Find(const std::string& key) const;
  absl::Status Show(const CallContext& ctx, const std::string& prefix, bool is_deep,
                    storage::ObjectSink sink) const;

  mutable std::mutex mutex_;
  Objects objects_;  // under mutex_
};

}  // namespace csidelta::reliability
