#include "objects/persistent_volume.h"

#include <utility>

#include "base/quantity.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {

absl::StatusOr<PersistentVolume> PersistentVolume::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "PersistentVolume"));
  return PersistentVolume(std::move(json));
}

std::string PersistentVolume::driver() const {
  return GetString(json(), {"spec", "csi", "driver"});
}

std::string PersistentVolume::handle() const {
  return GetString(json(), {"spec", "csi", "volumeHandle"});
}

std::string PersistentVolume::pvc_namespace() const {
  return GetString(json(), {"spec", "claimRef", "namespace"});
}

std::string PersistentVolume::pvc_name() const {
  return GetString(json(), {"spec", "claimRef", "name"});
}

std::string PersistentVolume::pvc_uid() const {
  return GetString(json(), {"spec", "claimRef", "uid"});
}

std::optional<int64_t> PersistentVolume::capacity_bytes() const {
  const absl::StatusOr<int64_t> bytes =
      ParseQuantity(GetString(json(), {"spec", "capacity", "storage"}));
  return bytes.ok() && *bytes > 0 ? std::optional(*bytes) : std::nullopt;
}

std::string PersistentVolume::storage_class() const {
  return GetString(json(), {"spec", "storageClassName"});
}

std::string PersistentVolume::reclaim_policy() const {
  return GetString(json(), {"spec", "persistentVolumeReclaimPolicy"});
}

std::string PersistentVolume::phase() const { return GetString(json(), {"status", "phase"}); }

bool PersistentVolume::is_provisioned() const {
  return !Annotation(kProvisionedByAnnotation).empty();
}

Json PersistentVolume::node_affinity() const {
  const Json* const found = FindJson(json(), {"spec", "nodeAffinity", "required"});
  return found == nullptr ? Json() : *found;
}

}  // namespace csidelta::objects
