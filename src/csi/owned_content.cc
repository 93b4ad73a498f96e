#include "csi/owned_content.h"

#include <algorithm>

#include "base/status_macros.h"
#include "csi/moved_group.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {

absl::Status DropWithSnapshot(const CallContext& ctx, k8s::ApiClient& api, const Json& content) {
  if (!MovedGroupOf(content).empty()) {
    return ReleaseMember(ctx, api, content);
  }
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(content));
  if (SnapshotHandle(content).empty()) {
    const Json status = {{"status", {{"snapshotHandle", HandleOf(content)}}}};
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        api.Patch(ctx, key, k8s::PatchKind::kMerge, status, "status").status()));
  }
  Json patch = {{"spec", {{"deletionPolicy", "Delete"}}}};
  SetJson(patch, {"metadata", "annotations", objects::kContentBeingDeletedAnnotation}, "yes");
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(api.Patch(ctx, key, k8s::PatchKind::kMerge, patch, "").status()));
  return k8s::IgnoreNotFound(
      api.Delete(ctx, key, {.uid = k8s::Uid(content), .resource_version = ""}));
}

bool HasLabels(const Json& object, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&object](const auto& label) {
    return k8s::Label(object, label.first) == label.second;
  });
}

}  // namespace csidelta::csi
