#include "datamover/worker/task_watch.h"

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
  if (on_removed_) {
    on_removed_(task_name);
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
  ended_.Record(pod);
  running_.RecordPod(pod);
  EnqueueingEventHandler::OnChanged(pod);
}

void PodEventHandler::OnDeleted(const k8s::ObjectId& id, const objects::Pod* last) {
  if (last != nullptr) {
    ended_.Record(*last);
  }
  running_.RecordPodGone(id.name);
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

}  // namespace csidelta::datamover
