#include "objects/persistent_volume.h"

#include <utility>

#include "base/status_macros.h"

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

}  // namespace csidelta::objects
