#include "objects/persistent_volume.h"

#include "objects/keys.h"

namespace csidelta::objects {

bool PersistentVolume::is_provisioned() const {
  return !Annotation(kProvisionedByAnnotation).empty();
}

NodeSelector PersistentVolume::node_affinity() const {
  const Json* const found = Find({"spec", "nodeAffinity", "required"});
  return found == nullptr ? NodeSelector() : NodeSelector(*found);
}

}  // namespace csidelta::objects
