#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"
#include "objects/persistent_volume.h"

namespace csidelta::objects {

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
  // Of the PersistentVolumes that it may be bound to; those that selector.matchLabels names.
  std::map<std::string, std::string> selected_labels() const {
    return GetStringMap(json(), {"spec", "selector", "matchLabels"});
  }
  // The node that the scheduler has chosen for it, where the class waits for that; "".
  std::string selected_node() const;

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
