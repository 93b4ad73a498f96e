#include "objects/storage_class.h"

#include "objects/keys.h"

namespace csidelta::objects {

bool StorageClass::is_default() const {
  return Annotation(kDefaultStorageClassAnnotation) == "true" ||
         Annotation(kBetaDefaultStorageClassAnnotation) == "true";
}

std::string StorageClass::file_system() const {
  std::string named = Text({"parameters", "csi.storage.k8s.io/fstype"});
  return named.empty() ? Text({"parameters", "fstype"}) : named;
}

}  // namespace csidelta::objects
