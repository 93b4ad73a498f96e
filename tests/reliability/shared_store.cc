#include "tests/reliability/shared_store.h"

#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"

namespace csidelta::reliability {

using storage::ObjectInfo;

std::shared_ptr<const std::string> SharedStore::Find(const std::string& key) const {
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second.bytes;
}

absl::Status SharedStore::Put(const CallContext& ctx, const std::string& key,
                              absl::string_view bytes, const storage::PutOptions& options) {
  RETURN_IF_ERROR(storage::CheckPut(key, options));
  RETURN_IF_ERROR(ctx.Check());
  SharedObject object = {.bytes = std::make_shared<const std::string>(bytes),
                         .modified_at = ctx.clock->Now()};
  std::scoped_lock lock(mutex_);
  if (options.if_absent && objects_.contains(key)) {
    return storage::ObjectExists(key);
  }
  objects_[key] = std::move(object);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SharedStore::Get(const CallContext& ctx, const std::string& key,
                                             int64_t size_bytes_max) {
  RETURN_IF_ERROR(storage::CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  const std::shared_ptr<const std::string> bytes = Find(key);
  if (bytes == nullptr) {
    return storage::NoSuchObject(key);
  }
  return std::ssize(*bytes) > size_bytes_max
             ? absl::StatusOr<std::string>(storage::ObjectTooLarge(key, size_bytes_max))
             : *bytes;
}

absl::StatusOr<std::string> SharedStore::GetRange(const CallContext& ctx, const std::string& key,
                                                  storage::ByteRange range) {
  RETURN_IF_ERROR(storage::CheckGetRange(key, range));
  RETURN_IF_ERROR(ctx.Check());
  const std::shared_ptr<const std::string> bytes = Find(key);
  if (bytes == nullptr) {
    return storage::NoSuchObject(key);
  }
  if (range.offset_bytes + range.length_bytes > std::ssize(*bytes)) {
    return storage::ObjectEndsBefore(key, range, std::ssize(*bytes));
  }
  return bytes->substr(static_cast<std::size_t>(range.offset_bytes),
                       static_cast<std::size_t>(range.length_bytes));
}

absl::StatusOr<ObjectInfo> SharedStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(storage::CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  const std::shared_ptr<const std::string> bytes = Find(key);
  if (bytes == nullptr) {
    return storage::NoSuchObject(key);
  }
  return ObjectInfo{.key = key, .size_bytes = std::ssize(*bytes)};
}

absl::Status SharedStore::List(const CallContext& ctx, const std::string& prefix,
                               storage::ObjectSink sink) {
  return Show(ctx, prefix, /*is_deep=*/true, sink);
}

absl::Status SharedStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                     storage::ObjectSink sink) {
  return Show(ctx, prefix, /*is_deep=*/false, sink);
}

absl::Status SharedStore::Show(const CallContext& ctx, const std::string& prefix, bool is_deep,
                               storage::ObjectSink sink) const {
  RETURN_IF_ERROR(storage::CheckPrefix(prefix));
  RETURN_IF_ERROR(ctx.Check());
  std::vector<ObjectInfo> found;
  {
    std::scoped_lock lock(mutex_);
    for (auto at = objects_.lower_bound(prefix);
         at != objects_.end() && absl::StartsWith(at->first, prefix); ++at) {
      const auto slash = is_deep ? std::string::npos : at->first.find('/', prefix.size());
      if (slash == std::string::npos) {
        found.push_back({.key = at->first,
                         .size_bytes = std::ssize(*at->second.bytes),
                         .modified_at = at->second.modified_at});
      } else if (const std::string folder = at->first.substr(0, slash + 1);
                 found.empty() || found.back().key != folder) {
        found.push_back({.key = folder, .size_bytes = 0});
      }
    }
  }
  // Not under the lock: the sink may call the store.
  for (const ObjectInfo& object : found) {
    RETURN_IF_ERROR(sink(object));
    RETURN_IF_ERROR(ctx.Check());
  }
  return absl::OkStatus();
}

absl::Status SharedStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(storage::CheckKey(key));
  RETURN_IF_ERROR(ctx.Check());
  Remove(key);
  return absl::OkStatus();
}

Objects SharedStore::objects() const {
  std::scoped_lock lock(mutex_);
  return objects_;
}

void SharedStore::SetObject(const std::string& key, SharedObject object) {
  std::scoped_lock lock(mutex_);
  objects_[key] = std::move(object);
}

SharedObject SharedStore::Remove(const std::string& key) {
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    return {};
  }
  SharedObject object = std::move(found->second);
  objects_.erase(found);
  return object;
}

}  // namespace csidelta::reliability
