#pragma once

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/task_watch.h"
#include "k8s/list_watch.h"
#include "objects/reconciler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::datamover {

// The VolumeSnapshotContents that volume snapshots were exposed through, of all movers.
k8s::WatchedObjects ExposedContents();

// Looks at those. They are the only thing of a stem that no VolumeTask can own: where a user
// removed the task, the content stays, and the driver's snapshot with it. One that is no base, and
// has neither a task nor a DataUpload that is on its way, is removed with the driver's snapshot.
// Contents of other movers, and of Veleros that are not watched here, stay.
class ContentReconciler : public objects::Reconciler<objects::VolumeSnapshotContent> {
 public:
  // `is_synced`: whether all DataUploads of `velero_namespaces` are known. Borrows the others.
  ContentReconciler(const MoverEnvironment& env, const EnqueueTable& enqueue_table,
                    std::set<std::string> velero_namespaces, std::function<bool()> is_synced);

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeSnapshotContent& content) override;
  bool IsConcerned(const objects::VolumeSnapshotContent& content) const override {
    return IsManagedAndRemovable(content);
  }
  // Whether it is a managed one that is not needed once its DataUpload is over.
  bool IsManagedAndRemovable(const objects::VolumeSnapshotContent& content) const;

  const MoverEnvironment& env_;
  const EnqueueTable& enqueue_table_;
  const std::set<std::string> velero_namespaces_;
  const std::function<bool()> is_synced_;
};

}  // namespace csidelta::datamover
