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

// Deletes the driver's group snapshots with their backup: as a group, never member by member.
//
// Protocol facts: external-snapshotter 8.6.0. The sidecar has the driver delete a group when a
// VolumeGroupSnapshotContent is deleted that says Delete, is pre-provisioned and bound to nothing.
// Its status must have the group's handle, and its source the handles of all members. The sidecar's
// finalizer keeps the content until the driver agrees. The sidecar never deletes a member whose
// VolumeSnapshotContent has the group's handle in its status.
namespace csidelta::csi {

// True if `content`, from an archive, is of a member of a group that csi-delta took. Its snapshot
// is deleted with the group. Pure.
bool IsManagedMember(const objects::VolumeSnapshotContent& content);

// Deletes the driver's group of `archived_content`, a VolumeGroupSnapshotContent from the archive
// of `backup`; kNothing if the backup did not make it, kNoDriver if the cluster does not have the
// driver. The steps, in this order:
//
//   1. While a PVC is being filled from a member, all stays as it is. Only a temporary content
//      records what is to be done (kDeferred): FinishGroupDeletions() does it.
//   2. VolumeGroupSnapshots, contents, and members' VolumeSnapshots and contents of the backup are
//      deleted: the originals, if they are left, and what restores made. The driver is not asked.
//   3. A temporary content for the group is made and deleted. It is named after driver and handle; it
//      has the policy Delete, two finalizers (the sidecar's and csi-delta's), the handles of all
//      members, the Secret of the class that fits now, and the handle in its status. Waits at most
//      `wait` for the proof (csi/deletion_proof.h). Until then it stays (kInProgress), also after a
//      restart of any program.
//
// Contents of other origin that name the same handle stay. Idempotent; may run in two processes at
// once. NOT_FOUND if the cluster serves no group kinds, INVALID_ARGUMENT if the archive names no
// member. After any other error, calling again may help.
absl::StatusOr<DeletionResult> DeleteGroupOfBackup(
    const CallContext& ctx, const Environment& env,
    const objects::VolumeGroupSnapshotContent& archived_content, const objects::Backup& backup,
    absl::Duration wait);

// Resumes the deletions whose temporary contents are left: they wait for PVCs or for a proof, or
// the call died. Once no PVC is being filled from a member, removes what restores made and deletes
// the group. Also deletes orphaned records of moved groups. Returns how many were finished; does
// not wait for the driver. One to three requests if there is nothing to do. A failure of one group
// is logged as a warning; only a failed listing is returned.
absl::StatusOr<int> FinishGroupDeletions(const CallContext& ctx, const Environment& env);

// The name of the temporary content that deletes this group. Pure.
std::string GroupDeletionContentName(absl::string_view driver, absl::string_view handle);

}  // namespace csidelta::csi
