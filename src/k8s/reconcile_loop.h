#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "k8s/object_cache.h"

namespace csidelta::k8s {

// The objects that are due, or will be, fair between namespaces. Among namespaces with a due
// object, the one that was served longest ago is next. In it, the object that has been due for the
// longest is next. One that makes many objects delays its own alone. Times are those of
// Clock::Uptime(). Not thread-safe.
class WorkQueue {
 public:
  using Key = std::pair<std::string, std::string>;  // namespace, name

  // `sequence` orders those that are due at the same time; Remove() takes the same three.
  void Add(const Key& key, absl::Duration due, uint64_t sequence);
  void Remove(const Key& key, absl::Duration due, uint64_t sequence);

  bool HasDue(absl::Duration now) const;
  // The next one, which stays, and whose namespace counts as served. Nothing when none is due.
  std::optional<Key> Next(absl::Duration now);
  // Calls `note` with since when it is due, for each that is.
  void ForEachDue(absl::Duration now, absl::FunctionRef<void(absl::Duration due)> note) const;

 private:
  struct Waiting {
    std::set<std::tuple<absl::Duration, uint64_t, std::string>> objects;  // Never empty.
    uint64_t round = 0;  // Of rounds_, when it was served last, or began to wait.
  };

  std::map<std::string, Waiting> namespaces_;  // Those that have an object.
  uint64_t rounds_ = 0;
};

// What one reconcile may take.
inline constexpr absl::Duration kReconcileTimeMax = absl::Seconds(30);
// After an error: the longer the more often in a row. After a change by another, which is no error.
inline constexpr absl::Duration kReconcileAgainFirst = absl::Seconds(2);
inline constexpr absl::Duration kReconcileAgainMax = absl::Seconds(30);
inline constexpr absl::Duration kReconcileAgainAfterChange = absl::Milliseconds(100);
// How many objects of one kind are reconciled at once, where their reconciler allows it.
inline constexpr int kConcurrentReconciles = 4;

// Reconciles the objects of one kind. Thread-safe: different objects are reconciled at once, one
// object never is.
class Reconciler {
 public:
  virtual ~Reconciler() = default;

  // One step for `object` as it was seen last. Returns when to reconcile it again if it does not
  // change; InfiniteFuture: never. After an error it is reconciled again soon, in its state then.
  // ABORTED means that it changed meanwhile, and is not an error.
  virtual absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) = 0;

  // Whether an object in this state may need a reconcile. A finished object needs none, and is not
  // held until it changes: there may be very many.
  virtual bool Concerns(const Json& /*object*/) const { return true; }

  // Removes the fields that neither Reconcile() nor Concerns() reads.
  virtual void Reduce(Json& /*object*/) const {}
};

// Figures of a loop since it was made, and of its queue now.
struct QueueFigures {
  int64_t due = 0;  // objects that wait for their reconcile
  absl::Duration oldest_wait = absl::ZeroDuration();
  int64_t reconciles = 0;
  absl::Duration reconcile_time = absl::ZeroDuration();  // of all together
  int64_t retries = 0;                                   // after an error

  QueueFigures& operator+=(const QueueFigures& other);
};

// The objects of one kind as the API server reports them, and the queue of those that are due. An
// object is due once it changed, its time came, or it was enqueued. The object that has been due
// for the longest is next, with namespaces in rounds (WorkQueue). Several are reconciled at once,
// so that a slow one does not delay the others.
//
// Every replica follows; the one that leads also works, once it knows all that there are. If it
// stops leading, its reconciles are stopped within kLeadCheckedEvery, long before another process
// may lead (k8s/leader_lease.h). Their objects are due again if this one leads again.
//
// With a cache of the same objects, the cache holds them. A change by this process does not make
// them due then, because its reconcile returned when to do so. All writes of these objects must
// then be conditional on their version. Else they are held here, as text, which takes a fifth of
// the memory. Times are those of Clock::Uptime(): setting the clock does not hold the queue up.
// Thread-safe.
class ReconcileLoop : public ObjectEventHandler {
 public:
  // How often it is asked whether this process still leads.
  static constexpr absl::Duration kLeadCheckedEvery = absl::Milliseconds(500);

  // Borrows `reconciler`, `clock` and `cache`, which may be null. `leads`: whether this process may
  // write, asked before each object and while it is reconciled. `concurrent`: how many are at once,
  // at least 1.
  ReconcileLoop(ResourceType type, Reconciler& reconciler, std::function<bool()> leads,
                const Clock& clock, int concurrent = kConcurrentReconciles,
                const ObjectCache* cache = nullptr);

  void OnObjectChanged(const Json& object) override;
  void OnObjectDeleted(const ObjectId& id, const Json* last) override;
  void OnListed() override;
  bool Holds(const ObjectId& id) const override;

  // Reconciles what is due, in threads of its own, until `ctx` ends.
  void Work(const CallContext& ctx);

  // Reconciles what is due now, in this thread; nothing while another leads.
  void WorkOnce(const CallContext& ctx);

  // Makes the object due now; nothing happens if it does not exist.
  void Enqueue(absl::string_view namespace_name, absl::string_view name);

  // Whether the existing objects were listed.
  bool is_synced() const;

  // Looks at each object that is due.
  QueueFigures figures() const;

  // How long the reconcile has taken that was begun first of those under way; zero without one.
  absl::Duration oldest_reconcile() const;

 private:
  using Key = WorkQueue::Key;
  struct Watched {
    std::string text;  // "" where the cache has it
    absl::Duration due = absl::InfiniteDuration();
    uint64_t sequence = 0;  // Among those that are due at the same moment.
    int errors = 0;         // In a row.
    bool is_woken = false;  // By another than the informer.
  };
  // An object that is being reconciled.
  struct Taken {
    Key key;
    Json object;
    std::stop_token lead;  // Stopped when this process leads no longer.
  };

  ObjectKey CacheKey(const Key& key) const { return {type_, key.first, key.second}; }
  // Whether only this process changed it since.
  bool IsOwnChange(const Key& key) const;
  std::string TextOf(const Json& object) const;
  void Drop(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Take(Taken& taken);
  void Reconcile(const CallContext& ctx, const Taken& taken);
  // The reconcile of `taken`, which took so long, is over.
  void Settle(const Taken& taken, const absl::StatusOr<absl::Time>& next, absl::Time now,
              absl::Duration took);
  void LogError(const Taken& taken, const absl::Status& error) const;
  // Makes it due at `due`, unless it is due earlier.
  void Schedule(const Key& key, Watched& watched, absl::Duration due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unschedule(const Key& key, Watched& watched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WorkOn(const CallContext& ctx);
  void StopUnlessLeading();

  const ResourceType type_;
  Reconciler& reconciler_;
  const std::function<bool()> leads_;
  const Clock& clock_;
  const int concurrent_;
  const ObjectCache* const cache_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::stop_source lead_ ABSL_GUARDED_BY(mutex_);  // Of what is begun now.
  bool is_synced_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t sequences_ ABSL_GUARDED_BY(mutex_) = 0;  // So far.
  QueueFigures done_ ABSL_GUARDED_BY(mutex_);       // What is summed up.
  std::map<Key, Watched> objects_ ABSL_GUARDED_BY(mutex_);
  // Since when they are being reconciled. These are not in queue_.
  std::map<Key, absl::Duration> taken_ ABSL_GUARDED_BY(mutex_);
  WorkQueue queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::k8s
