#include "objects/patch.h"

#include "objects/persistent_volume.h"
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

Patch& Patch::SetPvc(absl::string_view namespace_name, absl::string_view name,
                     absl::string_view uid) {
  return Set({"spec", "claimRef"}, {{"apiVersion", PersistentVolumeClaim::kKind.ApiVersion()},
                                    {"kind", PersistentVolumeClaim::kKind.kind},
                                    {"namespace", namespace_name},
                                    {"name", name},
                                    {"uid", uid.empty() ? Json() : Json(uid)},
                                    {"resourceVersion", nullptr}});
}

Patch& Patch::ForgetPvcUid() {
  return Set({"spec", "claimRef"}, {{"uid", nullptr}, {"resourceVersion", nullptr}});
}

Patch& Patch::SetOwnersOf(const Object& object) {
  const Json* const owners = FindJson(object.json(), {"metadata", "ownerReferences"});
  return Set({"metadata", "ownerReferences"}, owners == nullptr ? Json() : *owners);
}

Patch& Patch::SetHandle(const k8s::ResourceType& type, absl::string_view handle) {
  return Set({"status", IsGroupKind(type) ? "volumeGroupSnapshotHandle" : "snapshotHandle"},
             handle);
}

Patch& Patch::SetReadyGroup(absl::string_view handle) {
  Set({"status", "volumeGroupSnapshotHandle"}, handle);
  Set({"status", "readyToUse"}, true);
  return Set({"status", "error"}, nullptr);
}

Patch& Patch::SetTaken(absl::string_view handle, std::optional<absl::Time> taken_at,
                       std::optional<int64_t> restore_size_bytes) {
  Set({"status", "snapshotHandle"}, handle);
  if (taken_at.has_value()) {
    Set({"status", "creationTime"}, absl::ToUnixNanos(*taken_at));
  }
  if (restore_size_bytes.has_value()) {
    Set({"status", "restoreSize"}, *restore_size_bytes);
  }
  return *this;
}

}  // namespace csidelta::objects
