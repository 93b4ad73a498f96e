#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "k8s/informer.h"
#include "objects/object.h"
#include "objects/volume_snapshot.h"

// Does the storage still have the snapshots that backups keep there? After a backup nothing in the
// cluster names them, so each has a record: a static content with the policy Retain and kKeptLabel.
// No VolumeSnapshot binds to it; its status is the answer of the storage.
//
// Protocol facts: external-snapshotter 8.6.0. For a new static content the sidecar asks the driver,
// by ListSnapshots with the handle; after an error again, and never once it is ready. An answer
// without the snapshot is the error "can not find snapshot". For a driver without LIST_SNAPSHOTS it
// asks nothing: it writes readyToUse, the time now, and no size.
namespace csidelta::csi {

// KeptSnapshot::state. Unchecked: no answer proves anything yet. Not ready: nothing can be restored
// from it now. Unlisted: never known, the driver lists no snapshots. Unknown: an error of the
// driver. Left: present, and its Backup went without deleting it.
inline constexpr char kKeptUnchecked[] = "unchecked";
inline constexpr char kKeptPresent[] = "present";
inline constexpr char kKeptNotReady[] = "not-ready";
inline constexpr char kKeptGone[] = "gone";
inline constexpr char kKeptUnlisted[] = "unlisted";
inline constexpr char kKeptUnknown[] = "unknown";
inline constexpr char kKeptLeft[] = "left";

struct KeptSnapshot {
  std::string backup;  // NAMESPACE/NAME
  std::string text;    // "the snapshot of PVC shop/data (snap-1 of d) is gone: why", for people
  std::string state;
  bool is_first = false;       // its record was made while the backup ran
  bool is_last = false;        // its record was made when the Backup was gone
  bool is_unanswered = false;  // it is the last, and has no answer, or an error as the answer
};
KeptSnapshot ReadKept(const objects::VolumeSnapshotContent& record);

// Of records of Longhorn's native snapshots: no sidecar answers, AnswerForLonghorn() does. Their
// handle is NAMESPACE/NAME/UID.
inline constexpr char kNativeDriver[] = "native.longhorn.csi-delta.io";
k8s::WatchedObjects NativesOfBackups();

// The first record of what `object` shows while its backup runs: a content with the backup's label,
// or a native snapshot. Nothing if no backup keeps it, if it is not ready, or if it has a later
// record. Asks `find_keeper` for the namespace of the Velero that keeps one of Velero's own action,
// by the Backup's name; "": none. The VolumeSnapshot that could bind to it is in Velero's
// namespace.
using FindKeeper = absl::FunctionRef<absl::StatusOr<std::string>(const std::string& backup)>;
absl::StatusOr<std::optional<objects::VolumeSnapshotContent>> FindKept(
    const CallContext& ctx, k8s::ApiClient& api, const objects::Object& object,
    FindKeeper find_keeper);

// The record that follows, under the other of two names. Creating it asks the storage again.
objects::VolumeSnapshotContent NextRecord(const objects::VolumeSnapshotContent& record,
                                          bool is_backup_gone);

// Writes the answer for a record of kNativeDriver that has none.
absl::Status AnswerForLonghorn(const CallContext& ctx, k8s::ApiClient& api,
                               const objects::VolumeSnapshotContent& record);

}  // namespace csidelta::csi
