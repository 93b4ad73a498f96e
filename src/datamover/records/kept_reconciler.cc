#include "datamover/records/kept_reconciler.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/kept_snapshots.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"

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
                   csi::FindKept(ctx, env_.api, object, [&](const std::string& backup) {
                     return FindVelero(ctx, env_, backup, /*may_move_data=*/false);
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
  if (missing_for < kMissingGracePeriod) {
    RETURN_IF_ERROR(csi::AnswerForLonghorn(ctx, env_.api, record));
    const csi::KeptSnapshot kept = csi::ReadKept(record);
    const absl::Time due =
        record.created_at().value_or(now) + (kept.is_first ? kKeptAskedFirst : kKeptAskedEvery);
    if (now < due) {
      return std::min(due, now + kBackupReadEvery);
    }
    ASSIGN_OR_RETURN(const auto backup, objects::Find<objects::Backup>(ctx, env_.api, backup_key));
    const bool is_answer_awaited = !kept.is_first && kept.state == csi::kKeptUnchecked;
    if (!backup.has_value() || !backup->has_archive() || is_answer_awaited) {
      return now + kBackupReadEvery;
    }
    RETURN_IF_ERROR(ctx.Pause(kKeptPause));
    ASSIGN_OR_RETURN(const auto next, objects::CreateOrGet(ctx, env_.api, csi::NextRecord(record)));
    if (next.is_being_deleted()) {  // The one before, which the sidecar has not released.
      return now + kBackupReadEvery;
    }
  }
  // Without the driver's snapshot: the policy is confirmed before the deletion.
  RETURN_IF_ERROR(
      csi::DropContent(ctx, env_.api, csi::IdOf(record), std::nullopt, csi::Data::kRetain));
  return absl::InfiniteFuture();
}

}  // namespace csidelta::datamover
