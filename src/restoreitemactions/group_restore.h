#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "objects/volume_snapshot.h"
#include "velero/plugin_config.h"

// What the restore of volume groups and that of their members have in common.
//
// Protocol facts: external-snapshotter 8.6.0. The sidecar asks the driver about a restored
// snapshot, and where the driver tells of a group, writes its handle into the content's status. The
// snapshot controller then makes the VolumeSnapshot ready only while there is a
// VolumeGroupSnapshotContent with that handle in its status, and counts it as a member of the
// VolumeGroupSnapshot that this content names. Velero >= 1.18.1 makes such a content for each
// restore, and deletes, when the snapshots are ready, every one that carries the restore's label.
namespace csidelta::restoreitemactions {

// Whether an archived VolumeSnapshot is that of a member of a group: one that we took, or one whose
// driver told of a group. Pure.
bool IsMember(const objects::VolumeSnapshot& snapshot_from_backup);
// The name of the VolumeGroupSnapshot that a member belongs to, where we took it; else "". Pure.
std::string ManagedGroup(const objects::VolumeSnapshot& snapshot_from_backup);

// The name under which a VolumeGroupSnapshotContent is restored, and the VolumeGroupSnapshot, too,
// where we took it: 64 hexadecimal digits derived from the Restore's uid, and from namespace and
// name in the backup. Pure.
std::string RestoredGroupName(absl::string_view restore_uid, absl::string_view namespace_in_backup,
                              absl::string_view name_in_backup);

// Makes the VolumeGroupSnapshotContent without which `snapshot_from_backup`, a member, would not
// become ready: named as Velero's, and with the restore's label, so that there is one, and Velero
// deletes it. It stands for no VolumeGroupSnapshot, and takes nothing along when it goes. OK when
// the cluster serves no group kinds, or the archive does not tell the group's handle.
absl::Status EnsurePlaceholder(const CallContext& ctx, const csi::Environment& env,
                               const objects::Restore& restore,
                               const objects::VolumeSnapshot& snapshot_from_backup);

// Removes that content, of Velero's or ours, where the group itself is restored: of two contents
// for one group the snapshot controller takes any. OK when none exists.
absl::Status RemovePlaceholder(const CallContext& ctx, const csi::Environment& env,
                               const objects::Restore& restore,
                               const objects::VolumeSnapshot& snapshot_from_backup);

}  // namespace csidelta::restoreitemactions
