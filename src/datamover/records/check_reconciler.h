#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "datamover/mover_environment.h"
#include "datamover/worker/task_watch.h"
#include "datamover/worker/worker_queue.h"
#include "objects/event_handler.h"
#include "objects/protected_volume.h"

namespace csidelta::datamover {

inline constexpr absl::Duration kCheckEvery = absl::Hours(24);  // one repository
// A check that is overdue by this much waits for no transfer: if transfers always waited, none
// would be made. One at a time, so that it takes one admission at most.
inline constexpr absl::Duration kCheckOverdue = absl::Hours(72);
// The pause after a check that could not be made: a lock that is held, a bucket that does not
// answer.
inline constexpr absl::Duration kCheckLockedAgain = absl::Minutes(15);
inline constexpr absl::Duration kCheckAgainFirst = absl::Hours(1);
inline constexpr absl::Duration kCheckAgainMax = absl::Hours(12);
// Data written this long before a check began counts as new to the next one. The clocks of bucket
// and cluster differ, and an upload lists its packs some time after it wrote them.
inline constexpr absl::Duration kCheckOverlap = absl::Hours(1);
// A younger repository snapshot is never called orphaned: its Backup may be under way, or may not
// have been read from the bucket yet.
inline constexpr absl::Duration kOrphanedAfter = absl::Hours(48);

// When the repository of a volume is to be checked next; nothing without a good backup. First
// checks are spread over the record's first day by its uid. Pure.
std::optional<absl::Time> CheckDueAt(const objects::ProtectedVolume& volume);

// The queue of checks that are due. The repository that was verified the longest ago is first. All
// of it is in memory only. Thread-safe.
class CheckQueue {
 public:
  // `enqueue`: called with the task name of the check that is now first; must not call back.
  explicit CheckQueue(std::function<void(const std::string& task)> enqueue)
      : enqueue_(std::move(enqueue)) {}

  // Whether the check of `task`, due since `since`, is the first, and fewer than `workers` run.
  bool IsFirst(const std::string& task, absl::Time since, int workers);
  void RecordRunning(const std::string& task);
  // The check neither waits nor runs any more.
  void Leave(const std::string& task);

  // The check could not be made. The next attempt is `first` later, and twice as late after each
  // further failure. Returns its time.
  absl::Time Postpone(const std::string& task, absl::Time now, absl::Duration first);
  std::optional<absl::Time> PostponedUntil(const std::string& task) const;
  void EndPostponing(const std::string& task);

 private:
  struct Postponed {
    absl::Time until;
    int failures = 0;  // in a row
  };

  const std::function<void(const std::string& task)> enqueue_;
  mutable Mutex mutex_;
  WorkerQueue workers_ ABSL_GUARDED_BY(mutex_);  // of tasks, that wait since they are due
  std::map<std::string, Postponed> postponed_ ABSL_GUARDED_BY(mutex_);
};

// Verifies the repositories of ProtectedVolumes, one part of their data a day, new data first:
//
//   due ---- it is the first, few enough run, and no transfer waits ---> a VolumeTask of type Check
//   overdue  it is the first, and no other check runs -----------------> the same
//   task --- its worker ended ---> status.verification, an Event where something is wrong
//
// The lock is shared, so uploads continue. A repository whose lock a deletion holds is checked
// later. After a finding the same part is read again until nothing is wrong with it. Until then the
// record names what uploads must not rely on.
//
// Borrows all.
class CheckReconciler : public objects::Reconciler<objects::ProtectedVolume> {
 public:
  // `may_begin`: whether all transfers are known and none waits for an admission.
  CheckReconciler(const MoverEnvironment& env, CheckQueue& queue, std::function<bool()> may_begin)
      : env_(env), queue_(queue), may_begin_(std::move(may_begin)) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::ProtectedVolume& volume) override;
  void ReduceOne(objects::ProtectedVolume& volume) const override { volume.ReduceToChecks(); }

  const MoverEnvironment& env_;
  CheckQueue& queue_;
  const std::function<bool()> may_begin_;
};

// Selects the ProtectedVolumes that are to be checked; all others leave `queue`. Borrows both.
TaskSubjects CheckSubjects(const CheckSettings& settings, CheckQueue& queue);

}  // namespace csidelta::datamover
