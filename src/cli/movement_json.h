#pragma once

#include "base/json.h"
#include "datamover/overview.h"

namespace csidelta::cli {

// A movement as csi-delta status --json prints it; what is not known is left out.
Json ToJson(const datamover::Movement& movement);

}  // namespace csidelta::cli
