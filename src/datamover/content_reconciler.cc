#include "datamover/content_reconciler.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/moved_group.h"
#include "datamover/upload_reconciler.h"
#include "datamover/volume_task.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::datamover {

k8s::WatchedObjects ExposedContents() {
  return {.type = objects::VolumeSnapshotContent::Type(),
          .namespace_name = "",
          .label_selector = objects::kMoverTaskLabel};
}

ContentReconciler::ContentReconciler(const MoverEnvironment& env, const EnqueueTable& enqueue_table,
                                     std::set<std::string> velero_namespaces,
                                     std::function<bool()> is_synced)
    : env_(env),
      enqueue_table_(enqueue_table),
      velero_namespaces_(std::move(velero_namespaces)),
      is_synced_(std::move(is_synced)) {}

bool ContentReconciler::IsManagedAndRemovable(const objects::VolumeSnapshotContent& content) const {
  return content.Label(objects::kMoverTaskLabel) == content.name() &&
         content.snapshot_namespace() == env_.mover_namespace &&
         velero_namespaces_.contains(content.Label(objects::kMoverVeleroNamespaceLabel)) &&
         content.Label(objects::kBaseLabel) != "true" && !csi::IsReleased(content) &&
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
  ASSIGN_OR_RETURN(const auto task,
                   objects::Find<objects::VolumeTask>(
                       ctx, env_.api, objects::VolumeTask::Key(env_.mover_namespace, task_name)));
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

}  // namespace csidelta::datamover
