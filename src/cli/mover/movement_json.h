#pragma once

#include "base/json.h"
#include "datamover/controller/overview.h"
#include "datamover/records/volume_records.h"

namespace csidelta::cli {

// A movement as csi-delta status --json prints it; what is not known is left out.
Json ToJson(const datamover::Movement& movement);

// Likewise a protected volume, whose kind is "volume".
Json ToJson(const datamover::ProtectedVolumeRecord& record);

}  // namespace csidelta::cli
