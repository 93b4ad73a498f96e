#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "objects/node.h"
#include "objects/object.h"

namespace csidelta::objects {

class PersistentVolume : public ObjectOf<PersistentVolume> {
 public:
  static constexpr KindName kKind = {"", "v1", "persistentvolumes", "PersistentVolume", false};

  // "" for one that is not of CSI.
  std::string driver() const { return Text({"spec", "csi", "driver"}); }
  // Of the volume, by its CSI driver; "".
  std::string handle() const { return Text({"spec", "csi", "volumeHandle"}); }
  // Of the PVC that it is or was bound to; "".
  std::string pvc_namespace() const { return Text({"spec", "claimRef", "namespace"}); }
  std::string pvc_name() const { return Text({"spec", "claimRef", "name"}); }
  // "" while it is reserved for any PVC of that name.
  std::string pvc_uid() const { return Text({"spec", "claimRef", "uid"}); }
  std::optional<int64_t> capacity_bytes() const {
    return QuantityAt({"spec", "capacity", "storage"});
  }
  std::string storage_class() const { return Text({"spec", "storageClassName"}); }
  std::string reclaim_policy() const {  // Retain, Delete
    return Text({"spec", "persistentVolumeReclaimPolicy"});
  }
  bool is_retained() const { return reclaim_policy() == "Retain"; }
  std::string phase() const { return Text({"status", "phase"}); }  // Bound, Released, ...
  // Made by a provisioner, which also deletes it when its policy says so.
  bool is_provisioned() const;
  // Where it can be used: spec.nodeAffinity.required.
  NodeSelector node_affinity() const;

 private:
  using ObjectOf::ObjectOf;
};

}  // namespace csidelta::objects
