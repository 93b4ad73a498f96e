#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/deletion_proof.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// A digest of a driver's handle, of a snapshot or group, for the names of objects. Pure.
std::string DigestOfHandle(absl::string_view driver, absl::string_view handle);

// Deletes the driver's snapshot of `archived_content`, a VolumeSnapshotContent from the archive of
// `backup`. The steps, in this order:
//
//   1. A content that Velero's own delete action made for the same handle is being deleted: wait at
//      most `wait` until it is gone. If it stays, the next steps run alongside, without a wait.
//   2. Contents of the handle that belong to the backup, the original and those that restores made,
//      are set to Delete and deleted, with the VolumeSnapshots bound to them. While a PVC is being
//      filled from one, its VolumeSnapshot is marked instead, the other contents go without the
//      driver's snapshot, and the call ends (kDeferred).
//   3. A temporary content for the handle is made and deleted, so that the driver's sidecar deletes
//      the snapshot, also after a restart. It is named after driver and handle; it has the policy
//      Delete, two finalizers (the sidecar's and csi-delta's), and the handle in its status. A
//      driver that has no such snapshot agrees at once. Waits at most `wait` for the proof
//      (csi/deletion_proof.h). A cluster without the driver gets none: it would stay for ever
//      (kNoDriver).
//
// Contents of other origin that name the same handle stay. Idempotent; may run in two processes at
// once. After an error, calling again may help.
absl::StatusOr<DeletionResult> DeleteSnapshotOfBackup(
    const CallContext& ctx, const Environment& env,
    const objects::VolumeSnapshotContent& archived_content, const objects::Backup& backup,
    absl::Duration wait);

// Resumes the deletions whose temporary contents are left: the driver refused, was slow or lost the
// handle, or the call died. Returns how many are now proven. Ends within a few seconds; each call
// begins with another one, so that each has its turn. One request if there is nothing to do. A
// failure of one is logged as a warning; only a failed listing is returned.
absl::StatusOr<int> FinishSnapshotDeletions(const CallContext& ctx, const Environment& env);

// The name of the temporary content that deletes this snapshot. Pure.
std::string DeletionContentName(absl::string_view driver, absl::string_view handle);

}  // namespace csidelta::csi
