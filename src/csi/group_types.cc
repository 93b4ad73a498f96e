#include "csi/group_types.h"

namespace csidelta::csi {

k8s::ResourceType VolumeGroupSnapshotType(absl::string_view version) {
  return objects::VolumeGroupSnapshot::kKind.TypeOf(version);
}

k8s::ResourceType VolumeGroupSnapshotContentType(absl::string_view version) {
  return objects::VolumeGroupSnapshotContent::kKind.TypeOf(version);
}

k8s::ResourceType VolumeGroupSnapshotClassType(absl::string_view version) {
  return objects::VolumeGroupSnapshotClass::kKind.TypeOf(version);
}

k8s::ObjectKey GroupContentKey(absl::string_view version, absl::string_view name) {
  return objects::VolumeGroupSnapshotContent::Key(version, "", name);
}

}  // namespace csidelta::csi
