#pragma once

#include <string>
#include <vector>

#include "objects/keys.h"
#include "objects/object.h"

namespace csidelta::objects {

class StorageClass : public ObjectOf<StorageClass> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "storageclasses", "StorageClass",
                                     false};

  // The driver, or its name in the tree of Kubernetes.
  std::string provisioner() const { return Text({"provisioner"}); }
  bool is_default() const {  // of the cluster
    return Annotation(kDefaultStorageClassAnnotation) == "true" ||
           Annotation(kBetaDefaultStorageClassAnnotation) == "true";
  }
  // A PVC of it stays without a volume until a Pod uses it.
  bool waits_for_first_consumer() const {
    return Text({"volumeBindingMode"}) == "WaitForFirstConsumer";
  }
  // Its volumes stay when their PVCs go.
  bool retains_volumes() const { return Text({"reclaimPolicy"}) == "Retain"; }
  // What its volumes are formatted with, by its parameters; "": the driver chooses.
  std::string file_system() const {
    std::string named = Text({"parameters", "csi.storage.k8s.io/fstype"});
    return named.empty() ? Text({"parameters", "fstype"}) : named;
  }
  std::vector<std::string> mount_options() const { return Texts({"mountOptions"}); }
};

}  // namespace csidelta::objects
