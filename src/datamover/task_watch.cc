#include "datamover/task_watch.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "datamover/download_reconciler.h"
#include "datamover/upload_reconciler.h"
#include "datamover/worker_run.h"
#include "k8s/cached_client.h"
#include "objects/client.h"

namespace csidelta::datamover {

void EnqueueTable::Put(const std::string& task_name, std::function<void()> wake) {
  const MutexLock lock(mutex_);
  enqueue_table_[task_name] = std::move(wake);
}

void EnqueueTable::Remove(const std::string& task_name) {
  {
    const MutexLock lock(mutex_);
    enqueue_table_.erase(task_name);
  }
  if (on_left_) {
    on_left_(task_name);
  }
}

bool EnqueueTable::Enqueue(const std::string& task_name) const {
  const MutexLock lock(mutex_);
  const auto found = enqueue_table_.find(task_name);
  if (found == enqueue_table_.end()) {
    return false;
  }
  found->second();
  return true;
}

bool EnqueueTable::Has(const std::string& task_name) const {
  const MutexLock lock(mutex_);
  return enqueue_table_.contains(task_name);
}

void PodEventHandler::Note(const objects::Pod& pod) {
  ended_.Note(pod);
  running_.NotePod(pod);
}

void PodEventHandler::OnObjects(std::vector<objects::Pod> page, bool is_first) {
  if (is_first) {
    listed_.clear();
  }
  for (const objects::Pod& pod : page) {
    Note(pod);
    listed_.insert(pod.name());
  }
  EnqueueingEventHandler::OnObjects(std::move(page), is_first);
}

// Those that went while nothing was watched are told of by nothing else.
void PodEventHandler::OnListComplete() { running_.NotePods(std::exchange(listed_, {})); }

void PodEventHandler::OnChanged(const objects::Pod& pod) {
  Note(pod);
  EnqueueingEventHandler::OnChanged(pod);
}

void PodEventHandler::OnDeleted(const objects::Pod& pod) {
  Note(pod);
  EnqueueingEventHandler::OnDeleted(pod);
}

void SubjectEventHandler::OnObjects(std::vector<objects::Object> page, bool is_first) {
  if (is_first) {
    listed_.clear();
  }
  for (const objects::Object& object : page) {
    if (Note(object)) {
      listed_.insert(object.uid());
    }
  }
}

void SubjectEventHandler::OnListComplete() {
  std::vector<std::string> gone;
  absl::c_set_difference(uids_, std::exchange(listed_, {}), std::back_inserter(gone));
  for (const std::string& uid : gone) {
    Forget(uid);
  }
}

void SubjectEventHandler::OnChanged(const objects::Object& object) {
  if (!Note(object)) {
    Forget(object.uid());
  }
}

bool SubjectEventHandler::Note(const objects::Object& object) {
  if (!subjects_.take(object)) {
    return false;
  }
  if (uids_.insert(object.uid()).second) {
    enqueue_table_.Put(TaskNameOf(subjects_.kind, object.uid()),
                       [this, space = object.namespace_name(), name = object.name()] {
                         loop_.Enqueue(space, name);
                       });
  }
  return true;
}

void SubjectEventHandler::Forget(const std::string& uid) {
  if (uids_.erase(uid) > 0) {
    enqueue_table_.Remove(TaskNameOf(subjects_.kind, uid));
    subjects_.leave(uid);
  }
}

TaskSubjects TransferSubjects(std::string kind, TransferReader read, TransferScheduler& scheduler) {
  const auto take = [&scheduler, read = std::move(read)](const objects::Object& object) {
    std::optional<QueuedTransfer> transfer = read(object);
    if (!transfer.has_value()) {
      return false;
    }
    scheduler.Put(*std::move(transfer));
    return true;
  };
  return {.kind = std::move(kind), .take = take, .leave = [&scheduler](const std::string& uid) {
            scheduler.Remove(uid);
          }};
}

absl::Status RemoveLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                             const VolumeTask& task) {
  const absl::StatusOr<VolumeTaskSpec> spec = task.spec();
  if (spec.ok() && spec->kind == TaskKind::kUpload) {
    return RemoveUploadLeftovers(ctx, env, task);
  }
  return spec.ok() && spec->kind == TaskKind::kDownload
             ? RemoveDownloadLeftovers(ctx, env, task)
             : WorkerRun(env, task.name()).RemoveWithTask(ctx);
}

absl::StatusOr<absl::Time> TaskReconciler::ReconcileOne(const CallContext& ctx,
                                                        const VolumeTask& task) {
  const absl::Time later = ctx.clock->Now() + kLeftoversEvery;
  env_.running->NoteTask(task);
  if (enqueue_table_.Enqueue(task.name())) {
    return later;
  }
  if (!is_synced_() || env_.running->IsLookedAt(task.name())) {
    return ctx.clock->Now() + kUntilSynced;
  }
  ASSIGN_OR_RETURN(const VolumeTaskSpec spec, task.spec());
  if (!IsServed(env_, spec.subject.namespace_name)) {
    TellUnserved(task, spec);
    return later;
  }
  // Its transfer's last look may have removed it since the watch told of it.
  k8s::CachedReader reader(env_.api, env_.cache);
  ASSIGN_OR_RETURN(const std::optional<VolumeTask> now,
                   objects::Find<VolumeTask>(ctx, reader, task.key()));
  if (!now.has_value()) {
    return absl::InfiniteFuture();
  }
  RETURN_IF_ERROR(RemoveLeftovers(ctx, env_, *now));
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
