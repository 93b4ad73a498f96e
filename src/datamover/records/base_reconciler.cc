#include "datamover/records/base_reconciler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/driver_error.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kDeletedMax = 5000;
// While no base may go for a snapshot: until the upload that one is compared with is over. Another
// error of a snapshot that is younger may pass, because the sidecar retries.
constexpr absl::Duration kLookedAtEvery = absl::Minutes(1);
constexpr absl::Duration kErrorToldEvery = absl::Hours(1);

// Nothing, too, where it may not be read: the namespace may be another controller's by now.
absl::StatusOr<std::optional<objects::ProtectedVolume>> FindRecord(const CallContext& ctx,
                                                                   k8s::ApiClient& api,
                                                                   const csi::BaseOwner& owner) {
  if (owner.velero_namespace.empty() || owner.location.empty()) {
    return std::optional<objects::ProtectedVolume>();
  }
  absl::StatusOr<std::optional<objects::ProtectedVolume>> record =
      objects::Find<objects::ProtectedVolume>(
          ctx, api, owner.velero_namespace,
          objects::ProtectedVolume::NameOf(owner.claim_uid, owner.location));
  return absl::IsPermissionDenied(record.status()) ? std::optional<objects::ProtectedVolume>()
                                                   : std::move(record);
}

absl::StatusOr<bool> IsBeingUploaded(const CallContext& ctx, const MoverEnvironment& env,
                                     const csi::BaseOwner& owner) {
  ASSIGN_OR_RETURN(const std::vector<objects::VolumeTask> tasks,
                   objects::List<objects::VolumeTask>(ctx, env.api, env.mover_namespace));
  for (const objects::VolumeTask& task : tasks) {
    const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
    if (!spec.ok() ||
        (spec->kind == objects::TaskKind::kUpload && spec->volume.claim_uid == owner.claim_uid)) {
      return true;  // Or one that cannot be read may be.
    }
  }
  return false;
}

}  // namespace

// --- DeletedSnapshots

bool DeletedSnapshots::Has(absl::string_view snapshot_id) const {
  const MutexLock lock(mutex_);
  return ids_.contains(snapshot_id);
}

void DeletedSnapshots::Record(const objects::DataDeletion& deletion) {
  std::string id = deletion.spec().snapshot_id;
  if (deletion.phase() != objects::DeletionPhase::kCompleted || id.empty()) {
    return;
  }
  const MutexLock lock(mutex_);
  if (!ids_.insert(id).second) {
    return;
  }
  in_order_.push_back(std::move(id));
  if (in_order_.size() > kDeletedMax) {
    ids_.erase(in_order_.front());
    in_order_.pop_front();
  }
}

// --- BaseReconciler

absl::StatusOr<BaseInfo> BaseReconciler::ReadInfo(const CallContext& ctx,
                                                  const csi::BaseSnapshot& base) {
  const csi::BaseOwner& owner = base.owner;
  BaseInfo info = {.now = ctx.clock->Now(), .age_max = env_.settings.base_age_max};
  // The upload of one that was made just now, by this process, has read the PVC.
  const absl::Time created_at = base.created_at.value_or(absl::InfinitePast());
  if (created_at <= began_at_ || info.now - created_at >= kBaseReconciledEvery) {
    ASSIGN_OR_RETURN(const auto pvc, objects::Find<objects::PersistentVolumeClaim>(
                                         ctx, env_.api, owner.claim_namespace, owner.claim));
    ReadPvc(pvc, owner, info);
  }
  if (!owner.velero_namespace.empty() && !owner.location.empty()) {
    ASSIGN_OR_RETURN(info.location_missing_for,
                     presence_.MissingFor(ctx, env_.api,
                                          objects::BackupStorageLocation::Key(
                                              owner.velero_namespace, owner.location)));
  }
  if (!KeepsBase(env_.settings, base.driver)) {
    ASSIGN_OR_RETURN(
        info.is_kept,
        csi::NeedsBases(ctx, CsiEnvironmentOf(ctx, env_, owner.velero_namespace), base.driver));
  }
  ASSIGN_OR_RETURN(const objects::ProtectedVolumeStatus status, FindStatus(ctx, owner));
  info.last_good = status.last_good;
  info.deleted_upload = status.deleted_backup.value_or(objects::DeletedBackup()).upload;
  if (info.last_good.has_value() && info.last_good->upload == base.upload) {
    info.snapshot_is_deleted = deleted_.Has(info.last_good->snapshot_id);
    if (!info.last_good->backup.empty()) {
      ASSIGN_OR_RETURN(
          info.backup_missing_for,
          presence_.MissingFor(
              ctx, env_.api, objects::Backup::Key(owner.velero_namespace, info.last_good->backup)));
    }
  }
  return info;
}

absl::StatusOr<objects::ProtectedVolumeStatus> BaseReconciler::FindStatus(
    const CallContext& ctx, const csi::BaseOwner& owner) const {
  // A moment old: only what is newer than a base, or is its own upload's, makes it useless.
  if (const auto held = records_.Find(owner.velero_namespace, owner.claim_uid, owner.location)) {
    return held->status;
  }
  ASSIGN_OR_RETURN(const auto record, FindRecord(ctx, env_.api, owner));
  return record.has_value() ? record->status() : objects::ProtectedVolumeStatus();
}

absl::StatusOr<absl::Time> BaseReconciler::ReconcileOne(
    const CallContext& ctx, const objects::VolumeSnapshotContent& content) {
  began_at_ = std::min(began_at_, ctx.clock->Now());
  const csi::BaseSnapshot base = csi::ReadBase(content);
  const csi::BaseOwner& owner = base.owner;
  if (owner.cluster != env_.cluster || owner.claim_uid.empty() || owner.claim.empty() ||
      owner.claim_namespace.empty() || content.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  const absl::Time next = ctx.clock->Now() + kBaseReconciledEvery;
  ASSIGN_OR_RETURN(const BaseInfo info, ReadInfo(ctx, base));
  const std::optional<Finding> useless = WhyUseless(base, info);
  if (!useless.has_value()) {
    return next;
  }
  ASSIGN_OR_RETURN(const bool is_being_uploaded, IsBeingUploaded(ctx, env_, owner));
  if (is_being_uploaded) {
    ReportStay(ctx, base, *useless, "until the upload of the PVC is over");
    return next;
  }
  ASSIGN_OR_RETURN(
      const bool was_dropped,
      csi::DropBase(ctx, CsiEnvironmentOf(ctx, env_, owner.velero_namespace), base.content_name));
  if (!was_dropped) {
    ReportStay(ctx, base, *useless, "until another PVC is filled from it");
    return next;
  }
  ReportDrop(ctx, base, *useless);
  return absl::InfiniteFuture();
}

void BaseReconciler::ReportDrop(const CallContext& ctx, const csi::BaseSnapshot& base,
                                const Finding& useless) const {
  const csi::BaseOwner& owner = base.owner;
  const std::string& reason = useless.message;
  CSIDELTA_LOG(kInfo, "a base snapshot is dropped", {"reason", reason},
               {"namespace", owner.claim_namespace}, {"pvc", owner.claim},
               {"location", owner.location}, {"volume_snapshot_content", base.content_name},
               {"driver", base.driver}, {"snapshot_handle", base.snapshot_handle});
  const std::string message = absl::StrCat(
      "the base snapshot ", base.content_name, " of PVC ", owner.claim_namespace, "/", owner.claim,
      " was dropped: ", reason, "; the next backup of the PVC is a full one, if there is one");
  if (IsInTheWay(useless)) {
    csi::EmitBaseEvent(ctx, env_.api, owner, k8s::EventType::kNormal, "BaseDropped", message,
                       kMoverComponent);
  }
  const auto record = FindRecord(ctx, env_.api, owner);
  if (record.ok() && record->has_value()) {
    EmitMoverEvent(ctx, env_, **record, k8s::EventType::kNormal, "BaseDropped", message);
  }
}

void BaseReconciler::ReportStay(const CallContext& ctx, const csi::BaseSnapshot& base,
                                const Finding& useless, absl::string_view until) const {
  if (IsInTheWay(useless)) {
    csi::EmitBaseEvent(ctx, env_.api, base.owner, k8s::EventType::kWarning, "BaseInTheWay",
                       absl::StrCat("the base snapshot ", base.content_name, " stays ", until, ": ",
                                    useless.message),
                       kMoverComponent);
  }
}

// --- RoomReconciler

bool RoomReconciler::IsConcerned(const objects::VolumeSnapshot& snapshot) const {
  return !snapshot.is_ready() && !snapshot.is_being_deleted() &&
         !snapshot.HasLabel(objects::kCsiDeltaLabel) &&
         !snapshot.Label(objects::kBackupNameLabel).empty() && !snapshot.source_pvc().empty() &&
         !snapshot.error_message().empty();
}

absl::StatusOr<absl::Time> RoomReconciler::ReconcileOne(const CallContext& ctx,
                                                        const objects::VolumeSnapshot& snapshot) {
  const std::string error = snapshot.error_message();
  const bool has_no_room = csi::ReportsNoRoom(error);
  const absl::Time now = ctx.clock->Now();
  const absl::Time told_at = snapshot.created_at().value_or(now) + kLookedAtEvery;
  if (!has_no_room && now < told_at) {
    return told_at;
  }
  const std::string backup = snapshot.Label(objects::kBackupNameLabel);
  // Tenants write the label, too.
  ASSIGN_OR_RETURN(const std::string velero_namespace,
                   FindVelero(ctx, env_, backup, [&snapshot](const objects::Backup& found) {
                     return found.IncludesNamespace(snapshot.namespace_name());
                   }));
  ASSIGN_OR_RETURN(const auto pvc,
                   objects::Find<objects::PersistentVolumeClaim>(
                       ctx, env_.api, snapshot.namespace_name(), snapshot.source_pvc()));
  if (velero_namespace.empty() || !pvc.has_value()) {
    return absl::InfiniteFuture();
  }
  std::erase_if(next_at_, [now](const auto& one) { return one.second <= now; });
  absl::Time next = absl::InfiniteFuture();
  bool was_dropped = false;
  std::string why_bases_stay;
  if (has_no_room) {
    absl::Time& room_at = next_at_.emplace(pvc->uid(), now).first->second;
    if (room_at > now) {
      return room_at;
    }
    const absl::StatusOr<bool> dropped = csi::DropBaseForRoom(
        ctx, CsiEnvironmentOf(ctx, env_, velero_namespace), pvc->uid(), error, kMoverComponent);
    if (absl::IsPermissionDenied(dropped.status()) || absl::IsNotFound(dropped.status())) {
      why_bases_stay = absl::StrCat(" (", dropped.status().message(), ")");
    } else {
      RETURN_IF_ERROR(dropped.status());
    }
    was_dropped = dropped.value_or(false);
    next = room_at = now + (was_dropped ? csi::kBaseDeletionTimeMax : kLookedAtEvery);
  }
  if (!was_dropped && next_at_.emplace(snapshot.uid(), now + kErrorToldEvery).second) {
    EmitMoverEvent(ctx, env_, *pvc, k8s::EventType::kWarning, "SnapshotNotReady",
                   absl::StrCat("backup ", backup, " has no snapshot of this PVC yet: ", error,
                                why_bases_stay));
  }
  return next;
}

}  // namespace csidelta::datamover
