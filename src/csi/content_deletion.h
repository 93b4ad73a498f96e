#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/deletion_proof.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi {

// What the handle of a driver's snapshot or group is called in the names of objects. Pure.
std::string DigestOfHandle(absl::string_view driver, absl::string_view handle);

// Sees to it that the driver holds the snapshot of `archived_content`, a VolumeSnapshotContent from
// the archive of `backup`, no more. What happens, in this order:
//
//   1. A content that Velero's own delete action made for the same handle is being deleted: wait at
//      most `wait` until it is gone; when it stays, what follows is done beside it, without a wait.
//   2. Contents of the handle that belong to the backup, the original and those that restores of it
//      made, are set to Delete and deleted, with the VolumeSnapshots bound to them. When a claim is
//      still being filled from one, its VolumeSnapshot is marked instead, the others go without the
//      driver's snapshot, and that is all (kDeferred).
//   3. A temporary content for the handle, named after driver and handle, is made with Delete, the
//      sidecar's finalizer and ours, and the handle in its status, and deleted: the driver's
//      sidecar deletes the snapshot, also after a restart. A driver that knows no such snapshot any
//      more agrees at once. Waits at most `wait` until that is proven (csi/deletion_proof.h).
//
// Contents of other origin that name the same handle stay. Idempotent; may run in two processes at
// once. An error means that calling again may help.
absl::StatusOr<DeletionResult> DeleteSnapshotOfBackup(
    const CallContext& ctx, const Environment& env,
    const objects::VolumeSnapshotContent& archived_content, const objects::Backup& backup,
    absl::Duration wait);

// Goes on with temporary contents that earlier deletions left: those whose drivers refused, were
// slow, or lost the handle, and those of calls that died. Returns for how many the driver is proven
// to have deleted the snapshot now. Waits a few seconds at most for all of them; one request when
// there is nothing to do. What fails for one is logged as a warning; only a failed listing is
// returned.
absl::StatusOr<int> FinishSnapshotDeletions(const CallContext& ctx, const Environment& env);

// The name of the temporary content that deletes this snapshot. Pure.
std::string DeletionContentName(absl::string_view driver, absl::string_view handle);

}  // namespace csidelta::csi
