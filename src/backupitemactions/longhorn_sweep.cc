#include "backupitemactions/longhorn_sweep.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "k8s/api_client.h"
#include "longhorn/native_snapshot.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {
namespace {

NativeAction ActionOfUnseen(const NativeRecord& record, absl::Time now, absl::Duration grace) {
  if (!record.backup_missing_since.has_value()) {
    return NativeAction::kNoteMissing;
  }
  return now - *record.backup_missing_since >= grace ? NativeAction::kRemove : NativeAction::kKeep;
}

// One pass over the native snapshots of this Velero.
class NativeSweep {
 public:
  NativeSweep(const csi::Environment& env, const velero::PluginConfig& config,
              const csi::Backups& backups, std::map<std::string, NativeRecord> records)
      : ctx_(csi::CleanUpContext(env.clock)),
        env_(env),
        config_(config),
        backups_(backups),
        records_(std::move(records)) {}

  void Look(const longhorn::Snapshot& snapshot) {
    seen_.insert(snapshot.name());
    if (const absl::Status status = Settle(snapshot); !status.ok()) {
      CSIDELTA_LOG(kWarn, "a native snapshot of a failed backup is left",
                   {"snapshot", snapshot.name()}, {"status", status.ToString()});
    }
  }

  void RemoveUnused() {
    for (const auto& [name, record] : records_) {
      if (seen_.contains(name) || !record.made_at.has_value() ||
          env_.clock.Now() - *record.made_at < config_.orphan_grace_period) {
        continue;
      }
      if (const absl::Status status = RemoveIfUnused(record); !status.ok()) {
        CSIDELTA_LOG(kInfo, "the record of a native snapshot is left", {"lease", record.name},
                     {"status", status.ToString()});
      }
    }
  }

  int swept() const { return swept_; }

 private:
  absl::Status Settle(const longhorn::Snapshot& snapshot) {
    const auto found = records_.find(snapshot.name());
    const NativeRecord* const record =
        found != records_.end() && IsRecordOf(found->second, snapshot) ? &found->second : nullptr;
    const absl::Time now = env_.clock.Now();
    switch (NativeActionOf(snapshot, record, backups_, now, config_.orphan_grace_period)) {
      case NativeAction::kKeep:
        return absl::OkStatus();
      case NativeAction::kNoteMissing:
        return RecordMissing(ctx_, env_, *record, now);
      case NativeAction::kNoteFound:
        return RecordMissing(ctx_, env_, *record, std::nullopt);
      case NativeAction::kRemove:
        return Remove(snapshot, record);
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const longhorn::Snapshot& snapshot, const NativeRecord* record) {
    RETURN_IF_ERROR(longhorn::RemoveNative(
        ctx_, env_.api, longhorn::Snapshot::Key(snapshot.namespace_name(), snapshot.name()),
        snapshot.uid()));
    ++swept_;
    CSIDELTA_LOG(kInfo, "removed a native snapshot that an unfinished backup left behind",
                 {"snapshot", snapshot.name()}, {"volume", snapshot.volume()},
                 {"backup", snapshot.Label(objects::kBackupNameLabel)});
    return record == nullptr ? absl::OkStatus() : RemoveRecord(ctx_, env_, *record);
  }

  // The list of Snapshots may have been an old one.
  absl::Status RemoveIfUnused(const NativeRecord& record) {
    ASSIGN_OR_RETURN(const auto found, objects::Find<longhorn::Snapshot>(
                                           ctx_, env_.api,
                                           longhorn::Snapshot::Key(config_.longhorn_namespace,
                                                                   record.snapshot_name)));
    return found.has_value() ? absl::OkStatus() : RemoveRecord(ctx_, env_, record);
  }

  const CallContext ctx_;
  const csi::Environment& env_;
  const velero::PluginConfig& config_;
  const csi::Backups& backups_;
  const std::map<std::string, NativeRecord> records_;
  std::set<std::string> seen_;  // names of Snapshots
  int swept_ = 0;
};

}  // namespace

NativeAction NativeActionOf(const longhorn::Snapshot& snapshot, const NativeRecord* record,
                            const csi::Backups& backups, absl::Time now, absl::Duration grace) {
  const auto found = backups.find(snapshot.Label(objects::kBackupNameLabel));
  if (found == backups.end()) {
    return record == nullptr ? NativeAction::kKeep : ActionOfUnseen(*record, now, grace);
  }
  const objects::Backup& backup = found->second;
  const bool is_the_same =
      !backup.uid().empty() && snapshot.Label(objects::kBackupUidLabel) == backup.uid();
  if (backup.phase() == "Failed" && (is_the_same || record != nullptr)) {
    return NativeAction::kRemove;
  }
  const bool is_pending =
      longhorn::StateOf(&snapshot, snapshot.uid()) == longhorn::NativeState::kPending;
  if ((backup.phase() == "Completed" || backup.phase() == "PartiallyFailed") &&
      (record != nullptr || (is_the_same && is_pending))) {
    return NativeAction::kRemove;
  }
  return record != nullptr && record->backup_missing_since.has_value() ? NativeAction::kNoteFound
                                                                       : NativeAction::kKeep;
}

absl::StatusOr<int> SweepNativeSnapshots(const CallContext& ctx, const csi::Environment& env,
                                         const objects::Backup& running,
                                         const velero::PluginConfig& config) {
  ASSIGN_OR_RETURN(
      const auto snapshots,
      objects::List<longhorn::Snapshot>(
          ctx, env.api, config.longhorn_namespace,
          {.label_selector = absl::StrCat(objects::kLonghornMadeByLabel, ",",
                                          objects::kCsiDeltaLabel, "=", env.velero_namespace),
           .may_be_old = true}));
  csi::Backups backups;
  if (!snapshots.empty()) {
    ASSIGN_OR_RETURN(backups, csi::ListBackups(ctx, env, running));
  }
  // In this order: of a backup that is over, what is in the archive has lost its record.
  ASSIGN_OR_RETURN(auto records, ListRecords(ctx, env));
  NativeSweep sweep(env, config, backups, std::move(records));
  for (const longhorn::Snapshot& snapshot : snapshots) {
    if (!snapshot.is_being_deleted()) {
      sweep.Look(snapshot);
    }
  }
  sweep.RemoveUnused();
  return sweep.swept();
}

}  // namespace csidelta::backupitemactions
