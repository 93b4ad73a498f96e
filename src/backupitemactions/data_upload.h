#pragma once

#include <string>

#include "base/json.h"
#include "velero/backup.h"

namespace csidelta::backupitemactions {

// A volume snapshot that our data mover is to move.
struct MoveRequest {
  const velero::Backup& backup;
  const Json& claim;
  std::string volume_snapshot;  // in the claim's namespace, with a handle
  std::string snapshot_class;
  std::string driver;
};

// The DataUpload for it, as Velero's own action writes one, under a name that is the same in every
// retry. Whoever moves data owns the VolumeSnapshot from the moment that this object exists. Pure.
Json MakeDataUpload(const MoveRequest& request);

// The claim as it is archived, so that Velero's actions and ours find the DataUpload when they
// restore it. Pure.
Json MovedClaim(Json claim, const velero::Backup& backup, const Json& upload);

}  // namespace csidelta::backupitemactions
