#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "velero/item_action.h"

// Answers to Velero that the actions on snapshots and on groups share. Pure.
namespace csidelta::backupitemactions {

// The asynchronous operation that ends when a VolumeSnapshot is ready to use, or a
// VolumeGroupSnapshot with its members, or a native snapshot of Longhorn. The id is all that a
// later process is given, maybe of a later version: every form ever written stays readable.
struct SnapshotOperation {
  enum class Kind { kVolumeSnapshot, kGroup, kLonghorn };
  Kind kind = Kind::kVolumeSnapshot;
  std::string namespace_name;
  std::string snapshot_name;
  std::string snapshot_uid;
  absl::Time started_at;
};

// "1/<namespace>/<name>/<uid>/<RFC 3339 time>"; "g1/..." for a group, "l1/..." for
// a native snapshot. Pure.
std::string EncodeOperationId(const SnapshotOperation& operation);

// INVALID_ARGUMENT when `id` is none that EncodeOperationId() writes for that kind. Pure.
absl::StatusOr<SnapshotOperation> DecodeOperationId(
    absl::string_view id, SnapshotOperation::Kind kind = SnapshotOperation::Kind::kVolumeSnapshot);

// Adds `annotations` to those of `object`.
void AddAnnotations(const std::map<std::string, std::string>& annotations, objects::Object& object);

// Adds when `object` says that it was ready.
template <typename Kind>
void AddReadyTime(objects::SnapshotObject<Kind>& object) {
  if (const std::optional<absl::Time> ready_at = object.ready_at(); ready_at.has_value()) {
    object.SetAnnotation(objects::kReadyAtAnnotation, FormatRfc3339(*ready_at));
  }
}

// "84ms", csi::FreezeWindow() in whole milliseconds and not too few; "unknown".
std::string FreezeWindowText(const objects::VolumeGroupSnapshot& group);

// `changed` where it differs from `item`: an item that did not change goes back byte for byte.
std::optional<objects::Object> IfChanged(const objects::Object& item, objects::Object changed);

// Completed with this error.
velero::OperationProgress Failed(velero::OperationProgress progress, std::string error);
// Not completed, for the reason told.
velero::OperationProgress NotYet(velero::OperationProgress progress, std::string description);

// An Event on the PVC: the backup has no snapshot of it, and why. Logs what fails. Not pure.
void ReportNoSnapshot(const csi::Environment& env, const objects::Object& backup,
                      absl::string_view namespace_name, absl::string_view pvc,
                      absl::string_view why);

}  // namespace csidelta::backupitemactions
