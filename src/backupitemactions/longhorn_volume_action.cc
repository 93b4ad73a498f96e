#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/backup_cache.h"
#include "backupitemactions/item_results.h"
#include "backupitemactions/longhorn_sweep.h"
#include "backupitemactions/slots.h"
#include "backupitemactions/volume_groups.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/lock.h"
#include "csi/retry.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/volume_lease.h"
#include "longhorn/native_snapshot.h"
#include "longhorn/native_watch.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"
#include "velero/labels.h"
#include "velero/volume_decision.h"

namespace csidelta::backupitemactions {
namespace {

using longhorn::NativeState;
using objects::PersistentVolumeClaim;
using velero::VolumeDecision;

constexpr SnapshotOperation::Kind kKind = SnapshotOperation::Kind::kLonghorn;
// Longhorn attaches a detached volume to take a snapshot of it.
constexpr int kDetachedMax = 2;
// How long Longhorn may be away.
constexpr absl::Duration kUnansweredMax = absl::Minutes(2);

bool IsAttached(const longhorn::Volume& volume) { return volume.state() == "attached"; }

// The PVC as it is archived, for velero.io/longhorn-restore.
PersistentVolumeClaim ArchivedPvc(PersistentVolumeClaim pvc, const objects::Backup& backup,
                                  const longhorn::Snapshot& snapshot) {
  const auto taken_at = longhorn::TakenAt(snapshot);
  pvc.SetLabel(objects::kLonghornNativeLabel, "true");
  pvc.SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name()));
  pvc.SetAnnotation(objects::kLonghornSnapshotAnnotation,
                    absl::StrCat(snapshot.namespace_name(), "/", snapshot.name()));
  pvc.SetAnnotation(objects::kLonghornSnapshotUidAnnotation, snapshot.uid());
  pvc.SetAnnotation(objects::kLonghornVolumeAnnotation, snapshot.volume());
  pvc.SetAnnotation(objects::kLonghornTakenAtAnnotation,
                    taken_at.has_value() ? FormatRfc3339(*taken_at) : "unknown");
  // Longhorn's namespace is in few backups.
  pvc.SetAnnotation(objects::kMustIncludeAnnotation, "true");
  // Left over from an earlier life of the PVC: by these, others would restore it.
  pvc.RemoveLabel(objects::kVolumeSnapshotNameLabel);
  pvc.RemoveAnnotation(objects::kVolumeSnapshotNameAnnotation);
  pvc.RemoveAnnotation(objects::kDataUploadNameAnnotation);
  return pvc;
}

class LonghornVolumeAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit LonghornVolumeAction(const csi::Environment& env)
      : ActionOn("persistentvolumeclaims"), env_(env), cache_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override;

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& backup_object) override;

  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const objects::Object& backup_object) override;

 private:
  // Cheap where no rule is for Longhorn, which is nearly everywhere. Where a rule of type custom
  // decides, Velero's own action takes no volume: labels on the PVC that say so are of an earlier
  // backup.
  absl::StatusOr<VolumeDecision> Decide(const CallContext& ctx, const objects::Backup& backup,
                                        const PersistentVolumeClaim& pvc);
  absl::StatusOr<velero::BackupItemResult> Save(const CallContext& ctx, const ClaimBackup& claim);
  void SweepOnce(const CallContext& ctx, const objects::Backup& backup,
                 const velero::PluginConfig& config);
  absl::StatusOr<longhorn::Volume> FindVolume(const CallContext& ctx,
                                              const longhorn::NativeRequest& request);

  // Others' VolumeSnapshots of the PVC are not waited for (csi::VolumeLock): drivers may
  // refuse two at once, and Longhorn's engine takes one after the other.
  absl::StatusOr<longhorn::Snapshot> Take(const CallContext& ctx, const objects::Backup& backup,
                                          const longhorn::NativeRequest& request);
  static void LogTaken(const longhorn::NativeRequest& request, const longhorn::Snapshot& snapshot,
                       bool is_attached, absl::Duration duration);

  // One that is not taken in time is deleted: Longhorn would take it later. Its record stays for
  // the sweep, in case that an answer was lost.
  absl::StatusOr<longhorn::Snapshot> TakeUnderLease(
      const CallContext& ctx, const objects::Backup& backup, const longhorn::NativeRequest& request,
      const longhorn::Volume& volume, const std::string& name, csi::VolumeLease& lease);

  // Until it is taken; a volume that Longhorn attached for it is waited for until it is ready, when
  // Longhorn detaches it.
  absl::StatusOr<longhorn::Snapshot> Await(const CallContext& ctx, absl::Duration timeout,
                                           const longhorn::Snapshot& made, bool is_attached,
                                           csi::VolumeLease& lease,
                                           longhorn::NativeWatch::Interest& interest);

  // One for all PVCs of a backup.
  longhorn::NativeWatch& WatchOf(const longhorn::NativeRequest& request);
  static absl::Status TooLate(const longhorn::Snapshot& seen, absl::Duration timeout);

  velero::OperationProgress StatusOfSnapshot(const CallContext& ctx,
                                             velero::OperationProgress progress,
                                             const SnapshotOperation& operation,
                                             const longhorn::Snapshot* snapshot,
                                             absl::Duration timeout);

  csi::Environment env_;
  BackupCache cache_;
  Slots detached_{kDetachedMax};
  Mutex mutex_;
  // By the uid of the Backup: one process serves few backups.
  std::set<std::string> swept_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, longhorn::NativeWatch> watches_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<velero::BackupItemResult> LonghornVolumeAction::Execute(
    const CallContext& ctx, const objects::Object& item, const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  if (backup.is_finalizing()) {
    return velero::BackupItemResult{};
  }
  ASSIGN_OR_RETURN(const auto pvc, PersistentVolumeClaim::From(item));
  ASSIGN_OR_RETURN(const VolumeDecision decision, Decide(ctx, backup, pvc));
  if (decision.kind != VolumeDecision::Kind::kLonghorn) {
    return velero::BackupItemResult{};  // The other actions on PVCs say what becomes of it.
  }
  absl::StatusOr<velero::BackupItemResult> result = Save(ctx, {backup, pvc, decision});
  if (result.ok()) {
    return result;
  }
  ReportNoSnapshot(env_, backup, pvc.namespace_name(), pvc.name(), result.status().message());
  const std::string subject = absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name());
  if (absl::IsPermissionDenied(result.status())) {
    return absl::PermissionDeniedError(absl::StrCat(subject, ": ", result.status().message(),
                                                    "; deploy/longhorn-rbac.yaml has the rights"));
  }
  return Annotate(result.status(), subject);
}

absl::StatusOr<VolumeDecision> LonghornVolumeAction::Decide(const CallContext& ctx,
                                                            const objects::Backup& backup,
                                                            const PersistentVolumeClaim& pvc) {
  ASSIGN_OR_RETURN(const auto policies, cache_.Policies(ctx, backup));
  if (!policies->AnyRuleHas(velero::kCsiDeltaParameter, velero::kCsiDeltaLonghorn)) {
    return VolumeDecision{};
  }
  const velero::VolumeQueries queries{
      .policies = [&] { return cache_.Policies(ctx, backup); },
      .pv = [&] { return cache_.Volume(ctx, backup, pvc); },
      // They matter only where no rule decides.
      .pods = [] { return std::make_shared<const std::vector<objects::Pod>>(); },
  };
  return velero::DecideVolume(
      {.backup = backup, .pvc = pvc, .enable_csi = env_.enable_csi, .ignore_claim_labels = true},
      queries);
}

absl::StatusOr<velero::BackupItemResult> LonghornVolumeAction::Save(const CallContext& ctx,
                                                                    const ClaimBackup& claim) {
  const auto& [backup, pvc, decision] = claim;
  if (const std::string group = VolumeGroups::GroupOf(backup, pvc); !group.empty()) {
    CSIDELTA_LOG(kWarn, "a PVC is snapshotted alone: native snapshots of Longhorn know no groups",
                 {"namespace", pvc.namespace_name()}, {"pvc", pvc.name()}, {"volume_group", group});
  }
  ASSIGN_OR_RETURN(const auto config, cache_.Config(ctx, backup));
  SweepOnce(ctx, backup, *config);
  const longhorn::NativeRequest request{.namespace_name = config->longhorn_namespace,
                                        .volume = decision.pv.handle(),
                                        .velero_namespace = env_.velero_namespace,
                                        .backup_name = backup.name(),
                                        .backup_uid = backup.uid(),
                                        .pvc_namespace = pvc.namespace_name(),
                                        .pvc_name = pvc.name(),
                                        .pvc_uid = pvc.uid()};
  ASSIGN_OR_RETURN(const longhorn::Snapshot snapshot, Take(ctx, backup, request));
  const k8s::ObjectKey key = longhorn::Snapshot::Key(snapshot.namespace_name(), snapshot.name());
  velero::BackupItemResult result;
  result.item = ArchivedPvc(pvc, backup, snapshot);
  result.operation_id = EncodeOperationId({.kind = kKind,
                                           .namespace_name = key.namespace_name,
                                           .snapshot_name = key.name,
                                           .snapshot_uid = snapshot.uid(),
                                           .started_at = ctx.clock->Now()});
  result.additional_items = {velero::Identify(key)};
  result.post_operation_items = {velero::Identify(key)};
  return result;
}

void LonghornVolumeAction::SweepOnce(const CallContext& ctx, const objects::Backup& backup,
                                     const velero::PluginConfig& config) {
  {
    const MutexLock lock(mutex_);
    if (!config.sweep_orphans || !swept_.insert(backup.uid()).second) {
      return;
    }
  }
  const absl::StatusOr<int> swept = SweepNativeSnapshots(ctx, env_, backup, config);
  if (!swept.ok()) {
    CSIDELTA_LOG(kWarn, "cannot look for native snapshots that failed backups left behind",
                 {"status", swept.status().ToString()});
  }
}

absl::StatusOr<longhorn::Volume> LonghornVolumeAction::FindVolume(
    const CallContext& ctx, const longhorn::NativeRequest& request) {
  auto found =
      objects::Get<longhorn::Volume>(ctx, env_.api, request.namespace_name, request.volume);
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Longhorn has no Volume ", request.volume, " in namespace ", request.namespace_name,
        "; another namespace of Longhorn is set by longhornNamespace"));
  }
  return found;
}

absl::StatusOr<longhorn::Snapshot> LonghornVolumeAction::Take(
    const CallContext& ctx, const objects::Backup& backup, const longhorn::NativeRequest& request) {
  ASSIGN_OR_RETURN(const longhorn::Volume volume, FindVolume(ctx, request));
  RETURN_IF_ERROR(longhorn::RequireUsable(volume));
  const std::string name = longhorn::NativeSnapshotName(backup.uid(), volume.uid());
  RETURN_IF_ERROR(longhorn::RequireRoom(ctx, env_.api, volume, name));
  const absl::Time asked_at = ctx.clock->Now();
  const CallContext waiting = ctx.WithTimeout(csi::LockWaitMax(backup));
  const bool is_attached = IsAttached(volume);
  if (!is_attached) {
    RETURN_IF_ERROR(
        Annotate(detached_.Take(waiting),
                 absl::StrCat("wait for ", kDetachedMax, " other detached volumes of Longhorn")));
  }
  const absl::Cleanup give = [&] {
    if (!is_attached) {
      detached_.Give();
    }
  };
  ASSIGN_OR_RETURN(csi::VolumeLease lease,
                   csi::VolumeLease::Take(waiting, env_.api,
                                          csi::LeaseRequestOf(env_, backup, request.pvc_namespace,
                                                              request.pvc_name, request.pvc_uid)));
  absl::StatusOr<longhorn::Snapshot> taken =
      TakeUnderLease(ctx, backup, request, volume, name, lease);
  lease.End(env_.clock, env_.api);
  RETURN_IF_ERROR(taken.status());
  LogTaken(request, *taken, is_attached, ctx.clock->Now() - asked_at);
  return taken;
}

void LonghornVolumeAction::LogTaken(const longhorn::NativeRequest& request,
                                    const longhorn::Snapshot& snapshot, bool is_attached,
                                    absl::Duration duration) {
  const auto taken_at = longhorn::TakenAt(snapshot);
  CSIDELTA_LOG(kInfo,
               is_attached ? "native snapshot of Longhorn taken"
                           : "native snapshot of Longhorn taken, for which Longhorn attached the "
                             "volume",
               {"namespace", request.pvc_namespace}, {"pvc", request.pvc_name},
               {"volume", request.volume}, {"snapshot", snapshot.name()},
               {"cut_at", taken_at.has_value() ? FormatRfc3339(*taken_at) : "unknown"},
               {"duration_ms", absl::StrCat(absl::ToInt64Milliseconds(duration))});
}

absl::StatusOr<longhorn::Snapshot> LonghornVolumeAction::TakeUnderLease(
    const CallContext& ctx, const objects::Backup& backup, const longhorn::NativeRequest& request,
    const longhorn::Volume& volume, const std::string& name, csi::VolumeLease& lease) {
  const absl::Duration timeout = backup.csi_snapshot_timeout();
  RETURN_IF_ERROR(RecordRequest(ctx, env_, request, name));
  longhorn::NativeWatch::Interest interest(WatchOf(request), name);
  absl::StatusOr<longhorn::Snapshot> taken = longhorn::CreateNative(
      ctx.WithTimeout(std::min(timeout, kUnansweredMax)), env_.api, request, name);
  if (taken.ok()) {
    taken = Await(ctx, timeout, *taken, IsAttached(volume), lease, interest);
  }
  if (taken.ok()) {
    return taken;
  }
  const absl::Status removed =
      longhorn::RemoveNativeOf(csi::CleanUpContext(env_.clock), env_.api, request, name);
  const absl::string_view why = taken.status().message();
  const std::string left =
      removed.ok() ? "nothing of it is kept"
                   : absl::StrCat("Snapshot ", name,
                                  " is left, and Longhorn may take it yet: ", removed.message());
  return absl::Status(taken.status().code(),
                      longhorn::IsForWantOfRoom(why)
                          ? absl::StrCat(why, "; ", left, "; ", longhorn::HowToMakeRoom(volume))
                          : absl::StrCat(why, "; ", left));
}

absl::StatusOr<longhorn::Snapshot> LonghornVolumeAction::Await(
    const CallContext& ctx, absl::Duration timeout, const longhorn::Snapshot& made,
    bool is_attached, csi::VolumeLease& lease, longhorn::NativeWatch::Interest& interest) {
  longhorn::Snapshot seen = made;
  const auto is_done = [&](const longhorn::Snapshot* object) -> absl::StatusOr<bool> {
    if (object != nullptr) {
      seen = *object;
    }
    const NativeState state = longhorn::StateOf(object, made.uid());
    if (state == NativeState::kGone) {
      return absl::NotFoundError("it was deleted while it was waited for");
    }
    return state == NativeState::kReady || (state == NativeState::kTaken && is_attached);
  };
  const longhorn::Snapshot* known = &made;
  const CallContext limited = ctx.WithTimeout(timeout);
  const absl::Status status =
      csi::LeaseWaiter(limited, env_.api, {&lease})
          .Wait<longhorn::Snapshot>(
              is_done, [&](const CallContext& slice, objects::Predicate<longhorn::Snapshot> judge) {
                return interest.Await(slice, judge, std::exchange(known, nullptr));
              });
  if (status.ok()) {
    return seen;
  }
  return absl::IsDeadlineExceeded(status)
             ? TooLate(seen, timeout)
             : Annotate(status, absl::StrCat("wait for Snapshot ", made.name()));
}

longhorn::NativeWatch& LonghornVolumeAction::WatchOf(const longhorn::NativeRequest& request) {
  const MutexLock lock(mutex_);
  return watches_
      .try_emplace(request.backup_uid, env_.api, env_.clock, request.namespace_name,
                   request.backup_uid)
      .first->second;
}

absl::Status LonghornVolumeAction::TooLate(const longhorn::Snapshot& seen, absl::Duration timeout) {
  const bool is_taken = longhorn::TakenAt(seen).has_value();
  const std::string error = seen.error();
  return absl::DeadlineExceededError(absl::StrCat(
      "Longhorn ", is_taken ? "took a snapshot of Volume " : "took no snapshot of Volume ",
      seen.volume(), is_taken ? ", and did not show it as ready within " : " within ",
      absl::FormatDuration(timeout), ": ", error.empty() ? "it does not say why" : error));
}

absl::StatusOr<velero::OperationProgress> LonghornVolumeAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const objects::Object& backup_object) {
  const absl::StatusOr<SnapshotOperation> operation = DecodeOperationId(operation_id, kKind);
  if (!operation.ok()) {
    return velero::UnknownOperation(operation_id, ctx.clock->Now());
  }
  const absl::StatusOr<objects::Backup> backup = objects::Backup::Parse(backup_object);
  velero::OperationProgress progress;
  progress.started = operation->started_at;
  progress.updated = ctx.clock->Now();
  const auto snapshot = objects::Find<longhorn::Snapshot>(ctx, env_.api, operation->namespace_name,
                                                          operation->snapshot_name);
  if (!snapshot.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", snapshot.status().message()));
  }
  return StatusOfSnapshot(
      ctx, std::move(progress), *operation, snapshot->has_value() ? &**snapshot : nullptr,
      backup.ok() ? backup->csi_snapshot_timeout() : objects::kCsiSnapshotTimeoutDefault);
}

velero::OperationProgress LonghornVolumeAction::StatusOfSnapshot(const CallContext& ctx,
                                                                 velero::OperationProgress progress,
                                                                 const SnapshotOperation& operation,
                                                                 const longhorn::Snapshot* snapshot,
                                                                 absl::Duration timeout) {
  const k8s::ObjectKey key =
      longhorn::Snapshot::Key(operation.namespace_name, operation.snapshot_name);
  const NativeState state = longhorn::StateOf(snapshot, operation.snapshot_uid);
  if (state == NativeState::kGone) {
    return Failed(std::move(progress),
                  absl::StrCat(k8s::ToString(key), " was deleted before its backup was done"));
  }
  const auto taken_at = longhorn::TakenAt(*snapshot);
  const std::string taken =
      taken_at.has_value() ? absl::StrCat("taken at ", FormatRfc3339(*taken_at)) : "taken";
  if (state == NativeState::kReady) {
    progress.completed = true;
    return NotYet(std::move(progress), absl::StrCat(taken, ", ready"));
  }
  const std::string error = snapshot->error();
  const std::string text = absl::StrCat(taken, ", and Longhorn does not show it as ready",
                                        error.empty() ? "" : absl::StrCat(": ", error));
  if (ctx.clock->Now() - operation.started_at < timeout) {
    return NotYet(std::move(progress), text);
  }
  const absl::Status removed = longhorn::RemoveNative(ctx.WithTimeout(velero::kProgressTimeMax),
                                                      env_.api, key, operation.snapshot_uid);
  return removed.ok() ? Failed(std::move(progress),
                               absl::StrCat(text, " within ", absl::FormatDuration(timeout),
                                            "; nothing of it is kept"))
                      : NotYet(std::move(progress),
                               absl::StrCat(text, "; it cannot be deleted: ", removed.message()));
}

absl::Status LonghornVolumeAction::Cancel(const CallContext& ctx, absl::string_view operation_id,
                                          const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const SnapshotOperation operation, DecodeOperationId(operation_id, kKind));
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  const k8s::ObjectKey key =
      longhorn::Snapshot::Key(operation.namespace_name, operation.snapshot_name);
  ASSIGN_OR_RETURN(const auto snapshot, objects::Find<longhorn::Snapshot>(ctx, env_.api, key));
  const NativeState state =
      longhorn::StateOf(snapshot.has_value() ? &*snapshot : nullptr, operation.snapshot_uid);
  if (state == NativeState::kGone || state == NativeState::kReady ||
      snapshot->Label(objects::kBackupUidLabel) != backup.uid()) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kInfo, "removing a native snapshot that did not become ready",
               {"namespace", key.namespace_name}, {"snapshot", key.name});
  return longhorn::RemoveNative(ctx.WithTimeout(csi::kCleanUpTimeout), env_.api, key,
                                operation.snapshot_uid);
}

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeLonghornVolumeAction(const csi::Environment& env) {
  return std::make_unique<LonghornVolumeAction>(env);
}

}  // namespace csidelta::backupitemactions
