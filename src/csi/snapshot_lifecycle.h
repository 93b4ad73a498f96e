#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/take.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/volume_snapshot.h"

// The life of a volume snapshot that a backup takes. docs/design/0001-snapshot-life-cycle.md has
// the reasons.
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

// The rules of a backup for taking a VolumeSnapshot or a group; and the Lease that it takes, of a
// PVC or of a group. A group's `claim_uid` is an id that no PVC's uid looks like.
// If the driver has no room, a base of each of the PVCs is dropped. Borrows `ctx` and what `env`
// does.
TakeRules BackupRules(const CallContext& ctx, const Environment& env, const objects::Backup& backup,
                      const std::vector<std::string>& claim_uids);
// The labels of what a backup makes, and of its members. Pure.
std::map<std::string, std::string> LabelsOf(const Environment& env, const objects::Backup& backup);
VolumeLeaseRequest LeaseRequestOf(const Environment& env, const objects::Backup& backup,
                                  const std::string& claim_namespace, const std::string& claim_name,
                                  const std::string& claim_uid);
// How long a backup waits for other operations on a volume: at least until the Lease of a dead
// holder has expired.
absl::Duration LockWaitMax(const objects::Backup& backup);

// The digits of a hash in the names of objects that csi-delta makes.
inline constexpr std::size_t kNameHashBytes = 20;

struct SnapshotRequest {
  const objects::Backup& backup;
  std::string claim_namespace;
  std::string claim_name;
  std::string claim_uid;
  std::string class_name;   // VolumeSnapshotClass
  std::string driver = {};  // whose rules an error names; "": unknown
};

// The name of the VolumeSnapshot that `request` makes: a DNS label that fits a label value, the
// same in every process and every retry. Pure.
std::string SnapshotName(const SnapshotRequest& request);

// The managed VolumeGroupSnapshot that a VolumeSnapshot is a member of; "" for one that was taken
// alone. A copy without an owner does not count. Pure.
std::string MemberGroupName(const objects::VolumeSnapshot& snapshot);

// True if csi-delta made the VolumeSnapshot, for any backup: its source, labels and name agree, or
// it is a member of a managed group. A copy under another name does not count. Pure.
bool IsMadeByUs(const objects::VolumeSnapshot& snapshot);
// True if a backup's archive may have it: the archiving action writes this annotation, but so can
// others. csi/orphan_sweep.h has what proves it. Pure.
bool EnteredArchive(const objects::VolumeSnapshot& snapshot);
// The same, for this backup. Pure.
bool IsManaged(const objects::VolumeSnapshot& snapshot, const objects::Backup& backup);

// TakeSnapshot() of csi/take.h for a backup. First waits, for the backup's csiSnapshotTimeout,
// until no other snapshot of that volume is being taken, by a backup or another client. Resumes a
// VolumeSnapshot that an interrupted call left under the same name.
absl::StatusOr<TakenSnapshot> TakeSnapshot(const CallContext& ctx, const Environment& env,
                                           const SnapshotRequest& request);

}  // namespace csidelta::csi
