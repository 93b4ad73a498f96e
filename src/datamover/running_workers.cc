#include "datamover/running_workers.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::datamover {

void RunningWorkers::BeginReconcile(const std::string& task) {
  const MutexLock lock(mutex_);
  reconciling_.insert(task);
  Entry& entry = entries_[task];
  entry.is_changed = false;
  entry.standing.reconcile_at = -absl::InfiniteDuration();
}

void RunningWorkers::EndReconcile(const std::string& task) {
  const MutexLock lock(mutex_);
  reconciling_.erase(task);
}

bool RunningWorkers::IsReconciling(const std::string& task) const {
  const MutexLock lock(mutex_);
  return reconciling_.contains(task);
}

RunningWorkers::Entry* RunningWorkers::EntryOf(const std::string& task) {
  const auto found = entries_.find(task);
  return found == entries_.end() ? nullptr : &found->second;
}

void RunningWorkers::Runs(const std::string& task, absl::Duration now,
                          absl::Duration reconcile_at) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = EntryOf(task); entry != nullptr) {
    entry->standing.copied_at = now;
    entry->standing.reconcile_at = reconcile_at;
  }
}

void RunningWorkers::Copied(const std::string& task, absl::Duration now) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = EntryOf(task); entry != nullptr) {
    entry->standing.copied_at = now;
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
      now >= found->second.standing.reconcile_at) {
    return std::nullopt;
  }
  return found->second.standing;
}

void RunningWorkers::RecordTask(const objects::VolumeTask& task) {
  const Progress progress{.done_bytes = task.done_bytes(), .total_bytes = task.total_bytes()};
  const std::size_t rest = std::hash<std::string>()(task.WithoutProgress());
  const MutexLock lock(mutex_);
  if (Entry* const entry = EntryOf(task.name()); entry != nullptr) {
    entry->standing.progress = progress;
    entry->is_changed = entry->is_changed || entry->rest != rest;
    entry->rest = rest;
  }
}

void RunningWorkers::RecordPod(const objects::Pod& pod) {
  std::string version = absl::StrCat(pod.uid(), "/", pod.resource_version());
  const MutexLock lock(mutex_);
  if (Entry* const entry = EntryOf(pod.name()); entry != nullptr) {
    entry->is_changed = entry->is_changed || entry->pod != version;
    entry->pod = std::move(version);
  }
}

void RunningWorkers::RecordPodGone(const std::string& task) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = EntryOf(task); entry != nullptr) {
    entry->is_changed = true;
  }
}

}  // namespace csidelta::datamover
