#include "objects/persistent_volume_claim.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {
namespace {

std::optional<int64_t> PositiveQuantity(const std::string& text) {
  const absl::StatusOr<int64_t> bytes = ParseQuantity(text);
  return bytes.ok() && *bytes > 0 ? std::optional(*bytes) : std::nullopt;
}

}  // namespace

absl::StatusOr<PersistentVolumeClaim> PersistentVolumeClaim::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "PersistentVolumeClaim"));
  return PersistentVolumeClaim(std::move(json));
}

std::optional<std::string> PersistentVolumeClaim::storage_class() const {
  const Json* const named = FindJson(json(), {"spec", "storageClassName"});
  return named != nullptr && named->is_string() ? std::optional(named->get<std::string>())
                                                : std::nullopt;
}

VolumeMode PersistentVolumeClaim::mode() const {
  return ParseVolumeMode(GetString(json(), {"spec", "volumeMode"}))
      .value_or(VolumeMode::kFilesystem);
}

std::vector<std::string> PersistentVolumeClaim::access_modes() const {
  std::vector<std::string> modes;
  const Json* const found = FindJson(json(), {"spec", "accessModes"});
  for (const Json& one : found != nullptr && found->is_array() ? *found : Json::array()) {
    if (one.is_string()) {
      modes.push_back(one.get<std::string>());
    }
  }
  return modes;
}

std::optional<int64_t> PersistentVolumeClaim::requested_bytes() const {
  return PositiveQuantity(GetString(json(), {"spec", "resources", "requests", "storage"}));
}

std::string PersistentVolumeClaim::source_snapshot() const {
  for (const absl::string_view field : {"dataSource", "dataSourceRef"}) {
    const std::string elsewhere = GetString(json(), {"spec", field, "namespace"});
    if (GetString(json(), {"spec", field, "kind"}) == "VolumeSnapshot" &&
        (elsewhere.empty() || elsewhere == namespace_name())) {
      return GetString(json(), {"spec", field, "name"});
    }
  }
  return "";
}

std::string PersistentVolumeClaim::volume_name() const {
  return GetString(json(), {"spec", "volumeName"});
}

std::string PersistentVolumeClaim::selected_node() const {
  return Annotation(kSelectedNodeAnnotation);
}

std::string PersistentVolumeClaim::phase() const { return GetString(json(), {"status", "phase"}); }

bool PersistentVolumeClaim::is_being_filled() const {
  return !source_snapshot().empty() && phase() != "Bound" && phase() != "Lost" &&
         !is_being_deleted();
}

bool PersistentVolumeClaim::is_bound() const {
  return phase() == "Bound" && !volume_name().empty();
}

std::optional<absl::Time> PersistentVolumeClaim::bound_at() const {
  const Json* const fields = FindJson(json(), {"metadata", "managedFields"});
  if (!is_bound() || fields == nullptr || !fields->is_array()) {
    return std::nullopt;
  }
  for (const Json& entry : *fields) {
    if (FindJson(entry, {"fieldsV1", "f:status", "f:phase"}) != nullptr) {
      return ParseRfc3339(GetString(entry, {"time"}));
    }
  }
  return std::nullopt;
}

std::optional<int64_t> PersistentVolumeClaim::capacity_bytes() const {
  return PositiveQuantity(GetString(json(), {"status", "capacity", "storage"}));
}

}  // namespace csidelta::objects
