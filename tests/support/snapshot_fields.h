#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"

// What tests read of the objects of snapshot.storage.k8s.io as an API server has them.
namespace csidelta::support {

inline std::string BoundContentName(const Json& snapshot) {
  return GetString(snapshot, {"status", "boundVolumeSnapshotContentName"});
}
inline std::string SourceClaimName(const Json& snapshot) {
  return GetString(snapshot, {"spec", "source", "persistentVolumeClaimName"});
}
inline std::string SnapshotHandle(const Json& content) {
  return GetString(content, {"status", "snapshotHandle"});
}
inline std::optional<int64_t> RestoreSizeBytes(const Json& content) {
  const int64_t size_bytes = GetInt(content, {"status", "restoreSize"});
  return size_bytes > 0 ? std::optional(size_bytes) : std::nullopt;
}
inline bool ReadyToUse(const Json& object) { return GetBool(object, {"status", "readyToUse"}); }
inline std::string ErrorMessage(const Json& object) {
  return GetString(object, {"status", "error", "message"});
}

}  // namespace csidelta::support
