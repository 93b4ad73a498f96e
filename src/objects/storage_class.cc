#include "objects/storage_class.h"

#include <utility>

#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {

absl::StatusOr<StorageClass> StorageClass::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "StorageClass"));
  return StorageClass(std::move(json));
}

std::string StorageClass::provisioner() const { return GetString(json(), {"provisioner"}); }

bool StorageClass::is_default() const {
  return Annotation(kDefaultStorageClassAnnotation) == "true" ||
         Annotation(kBetaDefaultStorageClassAnnotation) == "true";
}

bool StorageClass::waits_for_first_consumer() const {
  return GetString(json(), {"volumeBindingMode"}) == "WaitForFirstConsumer";
}

}  // namespace csidelta::objects
