#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "csi/environment.h"
#include "velero/backup.h"

namespace csidelta::csi {

// What the handle of a driver's snapshot or group is called in the names of objects. Pure.
std::string DigestOfHandle(absl::string_view driver, absl::string_view handle);

// How a deletion ended.
enum class DeletionResult {
  kNothing,     // the archived object names no snapshot of this backup
  kGone,        // the driver holds the snapshot no more
  kInProgress,  // asked for, not over yet: a content with its finalizer stands for it in the
                // cluster
  kDeferred,    // a claim is still being filled from the snapshot; the sweep deletes it afterwards
};

// Sees to it that the driver holds the snapshot of `archived_content`, a VolumeSnapshotContent from
// the archive of `backup`, no more. What happens, in this order:
//
//   1. A content that Velero's own delete action made for the same handle is being deleted: wait at
//      most `wait` until it is gone; when it stays, that content finishes the work (kInProgress).
//   2. Contents of the handle that belong to the backup, the original and those that restores of it
//      made, are set to Delete and deleted, with the VolumeSnapshots bound to them. When a claim is
//      still being filled from one, its VolumeSnapshot is marked instead, the others go without the
//      driver's snapshot, and that is all (kDeferred).
//   3. A temporary content for the handle, named after driver and handle, is made with Delete, the
//      finalizer and the handle in its status, and deleted: the driver's sidecar deletes the
//      snapshot, also after a restart. A driver that knows no such snapshot any more agrees at
//      once. Waits at most `wait` for it to disappear.
//
// Contents of other origin that name the same handle stay. Idempotent; may run in two processes at
// once. An error means that calling again may help.
absl::StatusOr<DeletionResult> DeleteSnapshotOfBackup(const CallContext& ctx,
                                                      const Environment& env,
                                                      const Json& archived_content,
                                                      const velero::Backup& backup,
                                                      absl::Duration wait);

// The name of the temporary content that deletes this snapshot. Pure.
std::string DeletionContentName(absl::string_view driver, absl::string_view handle);

}  // namespace csidelta::csi
