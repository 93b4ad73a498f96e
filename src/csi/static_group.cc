#include "csi/static_group.h"

namespace csidelta::csi {

objects::VolumeGroupSnapshotContent MakeStaticGroup(const StaticGroup& group) {
  auto content = objects::VolumeGroupSnapshotContent::Make(group.version, "", group.name);
  content.SetLabels(group.labels);
  content.SetAnnotations(group.annotations);
  content.SetFinalizers(group.finalizers);
  content.SetDeletionPolicy(group.deletion_policy);
  content.SetDriver(group.driver);
  content.SetSource(group.handle, group.member_handles);
  content.SetSnapshot(group.group_namespace, group.group_name);
  if (!group.class_name.empty()) {
    content.SetClassName(group.class_name);
  }
  return content;
}

const objects::VolumeGroupSnapshotClass* GroupClassOf(
    const std::vector<objects::VolumeGroupSnapshotClass>& classes, absl::string_view driver,
    absl::string_view preferred) {
  const objects::VolumeGroupSnapshotClass* first = nullptr;
  for (const objects::VolumeGroupSnapshotClass& one : classes) {
    if (one.driver() == driver && one.name() == preferred) {
      return &one;
    }
    first = first == nullptr && one.driver() == driver ? &one : first;
  }
  return first;
}

}  // namespace csidelta::csi
