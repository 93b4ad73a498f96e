#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "backupitemactions/longhorn_records.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/orphan_sweep.h"
#include "longhorn/types.h"
#include "objects/backup.h"
#include "velero/plugin_config.h"

namespace csidelta::backupitemactions {

enum class NativeAction { kKeep, kRemove, kNoteMissing, kNoteFound };

// What becomes of a native snapshot (longhorn/native_snapshot.h), as for VolumeSnapshots
// (csi/orphan_sweep.h). `record`: its own, which says that it is in no archive; null for none.
// Pure.
//
//   Backup, found by name          snapshot                 action
//   -----------------------------  -----------------------  -------------------------------------
//   Completed or PartiallyFailed   with a record            removed
//   Completed or PartiallyFailed   not taken, the same uid  removed: no archive can need it
//   Completed or PartiallyFailed   any other                kept
//   Failed, the same uid           any                      removed
//   Failed, another uid            with a record            removed
//   Failed, another uid            without                  kept
//   in any other phase             any                      kept
//   not seen for the grace period  with a record            removed
//   not seen for a shorter time    with a record            kept, noted in the record
//   not seen                       without                  kept: `longhorn list` names it
//
// Another uid under the same name is the same backup, read again from the object store.
NativeAction NativeActionOf(const longhorn::Snapshot& snapshot, const NativeRecord* record,
                            const csi::Backups& backups, absl::Time now, absl::Duration grace);

// Has Longhorn delete the native snapshots of this Velero that are to be removed, each with its
// uid; their records go with them, and so do those whose Snapshot has been gone for the grace
// period. Returns how many were deleted. `running` is the backup that calls. Failures are logged
// one by one; only a failed listing is returned. One request when there are no native snapshots,
// and two more when there are.
absl::StatusOr<int> SweepNativeSnapshots(const CallContext& ctx, const csi::Environment& env,
                                         const objects::Backup& running,
                                         const velero::PluginConfig& config);

}  // namespace csidelta::backupitemactions
