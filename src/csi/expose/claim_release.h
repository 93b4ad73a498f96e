#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume_claim.h"

// The volume of a PVC that the mover made goes with the PVC, also where its StorageClass says
// Retain, whichever client deletes the PVC and however late the provisioner is:
//
//   PVC with our finalizer
//       |  deleted: by the mover, by the garbage collector, by a person
//       v
//   PVC that is being deleted  ---- no volume yet, one may still be made ----> look again later
//       |  its PersistentVolume: Delete
//       v
//   the finalizer is taken off; the PVC goes, and the driver drops the volume
//
// Volumes of a class that says Delete go without this: such PVCs get no finalizer, which could only
// be in the way of the deletion of a namespace.
namespace csidelta::csi {

// So long after the deletion of a PVC its volume is waited for.
inline constexpr absl::Duration kLateVolumeTimeMax = absl::Hours(24);

// Puts the finalizer on a PVC that was made without, where its class retains volumes: one that got
// the default class when it was made, or that an older version made. Nothing for one that is being
// deleted. ABORTED when it changed meanwhile.
absl::Status HoldForItsVolume(const CallContext& ctx, k8s::ApiClient& api,
                              const objects::PersistentVolumeClaim& claim);

// Has a PersistentVolume deleted with the PVC `claim` of csi-delta: its policy becomes Delete. Not
// that of a volume that was there before, that another claim has, that is being passed on or that
// stands for another volume. Whether `claim` has a PersistentVolume at all.
absl::StatusOr<bool> DeleteVolumeWithPvc(const CallContext& ctx, k8s::ApiClient& api,
                                         const objects::PersistentVolumeClaim& claim);

struct ClaimDeletion {
  bool is_done = false;                            // the finalizer is off
  absl::Time requeue_at = absl::InfiniteFuture();  // where it is not
  // It is off although its volume may still be made; says what to look for. "": it is not so.
  std::string left = {};
};

// One look at a PVC that is being deleted. Idempotent; waits for nothing. `late_volume_time_max`:
// after the deletion. ABORTED when it changed meanwhile.
absl::StatusOr<ClaimDeletion> FinishClaimDeletion(
    const CallContext& ctx, k8s::ApiClient& api, const objects::PersistentVolumeClaim& claim,
    absl::Duration late_volume_time_max = kLateVolumeTimeMax);

}  // namespace csidelta::csi
