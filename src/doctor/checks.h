#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "datamover/settings.h"
#include "doctor/checkup.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"
#include "storage/bucket_rules.h"

// The checks themselves; checkup.cc says what each answers.
namespace csidelta::doctor {

inline constexpr char kWorkerAccount[] = "csi-delta-worker";   // of worker Pods
inline constexpr char kMoverDeployment[] = "csi-delta-mover";  // its ServiceAccount's name, too

// "a, b and 3 more": of many the first five.
std::string Listed(const std::vector<std::string>& names);
// The numbers in an image's tag: {1, 18, 3} of "r/velero:v1.18.3". A tag "1.18" is the newest of
// its patches. Empty if the tag has another form.
std::vector<int> VersionOf(absl::string_view image);
// What "--flag=value" or "--flag value" says, up to a "="; "" where it is not there.
std::string FlagIn(const objects::Deployment& deployment, absl::string_view flag);

// "PVC shop/orders"; "node a" of what is in no namespace.
std::string SubjectOf(absl::string_view kind, absl::string_view space, absl::string_view name);
std::string SubjectOf(absl::string_view kind, const objects::Object& object);

// Commands, as they are typed: why a Deployment is not available; the data mover's chart, where it
// is looked for.
std::string DescribeCommand(absl::string_view space, absl::string_view deployment);
std::string HelmCommand(CheckContext& context, absl::string_view verb);

// mover_checks.cc: what the controller would read now; and its Deployment, or nothing after having
// said why it is not known.
absl::StatusOr<datamover::MoverSettings> ReadSettings(CheckContext& context);
std::optional<objects::Deployment> ControllerOf(CheckContext& context);

// driver_checks.cc: the PVCs whose volumes are a CSI driver's.
struct CsiVolume {
  objects::PersistentVolumeClaim claim;
  std::string driver;
};
std::vector<CsiVolume> CsiVolumes(CheckContext& context);

// cluster_checks.cc
void CheckClusterReachable(CheckContext& context);
void CheckSnapshotKinds(CheckContext& context);
void CheckSnapshotController(CheckContext& context);
void CheckMoverKinds(CheckContext& context);
void CheckMoverKindFields(CheckContext& context);
void CheckStuckSnapshots(CheckContext& context);
void CheckStuckContents(CheckContext& context);
void CheckRestoredVolumes(CheckContext& context);

// admission_checks.cc
void CheckMoverAdmission(CheckContext& context);

// copy_checks.cc
void CheckCopiesIntoVolumes(CheckContext& context);
void CheckRestoresWithoutData(CheckContext& context);

// velero_checks.cc
void CheckVeleroNamespace(CheckContext& context);
void CheckVeleroServer(CheckContext& context);
void CheckVeleroVersion(CheckContext& context);
void CheckVeleroCsiFeature(CheckContext& context);
void CheckVeleroPlugin(CheckContext& context);
void CheckVeleroPolicies(CheckContext& context);
void CheckUploadsWaiting(CheckContext& context);
void CheckUploadsFailed(CheckContext& context);
void CheckDownloadsWaiting(CheckContext& context);
void CheckDeletionsPending(CheckContext& context);
void CheckDeletionsFailing(CheckContext& context);
void CheckDeletionsImpossible(CheckContext& context);

// driver_checks.cc
void CheckDriverObject(CheckContext& context);
void CheckDriverSnapshotClass(CheckContext& context);
void CheckDriverStorageClass(CheckContext& context);
void CheckDriverChangedBlocks(CheckContext& context);
void CheckDriverMetadataService(CheckContext& context);
void CheckDriverBlockDevice(CheckContext& context);
void CheckDriverSnapshotLimit(CheckContext& context);
void CheckDriverZones(CheckContext& context);
void CheckDriverSnapshots(CheckContext& context);
void CheckVolumesNotCsi(CheckContext& context);
void CheckClaimsUnbound(CheckContext& context);

// mover_checks.cc
void CheckMoverNamespace(CheckContext& context);
void CheckMoverPodSecurity(CheckContext& context);
void CheckMoverDeployment(CheckContext& context);
void CheckMoverLeader(CheckContext& context);
void CheckMoverSettings(CheckContext& context);
void CheckMoverSettingNames(CheckContext& context);
void CheckMoverAccounts(CheckContext& context);
void CheckMoverQuota(CheckContext& context);
void CheckMoverTasksSilent(CheckContext& context);
void CheckMoverOrphans(CheckContext& context);
void CheckMoverBases(CheckContext& context);
void CheckKeptSnapshots(CheckContext& context);

// worker_checks.cc
struct LargestVolume {
  std::pair<std::string, std::string> pvc;  // namespace, name
  int64_t bytes = 0;                        // 0: none is known
};
// Of the PVCs that the mover backs up.
LargestVolume LargestBackedUp(CheckContext& context);
void CheckMoverWorkerPod(CheckContext& context);
void CheckMoverMemory(CheckContext& context);
void CheckMoverScratch(CheckContext& context);

// clock_checks.cc
inline constexpr absl::Duration kSkewNoted = absl::Seconds(5);
inline constexpr absl::Duration kSkewMax = absl::Minutes(1);
inline constexpr char kClockRemediation[] =
    "synchronise it, as by chrony: locks and retention depend on the clocks of all machines";
void CheckClockSkew(CheckContext& context);

// queue_checks.cc
void CheckMoverQueue(CheckContext& context);
void CheckMoverFirstFull(CheckContext& context);
void CheckMoverFlags(CheckContext& context);

// longhorn_checks.cc
void CheckLonghornFound(CheckContext& context);
void CheckLonghornClass(CheckContext& context);
void CheckLonghornSnapshots(CheckContext& context);
void CheckLonghornNative(CheckContext& context);
void CheckLonghornJobs(CheckContext& context);
void CheckLonghornWebhook(CheckContext& context);
void CheckLonghornKinds(CheckContext& context);
void CheckLonghornInBackups(CheckContext& context);

// device_probe.cc
void CheckDeviceAccess(CheckContext& context);

// bucket_checkup.cc
std::string NameOf(const storage::LifecycleRule& rule);
// Whether the rule applies to objects of the folder, all of them or some.
bool Concerns(const storage::LifecycleRule& rule, absl::string_view folder);
// What it does to current objects, as a sentence; "" if nothing that backups mind.
std::string HarmOf(const storage::LifecycleRule& rule);

// immutability_checks.cc
void CheckLocationImmutable(CheckContext& context);

// location_checks.cc
void CheckLocationShared(CheckContext& context);
void CheckLocationDefault(CheckContext& context);
void CheckLocationAvailable(CheckContext& context);
void CheckLocationProvider(CheckContext& context);
void CheckLocationTls(CheckContext& context);
void CheckLocationCredentials(CheckContext& context);
void CheckLocationReadable(CheckContext& context);
void CheckLocationWritable(CheckContext& context);
void CheckKeyringPresent(CheckContext& context);
void CheckKeyringWhole(CheckContext& context);
void CheckKeyringConfirmed(CheckContext& context);

}  // namespace csidelta::doctor
