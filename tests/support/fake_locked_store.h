#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "storage/object_store.h"

namespace csidelta::support {

// A bucket with versions and object locks, in memory, by S3's rules and a clock of the test:
// Put() adds a version, Delete() a delete marker; a version under COMPLIANCE cannot be deleted, and
// its date not brought forward, by anybody; one under GOVERNANCE only by who may bypass that; a
// legal hold has no end. A longer date is always taken. Lifecycle rules remove no locked version.
// Thread-safe.
class FakeLockedStore : public storage::ObjectStore {
 public:
  explicit FakeLockedStore(const Clock& clock) : clock_(clock) {}

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
  absl::StatusOr<storage::Retention> GetRetention(const CallContext& ctx, const std::string& key,
                                                  const std::string& version) override;
  absl::Status SetRetention(const CallContext& ctx, const std::string& key,
                            const std::string& version,
                            const storage::Retention& retention) override;
  absl::StatusOr<storage::VersionPage> ListVersions(const CallContext& ctx,
                                                    const std::string& prefix,
                                                    const storage::VersionCursor& from) override;
  absl::Status RestoreVersion(const CallContext& ctx, const std::string& key,
                              const std::string& version) override;
  absl::Status DeleteVersion(const CallContext& ctx, const std::string& key,
                             const std::string& version) override;
  // Its default retention in days; there are no lifecycle rules. Or what SetBucketDocument() said.
  absl::StatusOr<std::string> GetBucketDocument(const CallContext& ctx,
                                                storage::BucketDocument document) override;
  std::string Describe() const override { return "fake bucket with object lock"; }

  // What a Put() asks for; "": the bucket's default retention. Not below locks/.
  void LockPuts(const std::string& mode, absl::Duration duration);
  void SetDefaultRetention(const std::string& mode, absl::Duration duration);
  void SetBucketDocument(storage::BucketDocument document, absl::StatusOr<std::string> answer);
  void SetLegalHold(const std::string& key, const std::string& version, bool on);
  void MayBypassGovernance(bool may);
  // Whether SetRetention() is allowed at all.
  void MaySetRetention(bool may);
  // A day of lifecycle rules: `expires` says which current objects get a delete marker; versions
  // that are not current go when they are as old as `noncurrent_age`.
  void ApplyLifecycle(const std::function<bool(const std::string&)>& expires,
                      absl::Duration noncurrent_age);

  // What is current.
  std::map<std::string, std::string> objects() const;
  int64_t retention_changes() const;

 private:
  struct Version {
    std::string id;
    std::string bytes;
    bool is_delete_marker = false;
    bool has_legal_hold = false;
    absl::Time modified_at;
    storage::Retention retention = {};
  };
  using History = std::vector<Version>;  // the oldest first

  const std::string* Current(const std::string& key) const;
  Version* Find(const std::string& key, const std::string& version);
  bool IsLocked(const Version& version) const;
  void Append(const std::string& key, Version version);
  absl::Status Show(const std::string& prefix, bool is_deep, storage::ObjectSink sink);

  const Clock& clock_;
  mutable std::mutex mutex_;  // Guards all that follows.
  std::map<std::string, History> histories_;
  int64_t next_id_ = 1;
  int64_t retention_changes_ = 0;
  std::string put_mode_;
  absl::Duration put_duration_;
  std::string default_mode_;
  absl::Duration default_duration_;
  std::map<storage::BucketDocument, absl::StatusOr<std::string>> documents_;
  bool may_bypass_ = false;
  bool may_set_retention_ = true;
};

}  // namespace csidelta::support
