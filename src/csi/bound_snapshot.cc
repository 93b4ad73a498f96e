#include "csi/bound_snapshot.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_state.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {
namespace {

absl::Status NotUsable(const k8s::ObjectKey& key, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(ToString(key), " ", why));
}

// By what the VolumeSnapshot says itself.
absl::Status CheckReady(const k8s::ObjectKey& key, const Json& object) {
  ASSIGN_OR_RETURN(const objects::VolumeSnapshot snapshot, objects::VolumeSnapshot::Of(object));
  const SnapshotStatus status = StatusOf(snapshot, {});
  if (IsUsable(status.state)) {
    return absl::OkStatus();
  }
  if (status.state == SnapshotState::kDeleting) {
    return NotUsable(key, "is being deleted");
  }
  return NotUsable(key,
                   status.state == SnapshotState::kError
                       ? absl::StrCat("is not ready to use: ", status.conditions.front().message)
                       : "is not ready to use yet; wait for status.readyToUse");
}

absl::Status CheckContent(const k8s::ObjectKey& key, const Json& content) {
  if (k8s::BeingDeleted(content)) {
    return NotUsable(key, "is being deleted");
  }
  if (!ReadyToUse(content)) {
    const std::string error = ErrorMessage(content);
    return NotUsable(key, error.empty() ? "is not ready to use yet; wait for status.readyToUse"
                                        : absl::StrCat("is not ready to use: ", error));
  }
  return absl::OkStatus();
}

bool PointsBack(const Json& content, const BoundSnapshot& snapshot) {
  return GetString(content, {"spec", "volumeSnapshotRef", "namespace"}) ==
             snapshot.namespace_name &&
         GetString(content, {"spec", "volumeSnapshotRef", "name"}) == snapshot.name &&
         GetString(content, {"spec", "volumeSnapshotRef", "uid"}) == snapshot.uid;
}

}  // namespace

absl::StatusOr<BoundSnapshot> ReadBoundSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view namespace_name,
                                                absl::string_view name,
                                                absl::string_view change_id_annotation) {
  const k8s::ObjectKey key = VolumeSnapshotKey(namespace_name, name);
  ASSIGN_OR_RETURN(const Json object, api.Get(ctx, key));
  RETURN_IF_ERROR(CheckReady(key, object));
  BoundSnapshot snapshot;
  snapshot.namespace_name = std::string(namespace_name);
  snapshot.name = std::string(name);
  snapshot.uid = k8s::Uid(object);
  snapshot.claim = SourceClaimName(object);
  snapshot.class_name = GetString(object, {"spec", "volumeSnapshotClassName"});
  snapshot.content_name = BoundContentName(object);
  if (!change_id_annotation.empty()) {
    snapshot.change_id = k8s::Annotation(object, change_id_annotation);
  }
  if (snapshot.content_name.empty()) {
    return NotUsable(key, "is not bound to a VolumeSnapshotContent");
  }
  const k8s::ObjectKey content_key = VolumeSnapshotContentKey(snapshot.content_name);
  ASSIGN_OR_RETURN(const Json content, api.Get(ctx, content_key));
  RETURN_IF_ERROR(CheckContent(content_key, content));
  if (!PointsBack(content, snapshot)) {
    return NotUsable(content_key, absl::StrCat("belongs to another VolumeSnapshot than ",
                                               namespace_name, "/", name, ", which names it"));
  }
  snapshot.driver = GetString(content, {"spec", "driver"});
  snapshot.snapshot_handle = SnapshotHandle(content);
  snapshot.volume_handle = GetString(content, {"spec", "source", "volumeHandle"});
  snapshot.volume_mode = GetString(content, {"spec", "sourceVolumeMode"});
  snapshot.restore_size_bytes = RestoreSizeBytes(content);
  snapshot.cut_time = CutTime(content);
  if (snapshot.driver.empty() || snapshot.snapshot_handle.empty()) {
    return NotUsable(content_key, "names no driver or has no snapshot handle");
  }
  return snapshot;
}

}  // namespace csidelta::csi
