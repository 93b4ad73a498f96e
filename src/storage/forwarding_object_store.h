#pragma once

#include <cstdint>
#include <string>
#include <utility>

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

  // The calls of VersionedStore all pass through Versioned().
  absl::StatusOr<Retention> GetRetention(const CallContext& ctx, const std::string& key,
                                         const std::string& version) override {
    return Answered<Retention>(ctx, VersionedCall::kGet, [&](const CallContext& passed) {
      return inner_.GetRetention(passed, key, version);
    });
  }
  absl::Status SetRetention(const CallContext& ctx, const std::string& key,
                            const std::string& version, const Retention& retention) override {
    return Versioned(ctx, VersionedCall::kPut, [&](const CallContext& passed) {
      return inner_.SetRetention(passed, key, version, retention);
    });
  }
  absl::StatusOr<VersionPage> ListVersions(const CallContext& ctx, const std::string& prefix,
                                           const VersionCursor& from) override {
    return Answered<VersionPage>(ctx, VersionedCall::kList, [&](const CallContext& passed) {
      return inner_.ListVersions(passed, prefix, from);
    });
  }
  absl::Status RestoreVersion(const CallContext& ctx, const std::string& key,
                              const std::string& version) override {
    return Versioned(ctx, VersionedCall::kPut, [&](const CallContext& passed) {
      return inner_.RestoreVersion(passed, key, version);
    });
  }
  absl::Status DeleteVersion(const CallContext& ctx, const std::string& key,
                             const std::string& version) override {
    return Versioned(ctx, VersionedCall::kDelete, [&](const CallContext& passed) {
      return inner_.DeleteVersion(passed, key, version);
    });
  }
  absl::StatusOr<std::string> GetBucketDocument(const CallContext& ctx,
                                                BucketDocument document) override {
    return Answered<std::string>(ctx, VersionedCall::kGet, [&](const CallContext& passed) {
      return inner_.GetBucketDocument(passed, document);
    });
  }

 protected:
  enum class VersionedCall { kGet, kPut, kList, kDelete };
  using PassedCall = absl::FunctionRef<absl::Status(const CallContext&)>;

  // What this store adds to a call of VersionedStore, which `pass` hands to `inner`.
  virtual absl::Status Versioned(const CallContext& ctx, VersionedCall, PassedCall pass) {
    return pass(ctx);
  }
  ObjectStore& inner() const { return inner_; }

 private:
  template <typename Value, typename Pass>
  absl::StatusOr<Value> Answered(const CallContext& ctx, VersionedCall call, Pass pass) {
    absl::StatusOr<Value> value = Value();
    const absl::Status status = Versioned(ctx, call, [&](const CallContext& passed) {
      value = pass(passed);
      return value.status();
    });
    return status.ok() ? std::move(value) : status;
  }

  ObjectStore& inner_;
};

}  // namespace csidelta::storage
