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

// A namespace of a Backup, restored by Velero into a scratch namespace, compared with the Backup,
// and removed: the second half of csi-delta try.
namespace csidelta::cli {

struct ScratchRestore {
  std::string velero_namespace = {};
  std::string from = {};  // the namespace in the Backup
  std::string backup = {};
  std::string into = {};                           // the scratch namespace
  std::string restore = {};                        // the Restore, which is made
  std::map<std::string, std::string> labels = {};  // of the Restore
};

// What is wrong with each PVC; "" for one that is restored.
using RestoredPvcs = std::map<std::string, std::string>;
int64_t CountFailed(const RestoredPvcs& pvcs);

// Objects of Velero whose label names a Backup or Restore.
k8s::ListOptions LabelledWith(absl::string_view label, absl::string_view name);

// "shop-try" of "shop", good as the name of a namespace.
std::string ScratchName(absl::string_view namespace_name);

// "try-20261128070000-shop" of "shop", good as the name of a Backup or Restore, and as the value of
// a label; four further bytes fit.
std::string RunName(absl::Time now, absl::string_view namespace_name);

// INVALID_ARGUMENT unless both namespaces have good names that differ, FAILED_PRECONDITION when
// the scratch namespace exists.
absl::Status CheckScratch(const CallContext& ctx, k8s::ApiClient& api, const ScratchRestore& plan);

// Makes the Restore, and waits until Velero is done with it. Returns what is wrong with it, also
// that it took longer than `timeout`; "" when it is Completed.
absl::StatusOr<std::string> RestoreIntoScratch(const CallContext& ctx, k8s::ApiClient& api,
                                               const ScratchRestore& plan, absl::Duration timeout);

// Compares the PVCs that are there with those that the Backup has. The worker compared each block
// with its hash when it wrote it, so a DataDownload that is Completed stands for the data.
absl::StatusOr<RestoredPvcs> CompareScratch(const CallContext& ctx, k8s::ApiClient& api,
                                            const ScratchRestore& plan);

// Deletes the scratch namespace, and waits until it is gone. Volumes that the Restore filled go
// with their PVCs, also where their StorageClass retains them.
absl::Status RemoveScratch(const CallContext& ctx, k8s::ApiClient& api, const ScratchRestore& plan);

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
