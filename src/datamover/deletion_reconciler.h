#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/task_watch.h"
#include "k8s/reconcile_loop.h"
#include "objects/data_deletion.h"
#include "objects/reconciler.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

inline constexpr int kDeletionsMax = 2;  // workers at once
// How long until the next attempt: the longer the longer the trouble lasts.
inline constexpr absl::Duration kDeletionAgainFirst = absl::Minutes(1);
inline constexpr absl::Duration kDeletionAgainMax = absl::Hours(1);
inline constexpr absl::Duration kRetainedAgainFirst = absl::Hours(1);
inline constexpr absl::Duration kRetainedAgainMax = absl::Hours(24);
inline constexpr absl::Duration kLockedAgainFirst = absl::Seconds(15);
inline constexpr absl::Duration kLockedAgainMax = absl::Minutes(10);
// What a worker stored that was given up may wait: meanwhile it comes to its end.
inline constexpr absl::Duration kUnnamedDeletionAfter = absl::Minutes(30);
inline constexpr absl::Duration kDeletionKeptFor = absl::Hours(24);  // once it is done

// Moves DataDeletions to where they should be:
//
//   New, Waiting --- its time came, and few enough run ----------> InProgress
//   InProgress ----- the worker forgot the snapshot and freed
//       |            the space, or there was nothing to forget --> Completed --- a day --> deleted
//       +----------- anything else: what and when next ----------> Waiting
//   New ------------ what it names can be nothing of ours -------> Failed
//
// Only the snapshot that is named goes: the worker takes the repository's lock, so it waits for
// uploads of the same volume, as they wait for it, and it is no matter which cluster wrote it. An
// empty repository stays: some hundred bytes, which the next upload of the volume uses.
//
// A worker that meets a lock ends at once and leaves its place to others; the next one looks again.
// The lock of a Pod that is known to have ended counts as dead. One that attempts meet again and
// again without that anybody refreshes it is watched by a worker until that is known.
//
// Nothing is kept between two calls. A task whose DataDeletion is gone is removed by who looks
// after tasks.
class DeletionReconciler : public objects::Reconciler<objects::DataDeletion> {
 public:
  // Borrows `env`.
  explicit DeletionReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::DataDeletion& deletion) override;

  const MoverEnvironment& env_;
};

// All DataDeletions of one Velero namespace.
class DeletionFollower : public SubjectFollower {
 public:
  // Borrows both.
  DeletionFollower(WakeTable& wakes, k8s::ReconcileLoop& loop);

 private:
  bool Take(const objects::Object& object) override;
};

// Removes the task of a DataDeletion that nobody follows any more, and its Pod.
absl::Status RemoveDeletionLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                     const objects::VolumeTask& task);

}  // namespace csidelta::datamover
