#include "datamover/claim_reconciler.h"

#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/claim_release.h"
#include "k8s/event_recorder.h"
#include "objects/event.h"
#include "objects/keys.h"

namespace csidelta::datamover {

k8s::WatchedObjects ClaimsOfTasks(const std::string& mover_namespace) {
  return {.type = objects::PersistentVolumeClaim::Type(),
          .namespace_name = mover_namespace,
          .label_selector = objects::kMoverTaskLabel};
}

absl::StatusOr<absl::Time> ClaimReconciler::ReconcileOne(
    const CallContext& ctx, const objects::PersistentVolumeClaim& claim) {
  ASSIGN_OR_RETURN(const csi::ClaimRelease release, csi::ReleaseClaim(ctx, env_.api, claim));
  if (!release.left.empty()) {
    CSIDELTA_LOG(kWarn, release.left);
    const absl::Status told = objects::EmitEvent(ctx, env_.api, claim, k8s::EventType::kWarning,
                                                 "VolumeMayBeLeft", release.left, kMoverComponent);
    if (!told.ok()) {
      CSIDELTA_LOG(kWarn, "cannot tell of a PVC", {"error", std::string(told.message())});
    }
  }
  return release.look_again_at;
}

bool ClaimReconciler::IsConcerned(const objects::PersistentVolumeClaim& claim) const {
  return claim.is_being_deleted() && claim.HasFinalizer(objects::kVolumeFinalizer);
}

}  // namespace csidelta::datamover
