#pragma once

#include "base/json.h"
#include "datamover/controller/overview.h"
#include "datamover/records/volume_records.h"

namespace csidelta::cli {

// A movement as in csi-delta status --json. Unknown fields are omitted.
Json ToJson(const datamover::Movement& movement);
// Mode, reason, bytes and duration of a backup.
Json FiguresJson(const objects::DataUpload& upload);
// The backup of a volume, as with --backup. `record` may be null.
Json ToJson(const objects::DataUpload& upload, const datamover::ProtectedVolumeRecord* record);

// A protected volume in the same list, with the kind "volume".
Json ToJson(const datamover::ProtectedVolumeRecord& record);

}  // namespace csidelta::cli
