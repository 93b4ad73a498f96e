#pragma once

#include <string>

#include "repository/checker.h"

namespace csidelta::cli {

// What a check says below its findings: how much it read, which snapshots cannot be restored, and
// the one next command.
std::string CheckText(const repository::CheckReport& report);

}  // namespace csidelta::cli
