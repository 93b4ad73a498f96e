#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "csi/orphan_sweep.h"
#include "longhorn/native_snapshot.h"
#include "longhorn/types.h"
#include "objects/backup.h"
#include "objects/core.h"
#include "velero/plugin_config.h"

// Which native snapshots (longhorn/native_snapshot.h) are in no archive? Nothing may be written to
// an object of Longhorn, so each has a record beside it for as long as that is so: a Lease in
// Velero's namespace.
//
//   absent --RecordRequest, before Longhorn is asked--> there
//          <--RecordArchived, as the Snapshot enters the archive--
//          <--RemoveRecord, by the sweep below--------------------
//
// A backup archives a Snapshot before the PVC that names it. So once a backup is over, what has a
// record is in no archive, and no archive names it: the process died, or the item failed. What has
// none belongs to its backup, or was taken by an earlier version: nothing can be said of it.
namespace csidelta::backupitemactions {

struct NativeRecord {
  std::string name;  // of the Lease
  std::string snapshot_name;
  std::string pvc_uid;
  std::optional<absl::Time> made_at;
  std::optional<absl::Time> backup_missing_since;
  objects::Lease lease;  // as it was read
};

// Whether the record is of this very Snapshot. Two PVCs of one volume share a Snapshot, and the
// record of the second does not cover what the first archived. Pure.
bool IsRecordOf(const NativeRecord& record, const longhorn::Snapshot& snapshot);

// OK also when an interrupted call made it.
absl::Status RecordRequest(const CallContext& ctx, const csi::Environment& env,
                           const longhorn::NativeRequest& request, absl::string_view snapshot_name);

// OK also if it is gone.
absl::Status RecordArchived(const CallContext& ctx, const csi::Environment& env,
                            absl::string_view snapshot_name);

// By the name of the Snapshot. REQUIRES, where it decides anything, that the Backups were read
// before: what is in the archive of one that is over has no record any more.
absl::StatusOr<std::map<std::string, NativeRecord>> ListRecords(const CallContext& ctx,
                                                                const csi::Environment& env);

// Notes since when the Backup is missing; nothing: it is there again. OK when the record is gone.
absl::Status RecordMissing(const CallContext& ctx, const csi::Environment& env,
                           const NativeRecord& record, std::optional<absl::Time> since);

// OK when it is gone, or another one has the name.
absl::Status RemoveRecord(const CallContext& ctx, const csi::Environment& env,
                          const NativeRecord& record);

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

// Has Longhorn delete the native snapshots of this Velero that are to be removed, each by its uid,
// and removes their records. It also removes records whose Snapshot has been gone for the grace
// period. Returns how many were deleted. `running` is the backup that calls. Failures are logged
// one by one; only a failed listing is returned. One request when there are no native snapshots,
// and two more when there are.
absl::StatusOr<int> SweepNativeSnapshots(const CallContext& ctx, const csi::Environment& env,
                                         const objects::Backup& running,
                                         const velero::PluginConfig& config);

}  // namespace csidelta::backupitemactions
