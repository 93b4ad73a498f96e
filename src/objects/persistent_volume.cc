#include "objects/persistent_volume.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quantity.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

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

std::optional<std::string> PersistentVolumeClaim::TextIfSet(JsonPath path) const {
  const Json* const named = Find(path);
  return named != nullptr && named->is_string() ? std::optional(named->get<std::string>())
                                                : std::nullopt;
}

VolumeMode PersistentVolumeClaim::mode() const {
  return ParseVolumeMode(Text({"spec", "volumeMode"})).value_or(VolumeMode::kFilesystem);
}

std::optional<DataSource> PersistentVolumeClaim::DataSourceAt(absl::string_view field) const {
  const Json* const source = Find({"spec", field});
  return source == nullptr || !source->is_object()
             ? std::nullopt
             : std::optional(DataSource{.api_group = GetString(*source, {"apiGroup"}),
                                        .kind = GetString(*source, {"kind"}),
                                        .name = GetString(*source, {"name"}),
                                        .namespace_name = GetString(*source, {"namespace"})});
}

std::string PersistentVolumeClaim::source_snapshot() const {
  for (const std::optional<DataSource>& source : {data_source(), data_source_ref()}) {
    if (source.has_value() && source->kind == "VolumeSnapshot" &&
        (source->namespace_name.empty() || source->namespace_name == namespace_name())) {
      return source->name;
    }
  }
  return "";
}

std::string PersistentVolumeClaim::lost_data() const {
  std::vector<std::string> losses;
  for (const Json& condition : ArrayAt({"status", "healthStatus", "conditions"})) {
    if (GetString(condition, {"status"}) == "DataLoss") {
      losses.push_back(
          absl::StrCat(GetString(condition, {"reason"}), ": ", GetString(condition, {"message"})));
    }
  }
  return absl::StrJoin(losses, "; ");
}

void PersistentVolumeClaim::RaiseRequestedBytes(int64_t bytes) {
  if (requested_bytes().value_or(0) < bytes) {
    Set({"spec", "resources", "requests", "storage"}, FormatBinaryQuantity(bytes));
  }
}

void PersistentVolumeClaim::SetSourceSnapshot(absl::string_view snapshot) {
  Set({"spec", "dataSource"},
      {{"apiGroup", kSnapshotGroup}, {"kind", VolumeSnapshot::kKind.kind}, {"name", snapshot}});
}

bool PersistentVolumeClaim::RemoveOfSpec(absl::string_view field) {
  const Json* const value = Find({"spec", field});
  return value != nullptr && !value->is_null() && *value != "" && Remove({"spec", field});
}

std::string PersistentVolumeClaim::selected_node() const {
  return Annotation(kSelectedNodeAnnotation);
}

bool PersistentVolumeClaim::is_being_filled() const {
  return !source_snapshot().empty() && phase() != "Bound" && phase() != "Lost" &&
         !is_being_deleted();
}

std::optional<absl::Time> PersistentVolumeClaim::bound_at() const {
  return is_bound() ? WrittenAt({"f:status", "f:phase"}) : std::nullopt;
}

}  // namespace csidelta::objects
