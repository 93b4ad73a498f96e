#include "tests/support/fake_locked_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"

namespace csidelta::support {
namespace {

constexpr std::size_t kPageVersionsMax = 7;

absl::Status Locked(const std::string& key) {
  return storage::AsRetained(
      absl::PermissionDeniedError(absl::StrCat(key, ": AccessDenied: object is WORM protected")));
}

}  // namespace

const std::string* FakeLockedStore::Current(const std::string& key) const {
  const auto found = histories_.find(key);
  if (found == histories_.end() || found->second.back().is_delete_marker) {
    return nullptr;
  }
  return &found->second.back().bytes;
}

FakeLockedStore::Version* FakeLockedStore::Find(const std::string& key,
                                                const std::string& version) {
  const auto found = histories_.find(key);
  if (found == histories_.end()) {
    return nullptr;
  }
  if (version.empty()) {
    return found->second.back().is_delete_marker ? nullptr : &found->second.back();
  }
  const auto at = std::find_if(found->second.begin(), found->second.end(),
                               [&](const Version& one) { return one.id == version; });
  return at == found->second.end() ? nullptr : &*at;
}

bool FakeLockedStore::IsLocked(const Version& version) const {
  const bool is_retained =
      !version.retention.mode.empty() && version.retention.until > clock_.Now();
  return version.has_legal_hold ||
         (is_retained && (version.retention.mode == "COMPLIANCE" || !may_bypass_));
}

void FakeLockedStore::Append(const std::string& key, Version version) {
  version.id = absl::StrCat("v", next_id_++);
  version.modified_at = clock_.Now();
  if (!version.is_delete_marker && !absl::StartsWith(key, "locks/")) {
    const bool asks = !put_mode_.empty();
    version.retention.mode = asks ? put_mode_ : default_mode_;
    version.retention.until = clock_.Now() + (asks ? put_duration_ : default_duration_);
  }
  histories_[key].push_back(std::move(version));
}

absl::Status FakeLockedStore::Put(const CallContext& ctx, const std::string& key,
                                  absl::string_view bytes, const storage::PutOptions& options) {
  RETURN_IF_ERROR(storage::CheckPut(key, options));
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  if (options.if_absent && Current(key) != nullptr) {
    return storage::ObjectExists(key);
  }
  Append(key, {.id = "", .bytes = std::string(bytes), .modified_at = {}});
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeLockedStore::Get(const CallContext& ctx, const std::string& key,
                                                 int64_t size_bytes_max) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  const std::string* const bytes = Current(key);
  if (bytes == nullptr) {
    return storage::NoSuchObject(key);
  }
  if (std::ssize(*bytes) > size_bytes_max) {
    return storage::ObjectTooLarge(key, size_bytes_max);
  }
  return *bytes;
}

absl::StatusOr<std::string> FakeLockedStore::GetRange(const CallContext& ctx,
                                                      const std::string& key,
                                                      storage::ByteRange range) {
  ASSIGN_OR_RETURN(const std::string bytes, Get(ctx, key, int64_t{1} << 40));
  if (range.offset_bytes + range.length_bytes > std::ssize(bytes)) {
    return storage::ObjectEndsBefore(key, range, std::ssize(bytes));
  }
  return bytes.substr(static_cast<std::size_t>(range.offset_bytes),
                      static_cast<std::size_t>(range.length_bytes));
}

absl::StatusOr<storage::ObjectInfo> FakeLockedStore::Stat(const CallContext& ctx,
                                                          const std::string& key) {
  ASSIGN_OR_RETURN(const std::string bytes, Get(ctx, key, int64_t{1} << 40));
  return storage::ObjectInfo{.key = key, .size_bytes = std::ssize(bytes)};
}

absl::Status FakeLockedStore::List(const CallContext& ctx, const std::string& prefix,
                                   storage::ObjectSink sink) {
  RETURN_IF_ERROR(ctx.Check());
  return Show(prefix, /*is_deep=*/true, sink);
}

absl::Status FakeLockedStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                         storage::ObjectSink sink) {
  RETURN_IF_ERROR(ctx.Check());
  return Show(prefix, /*is_deep=*/false, sink);
}

absl::Status FakeLockedStore::Show(const std::string& prefix, bool is_deep,
                                   storage::ObjectSink sink) {
  std::vector<storage::ObjectInfo> found;
  for (const auto& [key, bytes] : objects()) {
    if (!absl::StartsWith(key, prefix)) {
      continue;
    }
    const auto slash = is_deep ? std::string::npos : key.find('/', prefix.size());
    if (slash == std::string::npos) {
      found.push_back({.key = key, .size_bytes = std::ssize(bytes)});
    } else if (found.empty() || found.back().key != key.substr(0, slash + 1)) {
      found.push_back({.key = key.substr(0, slash + 1), .size_bytes = 0});
    }
  }
  for (const storage::ObjectInfo& object : found) {
    RETURN_IF_ERROR(sink(object));
  }
  return absl::OkStatus();
}

absl::Status FakeLockedStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  Append(key, {.id = "", .bytes = "", .is_delete_marker = true, .modified_at = {}});
  return absl::OkStatus();
}

absl::StatusOr<storage::Retention> FakeLockedStore::GetRetention(const CallContext& ctx,
                                                                 const std::string& key,
                                                                 const std::string& version) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  const Version* const found = Find(key, version);
  return found == nullptr ? absl::StatusOr<storage::Retention>(storage::NoSuchObject(key))
                          : found->retention;
}

absl::Status FakeLockedStore::SetRetention(const CallContext& ctx, const std::string& key,
                                           const std::string& version,
                                           const storage::Retention& retention) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  Version* const found = Find(key, version);
  if (found == nullptr || found->is_delete_marker) {
    return storage::NoSuchObject(key);
  }
  if (!may_set_retention_) {
    return absl::PermissionDeniedError("AccessDenied: s3:PutObjectRetention is not allowed");
  }
  if (retention.until <= clock_.Now()) {
    return absl::FailedPreconditionError("the date must lie in the future");
  }
  const storage::Retention& old = found->retention;
  const bool is_active = !old.mode.empty() && old.until > clock_.Now();
  const bool is_less = retention.until < old.until || retention.mode != old.mode;
  const bool is_stricter = retention.until >= old.until && retention.mode == "COMPLIANCE";
  const bool may_bypass = may_bypass_ && old.mode == "GOVERNANCE";
  if (is_active && is_less && !is_stricter && !may_bypass) {
    return Locked(key);
  }
  found->retention = retention;
  ++retention_changes_;
  return absl::OkStatus();
}

absl::StatusOr<storage::VersionPage> FakeLockedStore::ListVersions(
    const CallContext& ctx, const std::string& prefix, const storage::VersionCursor& from) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  storage::VersionPage page;
  bool is_after = from.key.empty();
  for (auto at = histories_.lower_bound(from.key); at != histories_.end(); ++at) {
    const auto& [key, history] = *at;
    is_after = is_after || key > from.key;
    if (!absl::StartsWith(key, prefix)) {
      continue;
    }
    for (auto version = history.rbegin(); version != history.rend(); ++version) {
      if (!is_after) {
        is_after = version->id == from.id;
        continue;
      }
      if (page.versions.size() == kPageVersionsMax) {
        page.next = {.key = page.versions.back().key, .id = page.versions.back().id};
        return page;
      }
      page.versions.push_back({.key = key,
                               .id = version->id,
                               .is_latest = version == history.rbegin(),
                               .is_delete_marker = version->is_delete_marker,
                               .size_bytes = std::ssize(version->bytes),
                               .modified_at = version->modified_at});
    }
  }
  return page;
}

absl::Status FakeLockedStore::RestoreVersion(const CallContext& ctx, const std::string& key,
                                             const std::string& version) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  const Version* const found = Find(key, version);
  if (found == nullptr || found->is_delete_marker) {
    return storage::NoSuchObject(key);
  }
  Append(key, {.id = "", .bytes = found->bytes, .modified_at = {}});
  return absl::OkStatus();
}

absl::Status FakeLockedStore::DeleteVersion(const CallContext& ctx, const std::string& key,
                                            const std::string& version) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  const Version* const found = Find(key, version);
  if (found == nullptr) {
    return absl::OkStatus();
  }
  if (IsLocked(*found)) {
    return Locked(key);
  }
  History& history = histories_[key];
  std::erase_if(history, [&](const Version& one) { return one.id == version; });
  if (history.empty()) {
    histories_.erase(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeLockedStore::GetBucketDocument(const CallContext& ctx,
                                                               storage::BucketDocument document) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  if (const auto set = documents_.find(document); set != documents_.end()) {
    return set->second;
  }
  switch (document) {
    case storage::BucketDocument::kVersioning:
      return "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    case storage::BucketDocument::kObjectLock:
      return absl::StrCat("<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>",
                          default_mode_.empty()
                              ? ""
                              : absl::StrCat("<Rule><DefaultRetention><Mode>", default_mode_,
                                             "</Mode><Days>", default_duration_ / absl::Hours(24),
                                             "</Days></DefaultRetention></Rule>"),
                          "</ObjectLockConfiguration>");
    case storage::BucketDocument::kLifecycle:
      break;
  }
  return "";
}

void FakeLockedStore::LockPuts(const std::string& mode, absl::Duration duration) {
  std::scoped_lock lock(mutex_);
  put_mode_ = mode;
  put_duration_ = duration;
}

void FakeLockedStore::SetDefaultRetention(const std::string& mode, absl::Duration duration) {
  std::scoped_lock lock(mutex_);
  default_mode_ = mode;
  default_duration_ = duration;
}

void FakeLockedStore::SetBucketDocument(storage::BucketDocument document,
                                        absl::StatusOr<std::string> answer) {
  std::scoped_lock lock(mutex_);
  documents_.insert_or_assign(document, std::move(answer));
}

void FakeLockedStore::SetLegalHold(const std::string& key, const std::string& version, bool on) {
  std::scoped_lock lock(mutex_);
  if (Version* const found = Find(key, version); found != nullptr) {
    found->has_legal_hold = on;
  }
}

void FakeLockedStore::MayBypassGovernance(bool may) {
  std::scoped_lock lock(mutex_);
  may_bypass_ = may;
}

void FakeLockedStore::MaySetRetention(bool may) {
  std::scoped_lock lock(mutex_);
  may_set_retention_ = may;
}

void FakeLockedStore::ApplyLifecycle(const std::function<bool(const std::string&)>& expires,
                                     absl::Duration noncurrent_age) {
  std::scoped_lock lock(mutex_);
  std::vector<std::string> expired;
  for (auto& [key, history] : histories_) {
    if (!history.back().is_delete_marker && expires(key)) {
      expired.push_back(key);
    }
  }
  for (const std::string& key : expired) {
    Append(key, {.id = "", .bytes = "", .is_delete_marker = true, .modified_at = {}});
  }
  for (auto at = histories_.begin(); at != histories_.end();) {
    History& history = at->second;
    const std::string latest = history.back().id;
    std::erase_if(history, [&](const Version& one) {
      return one.id != latest && !IsLocked(one) && clock_.Now() - one.modified_at >= noncurrent_age;
    });
    at = history.size() == 1 && history.back().is_delete_marker ? histories_.erase(at)
                                                                : std::next(at);
  }
}

std::map<std::string, std::string> FakeLockedStore::objects() const {
  std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> current;
  for (const auto& [key, history] : histories_) {
    if (!history.back().is_delete_marker) {
      current[key] = history.back().bytes;
    }
  }
  return current;
}

int64_t FakeLockedStore::retention_changes() const {
  std::scoped_lock lock(mutex_);
  return retention_changes_;
}

}  // namespace csidelta::support
