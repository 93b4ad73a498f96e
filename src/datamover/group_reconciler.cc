#include "datamover/group_reconciler.h"

#include "base/status_macros.h"
#include "csi/moved_group.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {

k8s::FollowedObjects GroupMemberContents() {
  return {.type = csi::VolumeSnapshotContentType(),
          .namespace_name = "",
          .label_selector = objects::kMovedGroupLabel};
}

absl::StatusOr<absl::Time> GroupReconciler::Reconcile(const CallContext& ctx, const Json& object) {
  ASSIGN_OR_RETURN(const auto content, objects::VolumeSnapshotContent::Of(object));
  if (content.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  const csi::Environment csi_env{.api = env_.api,
                                 .clock = *ctx.clock,
                                 .random = env_.random,
                                 .velero_namespace = env_.mover_namespace};
  RETURN_IF_ERROR(csi::SettleMovedGroup(ctx, csi_env, content));
  return ctx.clock->Now() + kGroupLookedAtEvery;
}

}  // namespace csidelta::datamover
