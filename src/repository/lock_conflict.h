#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace csidelta::repository {

// Which locks stood in the way, as hexadecimal digits: of a status that IsLocked().
std::vector<std::string> LocksOf(const absl::Status& status);

}  // namespace csidelta::repository
