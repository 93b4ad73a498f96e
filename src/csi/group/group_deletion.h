#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/content_deletion.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"

// How the driver's group snapshots go with their backup: as a group, never member by member.
//
// Protocol facts: external-snapshotter 8.6.0. The sidecar asks the driver to delete a group when a
// VolumeGroupSnapshotContent goes that says Delete, has the group's handle in its status, is
// pre-provisioned and bound to nothing, and names the handles of all members; it keeps the content
// by its finalizer until the driver agrees. It never asks for a member whose VolumeSnapshotContent
// has the group's handle in its status.
namespace csidelta::csi {

// Whether `content`, a VolumeSnapshotContent from an archive, is that of a member of a group that
// we took. Its snapshot goes with the group. Pure.
bool IsManagedMember(const objects::VolumeSnapshotContent& content);

// Sees to it that the driver holds the group of `archived_content`, a VolumeGroupSnapshotContent
// from the archive of `backup`, no more; kNothing for one that the backup did not make. What
// happens, in this order:
//
//   1. While a claim is being filled from a member, all stays as it is, but for a temporary content
//      that stands for what is to be done (kDeferred): FinishGroupDeletions() does it.
//   2. VolumeGroupSnapshots, contents, and members' VolumeSnapshots and contents go that belong to
//      the backup: the originals, where they are left over, and those that restores of it made. The
//      driver is not asked.
//   3. A temporary content for the group, named after driver and handle, is made with Delete, the
//      sidecar's finalizer and ours, the handles of all members, the Secret of the class that fits
//      now, and the handle in its status, and deleted. Waits at most `wait` until the driver is
//      proven to have deleted the group (csi/deletion_proof.h); until then it stays and stands for
//      the work (kInProgress), also after a restart of anything.
//
// Contents of other origin that name the same handle stay. Idempotent; may run in two processes at
// once. NOT_FOUND when the cluster serves no group kinds; any error means that calling again may
// help.
absl::StatusOr<DeletionResult> DeleteGroupOfBackup(
    const CallContext& ctx, const Environment& env,
    const objects::VolumeGroupSnapshotContent& archived_content, const objects::Backup& backup,
    absl::Duration wait);

// Takes up temporary contents that wait for claims or for a proof, or that a call which died left
// before it deleted them: removes what restores made and deletes the group, once no claim is being
// filled from a member. Takes orphaned records of moved groups, too. Returns how
// many; does not wait for the driver. One to three requests when there is nothing to do. What fails
// for one group is logged as a warning; only a failed listing is returned.
absl::StatusOr<int> FinishGroupDeletions(const CallContext& ctx, const Environment& env);

// The name of the temporary content that deletes this group. Pure.
std::string GroupDeletionContentName(absl::string_view driver, absl::string_view handle);

}  // namespace csidelta::csi
