#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "diffsnap/pair_table.h"
#include "diffsnap/reconciler.h"
#include "k8s/api_client.h"
#include "k8s/follow.h"

namespace csidelta::diffsnap {

// All DifferentialSnapshots of the cluster, as the API server tells of them: those that are a
// Success of our driver are in the table of what is served, and each is due for a look when it
// changed or its time came. Every replica follows; the one that leads also works.
//
// Follow() runs in one thread, Work() or WorkOnce() in another.
class Controller : public k8s::ObjectFollower {
 public:
  // Borrows `pairs` and `reconciler`. `leads`: whether this process may write, asked before each
  // object.
  Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
             std::function<bool()> leads);

  // Follows the objects until `ctx` ends.
  absl::Status Follow(const CallContext& ctx, k8s::ApiClient& api);

  void OnAll(const std::vector<Json>& objects) override;
  void OnEvent(const k8s::WatchEvent& event) override;

  // Moves what is due, again and again, until `ctx` ends.
  void Work(const CallContext& ctx);

  // Moves what is due now; nothing while another leads.
  void WorkOnce(const CallContext& ctx);

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  struct Followed {
    Json object;
    absl::Time due = absl::InfiniteFuture();
  };

  static Key KeyOf(const Json& object);
  void Keep(const Json& object);
  void Drop(const Key& key);
  // The object that has been due for the longest, which is due no more; false when there is none.
  bool TakeDue(absl::Time now, Json& object);
  // Unless it changed meanwhile, which made it due.
  void SetDue(const Json& object, absl::Time due);
  void Schedule(const Key& key, Followed& followed, absl::Time due);

  const std::string driver_;
  PairTable& pairs_;
  Reconciler& reconciler_;
  const std::function<bool()> leads_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool has_news_ = false;                       // Guarded by mutex_; since Work() looked.
  std::map<Key, Followed> objects_;             // Guarded by mutex_.
  std::set<std::pair<absl::Time, Key>> queue_;  // Guarded by mutex_; those that will be due.
};

}  // namespace csidelta::diffsnap
