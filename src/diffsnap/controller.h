#pragma once

#include <functional>
#include <string>

#include "base/call_context.h"
#include "diffsnap/pair_table.h"
#include "diffsnap/reconciler.h"
#include "k8s/informer.h"
#include "k8s/reconcile_loop.h"
#include "objects/differential_snapshot.h"
#include "objects/event_handler.h"

namespace csidelta::diffsnap {

// All DifferentialSnapshots of the cluster, as the API server tells of them: those that are a
// Success of our driver are in the table of what is served, and each is moved on by the loop. Every
// replica follows; the one that leads also works.
//
// The informer runs in one thread, Work() or WorkOnce() in another; Work() has more of its own.
class Controller : public objects::EventHandler<objects::DifferentialSnapshot> {
 public:
  // Borrows all but the name. `leads`: whether this process may write, asked before each object
  // and while it is worked at.
  Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
             std::function<bool()> leads, const Clock& clock);

  k8s::Informer& informer() { return informer_; }

  // Moves what is due, again and again, until `ctx` ends.
  void Work(const CallContext& ctx) { loop_.Work(ctx); }

  // Moves what is due now; nothing while another leads.
  void WorkOnce(const CallContext& ctx) { loop_.WorkOnce(ctx); }

 private:
  void OnChanged(const objects::DifferentialSnapshot& object) override;
  void OnDeleted(const k8s::ObjectId& id, const objects::DifferentialSnapshot* /*last*/) override {
    pairs_.Remove(id.namespace_name, id.name);
  }
  void OnListed() override { pairs_.SetSynced(); }

  const std::string driver_;
  PairTable& pairs_;
  k8s::ReconcileLoop loop_;
  k8s::Informer informer_;
};

}  // namespace csidelta::diffsnap
