#include "datamover/task_watch.h"

#include <optional>
#include <utility>

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

void PodEventHandler::OnChanged(const objects::Pod& pod) {
  ended_.Note(pod);
  running_.NotePod(pod);
  EnqueueingEventHandler::OnChanged(pod);
}

void PodEventHandler::OnDeleted(const k8s::ObjectId& id, const objects::Pod* last) {
  if (last != nullptr) {
    ended_.Note(*last);
  }
  running_.NotePodGone(id.name);
  EnqueueingEventHandler::OnDeleted(id, last);
}

void SubjectEventHandler::OnChanged(const objects::Object& object) {
  const std::string uid = object.uid();
  if (!subjects_.take(object)) {
    Forget(uid);
  } else if (!enqueue_table_.Has(TaskOf(uid))) {
    enqueue_table_.Put(TaskOf(uid), [this, space = object.namespace_name(), name = object.name()] {
      loop_.Enqueue(space, name);
    });
  }
}

void SubjectEventHandler::Forget(const std::string& uid) {
  if (enqueue_table_.Has(TaskOf(uid))) {
    enqueue_table_.Remove(TaskOf(uid));
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
                             const objects::VolumeTask& task) {
  const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
  if (spec.ok() && spec->kind == objects::TaskKind::kUpload) {
    return RemoveUploadLeftovers(ctx, env, task);
  }
  return spec.ok() && spec->kind == objects::TaskKind::kDownload
             ? RemoveDownloadLeftovers(ctx, env, task)
             : WorkerRun(env, task.name()).RemoveWithTask(ctx);
}

absl::StatusOr<absl::Time> TaskReconciler::ReconcileOne(const CallContext& ctx,
                                                        const objects::VolumeTask& task) {
  const absl::Time later = ctx.clock->Now() + kLeftoversEvery;
  env_.running->NoteTask(task);
  if (enqueue_table_.Enqueue(task.name())) {
    return later;
  }
  if (!is_synced_() || env_.running->IsLookedAt(task.name())) {
    return ctx.clock->Now() + kUntilSynced;
  }
  ASSIGN_OR_RETURN(const objects::VolumeTaskSpec spec, task.spec());
  if (!IsServed(env_, spec.subject.namespace_name)) {
    TellUnserved(task, spec);
    return later;
  }
  // Its transfer's last look may have removed it since the watch told of it.
  k8s::CachedReader reader(env_.api, env_.cache);
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> now,
                   objects::Find<objects::VolumeTask>(ctx, reader, task.key()));
  if (!now.has_value()) {
    return absl::InfiniteFuture();
  }
  RETURN_IF_ERROR(RemoveLeftovers(ctx, env_, *now));
  return later;
}

void TaskReconciler::TellUnserved(const objects::VolumeTask& task,
                                  const objects::VolumeTaskSpec& spec) {
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
