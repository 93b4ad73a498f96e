#include "backupitemactions/longhorn_sweep.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::backupitemactions {
namespace {

constexpr char kRecordPrefix[] = "csi-delta-";
constexpr char kRecordLabelValue[] = "native-snapshot";

k8s::ObjectKey RecordKey(const csi::Environment& env, absl::string_view snapshot_name) {
  return objects::Lease::Key(env.velero_namespace, absl::StrCat(kRecordPrefix, snapshot_name));
}

// No Backup owns it: when its object goes, nothing would tell any more that the Snapshot is in no
// archive.
objects::Lease MakeRecord(const longhorn::NativeRequest& request, const k8s::ObjectKey& key) {
  objects::Lease record = objects::Lease::Make(key.namespace_name, key.name);
  record.SetLabel(objects::kCsiDeltaLabel, kRecordLabelValue);
  record.SetLabel(objects::kPvcUidLabel, request.pvc_uid);
  record.SetLabel(objects::kExcludeFromBackupLabel, "true");
  record.SetHolder(request.backup_name);  // For people.
  return record;
}

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

  void Inspect(const longhorn::Snapshot& snapshot) {
    seen_.insert(snapshot.name());
    if (const absl::Status status = Apply(snapshot); !status.ok()) {
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
  absl::Status Apply(const longhorn::Snapshot& snapshot) {
    const auto found = records_.find(snapshot.name());
    const NativeRecord* const record =
        found != records_.end() && IsRecordOf(found->second, snapshot) ? &found->second : nullptr;
    const absl::Time now = env_.clock.Now();
    switch (NativeActionOf(snapshot, record, backups_, now, config_.orphan_grace_period)) {
      case NativeAction::kKeep:
        return absl::OkStatus();
      case NativeAction::kNoteMissing:
        CSIDELTA_CHECK(record != nullptr);  // By the table both need one.
        return RecordMissing(ctx_, env_, *record, now);
      case NativeAction::kNoteFound:
        CSIDELTA_CHECK(record != nullptr);
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
    ASSIGN_OR_RETURN(const auto found,
                     objects::Find<longhorn::Snapshot>(ctx_, env_.api, config_.longhorn_namespace,
                                                       record.snapshot_name));
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

bool IsRecordOf(const NativeRecord& record, const longhorn::Snapshot& snapshot) {
  return record.snapshot_name == snapshot.name() && !record.pvc_uid.empty() &&
         record.pvc_uid == snapshot.Label(objects::kPvcUidLabel);
}

absl::Status RecordRequest(const CallContext& ctx, const csi::Environment& env,
                           const longhorn::NativeRequest& request,
                           absl::string_view snapshot_name) {
  const k8s::ObjectKey key = RecordKey(env, snapshot_name);
  const absl::Status made = csi::RetryTransient(
      ctx, [&] { return objects::Create(ctx, env.api, MakeRecord(request, key)).status(); });
  return absl::IsAlreadyExists(made)
             ? absl::OkStatus()
             : Annotate(made, absl::StrCat("record the request for Snapshot ", snapshot_name));
}

absl::Status RecordArchived(const CallContext& ctx, const csi::Environment& env,
                            absl::string_view snapshot_name) {
  const k8s::ObjectKey key = RecordKey(env, snapshot_name);
  return Annotate(
      csi::RetryTransient(ctx, [&] { return k8s::IgnoreNotFound(env.api.Delete(ctx, key, {})); }),
      absl::StrCat("record that Snapshot ", snapshot_name, " is archived"));
}

absl::StatusOr<std::map<std::string, NativeRecord>> ListRecords(const CallContext& ctx,
                                                                const csi::Environment& env) {
  ASSIGN_OR_RETURN(
      const auto leases,
      objects::List<objects::Lease>(
          ctx, env.api, env.velero_namespace,
          {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", kRecordLabelValue)}));
  std::map<std::string, NativeRecord> records;
  for (const objects::Lease& lease : leases) {
    const std::string name = lease.name();
    std::string snapshot(absl::StripPrefix(name, kRecordPrefix));
    NativeRecord record{.name = name,
                        .snapshot_name = snapshot,
                        .pvc_uid = lease.Label(objects::kPvcUidLabel),
                        .made_at = lease.created_at(),
                        .backup_missing_since =
                            ParseRfc3339(lease.Annotation(objects::kBackupMissingSinceAnnotation)),
                        .lease = lease};
    records.emplace(std::move(snapshot), std::move(record));
  }
  return records;
}

absl::Status RecordMissing(const CallContext& ctx, const csi::Environment& env,
                           const NativeRecord& record, std::optional<absl::Time> since) {
  objects::Lease lease = record.lease;
  if (since.has_value()) {
    lease.SetAnnotation(objects::kBackupMissingSinceAnnotation, FormatRfc3339(*since));
  } else {
    lease.RemoveAnnotation(objects::kBackupMissingSinceAnnotation);
  }
  return k8s::IgnoreNotFound(objects::Update(ctx, env.api, lease).status());
}

absl::Status RemoveRecord(const CallContext& ctx, const csi::Environment& env,
                          const NativeRecord& record) {
  return k8s::IgnoreGone(
      env.api.Delete(ctx, RecordKey(env, record.snapshot_name), {.uid = record.lease.uid()}));
}

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
      sweep.Inspect(snapshot);
    }
  }
  sweep.RemoveUnused();
  return sweep.swept();
}

}  // namespace csidelta::backupitemactions
