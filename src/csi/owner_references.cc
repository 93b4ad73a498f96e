#include "csi/owner_references.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::csi {
namespace {

// The cluster-scoped kinds that own objects of ours, or own contents and classes in practice.
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

bool IsForeign(absl::string_view velero_namespace, const Json& object, const Json& owner) {
  const std::string namespace_name = k8s::Namespace(object);
  const std::string kind = GetString(owner, {"kind"});
  if (namespace_name.empty()) {
    return std::find(kClusterScopedKinds.begin(), kClusterScopedKinds.end(), kind) ==
           kClusterScopedKinds.end();
  }
  return absl::StartsWith(GetString(owner, {"apiVersion"}), "velero.io/") &&
         velero_namespace != namespace_name;
}

void KeepAsLabel(const Json& owner, Json& object) {
  const std::string kind = GetString(owner, {"kind"});
  if (!absl::StartsWith(GetString(owner, {"apiVersion"}), "velero.io/")) {
    return;
  }
  const char* label = kind == "Backup"    ? objects::kBackupNameLabel
                      : kind == "Restore" ? objects::kRestoreNameLabel
                                          : nullptr;
  if (label != nullptr && k8s::Label(object, label).empty()) {
    SetJson(object, {"metadata", "labels", label},
            velero::ValidLabelValue(GetString(owner, {"name"})));
  }
}

}  // namespace

bool StripForeignOwners(absl::string_view velero_namespace, Json& object) {
  const Json* owners = FindJson(object, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) {
    return false;
  }
  Json kept = Json::array();
  const Json before = *owners;
  for (const Json& owner : before) {
    if (IsForeign(velero_namespace, object, owner)) {
      KeepAsLabel(owner, object);
    } else {
      kept.push_back(owner);
    }
  }
  if (kept.size() == before.size()) {
    return false;
  }
  if (kept.empty()) {
    EraseJson(object, {"metadata", "ownerReferences"});
  } else {
    SetJson(object, {"metadata", "ownerReferences"}, std::move(kept));
  }
  return true;
}

}  // namespace csidelta::csi
