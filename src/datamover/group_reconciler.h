#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "k8s/list_watch.h"
#include "objects/reconciler.h"
#include "objects/volume_snapshot.h"

namespace csidelta::datamover {

// How often a member is looked at where nothing changes: what failed is tried again then.
inline constexpr absl::Duration kGroupLookedAtEvery = absl::Minutes(10);

// The VolumeSnapshotContents of members of moved volume groups (csi/moved_group.h).
k8s::WatchedObjects GroupMemberContents();

// Has volume groups go as groups: when no member's snapshot is needed any more, and when a
// newer group of the same label was moved.
class GroupReconciler : public objects::Reconciler<objects::VolumeSnapshotContent> {
 public:
  // Borrows `env`.
  explicit GroupReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  // `content` has the label of moved groups.
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeSnapshotContent& content) override;

  const MoverEnvironment& env_;
};

}  // namespace csidelta::datamover
