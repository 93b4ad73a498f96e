#pragma once

#include <string>
#include <vector>

#include "objects/object.h"

namespace csidelta::objects {

class StorageClass : public ObjectOf<StorageClass> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "storageclasses", "StorageClass",
                                     false};

  // The driver, or its name in the tree of Kubernetes.
  std::string provisioner() const { return Text({"provisioner"}); }
  bool is_default() const;  // of the cluster
  // A PVC of it stays without a volume until a Pod uses it.
  bool waits_for_first_consumer() const {
    return Text({"volumeBindingMode"}) == "WaitForFirstConsumer";
  }
  // Its volumes stay when their PVCs go.
  bool retains_volumes() const { return Text({"reclaimPolicy"}) == "Retain"; }
  // What its volumes are formatted with, by its parameters; "": the driver chooses.
  std::string file_system() const;
  std::vector<std::string> mount_options() const { return Texts({"mountOptions"}); }

 private:
  using ObjectOf::ObjectOf;
};

}  // namespace csidelta::objects
