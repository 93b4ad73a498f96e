#include "datamover/group_reconciler.h"

#include "base/status_macros.h"
#include "csi/moved_group.h"
#include "objects/keys.h"

namespace csidelta::datamover {

k8s::WatchedObjects GroupMemberContents() {
  return {.type = objects::VolumeSnapshotContent::Type(),
          .namespace_name = "",
          .label_selector = objects::kMovedGroupLabel};
}

absl::StatusOr<absl::Time> GroupReconciler::ReconcileOne(
    const CallContext& ctx, const objects::VolumeSnapshotContent& content) {
  if (content.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  const csi::Environment csi_env{.api = env_.api,
                                 .clock = *ctx.clock,
                                 .random = env_.random,
                                 .velero_namespace = env_.mover_namespace};
  RETURN_IF_ERROR(csi::FinalizeMovedGroup(ctx, csi_env, content));
  return ctx.clock->Now() + kGroupLookedAtEvery;
}

}  // namespace csidelta::datamover
