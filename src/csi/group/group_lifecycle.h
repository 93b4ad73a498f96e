#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/group/take_group.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/volume_group_snapshot.h"

// The names and marks of a volume group that a backup snapshots at one instant.
// docs/volume-groups.md has the user's view. Until the driver has taken it:
// csi/group/take_group.h; afterwards:
//
//   taken --operation cancelled--> DropSnapshot(kDelete): everything made is deleted
//     |  DropSnapshot(kRetain)
//     v
//   the driver's group alone; the archive holds the objects
namespace csidelta::csi {

// The limit of KEP-3476.
inline constexpr std::size_t kGroupMembersMax = 100;

// The key of the label by which PVCs name their volume group; Velero's default if the backup names
// none. Pure.
std::string GroupLabelKey(const objects::Backup& backup);

struct GroupRequest {
  const objects::Backup& backup;
  std::string namespace_name;
  std::string label_key;     // the user's label on the claims
  std::string label_value;   // the group's name
  std::string class_name;    // VolumeGroupSnapshotClass
  std::string version;       // of the kinds: "v1"
  bool to_be_moved = false;  // by a data mover: another group than that which is kept
  // PVCs that are bound, of one driver; one to kGroupMembersMax.
  std::vector<objects::PlannedGroupMember> members;
};

// The name of the VolumeGroupSnapshot that `request` makes: a DNS label that fits a label value,
// the same in every process and every retry. Pure.
std::string GroupName(const GroupRequest& request);
// The value of kGroupMarkLabel on its claims. Pure.
std::string GroupMark(const GroupRequest& request);

// True if csi-delta made `archived`, as a backup's archive has it, for another backup: a
// VolumeSnapshot, a VolumeGroupSnapshot, or a content of either. The host lists the objects before
// the backup's sweep, and archives what it listed: also what a dead backup left, which is useless.
// Members of a group that died early have no label of csi-delta. Pure.
bool IsOfAnotherBackup(const objects::Object& archived, absl::string_view backup_name);

// True if csi-delta made the VolumeGroupSnapshot, for any backup: its labels, annotations and name
// agree. A copy under another name does not count. Pure.
bool IsMadeByUs(const objects::VolumeGroupSnapshot& group);
// True if a backup's archive has it: the archiving action writes this annotation. Pure.
bool EnteredArchive(const objects::VolumeGroupSnapshot& group);
// The same, for this backup. Pure.
bool IsManaged(const objects::VolumeGroupSnapshot& group, const objects::Backup& backup);
// The members that a managed VolumeGroupSnapshot was requested for, by its annotation or that of
// its archived content. Pure.
std::vector<objects::PlannedGroupMember> PlannedMembers(const objects::Object& group);
// The freeze window: from the request of a managed VolumeGroupSnapshot to the driver's answer, by
// the clock of the requesting process. The snapshot was taken inside of it, so an application that
// is frozen for the snapshot can be thawed then. Nothing if the driver has not answered, or an
// annotation is missing. Pure.
std::optional<absl::Duration> FreezeWindow(const objects::VolumeGroupSnapshot& group);

// TakeGroup() of csi/group/take_group.h for a backup. First waits for the group's Lease, and for
// VolumeSnapshots of its PVCs that are being taken, for the backup's csiSnapshotTimeout. If an
// interrupted call left a VolumeGroupSnapshot of the name, resumes it, with the members of that
// request.
absl::StatusOr<TakenGroup> TakeGroup(const CallContext& ctx, const Environment& env,
                                     const GroupRequest& request);

}  // namespace csidelta::csi
