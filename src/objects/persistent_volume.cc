#include "objects/persistent_volume.h"

#include "objects/keys.h"
#include "objects/persistent_volume_claim.h"

namespace csidelta::objects {
namespace {

constexpr char kProvisionerIdentity[] = "storage.kubernetes.io/csiProvisionerIdentity";

}  // namespace

bool PersistentVolume::HasSource(absl::string_view type) const {
  const Json* const found = Find({"spec", type});
  return found != nullptr && found->is_object();
}

bool PersistentVolume::is_provisioned() const {
  return !Annotation(kProvisionedByAnnotation).empty();
}

NodeSelector PersistentVolume::node_affinity() const {
  const Json* const found = Find({"spec", "nodeAffinity", "required"});
  return found == nullptr ? NodeSelector() : NodeSelector(*found);
}

PersistentVolume PersistentVolume::CopyAs(absl::string_view name) const {
  PersistentVolume copy = Make("", name);
  for (const char* field :
       {"labels", "annotations"}) {  // Finalizers are their controllers' to set.
    if (const Json* const value = Find({"metadata", field}); value != nullptr) {
      copy.Set({"metadata", field}, *value);
    }
  }
  if (const Json* const spec = Find({"spec"}); spec != nullptr) {
    copy.Set({"spec"}, *spec);
  }
  copy.Remove({"spec", "csi", "volumeAttributes", kProvisionerIdentity});
  return copy;
}

PersistentVolume PersistentVolume::AliasAs(absl::string_view name) const {
  PersistentVolume alias = Make("", name);
  alias.Set({"spec"}, PickAt("spec", {"accessModes", "capacity", "csi", "nodeAffinity"}));
  alias.Remove({"spec", "csi", "volumeAttributes", kProvisionerIdentity});
  return alias;
}

void PersistentVolume::SetFileSystem(absl::string_view type) {
  if (Find({"spec", "csi"}) != nullptr) {
    Set({"spec", "csi", "fsType"}, type);
  }
}

void PersistentVolume::ReserveFor(absl::string_view pvc_namespace, absl::string_view pvc_name) {
  Set({"spec", "claimRef"}, {{"apiVersion", PersistentVolumeClaim::kKind.ApiVersion()},
                             {"kind", PersistentVolumeClaim::kKind.kind},
                             {"namespace", pvc_namespace},
                             {"name", pvc_name}});
}

bool IsAlias(const Object& object) { return !object.Annotation(kAliasOfAnnotation).empty(); }

}  // namespace csidelta::objects
