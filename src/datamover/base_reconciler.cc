#include "datamover/base_reconciler.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "datamover/volume_task.h"
#include "objects/client.h"
#include "objects/persistent_volume_claim.h"

namespace csidelta::datamover {
namespace {

absl::StatusOr<bool> IsGone(const CallContext& ctx, k8s::ApiClient& api,
                            const csi::BaseOwner& owner) {
  ASSIGN_OR_RETURN(
      const auto claim,
      objects::Find<objects::PersistentVolumeClaim>(
          ctx, api, objects::PersistentVolumeClaim::Key(owner.claim_namespace, owner.claim)));
  return !claim.has_value() || claim->uid() != owner.claim_uid;
}

absl::StatusOr<bool> IsBeingMoved(const CallContext& ctx, const MoverEnvironment& env,
                                  const csi::BaseOwner& owner) {
  ASSIGN_OR_RETURN(const std::vector<objects::VolumeTask> tasks,
                   objects::List<objects::VolumeTask>(ctx, env.api, env.mover_namespace));
  for (const objects::VolumeTask& task : tasks) {
    const absl::StatusOr<VolumeTaskSpec> spec = task.spec();
    if (spec.ok() && spec->kind == TaskKind::kUpload && spec->volume.claim_uid == owner.claim_uid) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<absl::Time> BaseReconciler::ReconcileOne(
    const CallContext& ctx, const objects::VolumeSnapshotContent& content) {
  const csi::BaseSnapshot base = csi::ReadBase(content);
  const csi::BaseOwner& owner = base.owner;
  if (owner.cluster != env_.cluster || owner.claim_uid.empty() || owner.claim.empty() ||
      owner.claim_namespace.empty() || content.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  ASSIGN_OR_RETURN(const bool is_gone, IsGone(ctx, env_.api, owner));
  if (is_gone) {
    ASSIGN_OR_RETURN(const bool is_being_moved, IsBeingMoved(ctx, env_, owner));
    if (!is_being_moved) {
      const csi::Environment csi_env{.api = env_.api,
                                     .clock = *ctx.clock,
                                     .random = env_.random,
                                     .velero_namespace = owner.velero_namespace};
      RETURN_IF_ERROR(csi::DropBase(ctx, csi_env, base.content_name));
      CSIDELTA_LOG(kInfo, "the base snapshot of a volume that is gone is dropped",
                   {"namespace", owner.claim_namespace}, {"pvc", owner.claim},
                   {"volume_snapshot_content", base.content_name}, {"driver", base.driver},
                   {"snapshot_handle", base.snapshot_handle});
      return absl::InfiniteFuture();
    }
  }
  return ctx.clock->Now() + kBaseLookedAtEvery;
}

}  // namespace csidelta::datamover
