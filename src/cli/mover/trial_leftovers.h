#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/backup.h"

// What csi-delta try makes in a cluster, found by its label: removed at the end of a run, or by the
// next one where a run was killed.
namespace csidelta::cli {

// Of one namespace. Each scratch namespace is named by its Restore.
struct TrialLeftovers {
  std::string namespace_name = {};
  std::vector<objects::Backup> backups = {};
  std::vector<objects::Restore> restores = {};

  bool empty() const { return backups.empty() && restores.empty(); }
  // "Backup a", of one that Velero still works on: another run makes it, or a killed one began it;
  // "" where none exists.
  std::string Unfinished() const;
};

absl::StatusOr<TrialLeftovers> FindTrialLeftovers(const CallContext& ctx, k8s::ApiClient& api,
                                                  absl::string_view velero_namespace,
                                                  absl::string_view namespace_name);

// Cancels transfers that run, waits until Velero is done, then deletes scratch namespaces, Backups
// with their data, Restores, and the ProtectedVolumes of PVCs that have no other backup. A
// namespace that is older than its Restore is not touched: it was
// not made by it. Returns the first error. What is left keeps its label, so this may be called
// again; no Backup is deleted while a scratch namespace stays, because the Restore that names it
// would go with the Backup.
absl::Status RemoveTrialLeftovers(const CallContext& ctx, k8s::ApiClient& api,
                                  const TrialLeftovers& leftovers);

}  // namespace csidelta::cli
