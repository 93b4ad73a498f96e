#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/take.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/volume_snapshot.h"

// The life of a volume snapshot that a backup takes. docs/design/0001-snapshot-life-cycle.md says
// why.
//
//   (nothing)
//       |  TakeSnapshot
//       v
//   VolumeSnapshot, and content with the driver's handle --error, timeout, cancel-+
//       |  the driver                                                             |
//       v                                                    DropSnapshot(kDelete)
//   ready --operation cancelled-------------------------------------------------+
//       |  DropSnapshot(kRetain)                                                  v
//       v                                                         everything made is gone
//   the driver's snapshot alone; the archive holds the objects
namespace csidelta::csi {

// How a backup has a VolumeSnapshot, or a group, taken; and the Lease that it takes, of a claim, or
// of a group with an id that no claim's uid looks like.
TakeRules BackupRules(const Environment& env, const objects::Backup& backup);
// The labels of what a backup makes, and of its members. Pure.
std::map<std::string, std::string> LabelsOf(const Environment& env, const objects::Backup& backup);
VolumeLeaseRequest LeaseRequestOf(const Environment& env, const objects::Backup& backup,
                                  const std::string& claim_namespace, const std::string& claim_name,
                                  const std::string& claim_uid);
// How long a backup waits for other operations on a volume: long enough to see the Lease of a
// holder that died run out.
absl::Duration LockWaitMax(const objects::Backup& backup);

// How much of a hash goes into the name of an object that we make.
inline constexpr std::size_t kNameHashBytes = 20;

struct SnapshotRequest {
  const objects::Backup& backup;
  std::string claim_namespace;
  std::string claim_name;
  std::string claim_uid;
  std::string class_name;  // VolumeSnapshotClass
};

// The name of the VolumeSnapshot that `request` makes: a DNS label that fits a label value, the
// same in every process and every retry. Pure.
std::string SnapshotName(const SnapshotRequest& request);

// The managed VolumeGroupSnapshot that a VolumeSnapshot is a member of; "" for one that was taken
// alone. A copy without an owner does not count. Pure.
std::string MemberGroupName(const objects::VolumeSnapshot& snapshot);

// Whether a VolumeSnapshot was made by us, for whichever backup: its source, labels and name agree,
// or it is a member of a managed group. A copy under another name is not. Pure.
bool IsMadeByUs(const objects::VolumeSnapshot& snapshot);
// Whether a backup's archive has it, as the annotation says that our action writes then: it is not
// unreferenced any more, and no sweep removes it.
bool EnteredArchive(const objects::VolumeSnapshot& snapshot);
// The same, for this backup. Pure.
bool IsManaged(const objects::VolumeSnapshot& snapshot, const objects::Backup& backup);

// As that of csi/take.h, for a backup: waits first until no other snapshot of that volume is being
// taken, by a backup or by another client, for the backup's csiSnapshotTimeout. A VolumeSnapshot
// that an earlier, interrupted call left under the same name is taken up.
absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, const Environment& env,
                                           const SnapshotRequest& request);

}  // namespace csidelta::csi
