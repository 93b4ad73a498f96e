#include "datamover/records/kept_reconciler.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/kept_snapshots.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::datamover {
namespace {

using objects::VolumeSnapshotContent;

// How often it is read whether a Backup is there, and has an archive.
constexpr absl::Duration kBackupReadEvery = absl::Minutes(30);

}  // namespace

absl::StatusOr<absl::Time> KeptReconciler::ReconcileOne(const CallContext& ctx,
                                                        const objects::Object& object) {
  if (object.HasLabel(objects::kKeptLabel)) {
    ASSIGN_OR_RETURN(const auto record, VolumeSnapshotContent::From(object));
    return ReconcileRecord(ctx, record);
  }
  ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> record,
                   csi::FindKept(ctx, env_.api, object, [&](const std::string& label) {
                     return FindVelero(ctx, env_, label, [&label](const objects::Backup& one) {
                       // A record needs the whole name, to see that the Backup is there.
                       return !one.snapshot_move_data() && one.name() == label;
                     });
                   }));
  if (record.has_value() && IsServed(env_, record->Label(objects::kMoverVeleroNamespaceLabel))) {
    RETURN_IF_ERROR(objects::CreateOrGet(ctx, env_.api, *record).status());
  }
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> KeptReconciler::ReconcileRecord(const CallContext& ctx,
                                                           const VolumeSnapshotContent& record) {
  const std::string velero_namespace = record.Label(objects::kMoverVeleroNamespaceLabel);
  if (record.is_being_deleted() || !IsServed(env_, velero_namespace)) {
    return absl::InfiniteFuture();
  }
  const absl::Time now = ctx.clock->Now();
  const k8s::ObjectKey backup_key =
      objects::Backup::Key(velero_namespace, record.Annotation(objects::kBackupNameLabel));
  ASSIGN_OR_RETURN(const absl::Duration missing_for,
                   presence_.MissingFor(ctx, env_.api, backup_key));
  const bool is_backup_gone = missing_for >= kMissingGracePeriod;
  const csi::KeptSnapshot kept = csi::ReadKept(record);
  const absl::Time asked_at = record.created_at().value_or(now);
  // A driver may call a snapshot that went with its Backup an error, each time.
  const bool is_given_up =
      is_backup_gone && kept.is_unanswered && now - asked_at >= kKeptAnsweredWithin;
  // The snapshot went with its Backup, or that is not known: a label shortens long names.
  const bool is_over = kept.state == csi::kKeptGone || kept.state == csi::kKeptUnlisted ||
                       is_given_up || backup_key.name.size() >= velero::kLabelValueBytesMax;
  if (!is_backup_gone || !is_over) {
    RETURN_IF_ERROR(csi::AnswerForLonghorn(ctx, env_.api, record));
    // Of before the Backup went, or of before it came back.
    const bool is_outdated =
        is_backup_gone ? !kept.is_last && asked_at < now - missing_for : kept.is_last;
    const absl::Time due = asked_at + (is_outdated     ? absl::ZeroDuration()
                                       : kept.is_first ? kKeptAskedFirst
                                                       : kKeptAskedEvery);
    if (now < due) {
      return std::min(due, now + kBackupReadEvery);
    }
    ASSIGN_OR_RETURN(const auto backup, objects::Find<objects::Backup>(ctx, env_.api, backup_key));
    const bool has_archive = backup.has_value() && backup->has_archive();
    const bool is_answer_awaited =
        is_backup_gone ? kept.is_unanswered : !kept.is_first && kept.state == csi::kKeptUnchecked;
    if (is_answer_awaited || (!has_archive && !is_backup_gone)) {
      return now + kBackupReadEvery;
    }
    RETURN_IF_ERROR(ctx.Pause(kKeptPause));
    ASSIGN_OR_RETURN(const auto next,
                     objects::CreateOrGet(ctx, env_.api, csi::NextRecord(record, is_backup_gone)));
    if (next.is_being_deleted()) {  // The one before, which the sidecar has not released.
      return now + kBackupReadEvery;
    }
  }
  if (is_given_up) {
    CSIDELTA_LOG(kWarn, "a record of a kept snapshot ends", {"backup", kept.backup},
                 {"snapshot", kept.text});
  }
  // Without the driver's snapshot: the policy is confirmed before the deletion.
  RETURN_IF_ERROR(
      csi::DropContent(ctx, env_.api, csi::IdOf(record), std::nullopt, csi::Data::kRetain));
  return absl::InfiniteFuture();
}

}  // namespace csidelta::datamover
