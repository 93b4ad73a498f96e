#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/json.h"
#include "objects/data_upload.h"

// What the backups of csi-delta try cost, as the data mover reports it.
namespace csidelta::cli {

// Of one PVC in one backup. Bytes.
struct UploadCost {
  std::string pvc = {};
  std::string mode = {};    // "full", "incremental"; "" where the data mover does not tell
  std::string reason = {};  // of a full one
  int64_t logical_bytes = 0;
  int64_t changed_bytes = 0;
  int64_t read_bytes = 0;
  int64_t audit_bytes = 0;
  int64_t stored_bytes = 0;
  std::optional<absl::Duration> duration = {};  // of the transfer

  bool is_incremental() const { return mode == "incremental"; }
};

// Figures that are missing or no numbers are 0. Pure.
UploadCost CostOf(const objects::DataUpload& upload);

// Both backups, each with a cost for each PVC. Pure functions.
using TrialCosts = std::vector<std::vector<UploadCost>>;

// For each PVC a line, and below it a line for each backup with what it cost and, for one that was
// full, why. No line is longer than 80 columns, but for the names of PVCs.
std::string FormatCosts(const TrialCosts& costs);

Json ToJson(const UploadCost& cost);

}  // namespace csidelta::cli
