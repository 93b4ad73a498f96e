#include "csi/owner_references.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/match.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

// The cluster-scoped kinds that own managed objects, or own contents and classes in practice.
constexpr std::array<absl::string_view, 10> kClusterScopedKinds = {
    "Namespace",
    "Node",
    "PersistentVolume",
    "StorageClass",
    "CSIDriver",
    "CustomResourceDefinition",
    "VolumeSnapshotClass",
    "VolumeSnapshotContent",
    "VolumeGroupSnapshotClass",
    "VolumeGroupSnapshotContent",
};

bool IsForeign(absl::string_view velero_namespace, const objects::Object& object,
               const objects::OwnerReference& owner) {
  const std::string namespace_name = object.namespace_name();
  if (namespace_name.empty()) {
    return std::find(kClusterScopedKinds.begin(), kClusterScopedKinds.end(), owner.kind) ==
           kClusterScopedKinds.end();
  }
  return absl::StartsWith(owner.api_version, "velero.io/") && velero_namespace != namespace_name;
}

void KeepAsLabel(const objects::OwnerReference& owner, objects::Object& object) {
  if (!absl::StartsWith(owner.api_version, "velero.io/")) {
    return;
  }
  const char* label = owner.kind == "Backup"    ? objects::kBackupNameLabel
                      : owner.kind == "Restore" ? objects::kRestoreNameLabel
                                                : nullptr;
  if (label != nullptr && object.Label(label).empty()) {
    object.SetLabel(label, velero::ValidLabelValue(owner.name));
  }
}

}  // namespace

bool StripForeignOwners(absl::string_view velero_namespace, objects::Object& object) {
  const auto is_foreign = [&](const objects::OwnerReference& owner) {
    return IsForeign(velero_namespace, object, owner);
  };
  for (const objects::OwnerReference& owner : object.owners()) {
    if (is_foreign(owner)) {
      KeepAsLabel(owner, object);
    }
  }
  return object.RemoveOwners(is_foreign);
}

}  // namespace csidelta::csi
