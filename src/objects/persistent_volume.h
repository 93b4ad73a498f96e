#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
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
  std::string file_system() const { return Text({"spec", "csi", "fsType"}); }  // "": not known
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

  // Another object for the same volume, with the same labels, annotations and spec. It omits the
  // provisioner's identity among the attributes, which is true of one object only.
  PersistentVolume CopyAs(absl::string_view name) const;
  // Another object with nothing but what makes the same volume usable: its CSI source, capacity,
  // access modes and nodes.
  PersistentVolume AliasAs(absl::string_view name) const;

  void SetReclaimPolicy(absl::string_view policy) {  // Retain, Delete
    Set({"spec", "persistentVolumeReclaimPolicy"}, policy);
  }
  void SetStorageClass(absl::string_view name) { Set({"spec", "storageClassName"}, name); }
  void SetMode(VolumeMode mode) { Set({"spec", "volumeMode"}, ToString(mode)); }
  void SetAccessModes(const std::vector<std::string>& modes) {
    Set({"spec", "accessModes"}, modes);
  }
  // What it is formatted with, or is to be: "xfs". Of a volume of CSI; else nothing happens.
  void SetFileSystem(absl::string_view type);
  void SetMountOptions(const std::vector<std::string>& options) {
    Set({"spec", "mountOptions"}, options);
  }
  // It is for any PVC of that name.
  void ReserveFor(absl::string_view pvc_namespace, absl::string_view pvc_name);
};

// Whether a PVC or PersistentVolume was made so that the data mover can write into another PVC's
// volume. Its deletion must never delete that volume. Pure.
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

// What a PVC is filled from: spec.dataSource or dataSourceRef.
struct DataSource {
  std::string api_group;  // "" for the core group
  std::string kind;
  std::string name;
  std::string namespace_name;  // "" for that of the PVC

  bool operator==(const DataSource&) const = default;
};

class PersistentVolumeClaim : public ObjectOf<PersistentVolumeClaim> {
 public:
  static constexpr KindName kKind = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};

  // Spec.
  // Nothing while the API server has not put in the default class; "": no provisioner makes it.
  std::optional<std::string> storage_class() const {
    return TextIfSet({"spec", "storageClassName"});
  }
  VolumeMode mode() const;  // Filesystem where the field is missing, as Kubernetes takes it
  std::string mode_text() const { return Text({"spec", "volumeMode"}); }  // "": missing
  std::vector<std::string> access_modes() const { return Texts({"spec", "accessModes"}); }
  std::optional<int64_t> requested_bytes() const {  // nothing when unknown
    return QuantityAt({"spec", "resources", "requests", "storage"});
  }
  // The VolumeAttributesClass; nothing where the field is missing.
  std::optional<std::string> attributes_class() const {
    return TextIfSet({"spec", "volumeAttributesClassName"});
  }
  std::optional<DataSource> data_source() const { return DataSourceAt("dataSource"); }
  std::optional<DataSource> data_source_ref() const { return DataSourceAt("dataSourceRef"); }
  // The VolumeSnapshot of its namespace that it is filled from; "" when from none.
  std::string source_snapshot() const;
  // "" while it has no PersistentVolume.
  std::string volume_name() const { return Text({"spec", "volumeName"}); }
  // The labels of PersistentVolumes that it may be bound to: selector.matchLabels.
  std::map<std::string, std::string> selected_labels() const {
    return GetStringMap(json(), {"spec", "selector", "matchLabels"});
  }
  // The node that the scheduler has chosen for it, where the class waits for that; "".
  std::string selected_node() const;
  // The data loss that the driver reports of its volume, from Kubernetes 1.36 on; "" for none:
  // "MediaError: sector 7 cannot be read".
  std::string lost_data() const;

  void SetStorageClass(absl::string_view name) { Set({"spec", "storageClassName"}, name); }
  void SetAttributesClass(absl::string_view name) {
    Set({"spec", "volumeAttributesClassName"}, name);
  }
  void SetMode(VolumeMode mode) { Set({"spec", "volumeMode"}, ToString(mode)); }
  void SetAccessModes(const std::vector<std::string>& modes) {
    Set({"spec", "accessModes"}, modes);
  }
  void SetRequestedBytes(int64_t bytes) {
    Set({"spec", "resources", "requests", "storage"}, std::to_string(bytes));
  }
  void SetVolumeName(absl::string_view name) { Set({"spec", "volumeName"}, name); }
  void SetRequestedQuantity(absl::string_view quantity) {  // "20Gi"
    Set({"spec", "resources", "requests", "storage"}, quantity);
  }
  // To at least so many: a provisioner makes no volume smaller than its snapshot.
  void RaiseRequestedBytes(int64_t bytes);
  // It is filled from that VolumeSnapshot of its namespace.
  void SetSourceSnapshot(absl::string_view snapshot);
  void SetSpecOf(const PersistentVolumeClaim& other) {
    const Json* const spec = other.Find({"spec"});
    Set({"spec"}, spec == nullptr ? Json::object() : *spec);
  }
  // The others of selected_labels() stay.
  void SetSelectedLabel(absl::string_view key, absl::string_view value) {
    Set({"spec", "selector", "matchLabels", key}, value);
  }
  // Each returns whether it was set: "" is as good as none.
  bool RemoveVolumeName() { return RemoveOfSpec("volumeName"); }
  bool RemoveSelector() { return RemoveOfSpec("selector"); }
  bool RemoveDataSource() { return RemoveOfSpec("dataSource"); }
  bool RemoveDataSourceRef() { return RemoveOfSpec("dataSourceRef"); }

  // Status.
  // Pending, Bound, Lost; "" before the controller saw it.
  std::string phase() const { return Text({"status", "phase"}); }
  bool is_bound() const { return phase() == "Bound" && !volume_name().empty(); }
  // When the status was written last, by metadata.managedFields; nothing when not bound or not
  // recorded.
  std::optional<absl::Time> bound_at() const;
  std::optional<int64_t> capacity_bytes() const {
    return QuantityAt({"status", "capacity", "storage"});
  }
  // It has a source_snapshot() that is still needed: it is neither bound nor being deleted.
  bool is_being_filled() const;

 private:
  std::optional<std::string> TextIfSet(JsonPath path) const;
  std::optional<DataSource> DataSourceAt(absl::string_view field) const;
  bool RemoveOfSpec(absl::string_view field);
};

}  // namespace csidelta::objects
