#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "diffsnap/pair_table.h"
#include "diffsnap/resolver.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "k8s/reconcile_loop.h"
#include "objects/differential_snapshot.h"
#include "objects/event_handler.h"

namespace csidelta::diffsnap {

struct ReconcilerOptions {
  std::string driver;    // whose objects are served here
  std::string url;       // of the REST server: "https://host:port"
  std::string audience;  // of the tokens that it takes
  // The certificates to trust for url, as PEM; "" where everybody trusts them already.
  std::function<absl::StatusOr<std::string>()> read_ca;
  absl::Duration admission_time_max = absl::Minutes(10);  // from the creation to a last state
  absl::Duration object_age_max = absl::Hours(24);        // then it is deleted
};

// After this time, or object_age_max when that is more, an object of another driver is deleted that
// the controller of that driver has left without a last state: that controller does not run.
inline constexpr absl::Duration kForeignAgeMax = absl::Hours(24);

// Moves DifferentialSnapshots to where they should be:
//
//   (unclaimed) --target is not known ------ object_age_max after the creation ---> deleted
//       |      --target is another driver's, without a last state, kForeignAgeMax -> deleted
//       | target is served here
//       |------ base and target ready, one driver, one volume ----> Success
//       |------ can never be served ------------------------------> Failure
//       +------ not ready, or the API server does not say --------> Pending
//   Pending ---- as above, until admission_time_max is over ------> Success | Failure
//   Success | Failure ---- object_age_max after the creation -----> deleted
//
// Each arrow is one write, under the condition that the object is still what was looked at; an
// Event tells of a last state. Nothing is kept between two calls: the next process, after a crash
// at any moment, goes on from the object. There is no finalizer. Thread-safe.
class Reconciler : public objects::Reconciler<objects::DifferentialSnapshot> {
 public:
  // Borrows `api`, and `contents`, of the driver.
  Reconciler(k8s::ApiClient& api, const ContentIndex& contents, ReconcilerOptions options);

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::DifferentialSnapshot& object) override;
  // Not those that another driver's controller has brought to their end.
  bool IsConcerned(const objects::DifferentialSnapshot& object) const override;
  void ReduceOne(objects::DifferentialSnapshot& object) const override;
  absl::StatusOr<absl::Time> Admit(const CallContext& ctx,
                                   const objects::DifferentialSnapshot& object, absl::Time created);
  // Deletes it from then on; before, when that is.
  absl::StatusOr<absl::Time> DeleteAt(const CallContext& ctx,
                                      const objects::DifferentialSnapshot& object, absl::Time then);
  absl::Status Succeed(const CallContext& ctx, const objects::DifferentialSnapshot& object,
                       const objects::ResolvedNames& resolved);
  absl::Status Fail(const CallContext& ctx, const objects::DifferentialSnapshot& object,
                    const Resolution& resolution);
  absl::Status Suspend(const CallContext& ctx, const objects::DifferentialSnapshot& object,
                       const Resolution& resolution);
  absl::Status Write(const CallContext& ctx, const objects::DifferentialSnapshot& object,
                     const objects::RequestStatus& status);

  k8s::ApiClient& api_;
  const ContentIndex& contents_;
  const ReconcilerOptions options_;
};

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
  const k8s::ReconcileLoop& loop() const { return loop_; }

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
