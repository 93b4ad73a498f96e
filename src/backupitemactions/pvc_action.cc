#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/backup_cache.h"
#include "backupitemactions/data_upload.h"
#include "backupitemactions/item_results.h"
#include "backupitemactions/volume_groups.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/expose/data_transfer.h"
#include "csi/group/moved_group.h"
#include "csi/retry.h"
#include "csi/snapshot_class.h"
#include "csi/snapshot_lifecycle.h"
#include "longhorn/volume_data.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/copy_record.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"
#include "velero/labels.h"
#include "velero/volume_decision.h"

namespace csidelta::backupitemactions {
namespace {

using objects::DataUpload;
using objects::PersistentVolumeClaim;
using velero::VolumeDecision;

constexpr char kUploadPrefix[] = "du-";

// The claim as it is archived, in stock Velero's words: both sides restore it.
PersistentVolumeClaim ArchivedClaim(PersistentVolumeClaim pvc, const objects::Backup& backup,
                                    const csi::TakenSnapshot& taken) {
  const std::string name = taken.snapshot.name();
  // Readers go by the annotation. The snapshot controller's names for members fit no label.
  pvc.SetLabel(objects::kVolumeSnapshotNameLabel, velero::ValidLabelValue(name));
  pvc.SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name()));
  pvc.SetAnnotation(objects::kVolumeSnapshotNameAnnotation, name);
  pvc.SetAnnotation(objects::kMustIncludeAnnotation, "true");
  // Left over from an earlier life of the claim: nothing of this backup was moved.
  pvc.RemoveAnnotation(objects::kDataUploadNameAnnotation);
  if (const auto size_bytes = taken.content.restore_size_bytes(); size_bytes.has_value()) {
    pvc.RaiseRequestedBytes(*size_bytes);
  }
  return pvc;
}

bool IsUpload(absl::string_view operation_id) {
  return absl::StartsWith(operation_id, kUploadPrefix);
}

csi::Transfer<DataUpload> UploadOf(const objects::Object& backup, absl::string_view operation_id) {
  return {.namespace_name = backup.namespace_name(), .operation_id = std::string(operation_id)};
}

// What a claim carries while its group is being made, or its volume restored in place, or longer
// where the program that did so was killed, is in no archive.
void DropMarks(const PersistentVolumeClaim& item, velero::BackupItemResult& result) {
  objects::Object archived = result.item.value_or(item);
  const bool had_mark = archived.RemoveLabel(objects::kGroupMarkLabel);
  const bool had_record = archived.RemoveAnnotation(objects::kCopyRecordAnnotation);
  const bool had_writer = archived.RemoveAnnotation(objects::kMayWriteAnnotation);
  if (had_mark || had_record || had_writer) {
    result.item = std::move(archived);
  }
}

// An error names the claim that it is about.
absl::StatusOr<velero::BackupItemResult> NameClaim(
    const PersistentVolumeClaim& item, absl::StatusOr<velero::BackupItemResult> result) {
  const std::string name = absl::StrCat(item.namespace_name(), "/", item.name());
  if (result.ok() || absl::StrContains(result.status().message(), name)) {
    return result;
  }
  return Annotate(result.status(), absl::StrCat("claim ", name));
}

void LogDecision(const VolumeDecision& decision, const PersistentVolumeClaim& item) {
  const bool own = decision.kind == VolumeDecision::Kind::kSnapshot ||
                   decision.kind == VolumeDecision::Kind::kMove;
  const char* message = own ? "taking a volume snapshot" : "volume left alone";
  if (decision.warn) {
    CSIDELTA_LOG(kWarn, message, {"namespace", item.namespace_name()}, {"pvc", item.name()},
                 {"reason", decision.reason});
  } else {
    CSIDELTA_LOG(kInfo, message, {"namespace", item.namespace_name()}, {"pvc", item.name()},
                 {"reason", decision.reason});
  }
}

void LogUpload(const objects::Backup& backup, const PersistentVolumeClaim& item,
               const DataUpload& upload) {
  if (upload.is_managed()) {
    CSIDELTA_LOG(kInfo, "volume left alone", {"namespace", item.namespace_name()},
                 {"pvc", item.name()}, {"data_upload", upload.name()},
                 {"reason", "another action asked a data mover for it in this backup"});
    return;
  }
  CSIDELTA_LOG(kWarn, "another data mover moves the volume than the backup or its policy says",
               {"namespace", item.namespace_name()}, {"pvc", item.name()},
               {"data_upload", upload.name()}, {"data_mover", upload.data_mover()},
               {"asked_for", backup.data_mover()},
               {"reason",
                "from 1.19 on Velero gives what a rule of type snapshot matches to its own data "
                "mover; make it a rule of type custom with csi-delta: move"});
}

bool IsOlder(const objects::VolumeSnapshot& snapshot, const objects::Backup& backup) {
  const auto made = snapshot.created_at();
  const auto begun = backup.created_at();
  return made.has_value() && begun.has_value() && *made < *begun;
}

class PvcAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit PvcAction(const csi::Environment& env)
      : ActionOn("persistentvolumeclaims"), env_(env), cache_(env), groups_(env, cache_) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override;
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& backup) override;
  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const objects::Object& backup) override;

 private:
  // The backup has of the volume what it holds now, which may be partly old.
  void WarnOfRestoreInPlace(const CallContext& ctx, const PersistentVolumeClaim& item);

  // Whether the DataDownload of the record is gone or has its last phase. What cannot be read may
  // go on.
  bool IsTransferOver(const CallContext& ctx, const objects::CopyRecord& record);

  absl::StatusOr<velero::BackupItemResult> Save(const CallContext& ctx, ClaimBackup claim);

  // From 1.19 on Velero's own data mover gets each volume that a rule of type snapshot matches,
  // whatever mover the backup names. Warns if that became of this volume.
  void WarnOfAnotherMover(const CallContext& ctx, const ClaimBackup& claim);
  absl::StatusOr<VolumeDecision> Decide(const CallContext& ctx, const objects::Backup& backup,
                                        const PersistentVolumeClaim& item);

  // A claim that was restored from a backup of the same name carries that backup's labels. Only
  // such a claim is worth the request. Velero's action gives its VolumeSnapshots the claim's
  // labels, so that those tell nothing about a restore.
  absl::StatusOr<bool> LabelsAreStale(const CallContext& ctx, const ClaimBackup& claim);
  absl::StatusOr<std::string> ChooseClass(const CallContext& ctx, const ClaimBackup& claim);

  // What the claim's group has of it; nothing where the claim is to be taken alone.
  absl::StatusOr<std::shared_ptr<const GroupOutcome>> TakeInGroup(const CallContext& ctx,
                                                                  const ClaimBackup& claim);
  absl::StatusOr<csi::TakenSnapshot> Take(const CallContext& ctx, const ClaimBackup& claim);
  absl::StatusOr<velero::BackupItemResult> Snapshot(const CallContext& ctx,
                                                    const ClaimBackup& claim);

  // A volume snapshot, and a DataUpload that hands it to our data mover.
  absl::StatusOr<velero::BackupItemResult> Move(const CallContext& ctx, const ClaimBackup& claim);

  // Nothing where no group can have been adopted: the kinds are not served.
  absl::StatusOr<std::optional<csi::TakenSnapshot>> ContinueAdoption(
      const CallContext& ctx, const csi::SnapshotRequest& request);

  // With the claim's group, where it has one; also by a call that was interrupted.
  absl::StatusOr<csi::TakenSnapshot> TakeToMove(const CallContext& ctx, const ClaimBackup& claim);

  // Where it is certain that no process takes the VolumeSnapshot over, it goes, with the driver's
  // snapshot. Else it stays until a later backup finds it left over.
  absl::StatusOr<DataUpload> AskMover(const CallContext& ctx, const ClaimBackup& claim,
                                      const csi::Transfer<DataUpload>& transfer,
                                      const csi::TakenSnapshot& taken);

  csi::Environment env_;
  BackupCache cache_;
  VolumeGroups groups_;
};

absl::StatusOr<velero::BackupItemResult> PvcAction::Execute(const CallContext& ctx,
                                                            const objects::Object& object,
                                                            const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  if (backup.is_finalizing() || !env_.enable_csi) {
    return velero::BackupItemResult{};
  }
  ASSIGN_OR_RETURN(const PersistentVolumeClaim item, PersistentVolumeClaim::From(object));
  WarnOfRestoreInPlace(ctx, item);
  absl::StatusOr<velero::BackupItemResult> result = NameClaim(item, Save(ctx, {backup, item}));
  if (result.ok()) {
    DropMarks(item, *result);
  } else {
    ReportNoSnapshot(env_, backup, item.namespace_name(), item.name(), result.status().message());
  }
  return result;
}

absl::StatusOr<velero::OperationProgress> PvcAction::Progress(const CallContext& ctx,
                                                              absl::string_view operation_id,
                                                              const objects::Object& backup) {
  if (!IsUpload(operation_id)) {
    return velero::UnknownOperation(operation_id, ctx.clock->Now());
  }
  return UploadOf(backup, operation_id).Progress(ctx, env_);
}

absl::Status PvcAction::Cancel(const CallContext& ctx, absl::string_view operation_id,
                               const objects::Object& backup) {
  return IsUpload(operation_id) ? UploadOf(backup, operation_id).Cancel(ctx, env_.api)
                                : absl::OkStatus();
}

void PvcAction::WarnOfRestoreInPlace(const CallContext& ctx, const PersistentVolumeClaim& item) {
  const auto record = objects::ParseCopyRecord(item);
  if (record.has_value() && record->has_begun && !record->has_ended &&
      !IsTransferOver(ctx, *record)) {
    CSIDELTA_LOG(kWarn, "a restore writes into the volume: the backup may have it partly old",
                 {"namespace", item.namespace_name()}, {"pvc", item.name()},
                 {"record", objects::FormatCopyRecord(*record)});
  }
}

bool PvcAction::IsTransferOver(const CallContext& ctx, const objects::CopyRecord& record) {
  const objects::RecordedDownload named = objects::DownloadOf(record);
  if (named.name.empty()) {
    return false;
  }
  const auto list = objects::List<objects::DataDownload>(ctx, env_.api, named.namespace_name);
  return list.ok() && absl::c_none_of(*list, [&](const objects::DataDownload& download) {
           return download.uid() == record.id && !download.is_over();
         });
}

absl::StatusOr<velero::BackupItemResult> PvcAction::Save(const CallContext& ctx,
                                                         ClaimBackup claim) {
  const PersistentVolumeClaim& item = claim.item;
  ASSIGN_OR_RETURN(claim.decision, Decide(ctx, claim.backup, item));
  const VolumeDecision& decision = claim.decision;
  LogDecision(decision, item);
  if (item.storage_class() == "" && decision.kind != VolumeDecision::Kind::kLeaveAlone) {
    CSIDELTA_LOG(kWarn,
                 "the PVC has the storage class \"\", for which no provisioner makes volumes",
                 {"namespace", item.namespace_name()}, {"pvc", item.name()},
                 {"to_restore_it", csi::ClassRemediation("")});
  }
  switch (decision.kind) {
    case VolumeDecision::Kind::kSnapshot:
      return Snapshot(ctx, claim);
    case VolumeDecision::Kind::kMove:
      return Move(ctx, claim);
    case VolumeDecision::Kind::kAlreadyDone:
      WarnOfAnotherMover(ctx, claim);
      break;
    case VolumeDecision::Kind::kLeaveAlone:
    case VolumeDecision::Kind::kLonghorn:  // velero.io/longhorn-volume takes it.
      break;
  }
  return velero::BackupItemResult{};
}

void PvcAction::WarnOfAnotherMover(const CallContext& ctx, const ClaimBackup& claim) {
  const auto& [backup, item, decision] = claim;
  if (!backup.is_moved_by_us()) {
    return;
  }
  const auto policies = cache_.Policies(ctx, backup);
  if (policies.ok() && !(*policies)->AnyRuleIs(velero::PolicyAction::kSnapshot)) {
    return;
  }
  const absl::StatusOr<std::optional<DataUpload>> upload =
      csi::Transfer<DataUpload>{.namespace_name = backup.namespace_name(),
                                .operation_id = csi::UploadOperationId(backup.uid(), item.uid())}
          .Find(ctx, env_.api);
  if (!upload.ok()) {
    CSIDELTA_LOG(kWarn, "it is not known which data mover moves the volume",
                 {"namespace", item.namespace_name()}, {"pvc", item.name()},
                 {"status", upload.status().ToString()});
  } else if (upload->has_value()) {
    LogUpload(backup, item, **upload);
  }
}

absl::StatusOr<VolumeDecision> PvcAction::Decide(const CallContext& ctx,
                                                 const objects::Backup& backup,
                                                 const PersistentVolumeClaim& item) {
  const velero::VolumeQueries queries{
      .policies = [&] { return cache_.Policies(ctx, backup); },
      .pv = [&] { return cache_.Volume(ctx, backup, item); },
      .pods = [&] { return cache_.Pods(ctx, backup, item.namespace_name()); },
  };
  velero::DecisionInput input{.backup = backup, .pvc = item, .enable_csi = env_.enable_csi};
  ASSIGN_OR_RETURN(VolumeDecision decision, velero::DecideVolume(input, queries));
  if (decision.kind != VolumeDecision::Kind::kAlreadyDone) {
    return decision;
  }
  ASSIGN_OR_RETURN(input.ignore_claim_labels, LabelsAreStale(ctx, {backup, item, decision}));
  if (!input.ignore_claim_labels) {
    return decision;
  }
  return velero::DecideVolume(input, queries);
}

absl::StatusOr<bool> PvcAction::LabelsAreStale(const CallContext& ctx, const ClaimBackup& claim) {
  const auto& [backup, item, decision] = claim;
  if (item.Label(objects::kRestoreNameLabel).empty()) {
    return false;
  }
  ASSIGN_OR_RETURN(const auto snapshot,
                   objects::Find<objects::VolumeSnapshot>(ctx, env_.api, item.namespace_name(),
                                                          decision.volume_snapshot_name));
  return !snapshot.has_value() ||
         snapshot->Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name()) ||
         snapshot->source_pvc() != item.name() || IsOlder(*snapshot, backup);
}

absl::StatusOr<std::string> PvcAction::ChooseClass(const CallContext& ctx,
                                                   const ClaimBackup& claim) {
  const auto& [backup, item, decision] = claim;
  const std::string driver = decision.pv.driver();
  const csi::SnapshotClassRequest request{
      .driver = driver,
      .claim_annotation = item.Annotation(objects::kVolumeSnapshotClassAnnotation),
      .policy_parameter = decision.snapshot_class,
      .backup_annotation = backup.Annotation(absl::StrCat(
          objects::kBackupSnapshotClassAnnotationPrefix, absl::AsciiStrToLower(driver))),
  };
  ASSIGN_OR_RETURN(const auto classes, cache_.SnapshotClasses(ctx, backup));
  ASSIGN_OR_RETURN(const csi::SnapshotClassChoice choice,
                   csi::ChooseSnapshotClass(request, *classes));
  for (const std::string& reason : choice.ungranted) {
    CSIDELTA_LOG(kWarn, "another volume snapshot class is used",
                 {"namespace", item.namespace_name()}, {"pvc", item.name()}, {"class", choice.name},
                 {"reason", reason});
  }
  for (const objects::VolumeSnapshotClass& one : *classes) {
    if (decision.kind == VolumeDecision::Kind::kMove && one.name() == choice.name) {
      RETURN_IF_ERROR(longhorn::CheckClassOfMove(one));
    }
  }
  return choice.name;
}

absl::StatusOr<std::shared_ptr<const GroupOutcome>> PvcAction::TakeInGroup(
    const CallContext& ctx, const ClaimBackup& claim) {
  const objects::Backup& backup = claim.backup;
  const PersistentVolumeClaim& item = claim.item;
  const std::string group = VolumeGroups::GroupOf(backup, item);
  if (group.empty()) {
    return nullptr;
  }
  ASSIGN_OR_RETURN(const auto config, cache_.Config(ctx, backup));
  cache_.SweepOnce(ctx, backup, *config);
  ASSIGN_OR_RETURN(std::shared_ptr<const GroupOutcome> outcome,
                   groups_.Take(ctx, claim, [&](const PersistentVolumeClaim& other) {
                     return Decide(ctx, backup, other);
                   }));
  RETURN_IF_ERROR(Annotate(outcome->failed, absl::StrCat("volume group ", group)));
  if (outcome->taken.members.contains(item.uid())) {
    return outcome;
  }
  const std::string reason =
      outcome->alone_because.empty()
          ? "the claim was no member of it when it was snapshotted; see what was left out"
          : outcome->alone_because;
  if (config->group_fallback == velero::GroupFallback::kFail) {
    return absl::FailedPreconditionError(
        absl::StrCat("volume group ", group, " cannot be snapshotted as one: ", reason,
                     "; the setting groupFallback: individual would take its claims alone"));
  }
  CSIDELTA_LOG(kWarn, "a claim is snapshotted alone, not with its volume group",
               {"namespace", item.namespace_name()}, {"pvc", item.name()}, {"volume_group", group},
               {"reason", reason});
  return nullptr;
}

absl::StatusOr<csi::TakenSnapshot> PvcAction::Take(const CallContext& ctx,
                                                   const ClaimBackup& claim) {
  const auto& [backup, item, decision] = claim;
  ASSIGN_OR_RETURN(const auto config, cache_.Config(ctx, backup));
  cache_.SweepOnce(ctx, backup, *config);
  ASSIGN_OR_RETURN(const std::string class_name, ChooseClass(ctx, claim));
  const csi::SnapshotRequest request{.backup = backup,
                                     .claim_namespace = item.namespace_name(),
                                     .claim_name = item.name(),
                                     .claim_uid = item.uid(),
                                     .class_name = class_name,
                                     .driver = decision.pv.driver()};
  const absl::Time asked_at = ctx.clock->Now();
  ASSIGN_OR_RETURN(const csi::TakenSnapshot taken, csi::TakeSnapshot(ctx, env_, request));
  const auto snapshot_taken_at = taken.content.taken_at();
  CSIDELTA_LOG(
      kInfo, "volume snapshot taken", {"namespace", request.claim_namespace},
      {"pvc", request.claim_name}, {"volume_snapshot", taken.snapshot.name()},
      {"snapshot_handle", taken.content.handle()}, {"asked_at", FormatRfc3339(asked_at)},
      {"cut_at", snapshot_taken_at.has_value() ? FormatRfc3339(*snapshot_taken_at) : "unknown"},
      {"duration_ms", absl::StrCat(absl::ToInt64Milliseconds(ctx.clock->Now() - asked_at))});
  return taken;
}

absl::StatusOr<velero::BackupItemResult> PvcAction::Snapshot(const CallContext& ctx,
                                                             const ClaimBackup& claim) {
  velero::BackupItemResult result;
  csi::TakenSnapshot taken;
  ASSIGN_OR_RETURN(const auto group, TakeInGroup(ctx, claim));
  if (group != nullptr) {
    taken = group->taken.members.at(claim.item.uid());
    result.additional_items.push_back(velero::Identify(group->taken.group.key()));
  } else {
    ASSIGN_OR_RETURN(taken, Take(ctx, claim));
  }
  result.item = ArchivedClaim(claim.item, claim.backup, taken);
  result.additional_items.push_back(velero::Identify(taken.snapshot.key()));
  return result;
}

absl::StatusOr<velero::BackupItemResult> PvcAction::Move(const CallContext& ctx,
                                                         const ClaimBackup& claim) {
  const auto& [backup, item, decision] = claim;
  const csi::Transfer<DataUpload> transfer{
      .namespace_name = backup.namespace_name(),
      .operation_id = csi::UploadOperationId(backup.uid(), item.uid())};
  CSIDELTA_CHECK(IsUpload(transfer.operation_id));  // Progress() and Cancel() tell it by that.
  ASSIGN_OR_RETURN(std::optional<DataUpload> upload, transfer.Find(ctx, env_.api));
  PersistentVolumeClaim archived = item;
  if (!upload.has_value()) {
    ASSIGN_OR_RETURN(const csi::TakenSnapshot taken, TakeToMove(ctx, claim));
    ASSIGN_OR_RETURN(upload, AskMover(ctx, claim, transfer, taken));
    if (const auto size_bytes = taken.content.restore_size_bytes(); size_bytes.has_value()) {
      archived.RaiseRequestedBytes(*size_bytes);
    }
  }
  if (upload->name() != csi::TransferName(backup.name(), transfer.operation_id)) {
    LogUpload(backup, item, *upload);
    return velero::BackupItemResult{};
  }
  velero::BackupItemResult result;
  result.item = MovedClaim(std::move(archived), backup, *upload);
  result.operation_id = transfer.operation_id;
  result.post_operation_items.push_back(velero::Identify(upload->key()));
  return result;
}

absl::StatusOr<std::optional<csi::TakenSnapshot>> PvcAction::ContinueAdoption(
    const CallContext& ctx, const csi::SnapshotRequest& request) {
  const auto kinds = cache_.GroupKinds(ctx, request.backup);
  if (absl::IsNotFound(kinds.status()) || absl::IsPermissionDenied(kinds.status())) {
    return std::optional<csi::TakenSnapshot>();
  }
  RETURN_IF_ERROR(kinds.status());
  return csi::ContinueAdoption(ctx, env_, request, (*kinds)->version);
}

absl::StatusOr<csi::TakenSnapshot> PvcAction::TakeToMove(const CallContext& ctx,
                                                         const ClaimBackup& claim) {
  const auto& [backup, item, decision] = claim;
  if (VolumeGroups::GroupOf(backup, item).empty()) {
    return Take(ctx, claim);
  }
  const csi::SnapshotRequest request{.backup = backup,
                                     .claim_namespace = item.namespace_name(),
                                     .claim_name = item.name(),
                                     .claim_uid = item.uid(),
                                     .class_name = ""};
  ASSIGN_OR_RETURN(std::optional<csi::TakenSnapshot> adopted, csi::FindAdopted(ctx, env_, request));
  if (!adopted.has_value()) {
    ASSIGN_OR_RETURN(adopted, ContinueAdoption(ctx, request));
  }
  if (adopted.has_value()) {
    return *adopted;
  }
  ASSIGN_OR_RETURN(const auto group, TakeInGroup(ctx, claim));
  return group != nullptr ? group->taken.members.at(item.uid()) : Take(ctx, claim);
}

absl::StatusOr<DataUpload> PvcAction::AskMover(const CallContext& ctx, const ClaimBackup& claim,
                                               const csi::Transfer<DataUpload>& transfer,
                                               const csi::TakenSnapshot& taken) {
  const auto& [backup, item, decision] = claim;
  const std::string snapshot = taken.snapshot.name();
  const absl::StatusOr<DataUpload> upload =
      transfer.Ensure(ctx, env_.api,
                      MakeDataUpload({.backup = backup,
                                      .claim = item,
                                      .volume_snapshot = snapshot,
                                      .snapshot_class = taken.snapshot.class_name(),
                                      .driver = taken.content.driver(),
                                      .file_system = decision.pv.file_system()}));
  if (upload.ok()) {
    CSIDELTA_LOG(kInfo, "the data mover is asked to move the volume snapshot",
                 {"namespace", item.namespace_name()}, {"pvc", item.name()},
                 {"volume_snapshot", snapshot}, {"data_upload", upload->name()});
    return upload;
  }
  const CallContext after = csi::CleanUpContext(env_.clock);
  const absl::StatusOr<std::optional<DataUpload>> there = transfer.Find(after, env_.api);
  if (there.ok() && there->has_value()) {
    return **there;
  }
  const absl::Status removed =
      there.ok()
          ? csi::DeleteSnapshot(after, env_.api,
                                objects::VolumeSnapshot::Key(item.namespace_name(), snapshot),
                                taken.snapshot.uid())
          : there.status();
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "an unreferenced volume snapshot is left",
                 {"namespace", item.namespace_name()}, {"volume_snapshot", snapshot},
                 {"status", removed.ToString()});
  }
  return Annotate(upload.status(), "the data mover cannot be asked to move the volume snapshot");
}

class UnclaimedVolumeAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit UnclaimedVolumeAction(const csi::Environment& env)
      : ActionOn("persistentvolumeclaims"), env_(env), cache_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    if (env_.enable_csi) {
      return velero::BackupItemResult{};  // The action on claims does it, and says what it does.
    }
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    if (backup.is_finalizing()) {
      return velero::BackupItemResult{};
    }
    ASSIGN_OR_RETURN(const auto pvc, objects::PersistentVolumeClaim::From(item));
    const velero::VolumeQueries queries{
        .policies = [&] { return cache_.Policies(ctx, backup); },
        .pv = [&] { return cache_.Volume(ctx, backup, pvc); },
        .pods = [&] { return cache_.Pods(ctx, backup, pvc.namespace_name()); },
    };
    const velero::DecisionInput input{.backup = backup, .pvc = pvc, .enable_csi = false};
    ASSIGN_OR_RETURN(const velero::VolumeDecision decision, velero::DecideVolume(input, queries));
    if (decision.warn) {
      CSIDELTA_LOG(kWarn, "volume left alone", {"namespace", pvc.namespace_name()},
                   {"pvc", pvc.name()}, {"reason", decision.reason});
    }
    return velero::BackupItemResult{};
  }

 private:
  const csi::Environment env_;
  BackupCache cache_;
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakePvcAction(const csi::Environment& env) {
  return std::make_unique<PvcAction>(env);
}

std::unique_ptr<velero::BackupItemAction> MakeUnclaimedVolumeAction(const csi::Environment& env) {
  return std::make_unique<UnclaimedVolumeAction>(env);
}

}  // namespace csidelta::backupitemactions
