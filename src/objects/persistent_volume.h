#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/node.h"
#include "objects/object.h"

namespace csidelta::objects {

// How a Pod sees a volume: spec.volumeMode of a PVC, spec.sourceVolumeMode of a content.
enum class VolumeMode { kFilesystem, kBlock };

inline absl::string_view ToString(VolumeMode mode) {
  return mode == VolumeMode::kBlock ? "Block" : "Filesystem";
}

// Nothing for any other text, "" included.
inline std::optional<VolumeMode> ParseVolumeMode(absl::string_view text) {
  for (const VolumeMode mode : {VolumeMode::kFilesystem, VolumeMode::kBlock}) {
    if (text == ToString(mode)) {
      return mode;
    }
  }
  return std::nullopt;
}

class PersistentVolume : public ObjectOf<PersistentVolume> {
 public:
  static constexpr KindName kKind = {"", "v1", "persistentvolumes", "PersistentVolume", false};

  // Whether it is of that type, as spec calls it: "csi", "nfs", ...
  bool HasSource(absl::string_view type) const;
  bool is_csi() const { return HasSource("csi"); }
  // "" for one that is not of CSI.
  std::string driver() const { return Text({"spec", "csi", "driver"}); }
  // Of the volume, by its CSI driver; "".
  std::string handle() const { return Text({"spec", "csi", "volumeHandle"}); }
  std::map<std::string, std::string> attributes() const {  // by its CSI driver
    return GetStringMap(json(), {"spec", "csi", "volumeAttributes"});
  }
  std::string nfs_server() const { return Text({"spec", "nfs", "server"}); }
  std::string nfs_path() const { return Text({"spec", "nfs", "path"}); }
  // Of the PVC that it is or was bound to; "".
  std::string pvc_namespace() const { return Text({"spec", "claimRef", "namespace"}); }
  std::string pvc_name() const { return Text({"spec", "claimRef", "name"}); }
  // "" while it is reserved for any PVC of that name.
  std::string pvc_uid() const { return Text({"spec", "claimRef", "uid"}); }
  std::string capacity() const { return Text({"spec", "capacity", "storage"}); }  // as written
  std::optional<int64_t> capacity_bytes() const {
    return QuantityAt({"spec", "capacity", "storage"});
  }
  std::vector<std::string> access_modes() const { return Texts({"spec", "accessModes"}); }
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

  // Another object for the same volume: labels, annotations and spec as they are, but for what the
  // provisioner notes of itself among the attributes, which is true of one object only.
  PersistentVolume CopyAs(absl::string_view name) const;
  // Another object with nothing but what makes the same volume usable: its CSI source, capacity,
  // access modes and nodes.
  PersistentVolume AliasAs(absl::string_view name) const;

  void SetReclaimPolicy(absl::string_view policy) {  // Retain, Delete
    Set({"spec", "persistentVolumeReclaimPolicy"}, policy);
  }
  void SetStorageClass(absl::string_view name) { Set({"spec", "storageClassName"}, name); }
  void SetMode(VolumeMode mode) { Set({"spec", "volumeMode"}, ToString(mode)); }
  // What it is formatted with, or is to be: "xfs". Of a volume of CSI; else nothing happens.
  void SetFileSystem(absl::string_view type);
  void SetMountOptions(const std::vector<std::string>& options) {
    Set({"spec", "mountOptions"}, options);
  }
  // It is for any PVC of that name.
  void ReserveFor(absl::string_view pvc_namespace, absl::string_view pvc_name);
};

// Whether a PVC or a PersistentVolume was made so that the data mover can write into the volume of
// another PVC: it must never be deleted with that volume. Pure.
bool IsAlias(const Object& object);

// That a volume is attached to a node, or is to be.
class VolumeAttachment : public ObjectOf<VolumeAttachment> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "volumeattachments",
                                     "VolumeAttachment", false};

  // The PersistentVolume; "" for one that is inline in a Pod.
  std::string volume_name() const { return Text({"spec", "source", "persistentVolumeName"}); }
  std::string node_name() const { return Text({"spec", "nodeName"}); }
};

}  // namespace csidelta::objects
