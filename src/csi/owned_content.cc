#include "csi/owned_content.h"

#include <algorithm>

#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/find.h"

namespace csidelta::csi {
namespace {

// By this mark of the snapshot controller the sidecar knows that deletion is meant.
constexpr char kBeingDeletedAnnotation[] =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

}  // namespace

absl::Status DropWithSnapshot(const CallContext& ctx, k8s::ApiClient& api, const Json& content) {
  const k8s::ObjectKey key = VolumeSnapshotContentKey(Name(content));
  if (SnapshotHandle(content).empty()) {
    const Json status = {{"status", {{"snapshotHandle", HandleOf(content)}}}};
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        api.Patch(ctx, key, k8s::PatchKind::kMerge, status, "status").status()));
  }
  Json patch = {{"spec", {{"deletionPolicy", "Delete"}}}};
  SetJson(patch, {"metadata", "annotations", kBeingDeletedAnnotation}, "yes");
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
  return k8s::IgnoreNotFound(api.Delete(ctx, key, {.uid = Uid(content), .resource_version = ""}));
}

bool HasLabels(const Json& object, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&object](const auto& label) {
    return Label(object, label.first) == label.second;
  });
}

}  // namespace csidelta::csi
