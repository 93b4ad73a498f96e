#pragma once

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "datamover/mover_environment.h"
#include "datamover/task_watch.h"
#include "k8s/follow.h"
#include "k8s/reconcile_loop.h"

namespace csidelta::datamover {

// The VolumeSnapshotContents that volume snapshots were exposed through, of all movers.
k8s::FollowedObjects ExposedContents();

// Looks at those. They are the only thing of a stem that no VolumeTask can own: where somebody
// removed the task, the content stays, and the driver's snapshot with it. One that is no base, and
// has neither a task nor a DataUpload that is on its way, is removed with the driver's snapshot.
// Contents of other movers, and of Veleros that nobody follows here, stay.
class ContentReconciler : public k8s::Reconciler {
 public:
  // `is_synced`: whether all DataUploads of `velero_namespaces` are known. Borrows the others.
  ContentReconciler(const MoverEnvironment& env, const WakeTable& wakes,
                    std::set<std::string> velero_namespaces, std::function<bool()> is_synced);

  bool Concerns(const Json& object) const override {
    const auto content = objects::VolumeSnapshotContent::Of(object);
    return content.ok() && IsOursToRemove(*content);
  }
  absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) override;

 private:
  // Whether it is one of ours that nobody needs once its DataUpload is over.
  bool IsOursToRemove(const objects::VolumeSnapshotContent& content) const;

  const MoverEnvironment& env_;
  const WakeTable& wakes_;
  const std::set<std::string> velero_namespaces_;
  const std::function<bool()> is_synced_;
};

}  // namespace csidelta::datamover
