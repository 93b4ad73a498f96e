#pragma once

#include <string>

#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/expose/data_transfer.h"
#include "objects/backup.h"
#include "objects/persistent_volume.h"

namespace csidelta::restoreitemactions {

// A claim whose data a data mover holds.
struct MovedClaim {
  const objects::Restore& restore;
  const objects::Backup& backup;
  const objects::PersistentVolumeClaim& item_from_backup;
  std::string target_namespace;
};

// The operation id that a restore of this claim has, whichever action asks the mover for it. Pure.
csi::Transfer<objects::DataDownload> DownloadOf(const MovedClaim& claim);

// Whether Velero's own action has asked a data mover for this claim: it keeps the claim from being
// bound to any volume but the mover's. Pure.
bool IsAwaitedByVelero(const objects::PersistentVolumeClaim& item,
                       const objects::PersistentVolumeClaim& item_from_backup);

// The command with which csi-delta's mover restores the claim's data into the existing PVC of the
// target. Velero's action on DataUploads read in the archive what it names, so that no writer of
// PVCs can have another's data restored. Errors as AskForData().
absl::StatusOr<std::string> UploadCommand(const CallContext& ctx, const csi::Environment& env,
                                          const MovedClaim& claim);

// Asks the mover for the claim's data, once, as Velero's own action does, and makes `item` wait for
// the volume that it brings. What Velero's action on DataUploads read in the archive says who the
// mover is and where the data lie.
//   NOT_FOUND            the archive holds no DataUpload for the claim
//   FAILED_PRECONDITION  it holds several, or one that never completed
// and what the API server says.
absl::Status AskForData(const CallContext& ctx, const csi::Environment& env,
                        const MovedClaim& claim, objects::PersistentVolumeClaim& item);

}  // namespace csidelta::restoreitemactions
