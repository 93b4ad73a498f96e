#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "datamover/ended_pods.h"
#include "datamover/mover_environment.h"
#include "datamover/running_workers.h"
#include "datamover/transfer_scheduler.h"
#include "k8s/object_cache.h"
#include "k8s/reconcile_loop.h"
#include "objects/event_handler.h"
#include "objects/object.h"
#include "objects/workload.h"

namespace csidelta::datamover {

// The callbacks to call when an object of a task has changed, by task name. Thread-safe.
class EnqueueTable {
 public:
  // `on_left`: called for each task name that is not registered any more, without a lock; it may be
  // empty. Until then the objects of that name were left to the registered callback, and would be
  // reconciled only after kLeftoversEvery.
  explicit EnqueueTable(std::function<void(const std::string& task_name)> on_left = {})
      : on_removed_(std::move(on_left)) {}

  void Put(const std::string& task_name, std::function<void()> wake);
  void Remove(const std::string& task_name);
  // False if no callback is registered.
  bool Enqueue(const std::string& task_name) const;
  // Whether a callback is registered.
  bool Has(const std::string& task_name) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::function<void()>> enqueue_table_ ABSL_GUARDED_BY(mutex_);
  const std::function<void(const std::string& task_name)> on_removed_;
};

// Handles objects that bear the name of their task: enqueues the task, but not for changes that
// this process has written, which `cache` knows; it may be null. Borrows both.
template <typename Kind>
class EnqueueingEventHandler : public objects::EventHandler<Kind> {
 public:
  EnqueueingEventHandler(EnqueueTable& enqueue_table, const k8s::ObjectCache* cache)
      : enqueue_table_(enqueue_table), cache_(cache) {}

 protected:
  void OnChanged(const Kind& object) override {
    if (cache_ == nullptr || !cache_->IsOwnWrite(object.key())) {
      enqueue_table_.Enqueue(object.name());
    }
  }
  void OnDeleted(const k8s::ObjectId& id, const Kind* /*last*/) override {
    enqueue_table_.Enqueue(id.name);
  }

 private:
  EnqueueTable& enqueue_table_;
  const k8s::ObjectCache* const cache_;
};

// Handles worker Pods: as above, and records each change, and the Pods that have ended. Borrows
// all.
class PodEventHandler : public EnqueueingEventHandler<objects::Pod> {
 public:
  PodEventHandler(EnqueueTable& enqueue_table, const k8s::ObjectCache* cache, EndedPods& ended,
                  RunningWorkers& running)
      : EnqueueingEventHandler(enqueue_table, cache), ended_(ended), running_(running) {}

 private:
  void OnChanged(const objects::Pod& pod) override;
  void OnDeleted(const k8s::ObjectId& id, const objects::Pod* last) override;

  EndedPods& ended_;
  RunningWorkers& running_;
};

// The objects of one kind that tasks are done for.
struct TaskSubjects {
  std::string kind;  // for TaskNameOf()
  // Whether an object is managed and not over. Called whenever the object has changed.
  std::function<bool(const objects::Object& object)> take;
  // Called when an object that was taken is over, or gone.
  std::function<void(const std::string& uid)> leave;
};

// Handles all objects of one kind in one Velero namespace: those that are taken are registered. To
// be added to the informer before the loop that reconciles them.
class SubjectEventHandler : public objects::EventHandler<objects::Object> {
 public:
  // Borrows the table and the loop.
  SubjectEventHandler(TaskSubjects subjects, EnqueueTable& enqueue_table, k8s::ReconcileLoop& loop)
      : subjects_(std::move(subjects)), enqueue_table_(enqueue_table), loop_(loop) {}

  bool Holds(const k8s::ObjectId& id) const override { return enqueue_table_.Has(TaskOf(id.uid)); }

 private:
  void OnChanged(const objects::Object& object) override;
  void OnDeleted(const k8s::ObjectId& id, const objects::Object* /*last*/) override {
    Forget(id.uid);
  }
  std::string TaskOf(const std::string& uid) const { return TaskNameOf(subjects_.kind, uid); }
  void Forget(const std::string& uid);

  const TaskSubjects subjects_;
  EnqueueTable& enqueue_table_;
  k8s::ReconcileLoop& loop_;
};

// What the scheduler needs of an object; nothing if it is over or not managed.
using TransferReader = std::function<std::optional<QueuedTransfer>(const objects::Object& object)>;

// Objects of transfers: those that are to be moved go into the scheduler, which is borrowed; all
// others leave it.
TaskSubjects TransferSubjects(std::string kind, TransferReader read, TransferScheduler& scheduler);

}  // namespace csidelta::datamover
