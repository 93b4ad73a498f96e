#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/backup.h"

// The objects that csi-delta try makes in a cluster. Velero restores a namespace of a Backup into a
// scratch namespace, which is compared with the Backup. The end of a run, or after a kill the next
// run, finds all objects by their label and deletes them.
namespace csidelta::cli {

struct ScratchRestore {
  std::string velero_namespace = {};
  std::string from = {};  // the namespace in the Backup
  std::string backup = {};
  std::string into = {};                           // the scratch namespace
  std::string restore = {};                        // the Restore to create
  std::map<std::string, std::string> labels = {};  // of the Restore
};

// The fault of each PVC; "" if it is restored.
using RestoredPvcs = std::map<std::string, std::string>;
int64_t CountFailed(const RestoredPvcs& pvcs);

// Options to list objects whose label names a Backup or Restore.
k8s::ListOptions LabelledWith(absl::string_view label, absl::string_view name);

// "shop-try" for "shop": a valid name of a namespace.
std::string ScratchName(absl::string_view namespace_name);

// "try-20261128070000-shop" for "shop": a valid name of a Backup or Restore, and a valid label
// value, with room for four more bytes.
std::string RunName(absl::Time now, absl::string_view namespace_name);

// INVALID_ARGUMENT unless both namespaces have valid names that differ. FAILED_PRECONDITION if the
// scratch namespace exists.
absl::Status CheckScratch(const CallContext& ctx, k8s::ApiClient& api, const ScratchRestore& plan);

// Creates the Restore and waits until Velero has finished it. Returns its fault, including that it
// took longer than `timeout`; "" if it is Completed.
absl::StatusOr<std::string> RestoreIntoScratch(const CallContext& ctx, k8s::ApiClient& api,
                                               const ScratchRestore& plan, absl::Duration timeout);

// Compares the PVCs of the scratch namespace with those of the Backup. The worker compared each
// block with its hash when it wrote it, so a Completed DataDownload proves the data.
absl::StatusOr<RestoredPvcs> CompareScratch(const CallContext& ctx, k8s::ApiClient& api,
                                            const ScratchRestore& plan);

// Deletes the scratch namespace and waits until it is gone. Volumes that the Restore filled are
// deleted with their PVCs, even if their StorageClass retains them.
absl::Status RemoveScratch(const CallContext& ctx, k8s::ApiClient& api, const ScratchRestore& plan);

// Objects of earlier runs for one namespace. Each scratch namespace is named by its Restore.
struct TrialLeftovers {
  std::string namespace_name = {};
  std::vector<objects::Backup> backups = {};
  std::vector<objects::Restore> restores = {};

  bool empty() const { return backups.empty() && restores.empty(); }
  // "Backup a", if Velero still works on it: another run waits for it, or a killed run began it.
  // Otherwise "".
  std::string Unfinished() const;
};

absl::StatusOr<TrialLeftovers> FindTrialLeftovers(const CallContext& ctx, k8s::ApiClient& api,
                                                  absl::string_view velero_namespace,
                                                  absl::string_view namespace_name);

// Cancels running transfers and waits until Velero is done. Then deletes scratch namespaces,
// Backups with their data, Restores, and the ProtectedVolumes of PVCs that have no other backup. A
// namespace older than its Restore stays: the Restore did not create it. Returns the first error.
// Remaining objects keep their label, so this can be called again. No Backup is deleted while a
// scratch namespace stays, because the Restore that names it would be deleted with the Backup.
absl::Status RemoveTrialLeftovers(const CallContext& ctx, k8s::ApiClient& api,
                                  const TrialLeftovers& leftovers);

}  // namespace csidelta::cli
