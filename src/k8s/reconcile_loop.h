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
#include <vector>

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

// The objects that are due, or will be, fair between their namespaces: of those namespaces that
// have an object that is due, the one that was served longest ago is next, and of it the object
// that has been due for the longest. One that makes many objects delays its own alone. Times are
// those of Clock::Uptime(). Not thread-safe.
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

// Who moves the objects of one kind to where they should be. Thread-safe: different objects are
// reconciled at once, one object never is.
class Reconciler {
 public:
  virtual ~Reconciler() = default;

  // One step for `object` as it was seen last. Returns when to look again though it does not
  // change; InfiniteFuture: never. After an error it is looked at again soon, at what it is then;
  // ABORTED says that it changed meanwhile, and is no news.
  virtual absl::StatusOr<absl::Time> Reconcile(const CallContext& ctx, const Json& object) = 0;

  // Whether there may be something to do for an object that is so. One that is over needs none, and
  // is not held until it changes: there may be very many.
  virtual bool Concerns(const Json& /*object*/) const { return true; }

  // Takes out of an object what neither Reconcile() nor Concerns() looks at.
  virtual void Reduce(Json& /*object*/) const {}
};

// What a loop has done since it was made, and how its queue is now.
struct QueueFigures {
  int64_t due = 0;  // objects that wait for their reconcile
  absl::Duration oldest_wait = absl::ZeroDuration();
  int64_t reconciles = 0;
  absl::Duration reconcile_time = absl::ZeroDuration();  // of all together
  int64_t retries = 0;                                   // after an error

  QueueFigures& operator+=(const QueueFigures& other);
};

// The objects of one kind as the API server tells of them, and the queue of those that are due: an
// object is due from the moment at which it changed, its time came, or it was enqueued. Whichever
// has been due for the longest is reconciled next, whatever its name, and namespaces in rounds
// (k8s/work_queue.h); several are at once, so that one that takes long holds none of the others up.
//
// Every replica follows; the one that leads also works, once it knows all that there are. When it
// leads no longer, what it reconciles is stopped within kLeadCheckedEvery, long before another one
// may lead (k8s/leader_lease.h), and is due again for the time when this one leads once more.
//
// With a cache of the same objects, that is where they are; and a change that this process has made
// does not make them due, for their writer said when to look again. All writes of these objects
// must then be conditional on their version. Else they are held here, as text, which takes a fifth
// of the memory. Times are those of Clock::Uptime(): setting the clock does not hold the queue up.
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

  // The object is due now; nothing when none exists.
  void Enqueue(absl::string_view namespace_name, absl::string_view name);

  // Whether the objects that are there were told of.
  bool is_synced() const;

  // Looks at each object that is due.
  QueueFigures figures() const;

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
  std::set<Key> taken_ ABSL_GUARDED_BY(mutex_);  // These are not in queue_.
  WorkQueue queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace csidelta::k8s
