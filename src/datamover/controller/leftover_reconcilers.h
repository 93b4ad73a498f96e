#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "csi/expose/exposed_snapshot.h"
#include "datamover/mover_environment.h"
#include "datamover/worker/task_watch.h"
#include "k8s/informer.h"
#include "objects/event_handler.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "objects/volume_task.h"

// Reconcilers of the objects that transfers were moved through, so that none is left over.
namespace csidelta::datamover {

// How often unowned objects are looked for.
inline constexpr absl::Duration kLeftoversEvery = absl::Minutes(10);
inline constexpr absl::Duration kUntilSynced = absl::Seconds(2);

// Removes what is left of a task, and the task. The task of a transfer stays until the transfer is
// over or gone. For other tasks the caller must know that they are over.
absl::Status RemoveLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                             const objects::VolumeTask& task);

// Reconciles VolumeTasks: records their progress and enqueues the objects that they serve. A task
// without such an object is removed with all that was made for it. A task whose namespace is not in
// veleroNamespaces any more is logged once and stays: its object cannot be read.
class TaskReconciler : public objects::Reconciler<objects::VolumeTask> {
 public:
  // `is_synced`: whether all objects that tasks are done for are known. Borrows the others.
  TaskReconciler(const MoverEnvironment& env, const EnqueueTable& enqueue_table,
                 std::function<bool()> is_synced)
      : env_(env), enqueue_table_(enqueue_table), is_synced_(std::move(is_synced)) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeTask& task) override;
  void WarnOfUnserved(const objects::VolumeTask& task, const objects::VolumeTaskSpec& spec);

  const MoverEnvironment& env_;
  const EnqueueTable& enqueue_table_;
  const std::function<bool()> is_synced_;
  Mutex mutex_;
  std::set<std::string> warned_ ABSL_GUARDED_BY(mutex_);  // names of tasks; few
};

// The objects of one type that movers make for their transfers. `namespace_name`: of one mover; ""
// for VolumeSnapshotContents, of all movers.
k8s::WatchedObjects MadeForTasks(const k8s::ResourceType& type, const std::string& namespace_name);

// Has backups omit the volume of a PVC of the mover, and deletes it once the PVC is deleted,
// whichever client deletes it (csi/expose/claim_release.h).
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
  csi::ExaminedClaims excluded_;  // their volumes, from backups
};

// Reconciles the VolumeSnapshotContents that exposed volume snapshots. No VolumeTask can own them:
// if a user removes the task, the content stays, and the driver's snapshot with it. A content that
// is not a base, and has neither a task nor a DataUpload under way, is removed with the driver's
// snapshot. Contents of other movers, and of Veleros that are not served here, stay.
class ContentReconciler : public objects::Reconciler<objects::VolumeSnapshotContent> {
 public:
  // `is_synced`: whether all DataUploads are known. Borrows the others.
  ContentReconciler(const MoverEnvironment& env, const EnqueueTable& enqueue_table,
                    std::function<bool()> is_synced)
      : env_(env), enqueue_table_(enqueue_table), is_synced_(std::move(is_synced)) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::VolumeSnapshotContent& content) override;
  bool IsConcerned(const objects::VolumeSnapshotContent& content) const override {
    return IsManagedAndRemovable(content);
  }
  // Whether this mover made the content, and does not need it once its DataUpload is over.
  bool IsManagedAndRemovable(const objects::VolumeSnapshotContent& content) const;

  const MoverEnvironment& env_;
  const EnqueueTable& enqueue_table_;
  const std::function<bool()> is_synced_;
};

// How often a member is reconciled without a change, so that failures are retried.
inline constexpr absl::Duration kGroupReconciledEvery = absl::Minutes(10);

// The VolumeSnapshotContents of members of moved volume groups (csi/group/moved_group.h).
k8s::WatchedObjects GroupMemberContents();

// Deletes volume groups as groups: when no member's snapshot is needed any more, and when a newer
// group of the same label was moved.
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
