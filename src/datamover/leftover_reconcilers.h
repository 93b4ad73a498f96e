#pragma once

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/task_watch.h"
#include "k8s/informer.h"
#include "objects/persistent_volume_claim.h"
#include "objects/reconciler.h"
#include "objects/volume_snapshot.h"

// What the objects that transfers were moved through need, so that nothing of them is left.
namespace csidelta::datamover {

// The objects of one type that movers make for their transfers. `namespace_name`: of one mover; ""
// for VolumeSnapshotContents, of all movers.
k8s::WatchedObjects MadeForTasks(const k8s::ResourceType& type, const std::string& namespace_name);

// Has the volume of a PVC of the mover go with it (csi/claim_release.h), whichever client deleted
// the PVC.
class ClaimReconciler : public objects::Reconciler<objects::PersistentVolumeClaim> {
 public:
  // Borrows `env`.
  explicit ClaimReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::PersistentVolumeClaim& claim) override;
  bool IsConcerned(const objects::PersistentVolumeClaim& claim) const override;
  void ReduceOne(objects::PersistentVolumeClaim& claim) const override {
    claim.RemoveManagedFields();
  }

  const MoverEnvironment& env_;
};

// Looks at the VolumeSnapshotContents that volume snapshots were exposed through. They are the only
// thing of a task that no VolumeTask can own: where a user removed the task, the content stays, and
// the driver's snapshot with it. One that is no base, and has neither a task nor a DataUpload that
// is on its way, is removed with the driver's snapshot. Contents of other movers, and of Veleros
// that are not watched here, stay.
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
