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

// How often a transfer whose worker runs is looked at as a whole though nothing of it changes.
inline constexpr absl::Duration kRunningReconciledEvery = absl::Seconds(60);
// Progress is copied at most so often, whatever a worker reports.
inline constexpr absl::Duration kProgressCopiedEvery = absl::Seconds(5);

// What the watches tell of workers that run, so that their progress is copied without a question to
// the API server:
//
//   BeginReconcile() --Runs()--> only progress matters --its Pod, or more of its task than the progress,
//       ^                                         |  changed; or the time has come
//       +-----------------------------------------+
//
// Entries are by the name of the task, and kept from BeginReconcile() to Remove(). What a watch
// tells between BeginReconcile() and Runs() counts as a change, for the look may not have seen it.
// Times are those of Clock::Uptime(). Thread-safe.
class RunningWorkers {
 public:
  struct Progress {
    int64_t done_bytes = 0;
    int64_t total_bytes = 0;  // 0: not known

    friend bool operator==(const Progress&, const Progress&) = default;
  };
  struct Standing {
    std::optional<Progress> progress = {};  // as the worker told it last; nothing: not heard yet
    absl::Duration copied_at = -absl::InfiniteDuration();
    absl::Duration reconcile_at = -absl::InfiniteDuration();
  };

  // A transfer is looked at as a whole from now on, until EndReconcile(). By one thread at a time.
  void BeginReconcile(const std::string& task);
  void EndReconcile(const std::string& task);
  // Whether it is between the two: what is left of it then is not left over.
  bool IsReconciling(const std::string& task) const;
  // That look found a worker that runs, and copied its progress; the next one is due at
  // `reconcile_at`.
  void Runs(const std::string& task, absl::Duration now, absl::Duration reconcile_at);
  // Its progress was copied.
  void Copied(const std::string& task, absl::Duration now);
  void Remove(const std::string& task);

  // Where only progress matters: what is known. Nothing: the transfer is to be looked at.
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
