#include "datamover/base_reconciler.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/snapshot_types.h"
#include "datamover/volume_task.h"
#include "k8s/object.h"

namespace csidelta::datamover {
namespace {

absl::StatusOr<bool> IsGone(const CallContext& ctx, k8s::ApiClient& api,
                            const csi::BaseOwner& owner) {
  const absl::StatusOr<Json> claim =
      api.Get(ctx, csi::ClaimKey(owner.claim_namespace, owner.claim));
  if (absl::IsNotFound(claim.status())) {
    return true;
  }
  RETURN_IF_ERROR(claim.status());
  return k8s::Uid(*claim) != owner.claim_uid;
}

absl::StatusOr<bool> IsBeingMoved(const CallContext& ctx, const MoverEnvironment& env,
                                  const csi::BaseOwner& owner) {
  ASSIGN_OR_RETURN(const k8s::ObjectList tasks,
                   env.api.List(ctx, VolumeTaskType(), env.mover_namespace,
                                {.label_selector = "", .field_selector = ""}));
  for (const Json& task : tasks.items) {
    const absl::StatusOr<VolumeTaskSpec> spec = TaskSpecOf(task);
    if (spec.ok() && spec->kind == TaskKind::kUpload && spec->volume.claim_uid == owner.claim_uid) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<absl::Time> BaseReconciler::Reconcile(const CallContext& ctx, const Json& object) {
  ASSIGN_OR_RETURN(const auto content, objects::VolumeSnapshotContent::Of(object));
  const csi::BaseSnapshot base = csi::ReadBase(content);
  const csi::BaseOwner& owner = base.owner;
  if (owner.cluster != env_.cluster || owner.claim_uid.empty() || owner.claim.empty() ||
      owner.claim_namespace.empty() || k8s::BeingDeleted(object)) {
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
