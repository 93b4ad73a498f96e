#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/records/volume_records.h"
#include "datamover/worker/deletion_queue.h"
#include "datamover/worker/task_watch.h"
#include "objects/data_deletion.h"
#include "objects/event_handler.h"

namespace csidelta::datamover {

// How long until the next attempt: the longer the longer the trouble lasts.
inline constexpr absl::Duration kDeletionAgainFirst = absl::Minutes(1);
inline constexpr absl::Duration kDeletionAgainMax = absl::Hours(1);
inline constexpr absl::Duration kRetainedAgainFirst = absl::Hours(1);
inline constexpr absl::Duration kRetainedAgainMax = absl::Hours(24);
inline constexpr absl::Duration kLockedAgainFirst = absl::Seconds(15);
inline constexpr absl::Duration kLockedAgainMax = absl::Minutes(10);
inline constexpr absl::Duration kDeletionKeptFor = absl::Hours(24);  // once it is done

// Reconciles DataDeletions:
//
//   New, Waiting --- it leads its repository (DeletionQueue), due -> InProgress
//   InProgress ----- the worker removed the repository snapshots and freed
//       |            the space, or none existed --------------> Completed --- a day --> deleted
//       +----------- anything else: what and when next ----------> Waiting
//   New ------------ its snapshot id is not csi-delta's ----------> Failed
//   InProgress ----- it failed for deletions.giveUpAfter --------> Failed
//   Failed --------- retried by an operator (kRetryAnnotation) --> Waiting
//
// The worker of the leading DataDeletion removes the repository snapshots of all DataDeletions of
// that repository, and the result is written into each. The others cost no request until then,
// whether they wait for the leader or for a worker. The leader's Events report the result.
//
// Only repository snapshots that are named are deleted, with those that a lost worker of the same
// DataUpload stored. The worker takes the repository's lock: it waits for uploads of the same
// volume, and they wait for it, whichever cluster wrote them. An empty repository stays: it has
// some hundred bytes, and the volume's next upload uses it.
//
// A worker that meets a lock ends at once, and another repository has its worker. The lock of a Pod
// that is known to have ended is stale. A lock that several attempts meet, and that is not
// refreshed, is watched by a worker until it is known to be stale.
//
// A task whose DataDeletion is gone is removed by TaskReconciler.
class DeletionReconciler : public objects::Reconciler<objects::DataDeletion> {
 public:
  // Borrows all. `records`: as for UploadReconciler.
  DeletionReconciler(const MoverEnvironment& env, DeletionQueue& queue,
                     const VolumeRecords* records = nullptr)
      : env_(env), queue_(queue), records_(records) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::DataDeletion& deletion) override;
  bool IsConcerned(const objects::DataDeletion& deletion) const override;

  const MoverEnvironment& env_;
  DeletionQueue& queue_;
  const VolumeRecords* const records_;
};

// Selects the DataDeletions that are open, and puts all into `queue`, which is borrowed.
TaskSubjects DeletionSubjects(DeletionQueue& queue);

}  // namespace csidelta::datamover
