#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "k8s/follow.h"

namespace csidelta::k8s {

// Who moves the objects of one kind to where they should be.
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

// The objects of one kind as the API server tells of them: each is due for a look when it changed,
// when its time came, or when somebody says so. Every replica follows; the one that leads also
// works, once it knows all that there are. Objects are held as text, which takes a fifth of the
// memory.
//
// Follow() runs in one thread, Work() or WorkOnce() in another; Wake() in any.
class ReconcileLoop : public ObjectFollower {
 public:
  // Borrows `reconciler`. `leads`: whether this process may write, asked before each object.
  ReconcileLoop(FollowedObjects objects, Reconciler& reconciler, std::function<bool()> leads);

  // Follows the objects until `ctx` ends.
  absl::Status Follow(const CallContext& ctx, ApiClient& api);

  void OnPage(const std::vector<Json>& objects, bool is_first) override;
  void OnListed() override;
  void OnEvent(const WatchEvent& event) override;

  // Moves what is due, again and again, until `ctx` ends.
  void Work(const CallContext& ctx);

  // Moves what is due now; nothing while another leads.
  void WorkOnce(const CallContext& ctx);

  // The object is due now; nothing when there is none.
  void Wake(absl::string_view namespace_name, absl::string_view name);

  // Whether the objects that are there were told of.
  bool is_synced() const;

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  struct Followed {
    std::string text;
    absl::Time due = absl::InfiniteFuture();
    uint64_t list = 0;  // The last one that had it.
  };

  static Key KeyOf(const Json& object);
  void Keep(const Json& object);
  void Drop(const Key& key);
  void Tell();
  // The object that has been due for the longest, which is due no more; false when there is none.
  bool TakeDue(absl::Time now, Json& object);
  // Unless it changed meanwhile, which made it due.
  void SetDue(const Json& object, absl::Time due);
  void Schedule(const Key& key, Followed& followed, absl::Time due);

  const FollowedObjects followed_;
  Reconciler& reconciler_;
  const std::function<bool()> leads_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool has_news_ = false;                       // Guarded by mutex_; since Work() looked.
  bool is_synced_ = false;                      // Guarded by mutex_.
  uint64_t list_ = 0;                           // Guarded by mutex_; counts from 1.
  std::map<Key, Followed> objects_;             // Guarded by mutex_.
  std::set<std::pair<absl::Time, Key>> queue_;  // Guarded by mutex_; those that will be due.
};

}  // namespace csidelta::k8s
