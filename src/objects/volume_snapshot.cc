#include "objects/volume_snapshot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {

std::optional<absl::Time> ReadyTime(const Json& object) {
  const Json* const fields = FindJson(object, {"metadata", "managedFields"});
  if (!GetBool(object, {"status", "readyToUse"}) || fields == nullptr || !fields->is_array()) {
    return std::nullopt;
  }
  for (const Json& entry : *fields) {
    if (FindJson(entry, {"fieldsV1", "f:status", "f:readyToUse"}) != nullptr) {
      return ParseRfc3339(GetString(entry, {"time"}));
    }
  }
  return std::nullopt;
}

std::optional<SnapshotError> ErrorOf(const Json& object) {
  const Json* const error = FindJson(object, {"status", "error"});
  if (error == nullptr || !error->is_object()) {
    return std::nullopt;
  }
  std::string message = GetString(*error, {"message"});
  return SnapshotError{
      .message = message.empty() ? "an error without a message" : std::move(message),
      .time = ParseRfc3339(GetString(*error, {"time"}))};
}

absl::Status ObjectView::CheckKind(const Json& json, absl::string_view kind) {
  const std::string found = GetString(json, {"kind"});
  if (!json.is_object() || (!found.empty() && found != kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a ", kind, ", found ", found.empty() ? "no object" : found));
  }
  return absl::OkStatus();
}

absl::StatusOr<VolumeSnapshot> VolumeSnapshot::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "VolumeSnapshot"));
  return VolumeSnapshot(std::move(json));
}

std::string VolumeSnapshot::source_pvc() const {
  return GetString(json(), {"spec", "source", "persistentVolumeClaimName"});
}

std::string VolumeSnapshot::source_content() const {
  return GetString(json(), {"spec", "source", "volumeSnapshotContentName"});
}

std::string VolumeSnapshot::class_name() const {
  return GetString(json(), {"spec", "volumeSnapshotClassName"});
}

std::string VolumeSnapshot::bound_content() const {
  return GetString(json(), {"status", "boundVolumeSnapshotContentName"});
}

bool VolumeSnapshot::is_ready() const { return GetBool(json(), {"status", "readyToUse"}); }

std::optional<absl::Time> VolumeSnapshot::taken_at() const {
  return ParseRfc3339(GetString(json(), {"status", "creationTime"}));
}

std::optional<absl::Time> VolumeSnapshot::ready_at() const { return ReadyTime(json()); }

std::optional<int64_t> VolumeSnapshot::restore_size_bytes() const {
  const absl::StatusOr<int64_t> bytes = ParseQuantity(GetString(json(), {"status", "restoreSize"}));
  return bytes.ok() && *bytes > 0 ? std::optional(*bytes) : std::nullopt;
}

std::optional<SnapshotError> VolumeSnapshot::error() const { return ErrorOf(json()); }

std::string VolumeSnapshot::group_snapshot() const {
  return GetString(json(), {"status", "volumeGroupSnapshotName"});
}

absl::StatusOr<VolumeSnapshotContent> VolumeSnapshotContent::Of(Json json) {
  RETURN_IF_ERROR(CheckKind(json, "VolumeSnapshotContent"));
  return VolumeSnapshotContent(std::move(json));
}

std::string VolumeSnapshotContent::driver() const { return GetString(json(), {"spec", "driver"}); }

bool VolumeSnapshotContent::is_retained() const {
  return GetString(json(), {"spec", "deletionPolicy"}) == "Retain";
}

std::string VolumeSnapshotContent::class_name() const {
  return GetString(json(), {"spec", "volumeSnapshotClassName"});
}

bool VolumeSnapshotContent::is_pre_provisioned() const { return !source_handle().empty(); }

bool VolumeSnapshotContent::Names(const VolumeSnapshot& snapshot) const {
  const std::string uid = snapshot_uid();
  return snapshot_namespace() == snapshot.namespace_name() && snapshot_name() == snapshot.name() &&
         (uid.empty() || uid == snapshot.uid());
}

std::string VolumeSnapshotContent::snapshot_namespace() const {
  return GetString(json(), {"spec", "volumeSnapshotRef", "namespace"});
}

std::string VolumeSnapshotContent::snapshot_name() const {
  return GetString(json(), {"spec", "volumeSnapshotRef", "name"});
}

std::string VolumeSnapshotContent::snapshot_uid() const {
  return GetString(json(), {"spec", "volumeSnapshotRef", "uid"});
}

std::optional<VolumeMode> VolumeSnapshotContent::source_mode() const {
  return ParseVolumeMode(GetString(json(), {"spec", "sourceVolumeMode"}));
}

bool VolumeSnapshotContent::allows_mode_change() const {
  // What the provisioner reads as true.
  constexpr std::array<absl::string_view, 6> kTrue = {"1", "t", "T", "true", "TRUE", "True"};
  const std::string value = Annotation(kModeChangeAnnotation);
  return std::find(kTrue.begin(), kTrue.end(), value) != kTrue.end();
}

std::string VolumeSnapshotContent::source_volume() const {
  return GetString(json(), {"spec", "source", "volumeHandle"});
}

std::string VolumeSnapshotContent::source_handle() const {
  return GetString(json(), {"spec", "source", "snapshotHandle"});
}

std::string VolumeSnapshotContent::handle() const {
  return GetString(json(), {"status", "snapshotHandle"});
}

std::optional<absl::Time> VolumeSnapshotContent::taken_at() const {
  const int64_t nanoseconds = GetInt(json(), {"status", "creationTime"});
  return nanoseconds > 0 ? std::optional(absl::FromUnixNanos(nanoseconds)) : std::nullopt;
}

std::optional<int64_t> VolumeSnapshotContent::restore_size_bytes() const {
  const int64_t size_bytes = GetInt(json(), {"status", "restoreSize"});
  return size_bytes > 0 ? std::optional(size_bytes) : std::nullopt;
}

}  // namespace csidelta::objects
