#include "csi/owned_content.h"

#include "base/status_macros.h"
#include "csi/moved_group.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {

absl::Status DeleteContent(const CallContext& ctx, k8s::ApiClient& api,
                           const objects::VolumeSnapshotContent& content,
                           absl::string_view policy) {
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(objects::Apply(ctx, api, content.key(),
                                         objects::Patch().SetDeletionPolicy(policy).SetAnnotation(
                                             objects::kContentBeingDeletedAnnotation, "yes"))));
  return k8s::IgnoreNotFound(api.Delete(ctx, content.key(), {.uid = content.uid()}));
}

absl::Status DropWithSnapshot(const CallContext& ctx, k8s::ApiClient& api,
                              const objects::VolumeSnapshotContent& content) {
  if (!MovedGroupOf(content).empty()) {
    return ReleaseMember(ctx, api, content);
  }
  if (content.handle().empty()) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(objects::Apply(
        ctx, api, content.key(),
        objects::Patch().SetTaken(content.handle_or_source(), std::nullopt, std::nullopt),
        "status")));
  }
  return DeleteContent(ctx, api, content, "Delete");
}

}  // namespace csidelta::csi
