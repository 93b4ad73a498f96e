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

// Who is to look again when something of a stem changed. Thread-safe.
class EnqueueTable {
 public:
  // `on_left`: told of each task name that is not registered any more. What bears its name was left
  // to the registered callback until then, and would be looked at again only after kLeftoversEvery.
  // Called without a lock; it may be empty.
  explicit EnqueueTable(std::function<void(const std::string& task_name)> on_left = {})
      : on_removed_(std::move(on_left)) {}

  void Put(const std::string& task_name, std::function<void()> wake);
  void Remove(const std::string& task_name);
  // False when none is registered.
  bool Enqueue(const std::string& task_name) const;
  // Whether one is registered.
  bool Has(const std::string& task_name) const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::function<void()>> enqueue_table_ ABSL_GUARDED_BY(mutex_);
  const std::function<void(const std::string& task_name)> on_removed_;
};

// Objects that bear the name of their task: the registered callback is called, but not for what
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

// Worker Pods: as above, and each change of one is noted, and those that have ended. Borrows all.
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
  // Whether an object is managed and not over; told of it whenever something of it changed.
  std::function<bool(const objects::Object& object)> take;
  // One that was taken is over, or gone.
  std::function<void(const std::string& uid)> leave;
};

// All objects of one kind in one Velero namespace: those that are taken are in the table of tasks.
// To be added to the informer before the loop that moves them.
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

// What an object says to the scheduler; nothing for one that is over, or not managed.
using TransferReader = std::function<std::optional<QueuedTransfer>(const objects::Object& object)>;

// Objects of transfers: the scheduler, which is borrowed, hears of them and of those that are over.
TaskSubjects TransferSubjects(std::string kind, TransferReader read, TransferScheduler& scheduler);

}  // namespace csidelta::datamover
