#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "objects/volume_task.h"
#include "objects/workload.h"

namespace csidelta::datamover {

// How often a transfer whose worker runs is fully reconciled without a change.
inline constexpr absl::Duration kRunningReconciledEvery = absl::Seconds(60);
// Progress is copied at most this often, however often a worker reports.
inline constexpr absl::Duration kProgressCopiedEvery = absl::Seconds(5);

// The state of running workers, as the watches deliver it, so that their progress is copied without
// a request to the API server:
//
//   BeginReconcile() --Runs()--> only progress matters --its Pod, or more of its task than the progress,
//       ^                                         |  changed; or the time has come
//       +-----------------------------------------+
//
// Entries are by the name of the task, and kept from BeginReconcile() to Remove(). Changes between
// BeginReconcile() and Runs() count, since the reconcile may not have seen them. Times are those of
// Clock::Uptime(). Thread-safe.
class RunningWorkers {
 public:
  struct Progress {
    int64_t done_bytes = 0;
    int64_t total_bytes = 0;  // 0: not known

    friend bool operator==(const Progress&, const Progress&) = default;
  };
  struct Standing {
    std::optional<Progress> progress = {};  // as reported last; nothing: not yet
    absl::Duration copied_at = -absl::InfiniteDuration();
    absl::Duration reconcile_at = -absl::InfiniteDuration();
  };

  // A full reconcile of the transfer begins, and ends with EndReconcile(). By one thread at a time.
  void BeginReconcile(const std::string& task);
  void EndReconcile(const std::string& task);
  // Whether it is between the two: then nothing of it is left over.
  bool IsReconciling(const std::string& task) const;
  // The reconcile found a running worker, and copied its progress. The next one is due at
  // `reconcile_at`.
  void Runs(const std::string& task, absl::Duration now, absl::Duration reconcile_at);
  // Its progress was copied.
  void Copied(const std::string& task, absl::Duration now);
  void Remove(const std::string& task);

  // The state, if only progress matters; nothing if a full reconcile is due.
  std::optional<Standing> Find(const std::string& task, absl::Duration now) const;

  // A VolumeTask as it is now.
  void RecordTask(const objects::VolumeTask& task);
  // The Pod of a task as it is now.
  void RecordPod(const objects::Pod& pod);
  // It is gone.
  void RecordPodGone(const std::string& task);

 private:
  struct Entry {
    Standing standing = {};
    bool is_changed = false;
    std::size_t rest = 0;  // of the task, all but its progress: a hash
    std::string pod = {};  // uid and version; "" when none was seen
  };

  // Null if there is none.
  Entry* EntryOf(const std::string& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> reconciling_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::datamover
