#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"

// A PVC that the mover made takes its volume along when it is deleted, even if the StorageClass
// says Retain. It does not matter which client deletes the PVC, or how late the provisioner is:
//
//   PVC with our finalizer
//       |  deleted: by the mover, by the garbage collector, by a person
//       v
//   PVC that is being deleted  ---- no volume yet, one may still be made ----> look again later
//       |  its PersistentVolume: Delete
//       v
//   the finalizer is taken off; the PVC goes, and the driver drops the volume
//
// If the class says Delete, the PVC gets no finalizer: it would only delay the deletion of a
// namespace.
namespace csidelta::csi {

// How long after the deletion of a PVC its volume is waited for.
inline constexpr absl::Duration kLateVolumeTimeMax = absl::Hours(24);

// Adds the finalizer if the PVC's class retains volumes. It is missing if the PVC got the default
// class when it was made. Does nothing for a PVC that is being deleted. ABORTED if the PVC changed
// meanwhile.
absl::Status HoldForItsVolume(const CallContext& ctx, k8s::ApiClient& api,
                              const objects::PersistentVolumeClaim& claim);

// Has a PersistentVolume deleted with the PVC `claim` of csi-delta: its policy becomes Delete. It
// skips a volume that existed before, that belongs to another PVC, that is being passed on, or that
// stands for another volume. Returns true if `claim` has a PersistentVolume at all.
absl::StatusOr<bool> DeleteVolumeWithPvc(const CallContext& ctx, k8s::ApiClient& api,
                                         const objects::PersistentVolumeClaim& claim);

// Has backups omit that PersistentVolume until it is rebound: one that is restored would name a
// volume that is gone. It skips the same ones. ABORTED if it changed meanwhile. Idempotent.
absl::Status ExcludeVolumeFromBackups(const CallContext& ctx, k8s::ApiClient& api,
                                      const objects::PersistentVolumeClaim& claim);

struct ClaimDeletion {
  bool is_done = false;                            // the finalizer is off
  absl::Time requeue_at = absl::InfiniteFuture();  // where it is not
  // The finalizer is off although the volume may still be made: what to search for. Else "".
  std::string left = {};
};

// Checks once a PVC that is being deleted. Idempotent; waits for nothing. `late_volume_time_max`:
// after the deletion. ABORTED if the PVC changed meanwhile.
absl::StatusOr<ClaimDeletion> FinishClaimDeletion(
    const CallContext& ctx, k8s::ApiClient& api, const objects::PersistentVolumeClaim& claim,
    absl::Duration late_volume_time_max = kLateVolumeTimeMax);

}  // namespace csidelta::csi
