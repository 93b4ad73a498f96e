#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "objects/data_transfer.h"

// The cost of the backups of csi-delta try, as the data mover reports it on their DataUploads.
namespace csidelta::cli {

// Both backups, each with a DataUpload for each PVC. Pure functions; figures that are missing or no
// numbers are 0.
using TrialCosts = std::vector<std::vector<objects::DataUpload>>;

// For each PVC a line, and below it a line for each backup with what it cost and, for one that was
// full, why. No line is longer than 80 columns, but for the names of PVCs.
std::string FormatCosts(const TrialCosts& costs);

Json CostJson(const objects::DataUpload& upload);

}  // namespace csidelta::cli
