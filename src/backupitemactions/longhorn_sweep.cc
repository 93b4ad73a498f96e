#include "backupitemactions/longhorn_sweep.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_types.h"
#include "k8s/api_client.h"
#include "k8s/object.h"
#include "longhorn/native_snapshot.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

// By the value that their name has as a label. One that cannot be read decides nothing.
absl::StatusOr<std::map<std::string, velero::Backup>> ListBackups(const CallContext& ctx,
                                                                  const csi::Environment& env) {
  ASSIGN_OR_RETURN(const k8s::ObjectList list,
                   env.api.List(ctx, csi::BackupType(), env.velero_namespace, {}));
  std::map<std::string, velero::Backup> backups;
  for (const Json& object : list.items) {
    if (absl::StatusOr<velero::Backup> backup = velero::ParseBackup(object); backup.ok()) {
      std::string label = velero::ValidLabelValue(backup->name);
      backups.emplace(std::move(label), *std::move(backup));
    }
  }
  return backups;
}

}  // namespace

bool IsInVain(const longhorn::Snapshot& snapshot, const velero::Backup& backup) {
  if (backup.uid.empty() || snapshot.Label(objects::kBackupUidLabel) != backup.uid ||
      snapshot.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name)) {
    return false;
  }
  if (backup.phase == "Failed") {
    return true;
  }
  const bool is_done = backup.phase == "Completed" || backup.phase == "PartiallyFailed";
  return is_done && longhorn::StateOf(&snapshot, snapshot.uid()) == longhorn::NativeState::kPending;
}

absl::StatusOr<int> SweepNativeSnapshots(const CallContext& ctx, const csi::Environment& env,
                                         const std::string& longhorn_namespace) {
  ASSIGN_OR_RETURN(const k8s::ObjectList list,
                   env.api.List(ctx, longhorn::SnapshotType(), longhorn_namespace,
                                {.label_selector = absl::StrCat(objects::kLonghornMadeByLabel, ",",
                                                                objects::kCsiDeltaLabel, "=",
                                                                env.velero_namespace),
                                 .field_selector = "",
                                 .may_be_old = true}));
  if (list.items.empty()) {
    return 0;
  }
  ASSIGN_OR_RETURN(const auto backups, ListBackups(ctx, env));
  int swept = 0;
  for (const Json& object : list.items) {
    const absl::StatusOr<longhorn::Snapshot> snapshot = longhorn::Snapshot::Of(object);
    const auto backup = backups.find(k8s::Label(object, objects::kBackupNameLabel));
    if (!snapshot.ok() || snapshot->is_being_deleted() || backup == backups.end() ||
        !IsInVain(*snapshot, backup->second)) {
      continue;
    }
    const absl::Status removed = longhorn::RemoveNative(
        csi::CleanUpContext(env.clock), env.api,
        longhorn::SnapshotKey(longhorn_namespace, snapshot->name()), snapshot->uid());
    if (!removed.ok()) {
      CSIDELTA_LOG(kWarn, "a native snapshot of a failed backup is left",
                   {"snapshot", snapshot->name()}, {"status", removed.ToString()});
      continue;
    }
    ++swept;
    CSIDELTA_LOG(kInfo, "removed a native snapshot that an unfinished backup left behind",
                 {"snapshot", snapshot->name()}, {"volume", snapshot->volume()},
                 {"backup", backup->second.name});
  }
  return swept;
}

}  // namespace csidelta::backupitemactions
