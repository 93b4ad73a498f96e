#include "objects/persistent_volume_claim.h"

#include "base/quantity.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

namespace csidelta::objects {

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
