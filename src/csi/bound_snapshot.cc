#include "csi/bound_snapshot.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

absl::Status NotUsable(const k8s::ObjectKey& key, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(ToString(key), " ", why));
}

// `Kind`: VolumeSnapshot or VolumeSnapshotContent.
template <typename Kind>
absl::Status CheckReady(const k8s::ObjectKey& key, const Kind& object) {
  if (object.is_being_deleted()) {
    return NotUsable(key, "is being deleted");
  }
  if (!object.is_ready()) {
    const std::string error = object.error_message();
    return NotUsable(key, error.empty() ? "is not ready to use yet; wait for status.readyToUse"
                                        : absl::StrCat("is not ready to use: ", error));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BoundSnapshot> ReadBoundSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view namespace_name,
                                                absl::string_view name,
                                                absl::string_view change_id_annotation) {
  const k8s::ObjectKey key = VolumeSnapshot::Key(namespace_name, name);
  ASSIGN_OR_RETURN(const auto object, objects::Get<VolumeSnapshot>(ctx, api, key));
  RETURN_IF_ERROR(CheckReady(key, object));
  BoundSnapshot snapshot;
  snapshot.namespace_name = std::string(namespace_name);
  snapshot.name = std::string(name);
  snapshot.uid = object.uid();
  snapshot.claim = object.source_pvc();
  snapshot.class_name = object.class_name();
  snapshot.content_name = object.bound_content();
  if (!change_id_annotation.empty()) {
    snapshot.change_id = object.Annotation(change_id_annotation);
  }
  if (snapshot.content_name.empty()) {
    return NotUsable(key, "is not bound to a VolumeSnapshotContent");
  }
  const k8s::ObjectKey content_key = VolumeSnapshotContent::Key("", snapshot.content_name);
  ASSIGN_OR_RETURN(const auto content, objects::Get<VolumeSnapshotContent>(ctx, api, content_key));
  RETURN_IF_ERROR(CheckReady(content_key, content));
  if (!content.IsOf(object)) {
    return NotUsable(content_key, absl::StrCat("belongs to another VolumeSnapshot than ",
                                               namespace_name, "/", name, ", which names it"));
  }
  snapshot.driver = content.driver();
  snapshot.snapshot_handle = content.handle();
  snapshot.volume_handle = content.source_volume();
  if (const auto mode = content.source_mode(); mode.has_value()) {
    snapshot.volume_mode = std::string(objects::ToString(*mode));
  }
  snapshot.restore_size_bytes = content.restore_size_bytes();
  snapshot.creation_time = content.taken_at();
  if (snapshot.driver.empty() || snapshot.snapshot_handle.empty()) {
    return NotUsable(content_key, "names no driver or has no snapshot handle");
  }
  return snapshot;
}

}  // namespace csidelta::csi
