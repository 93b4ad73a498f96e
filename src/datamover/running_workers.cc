#include "datamover/running_workers.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace csidelta::datamover {

void RunningWorkers::BeginReconcile(const std::string& task) {
  const MutexLock lock(mutex_);
  looked_at_.insert(task);
  Entry& entry = entries_[task];
  entry.is_changed = false;
  entry.standing.next_look = -absl::InfiniteDuration();
}

void RunningWorkers::EndReconcile(const std::string& task) {
  const MutexLock lock(mutex_);
  looked_at_.erase(task);
}

bool RunningWorkers::IsReconciling(const std::string& task) const {
  const MutexLock lock(mutex_);
  return looked_at_.contains(task);
}

void RunningWorkers::Runs(const std::string& task, absl::Duration now, absl::Duration next_look) {
  const MutexLock lock(mutex_);
  if (const auto found = entries_.find(task); found != entries_.end()) {
    found->second.standing.copied_at = now;
    found->second.standing.next_look = next_look;
  }
}

void RunningWorkers::Copied(const std::string& task, absl::Duration now) {
  const MutexLock lock(mutex_);
  if (const auto found = entries_.find(task); found != entries_.end()) {
    found->second.standing.copied_at = now;
  }
}

void RunningWorkers::Remove(const std::string& task) {
  const MutexLock lock(mutex_);
  entries_.erase(task);
}

std::optional<RunningWorkers::Standing> RunningWorkers::Find(const std::string& task,
                                                             absl::Duration now) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(task);
  if (found == entries_.end() || found->second.is_changed ||
      now >= found->second.standing.next_look) {
    return std::nullopt;
  }
  return found->second.standing;
}

void RunningWorkers::RecordTask(const objects::VolumeTask& task) {
  const Progress progress{.done_bytes = task.done_bytes(), .total_bytes = task.total_bytes()};
  const std::size_t rest = std::hash<std::string>()(task.WithoutProgress());
  const MutexLock lock(mutex_);
  if (const auto found = entries_.find(task.name()); found != entries_.end()) {
    found->second.standing.progress = progress;
    found->second.is_changed = found->second.is_changed || found->second.rest != rest;
    found->second.rest = rest;
  }
}

void RunningWorkers::RecordPod(const objects::Pod& pod) {
  std::string version = absl::StrCat(pod.uid(), "/", pod.resource_version());
  const MutexLock lock(mutex_);
  if (const auto found = entries_.find(pod.name()); found != entries_.end()) {
    found->second.is_changed = found->second.is_changed || found->second.pod != version;
    found->second.pod = std::move(version);
  }
}

void RunningWorkers::NotePodGone(const std::string& task) {
  const MutexLock lock(mutex_);
  if (const auto found = entries_.find(task); found != entries_.end()) {
    found->second.is_changed = true;
  }
}

}  // namespace csidelta::datamover
