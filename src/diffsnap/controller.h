#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/call_context.h"
#include "diffsnap/pair_table.h"
#include "diffsnap/reconciler.h"
#include "k8s/api_client.h"
#include "k8s/reconcile_loop.h"
#include "objects/differential_snapshot.h"
#include "objects/event_handler.h"

namespace csidelta::diffsnap {

// All DifferentialSnapshots of the cluster, as the API server tells of them: those that are a
// Success of our driver are in the table of what is served, and each is moved on by the loop. Every
// replica follows; the one that leads also works.
//
// Follow() runs in one thread, Work() or WorkOnce() in another; Work() has more of its own.
class Controller : public objects::EventHandler<objects::DifferentialSnapshot> {
 public:
  // Borrows all but the name. `leads`: whether this process may write, asked before each object
  // and while it is worked at.
  Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
             std::function<bool()> leads, const Clock& clock);

  // Follows the objects until `ctx` ends.
  absl::Status Follow(const CallContext& ctx, k8s::ApiClient& api);

  // Moves what is due, again and again, until `ctx` ends.
  void Work(const CallContext& ctx) { loop_.Work(ctx); }

  // Moves what is due now; nothing while another leads.
  void WorkOnce(const CallContext& ctx) { loop_.WorkOnce(ctx); }

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name

  void OnObjects(std::vector<objects::DifferentialSnapshot> page, bool is_first) override;
  void OnListComplete() override;
  void OnChanged(const objects::DifferentialSnapshot& object) override;
  void OnDeleted(const objects::DifferentialSnapshot& object) override;
  void Withdraw(const Key& key);

  const std::string driver_;
  PairTable& pairs_;
  k8s::ReconcileLoop loop_;
  std::set<Key> served_;    // Of the thread that follows.
  std::set<Key> unlisted_;  // Of those, what a list that is not whole yet did not have.
};

}  // namespace csidelta::diffsnap
