#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "k8s/list_watch.h"
#include "objects/persistent_volume_claim.h"
#include "objects/reconciler.h"

namespace csidelta::datamover {

// The PVCs that the mover made for its transfers.
k8s::WatchedObjects ClaimsOfTasks(const std::string& mover_namespace);

// Has the volume of a PVC of the mover go with it (csi/claim_release.h), whichever client deleted
// the PVC.
class ClaimReconciler : public objects::Reconciler<objects::PersistentVolumeClaim> {
 public:
  // Borrows `env`.
  explicit ClaimReconciler(const MoverEnvironment& env) : env_(env) {}

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::PersistentVolumeClaim& claim) override;
  bool IsConcerned(const objects::PersistentVolumeClaim& claim) const override;
  void ReduceOne(objects::PersistentVolumeClaim& claim) const override {
    claim.RemoveManagedFields();
  }

  const MoverEnvironment& env_;
};

}  // namespace csidelta::datamover
