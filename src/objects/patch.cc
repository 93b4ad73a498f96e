#include "objects/patch.h"

#include <algorithm>
#include <iterator>

#include "objects/volume_group_snapshot.h"

namespace csidelta::objects {

Patch& Patch::SetLabels(const std::map<std::string, std::string>& labels) {
  for (const auto& [key, value] : labels) {
    SetLabel(key, value);
  }
  return *this;
}

Patch& Patch::SetAnnotations(const std::map<std::string, std::string>& annotations) {
  for (const auto& [key, value] : annotations) {
    SetAnnotation(key, value);
  }
  return *this;
}

Patch& Patch::SetOwners(const std::vector<OwnerReference>& owners) {
  Json list = Json::array();
  std::transform(owners.begin(), owners.end(), std::back_inserter(list), ToJson);
  return Set({"metadata", "ownerReferences"}, std::move(list));
}

Patch& Patch::SetHandle(const k8s::ResourceType& type, absl::string_view handle) {
  return Set({"status", IsGroupKind(type) ? "volumeGroupSnapshotHandle" : "snapshotHandle"},
             std::string(handle));
}

Patch& Patch::SetTaken(absl::string_view handle, std::optional<absl::Time> taken_at,
                       std::optional<int64_t> restore_size_bytes) {
  Set({"status", "snapshotHandle"}, std::string(handle));
  if (taken_at.has_value()) {
    Set({"status", "creationTime"}, absl::ToUnixNanos(*taken_at));
  }
  if (restore_size_bytes.has_value()) {
    Set({"status", "restoreSize"}, *restore_size_bytes);
  }
  return *this;
}

}  // namespace csidelta::objects
