#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"
#include "storage/object_store.h"

namespace csidelta::storage {

// The calls of ObjectStore; behind kRemoveLeftovers those of VersionedStore.
enum class CallKind {
  kPut,
  kGet,
  kStat,
  kList,
  kDelete,
  kRemoveLeftovers,
  kGetVersioned,
  kPutVersioned,
  kListVersions,
  kDeleteVersion
};
struct PassedCall {
  CallKind kind;
  int64_t bytes = 0;      // that a put sends, or that a range has; 0 of a whole object
  int64_t got_bytes = 0;  // of an object, once kGet was answered with OK
};

// Passes every call on to `inner` (borrowed), all but Describe() by way of Pass(): what stands
// around another store overrides that, or the calls to which it adds something of their own.
class ForwardingObjectStore : public ObjectStore {
 public:
  explicit ForwardingObjectStore(ObjectStore& inner) : inner_(inner) {}

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const PutOptions& options) override {
    return Pass(ctx, {CallKind::kPut, std::ssize(bytes)},
                [&](const CallContext& passed) { return inner_.Put(passed, key, bytes, options); });
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    return Answered<std::string>(ctx, {CallKind::kGet}, [&](const CallContext& passed) {
      return inner_.Get(passed, key, size_bytes_max);
    });
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       ByteRange range) override {
    RETURN_IF_ERROR(CheckGetRange(key, range));  // Nothing is booked for what is none.
    return Answered<std::string>(
        ctx, {CallKind::kGet, range.length_bytes},
        [&](const CallContext& passed) { return inner_.GetRange(passed, key, range); });
  }
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override {
    return Answered<ObjectInfo>(ctx, {CallKind::kStat}, [&](const CallContext& passed) {
      return inner_.Stat(passed, key);
    });
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix, ObjectSink sink) override {
    return Pass(ctx, {CallKind::kList},
                [&](const CallContext& passed) { return inner_.List(passed, prefix, sink); });
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          ObjectSink sink) override {
    return Pass(ctx, {CallKind::kList},
                [&](const CallContext& passed) { return inner_.ListFolder(passed, prefix, sink); });
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return Pass(ctx, {CallKind::kDelete},
                [&](const CallContext& passed) { return inner_.Delete(passed, key); });
  }
  absl::StatusOr<std::vector<absl::Status>> DeleteBatch(
      const CallContext& ctx, absl::Span<const std::string> keys) override {
    return Answered<std::vector<absl::Status>>(
        ctx, {CallKind::kDelete},
        [&](const CallContext& passed) { return inner_.DeleteBatch(passed, keys); });
  }
  DeletionLimits deletion_limits() const override { return inner_.deletion_limits(); }
  absl::StatusOr<int64_t> RemoveLeftovers(const CallContext& ctx,
                                          absl::Span<const std::string> folders,
                                          KeyPredicate is_managed,
                                          absl::Duration age_min) override {
    return Answered<int64_t>(ctx, {CallKind::kRemoveLeftovers}, [&](const CallContext& passed) {
      return inner_.RemoveLeftovers(passed, folders, is_managed, age_min);
    });
  }
  std::string Describe() const override { return inner_.Describe(); }

  absl::StatusOr<Retention> GetRetention(const CallContext& ctx, const std::string& key,
                                         const std::string& version) override {
    return Answered<Retention>(ctx, {CallKind::kGetVersioned}, [&](const CallContext& passed) {
      return inner_.GetRetention(passed, key, version);
    });
  }
  absl::Status SetRetention(const CallContext& ctx, const std::string& key,
                            const std::string& version, const Retention& retention) override {
    return Pass(ctx, {CallKind::kPutVersioned}, [&](const CallContext& passed) {
      return inner_.SetRetention(passed, key, version, retention);
    });
  }
  absl::StatusOr<VersionPage> ListVersions(const CallContext& ctx, const std::string& prefix,
                                           const VersionCursor& from) override {
    return Answered<VersionPage>(ctx, {CallKind::kListVersions}, [&](const CallContext& passed) {
      return inner_.ListVersions(passed, prefix, from);
    });
  }
  absl::Status RestoreVersion(const CallContext& ctx, const std::string& key,
                              const std::string& version) override {
    return Pass(ctx, {CallKind::kPutVersioned}, [&](const CallContext& passed) {
      return inner_.RestoreVersion(passed, key, version);
    });
  }
  absl::Status DeleteVersion(const CallContext& ctx, const std::string& key,
                             const std::string& version) override {
    return Pass(ctx, {CallKind::kDeleteVersion}, [&](const CallContext& passed) {
      return inner_.DeleteVersion(passed, key, version);
    });
  }
  absl::StatusOr<std::string> GetBucketDocument(const CallContext& ctx,
                                                BucketDocument document) override {
    return Answered<std::string>(ctx, {CallKind::kGetVersioned}, [&](const CallContext& passed) {
      return inner_.GetBucketDocument(passed, document);
    });
  }

 protected:
  // What this store adds to a call, which `pass` hands to `inner`.
  virtual absl::Status Pass(const CallContext& ctx, const PassedCall& /*call*/,
                            absl::FunctionRef<absl::Status(const CallContext&)> pass) {
    return pass(ctx);
  }
  ObjectStore& inner() const { return inner_; }

 private:
  template <typename Value, typename Ask>
  absl::StatusOr<Value> Answered(const CallContext& ctx, PassedCall call, Ask ask) {
    absl::StatusOr<Value> value = Value();
    const absl::Status status = Pass(ctx, call, [&](const CallContext& passed) {
      value = ask(passed);
      if constexpr (std::is_same_v<Value, std::string>) {
        call.got_bytes = value.ok() ? std::ssize(*value) : 0;
      }
      return value.status();
    });
    return status.ok() ? std::move(value) : status;
  }

  ObjectStore& inner_;
};

// Lets reading through to `inner` (borrowed) and answers PERMISSION_DENIED to everything else.
class ReadOnlyObjectStore : public ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  absl::Status Put(const CallContext&, const std::string& key, absl::string_view,
                   const PutOptions&) override {
    return Refuse("put", key);
  }
  absl::Status Delete(const CallContext&, const std::string& key) override {
    return Refuse("delete", key);
  }

 protected:
  absl::Status Pass(const CallContext& ctx, const PassedCall& call,
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override {
    if (call.kind == CallKind::kRemoveLeftovers) {
      return absl::OkStatus();  // None were removed.
    }
    const bool changes = call.kind == CallKind::kPutVersioned ||
                         call.kind == CallKind::kDeleteVersion || call.kind == CallKind::kDelete;
    return changes ? Refuse("change", "objects or versions") : pass(ctx);
  }

 private:
  static absl::Status Refuse(absl::string_view what, const std::string& key) {
    return absl::PermissionDeniedError(absl::StrCat(what, " ", key, ": opened for reading only"));
  }
};

}  // namespace csidelta::storage
