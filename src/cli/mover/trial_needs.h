#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::cli {

struct TrialRequest {
  std::string namespace_name = {};
  std::string location = {};  // a BackupStorageLocation; "": Velero's default one
  std::string velero_namespace = {};
  std::string mover_namespace = {};
  bool keeps_backups = false;
};

struct TrialNeeds {
  std::set<std::string> pvcs = {};      // PVCs that can be backed up
  std::vector<std::string> notes = {};  // sentences about what will limit the result
};

// Checks that a namespace can be backed up and restored, before anything is created. Otherwise
// FAILED_PRECONDITION or NOT_FOUND with the next step. Only reads.
absl::StatusOr<TrialNeeds> CheckTrialNeeds(const CallContext& ctx, k8s::ApiClient& api,
                                           const TrialRequest& request);

}  // namespace csidelta::cli
