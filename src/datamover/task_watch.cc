#include "datamover/task_watch.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace csidelta::datamover {

void WakeTable::Put(const std::string& stem, std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wakes_[stem] = std::move(wake);
}

void WakeTable::Remove(const std::string& stem) {
  {
    const MutexLock lock(mutex_);
    wakes_.erase(stem);
  }
  if (on_left_) {
    on_left_(stem);
  }
}

bool WakeTable::Wake(const std::string& stem) const {
  const MutexLock lock(mutex_);
  const auto found = wakes_.find(stem);
  if (found == wakes_.end()) {
    return false;
  }
  found->second();
  return true;
}

bool WakeTable::Has(const std::string& stem) const {
  const MutexLock lock(mutex_);
  return wakes_.contains(stem);
}

void PodFollower::Note(const objects::Pod& pod) {
  ended_.Note(pod);
  running_.NotePod(pod);
}

void PodFollower::OnObjects(std::vector<objects::Pod> page, bool is_first) {
  if (is_first) {
    listed_.clear();
  }
  for (const objects::Pod& pod : page) {
    Note(pod);
    listed_.insert(pod.name());
  }
  WakingFollower::OnObjects(std::move(page), is_first);
}

// Those that went while nothing was watched are told of by nothing else.
void PodFollower::OnListComplete() { running_.NotePods(std::exchange(listed_, {})); }

void PodFollower::OnChanged(const objects::Pod& pod) {
  Note(pod);
  WakingFollower::OnChanged(pod);
}

void PodFollower::OnDeleted(const objects::Pod& pod) {
  Note(pod);
  WakingFollower::OnDeleted(pod);
}

void SubjectFollower::OnObjects(std::vector<objects::Object> page, bool is_first) {
  if (is_first) {
    listed_.clear();
  }
  for (const objects::Object& object : page) {
    if (Note(object)) {
      listed_.insert(object.uid());
    }
  }
}

void SubjectFollower::OnListComplete() {
  std::vector<std::string> gone;
  absl::c_set_difference(uids_, std::exchange(listed_, {}), std::back_inserter(gone));
  for (const std::string& uid : gone) {
    Forget(uid);
  }
}

void SubjectFollower::OnChanged(const objects::Object& object) {
  if (!Note(object)) {
    Forget(object.uid());
  }
}

bool SubjectFollower::Note(const objects::Object& object) {
  if (!Take(object)) {
    return false;
  }
  if (uids_.insert(object.uid()).second) {
    wakes_.Put(StemOf(kind_, object.uid()), [this, space = object.namespace_name(),
                                             name = object.name()] { loop_.Wake(space, name); });
  }
  return true;
}

void SubjectFollower::Forget(const std::string& uid) {
  if (uids_.erase(uid) > 0) {
    wakes_.Remove(StemOf(kind_, uid));
    Leave(uid);
  }
}

bool TransferFollower::Take(const objects::Object& object) {
  std::optional<QueuedTransfer> transfer = read_(object);
  if (!transfer.has_value()) {
    return false;
  }
  scheduler_.Put(*std::move(transfer));
  return true;
}

void TransferFollower::Leave(const std::string& uid) { scheduler_.Remove(uid); }

TaskReconciler::TaskReconciler(const MoverEnvironment& env, const WakeTable& wakes,
                               std::function<bool()> is_synced,
                               std::map<TaskKind, Remover> removers)
    : env_(env), wakes_(wakes), is_synced_(std::move(is_synced)), removers_(std::move(removers)) {}

absl::StatusOr<absl::Time> TaskReconciler::ReconcileOne(const CallContext& ctx,
                                                        const VolumeTask& task) {
  const absl::Time later = ctx.clock->Now() + kLeftoversEvery;
  env_.running->NoteTask(task);
  if (wakes_.Wake(task.name())) {
    return later;
  }
  if (!is_synced_()) {
    return ctx.clock->Now() + kUntilSynced;
  }
  ASSIGN_OR_RETURN(const VolumeTaskSpec spec, task.spec());
  if (!IsServed(env_, spec.subject.namespace_name)) {
    TellUnserved(task, spec);
    return later;
  }
  if (const auto remover = removers_.find(spec.kind); remover != removers_.end()) {
    RETURN_IF_ERROR(remover->second(ctx, env_, task));
  }
  return later;
}

void TaskReconciler::TellUnserved(const VolumeTask& task, const VolumeTaskSpec& spec) {
  {
    const MutexLock lock(mutex_);
    if (!told_.insert(task.name()).second) {
      return;
    }
  }
  CSIDELTA_LOG(
      kWarn,
      "a task stays: its namespace is not in veleroNamespaces any more; serve it again, or "
      "see docs/operations.md",
      {"task", task.name()}, {"kind", spec.subject.kind},
      {"namespace", spec.subject.namespace_name}, {"name", spec.subject.name});
}

}  // namespace csidelta::datamover
