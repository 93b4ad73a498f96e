#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/device_copy.h"
#include "objects/persistent_volume_claim.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"

// Writes the data of a VolumeSnapshot into an existing PVC of mode Block, by copying what differs,
// with the rights of the caller in that namespace alone. The PVC, its uid and its PersistentVolume
// stay.
//
//   VolumeSnapshot
//       |  temporary PVC, made of it
//       |  record on the PVC (csi/copy_record.h): what is restored, until it is complete
//       v
//   Pod with both PVCs as devices, which runs `csi-delta device-copy`
//       |  followed: the last line of its log is the progress
//       v
//   Succeeded: its termination message is the result · Failed: the reason
//       |
//       v
//   Pod gone; temporary PVC deleted; the record, where the restore is complete
//
// Both have one name, which derives from the uids of PVC and VolumeSnapshot, and are owned by the
// PVC. So a second run after one that was killed finds the Pod and goes on with it. A copy that
// ended half-way leaves a volume that begins with a mark (incremental/restore_mark.h) and is partly
// old; the next one finishes it.
namespace csidelta::inplace {

// From the POST until the container runs: images are fetched meanwhile, volumes made and attached.
inline constexpr absl::Duration kCopyStartTimeMax = absl::Minutes(10);
// How often the log is read.
inline constexpr absl::Duration kCopyLookInterval = absl::Seconds(2);
// For the Pod to go once it was told to.
inline constexpr absl::Duration kCopyEndTimeMax = absl::Seconds(60);

inline constexpr char kCopySourcePath[] = "/dev/csi-delta-source";
inline constexpr char kCopyTargetPath[] = "/dev/csi-delta-target";

// What the Pod is made from, beside the volumes.
struct CopyPodSettings {
  std::string image;  // that has /bin/csi-delta
  // Whose token the Pod has, to ask the driver which blocks differ; "": it has none, and compares
  // all of them.
  std::string service_account = {};
  std::vector<int64_t> supplemental_groups = {};  // those that devices of the nodes belong to
  std::vector<std::string> image_pull_secrets = {};
};

using objects::ParseVolumeCopyResult;
using objects::VolumeCopyProgress;
using objects::VolumeCopyResult;

struct VolumeCopyRequest {
  objects::PersistentVolumeClaim target;  // bound, Block, and used by no Pod
  objects::VolumeSnapshot snapshot;       // ready, of the same driver and namespace
  // The VolumeSnapshot that was taken of the target as it is now: the driver lists what differs
  // between the two. "": all is compared.
  std::string safety_snapshot = {};
  CopyPodSettings pod;
  std::function<void(const VolumeCopyProgress&)> on_progress = nullptr;
};

// What of a repository is restored.
struct RepositorySource {
  // A Secret of the PVC's namespace. Its keys are environment variables of the Pod:
  // RESTIC_REPOSITORY, RESTIC_PASSWORD, those of the object store.
  std::string secret;
  std::vector<std::string> words;  // of restore: which snapshot
};

// A volume of a repository, into the same: the Pod runs `csi-delta restore --differing`.
struct RepositoryRestoreRequest {
  objects::PersistentVolumeClaim target;
  RepositorySource source;
  CopyPodSettings pod;
  std::function<void(const VolumeCopyProgress&)> on_progress = nullptr;
};

// The name of the Pod and of the temporary PVC of a copy. Pure.
std::string CopyName(const objects::PersistentVolumeClaim& target,
                     const objects::VolumeSnapshot& snapshot);
// The name of the Pod of a restore from a repository. Pure.
std::string CopyName(const objects::PersistentVolumeClaim& target, const RepositorySource& source);
// Whether `pod` is the one of this name that copies into the PVC: no other user of it. Pure.
bool IsCopyPod(const objects::Pod& pod, const objects::PersistentVolumeClaim& target,
               absl::string_view copy_name);

// Whether the caller may make and follow such a Pod there: PERMISSION_DENIED, naming what is
// missing.
absl::Status CheckMayCopy(const CallContext& ctx, k8s::ApiClient& api,
                          absl::string_view namespace_name);

// Blocks until the copy is done. Afterwards nothing of it is left, but for what the message names,
// and a record where the volume may be partly old. Adds to `not_checked` what may not be read:
// "progress not read: ...". Errors:
//   FAILED_PRECONDITION  the Pod did not start in time, or failed: why, and whether the volume may
//                        be partly old; or the data mover writes into the volume
//   OUT_OF_RANGE         the volume is smaller than the snapshot
//   ALREADY_EXISTS       another object has the name
//   CANCELLED · DEADLINE_EXCEEDED  the Pod was ended; the volume may be partly old
absl::StatusOr<VolumeCopyResult> CopyIntoVolume(const CallContext& ctx, k8s::ApiClient& api,
                                                const VolumeCopyRequest& request,
                                                std::vector<std::string>& not_checked);

// The same for a repository; there is no temporary PVC. Two different restores into one PVC have
// two names: the caller looks first whether a Pod uses it.
absl::StatusOr<VolumeCopyResult> RestoreIntoVolume(const CallContext& ctx, k8s::ApiClient& api,
                                                   const RepositoryRestoreRequest& request,
                                                   std::vector<std::string>& not_checked);

}  // namespace csidelta::inplace
