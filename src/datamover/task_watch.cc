#include "datamover/task_watch.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "k8s/object.h"

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

void WakingFollower::OnPage(const std::vector<Json>& objects, bool /*is_first*/) {
  for (const Json& object : objects) {
    wakes_.Wake(k8s::Name(object));
  }
}

void WakingFollower::OnEvent(const k8s::WatchEvent& event) {
  const Json& object = event.object;
  const bool is_own = event.kind != k8s::WatchEvent::Kind::kDeleted && cache_ != nullptr &&
                      cache_->IsOwnWrite({type_, k8s::Namespace(object), k8s::Name(object)});
  if (!is_own) {
    wakes_.Wake(k8s::Name(object));
  }
}

void PodFollower::Note(const Json& pod) {
  ended_.Note(pod);
  running_.NotePod(pod);
}

void PodFollower::OnPage(const std::vector<Json>& objects, bool is_first) {
  if (is_first) {
    listed_.clear();
  }
  for (const Json& pod : objects) {
    Note(pod);
    listed_.insert(k8s::Name(pod));
  }
  WakingFollower::OnPage(objects, is_first);
}

// Those that went while nothing was watched are told of by nothing else.
void PodFollower::OnListed() { running_.NotePods(std::exchange(listed_, {})); }

void PodFollower::OnEvent(const k8s::WatchEvent& event) {
  Note(event.object);
  WakingFollower::OnEvent(event);
}

void SubjectFollower::OnPage(const std::vector<Json>& objects, bool is_first) {
  if (is_first) {
    listed_.clear();
  }
  for (const Json& object : objects) {
    if (Note(object)) {
      listed_.insert(k8s::Uid(object));
    }
  }
  loop_.OnPage(objects, is_first);
}

void SubjectFollower::OnListed() {
  std::vector<std::string> gone;
  absl::c_set_difference(uids_, std::exchange(listed_, {}), std::back_inserter(gone));
  for (const std::string& uid : gone) {
    Forget(uid);
  }
  loop_.OnListed();
}

void SubjectFollower::OnEvent(const k8s::WatchEvent& event) {
  if (event.kind == k8s::WatchEvent::Kind::kDeleted || !Note(event.object)) {
    Forget(k8s::Uid(event.object));
  }
  loop_.OnEvent(event);
}

bool SubjectFollower::Note(const Json& object) {
  if (!Take(object)) {
    return false;
  }
  if (uids_.insert(k8s::Uid(object)).second) {
    wakes_.Put(StemOf(kind_, k8s::Uid(object)),
               [this, space = k8s::Namespace(object), name = k8s::Name(object)] {
                 loop_.Wake(space, name);
               });
  }
  return true;
}

void SubjectFollower::Forget(const std::string& uid) {
  if (uids_.erase(uid) > 0) {
    wakes_.Remove(StemOf(kind_, uid));
    Leave(uid);
  }
}

bool TransferFollower::Take(const Json& object) {
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

absl::StatusOr<absl::Time> TaskReconciler::Reconcile(const CallContext& ctx, const Json& object) {
  const absl::Time later = ctx.clock->Now() + kLeftoversEvery;
  env_.running->NoteTask(object);
  if (wakes_.Wake(k8s::Name(object))) {
    return later;
  }
  if (!is_synced_()) {
    return ctx.clock->Now() + kUntilSynced;
  }
  ASSIGN_OR_RETURN(const VolumeTaskSpec spec, TaskSpecOf(object));
  if (const auto remover = removers_.find(spec.kind); remover != removers_.end()) {
    RETURN_IF_ERROR(remover->second(ctx, env_, object));
  }
  return later;
}

}  // namespace csidelta::datamover
