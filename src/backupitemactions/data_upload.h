#pragma once

#include <string>

#include "objects/backup.h"
#include "objects/data_transfer.h"
#include "objects/persistent_volume.h"

namespace csidelta::backupitemactions {

// A volume snapshot that our data mover is to move.
struct MoveRequest {
  const objects::Backup& backup;
  const objects::PersistentVolumeClaim& claim;
  std::string volume_snapshot;  // in the claim's namespace, with a handle
  std::string snapshot_class;
  std::string driver;
  std::string file_system;  // of the volume; "": not known
};

// The DataUpload for it, as Velero's own action writes one, under a name that is the same in every
// retry. The data mover owns the VolumeSnapshot from the moment that this object exists. Pure.
objects::DataUpload MakeDataUpload(const MoveRequest& request);

// The claim as it is archived, so that Velero's actions and ours find the DataUpload when they
// restore it. Pure.
objects::PersistentVolumeClaim MovedClaim(objects::PersistentVolumeClaim claim,
                                          const objects::Backup& backup,
                                          const objects::DataUpload& upload);

}  // namespace csidelta::backupitemactions
