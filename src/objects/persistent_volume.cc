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

}  // namespace csidelta::objects
