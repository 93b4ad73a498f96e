#include "tests/bench/distant_store.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"

namespace csidelta::bench {
namespace {

bool IsPack(const std::string& key) { return absl::StartsWith(key, "data/"); }

absl::Status Missing(const std::string& key) { return absl::NotFoundError(key); }

}  // namespace

absl::Status DistantStore::Travel(const CallContext& ctx, int64_t sent_bytes) {
  absl::Duration time = distance_.latency;
  if (distance_.upload_bytes_per_second > 0) {
    time += absl::Seconds(static_cast<double>(sent_bytes) /
                          static_cast<double>(distance_.upload_bytes_per_second));
  }
  {
    std::scoped_lock lock(mutex_);
    ++counts_.requests;
  }
  ctx.clock->SleepFor(std::min(time, ctx.TimeLeft()), ctx.stop);
  return ctx.Check();
}

absl::Status DistantStore::Put(const CallContext& ctx, const std::string& key,
                               absl::string_view bytes, const storage::PutOptions& /*options*/) {
  const auto size_bytes = static_cast<int64_t>(bytes.size());
  const int64_t is_pack = IsPack(key) ? 1 : 0;
  {
    std::scoped_lock lock(mutex_);
    packs_in_flight_ += static_cast<int>(is_pack);
    bytes_in_flight_ += is_pack * size_bytes;
    counts_.packs_in_flight_max = std::max(counts_.packs_in_flight_max, packs_in_flight_);
    counts_.bytes_in_flight_max = std::max(counts_.bytes_in_flight_max, bytes_in_flight_);
  }
  const absl::Status arrived = Travel(ctx, size_bytes);
  std::scoped_lock lock(mutex_);
  packs_in_flight_ -= static_cast<int>(is_pack);
  bytes_in_flight_ -= is_pack * size_bytes;
  RETURN_IF_ERROR(arrived);
  counts_.packs += is_pack;
  counts_.pack_bytes += is_pack * size_bytes;
  counts_.pack_bytes_max = std::max(counts_.pack_bytes_max, is_pack * size_bytes);
  objects_[key] = {.size_bytes = size_bytes, .bytes = IsPack(key) ? "" : std::string(bytes)};
  return absl::OkStatus();
}

absl::StatusOr<std::string> DistantStore::Get(const CallContext& ctx, const std::string& key,
                                              int64_t /*size_bytes_max*/) {
  RETURN_IF_ERROR(Travel(ctx, 0));
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? absl::StatusOr<std::string>(Missing(key)) : found->second.bytes;
}

absl::StatusOr<std::string> DistantStore::GetRange(const CallContext& /*ctx*/,
                                                   const std::string& key,
                                                   storage::ByteRange /*range*/) {
  return Missing(key);  // No pack is kept.
}

absl::StatusOr<storage::ObjectInfo> DistantStore::Stat(const CallContext& ctx,
                                                       const std::string& key) {
  RETURN_IF_ERROR(Travel(ctx, 0));
  std::scoped_lock lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    return Missing(key);
  }
  return storage::ObjectInfo{.key = key, .size_bytes = found->second.size_bytes};
}

absl::Status DistantStore::List(const CallContext& ctx, const std::string& prefix,
                                storage::ObjectSink sink) {
  RETURN_IF_ERROR(Travel(ctx, 0));
  std::vector<storage::ObjectInfo> shown;
  {
    std::scoped_lock lock(mutex_);
    for (const auto& [key, object] : objects_) {
      if (absl::StartsWith(key, prefix)) {
        shown.push_back({.key = key, .size_bytes = object.size_bytes});
      }
    }
  }
  for (const storage::ObjectInfo& object : shown) {
    RETURN_IF_ERROR(sink(object));
  }
  return absl::OkStatus();
}

absl::Status DistantStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                      storage::ObjectSink sink) {
  std::string last;
  return List(ctx, prefix, [&](const storage::ObjectInfo& object) -> absl::Status {
    const std::size_t slash = object.key.find('/', prefix.size());
    if (slash == std::string::npos) {
      return sink(object);
    }
    const std::string folder = object.key.substr(0, slash + 1);
    if (folder == last) {
      return absl::OkStatus();
    }
    last = folder;
    return sink({.key = folder, .size_bytes = 0});
  });
}

absl::Status DistantStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(Travel(ctx, 0));
  std::scoped_lock lock(mutex_);
  objects_.erase(key);
  return absl::OkStatus();
}

DistantCounts DistantStore::counts() const {
  std::scoped_lock lock(mutex_);
  return counts_;
}

}  // namespace csidelta::bench
