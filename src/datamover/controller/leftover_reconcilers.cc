#include "datamover/controller/leftover_reconcilers.h"

#include <optional>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/expose/claim_release.h"
#include "csi/group/moved_group.h"
#include "datamover/controller/download_reconciler.h"
#include "datamover/controller/upload_reconciler.h"
#include "datamover/worker/worker_run.h"
#include "k8s/cached_client.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::datamover {

absl::Status RemoveLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                             const objects::VolumeTask& task) {
  const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
  if (spec.ok() && spec->kind == objects::TaskKind::kUpload) {
    return RemoveUploadLeftovers(ctx, env, task);
  }
  return spec.ok() && spec->kind == objects::TaskKind::kDownload
             ? RemoveDownloadLeftovers(ctx, env, task)
             : WorkerRun(env, task.name()).RemoveWithTask(ctx);
}

absl::StatusOr<absl::Time> TaskReconciler::ReconcileOne(const CallContext& ctx,
                                                        const objects::VolumeTask& task) {
  const absl::Time later = ctx.clock->Now() + kLeftoversEvery;
  env_.running->RecordTask(task);
  if (enqueue_table_.Enqueue(task.name())) {
    return later;
  }
  if (!is_synced_() || env_.running->IsReconciling(task.name())) {
    return ctx.clock->Now() + kUntilSynced;
  }
  ASSIGN_OR_RETURN(const objects::VolumeTaskSpec spec, task.spec());
  if (!IsServed(env_, spec.subject.namespace_name)) {
    WarnOfUnserved(task, spec);
    return later;
  }
  // Its transfer's last look may have removed it since the watch told of it.
  k8s::CachedReader reader(env_.api, env_.cache);
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> now,
                   objects::Find<objects::VolumeTask>(ctx, reader, task.key()));
  if (!now.has_value()) {
    return absl::InfiniteFuture();
  }
  RETURN_IF_ERROR(RemoveLeftovers(ctx, env_, *now));
  return later;
}

void TaskReconciler::WarnOfUnserved(const objects::VolumeTask& task,
                                    const objects::VolumeTaskSpec& spec) {
  {
    const MutexLock lock(mutex_);
    if (!warned_.insert(task.name()).second) {
      return;
    }
  }
  CSIDELTA_LOG(
      kWarn,
      "a task stays: its namespace is not in veleroNamespaces any more; serve it again, or "
      "see docs/alerts.md",
      {"task", task.name()}, {"kind", spec.subject.kind},
      {"namespace", spec.subject.namespace_name}, {"name", spec.subject.name});
}

k8s::WatchedObjects MadeForTasks(const k8s::ResourceType& type, const std::string& namespace_name) {
  return {
      .type = type, .namespace_name = namespace_name, .label_selector = objects::kMoverTaskLabel};
}

absl::StatusOr<absl::Time> ClaimReconciler::ReconcileOne(
    const CallContext& ctx, const objects::PersistentVolumeClaim& claim) {
  if (!claim.is_being_deleted()) {
    if (!excluded_.Has(claim)) {
      RETURN_IF_ERROR(csi::ExcludeVolumeFromBackups(ctx, env_.api, claim));
      excluded_.Add(claim);
    }
    return absl::InfiniteFuture();
  }
  ASSIGN_OR_RETURN(const csi::ClaimDeletion release,
                   csi::FinishClaimDeletion(ctx, env_.api, claim));
  if (!release.left.empty()) {
    CSIDELTA_LOG(kWarn, release.left);
    EmitMoverEvent(ctx, env_, claim, k8s::EventType::kWarning, "VolumeMayBeLeft", release.left);
  }
  return release.requeue_at;
}

bool ClaimReconciler::IsConcerned(const objects::PersistentVolumeClaim& claim) const {
  return claim.is_being_deleted() ? claim.HasFinalizer(objects::kVolumeFinalizer)
                                  : !claim.volume_name().empty();
}

bool ContentReconciler::IsManagedAndRemovable(const objects::VolumeSnapshotContent& content) const {
  return content.Label(objects::kMoverTaskLabel) == content.name() &&
         content.snapshot_namespace() == env_.mover_namespace &&
         IsServed(env_, content.Label(objects::kMoverVeleroNamespaceLabel)) &&
         content.Label(objects::kBaseLabel) != "true" && !csi::HasBeenGivenUp(content) &&
         !content.is_being_deleted();
}

absl::StatusOr<absl::Time> ContentReconciler::ReconcileOne(
    const CallContext& ctx, const objects::VolumeSnapshotContent& content) {
  if (!IsManagedAndRemovable(content)) {
    return absl::InfiniteFuture();
  }
  if (!is_synced_()) {
    return ctx.clock->Now() + kUntilSynced;
  }
  const std::string task_name = content.name();
  const absl::Time later = ctx.clock->Now() + kLeftoversEvery;
  if (enqueue_table_.Enqueue(task_name)) {
    return later;
  }
  ASSIGN_OR_RETURN(const auto task, objects::Find<objects::VolumeTask>(
                                        ctx, env_.api, env_.mover_namespace, task_name));
  if (task.has_value()) {  // Who looks after tasks looks after this.
    return later;
  }
  ASSIGN_OR_RETURN(const auto fresh,
                   objects::Find<objects::VolumeSnapshotContent>(ctx, env_.api, content.key()));
  if (fresh.has_value() && IsManagedAndRemovable(*fresh)) {
    CSIDELTA_LOG(kWarn, "a volume snapshot is left of a DataUpload that is over; it is removed",
                 {"task", task_name});
    RETURN_IF_ERROR(RemoveUploadExposure(ctx, env_, task_name,
                                         fresh->Label(objects::kMoverVeleroNamespaceLabel)));
  }
  return later;
}

k8s::WatchedObjects GroupMemberContents() {
  return {.type = objects::VolumeSnapshotContent::Type(),
          .label_selector = objects::kMovedGroupLabel};
}

absl::StatusOr<absl::Time> GroupReconciler::ReconcileOne(
    const CallContext& ctx, const objects::VolumeSnapshotContent& content) {
  if (content.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  RETURN_IF_ERROR(
      csi::FinalizeMovedGroup(ctx, CsiEnvironmentOf(ctx, env_, env_.mover_namespace), content));
  return ctx.clock->Now() + kGroupReconciledEvery;
}

}  // namespace csidelta::datamover
