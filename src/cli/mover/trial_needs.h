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
  std::set<std::string> pvcs = {};      // that can be backed up
  std::vector<std::string> notes = {};  // what will not be as good as it could be, in sentences
};

// Whether a namespace can be backed up and restored, before anything is made: FAILED_PRECONDITION
// or NOT_FOUND, with the next step, where it cannot. Only reads.
absl::StatusOr<TrialNeeds> CheckTrialNeeds(const CallContext& ctx, k8s::ApiClient& api,
                                           const TrialRequest& request);

}  // namespace csidelta::cli
