#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "report/report.h"
#include "repository/repository.h"

// Reads what a report is made of. Nothing is written.
namespace csidelta::report {

// The volumes of one repository with their backups since a time. `location` names it. Snapshots
// that cannot be read are given to `damaged`; volumes whose data cannot be read are broken. Loads
// the description of each snapshot, and the index where there is no sidecar.
absl::StatusOr<std::vector<VolumeEntry>> ReadRepository(
    const CallContext& ctx, repository::Repository& repository, const std::string& location,
    absl::Time since, const repository::DamagedSnapshotSink& damaged);

// Adds the backups of `from` whose repository snapshots `volume` does not have.
void AddBackups(const VolumeEntry& from, VolumeEntry& volume);

struct ClusterScope {
  std::vector<std::string> velero_namespaces = {};
  std::string namespace_name = {};  // of the PVCs; "": all
  absl::Time since = {};
};

// A volume's repository, as references of its DataUploads name it.
struct RecordedRepository {
  std::string velero_namespace = {};
  std::string location = {};
  std::string path = {};  // velero::RepositoryPath()
  std::string key = {};
  bool has_more = false;  // the records do not reach back to the beginning of the report
};

struct ClusterVolumes {
  std::vector<VolumeEntry> volumes = {};
  std::vector<RecordedRepository> repositories = {};  // of each volume; no path: not known
  std::vector<std::string> notes = {};                // what could not be read
};

// The volumes that the records of a cluster name: ProtectedVolumes, DataUploads, Backups that
// failed before they moved anything, Schedules. An error only if DataUploads cannot be read.
absl::StatusOr<ClusterVolumes> ReadCluster(const CallContext& ctx, k8s::ApiClient& api,
                                           const ClusterScope& scope);

}  // namespace csidelta::report
