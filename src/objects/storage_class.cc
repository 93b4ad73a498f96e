#include "objects/storage_class.h"

#include "objects/keys.h"

namespace csidelta::objects {

bool StorageClass::is_default() const {
  return Annotation(kDefaultStorageClassAnnotation) == "true" ||
         Annotation(kBetaDefaultStorageClassAnnotation) == "true";
}

}  // namespace csidelta::objects
