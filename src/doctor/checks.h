#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datamover/settings.h"
#include "doctor/checkup.h"

// The checks themselves; checkup.cc says what each answers.
namespace csidelta::doctor {

inline constexpr char kWorkerAccount[] = "csi-delta-worker";   // whom workers run as
inline constexpr char kMoverDeployment[] = "csi-delta-mover";  // as the chart calls it

// "a, b and 3 more": of many the first five.
std::string Listed(const std::vector<std::string>& names);

// mover_checks.cc: what the controller would read now.
absl::StatusOr<datamover::MoverSettings> ReadSettings(Visit& visit);

// cluster_checks.cc
void CheckClusterReachable(Visit& visit);
void CheckSnapshotKinds(Visit& visit);
void CheckSnapshotController(Visit& visit);
void CheckMoverKinds(Visit& visit);
void CheckMoverKindFields(Visit& visit);
void CheckStuckSnapshots(Visit& visit);
void CheckStuckContents(Visit& visit);
void CheckRestoredVolumes(Visit& visit);

// admission_checks.cc
void CheckMoverAdmission(Visit& visit);

// copy_checks.cc
void CheckCopiesIntoVolumes(Visit& visit);

// velero_checks.cc
void CheckVeleroNamespace(Visit& visit);
void CheckVeleroServer(Visit& visit);
void CheckVeleroVersion(Visit& visit);
void CheckVeleroCsiFeature(Visit& visit);
void CheckVeleroPlugin(Visit& visit);
void CheckUploadsWaiting(Visit& visit);
void CheckUploadsFailed(Visit& visit);
void CheckDownloadsWaiting(Visit& visit);
void CheckDeletionsPending(Visit& visit);
void CheckDeletionsFailing(Visit& visit);

// driver_checks.cc
void CheckDriverObject(Visit& visit);
void CheckDriverSnapshotClass(Visit& visit);
void CheckDriverStorageClass(Visit& visit);
void CheckDriverChangedBlocks(Visit& visit);
void CheckDriverMetadataService(Visit& visit);
void CheckDriverBlockDevice(Visit& visit);
void CheckDriverSnapshotLimit(Visit& visit);
void CheckVolumesNotCsi(Visit& visit);
void CheckClaimsUnbound(Visit& visit);

// mover_checks.cc
void CheckMoverNamespace(Visit& visit);
void CheckMoverPodSecurity(Visit& visit);
void CheckMoverDeployment(Visit& visit);
void CheckMoverLeader(Visit& visit);
void CheckMoverSettings(Visit& visit);
void CheckMoverSettingNames(Visit& visit);
void CheckMoverAccounts(Visit& visit);
void CheckMoverQuota(Visit& visit);
void CheckMoverTasksSilent(Visit& visit);
void CheckMoverOrphans(Visit& visit);

// base_checks.cc
void CheckMoverBases(Visit& visit);

// worker_checks.cc
void CheckMoverWorkerPod(Visit& visit);
void CheckMoverMemory(Visit& visit);
void CheckMoverScratch(Visit& visit);

// clock_checks.cc
void CheckClockSkew(Visit& visit);

// queue_checks.cc
void CheckMoverQueue(Visit& visit);
void CheckMoverFlags(Visit& visit);

// longhorn_checks.cc
void CheckLonghornFound(Visit& visit);
void CheckLonghornClass(Visit& visit);
void CheckLonghornSnapshots(Visit& visit);
void CheckLonghornNative(Visit& visit);
void CheckLonghornJobs(Visit& visit);
void CheckLonghornWebhook(Visit& visit);
void CheckLonghornKinds(Visit& visit);
void CheckLonghornInBackups(Visit& visit);

// device_probe.cc
void CheckDeviceAccess(Visit& visit);

// shared_location_check.cc
void CheckLocationShared(Visit& visit);

// location_checks.cc
void CheckLocationDefault(Visit& visit);
void CheckLocationAvailable(Visit& visit);
void CheckLocationProvider(Visit& visit);
void CheckLocationTls(Visit& visit);
void CheckLocationCredentials(Visit& visit);
void CheckLocationReadable(Visit& visit);
void CheckLocationWritable(Visit& visit);
void CheckKeyringPresent(Visit& visit);
void CheckKeyringWhole(Visit& visit);
void CheckKeyringConfirmed(Visit& visit);

}  // namespace csidelta::doctor
