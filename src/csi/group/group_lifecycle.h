#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/group/take_group.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/api_client.h"
#include "objects/backup.h"
#include "objects/group_plan.h"
#include "objects/volume_group_snapshot.h"

// A volume group that a backup snapshots at one instant: what it is called, and how it is known
// again. docs/volume-groups.md says what a user sees of it. Until the driver has taken it:
// csi/group/take_group.h; afterwards:
//
//   taken --operation cancelled--> DropSnapshot(kDelete): everything made is deleted
//     |  DropSnapshot(kRetain)
//     v
//   the driver's group alone; the archive holds the objects
namespace csidelta::csi {

// What KEP-3476 lets a group have.
inline constexpr std::size_t kGroupMembersMax = 100;

// The label by which claims say what volume group they are of: Velero's default where the backup
// names none. Pure.
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

// Whether a VolumeSnapshot, VolumeGroupSnapshot, or a content of either, as a backup's archive has
// it, was made by us for another backup. The host lists what is there before the sweep of the
// backup removes what one that died left, and archives what it listed; such an object is of no use.
// Members of a group that died early carry no label of csi-delta. Pure.
bool IsOfAnotherBackup(const objects::Object& archived, absl::string_view backup_name);

// Whether a VolumeGroupSnapshot was made by us, for whichever backup: its labels, annotations and
// name agree. A copy under another name is not. Pure.
bool IsMadeByUs(const objects::VolumeGroupSnapshot& group);
// Whether a backup's archive has it, as the annotation says that our action writes then. Pure.
bool EnteredArchive(const objects::VolumeGroupSnapshot& group);
// The same, for this backup. Pure.
bool IsManaged(const objects::VolumeGroupSnapshot& group, const objects::Backup& backup);
// What a managed VolumeGroupSnapshot was requested for, as its annotation, or that of its archived
// content, says. Pure.
std::vector<objects::PlannedGroupMember> PlannedMembers(const objects::Object& group);
// The freeze window: the time from the request of a managed VolumeGroupSnapshot to the driver's
// answer, by the clock of the requesting process. The snapshot was taken inside of it, so an
// application that is frozen for the snapshot need not be frozen for longer. Nothing while the
// driver has not answered, or where the annotations do not say. Pure.
std::optional<absl::Duration> FreezeWindow(const objects::VolumeGroupSnapshot& group);

// As that of csi/group/take_group.h, for a backup: waits first for the group's Lease, and for
// VolumeSnapshots of its claims that are being taken, for the backup's csiSnapshotTimeout. A
// VolumeGroupSnapshot that an earlier, interrupted call left under the same name is taken up with
// the members that it was asked for.
absl::StatusOr<TakenGroup> TakeGroup(const CallContext& ctx, const Environment& env,
                                     const GroupRequest& request);

}  // namespace csidelta::csi
