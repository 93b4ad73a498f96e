#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/item_results.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/group/group_lifecycle.h"
#include "csi/owner_references.h"
#include "csi/retry.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_state.h"
#include "csi/static_content.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// What a restore anywhere needs to know of the content.
std::map<std::string, std::string> DescribeContent(const VolumeSnapshotContent& content) {
  std::map<std::string, std::string> annotations;
  if (const std::string policy = content.deletion_policy(); !policy.empty()) {
    annotations[objects::kDeletionPolicyAnnotation] = policy;
  }
  if (const std::string handle = content.handle(); !handle.empty()) {
    annotations[objects::kVolumeSnapshotHandleAnnotation] = handle;
    annotations[objects::kDriverNameAnnotation] = content.driver();
  }
  if (const auto size_bytes = content.restore_size_bytes(); size_bytes.has_value()) {
    annotations[objects::kRestoreSizeAnnotation] = FormatBinaryQuantity(*size_bytes);
  }
  if (const std::string group = content.group_handle(); !group.empty()) {
    annotations[objects::kGroupSnapshotHandleAnnotation] = group;
  }
  return annotations;
}

// Every writer of a VolumeSnapshot writes its annotations; only controllers and administrators
// write contents. So `archived` says of driver, handles and Secret what `content` says, or nothing:
// a restore would fill a PVC from any handle, also from that of another tenant.
void KeepProven(const VolumeSnapshotContent* content, VolumeSnapshot& archived) {
  const auto say = [&](const char* key, const std::string& value) {
    if (value.empty()) {
      archived.RemoveAnnotation(key);
    } else {
      archived.SetAnnotation(key, value);
    }
  };
  const std::string handle = content == nullptr ? "" : content->handle_or_source();
  say(objects::kVolumeSnapshotHandleAnnotation, handle);
  say(objects::kDriverNameAnnotation, handle.empty() ? "" : content->driver());
  // The status of a parked content is written later.
  if (content == nullptr || !content->handle().empty()) {
    say(objects::kGroupSnapshotHandleAnnotation, content == nullptr ? "" : content->group_handle());
  }
  if (content == nullptr ||
      csi::DeletionSecretAnnotations(archived) != csi::DeletionSecretAnnotations(*content)) {
    csi::RemoveDeletionSecret(archived);
  }
  archived.RemoveAnnotation(objects::kHandleUnprovenAnnotation);
}

// The times that the VolumeSnapshot itself tells, for a managed one.
void AddTimes(VolumeSnapshot& snapshot) {
  const std::string snapshot_taken_at = snapshot.taken_at_text();
  if (!snapshot_taken_at.empty() && snapshot.Annotation(objects::kTakenAtAnnotation).empty()) {
    snapshot.SetAnnotation(objects::kTakenAtAnnotation, snapshot_taken_at);
  }
  AddReadyTime(snapshot);
}

// Velero's action writes 0 where the driver did not tell the size.
void DropUnknownSize(VolumeSnapshot& snapshot) {
  if (snapshot.Annotation(objects::kRestoreSizeAnnotation) == "0") {
    snapshot.RemoveAnnotation(objects::kRestoreSizeAnnotation);
  }
}

class VolumeSnapshotAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit VolumeSnapshotAction(const csi::Environment& env)
      : ActionOn("volumesnapshots.snapshot.storage.k8s.io"), env_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& object,
                                                   const objects::Object& backup_object) override;

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& backup_object) override;

  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const objects::Object& backup_object) override;

 private:
  absl::StatusOr<velero::BackupItemResult> Archive(const CallContext& ctx,
                                                   const VolumeSnapshot& item,
                                                   const objects::Backup& backup);

  // The content that names the VolumeSnapshot by its uid as that names it; also one that Velero
  // <= 1.15 has parked for this backup. Nothing if not found.
  absl::StatusOr<std::optional<VolumeSnapshotContent>> FindProof(const CallContext& ctx,
                                                                 const VolumeSnapshot& item,
                                                                 const objects::Backup& backup);

  // Another action did the work already. Sets right what it says about the snapshot.
  velero::BackupItemResult Correct(const VolumeSnapshot& item, const VolumeSnapshotContent& content,
                                   const objects::Backup& backup) const;

  // A foreign VolumeSnapshot: goes along with its content and class, and stays as it is.
  velero::BackupItemResult DescribeOthers(const VolumeSnapshot& item,
                                          const VolumeSnapshotContent* content) const;
  static void AddContentAndClass(const k8s::ObjectKey& content, VolumeSnapshot& archived,
                                 velero::BackupItemResult& result);

  // A managed one, which no other controller looks after.
  absl::StatusOr<velero::BackupItemResult> Adopt(const CallContext& ctx, const VolumeSnapshot& item,
                                                 const objects::Backup& backup);

  // The content with the label by which the backup's deletion knows it.
  absl::StatusOr<VolumeSnapshotContent> LabelContent(const CallContext& ctx,
                                                     const k8s::ObjectKey& content,
                                                     const objects::Backup& backup);
  void Remove(const VolumeSnapshot& item);
  absl::StatusOr<velero::BackupItemResult> Finalize(const CallContext& ctx,
                                                    const VolumeSnapshot& item,
                                                    const objects::Backup& backup);

  csi::Environment env_;
};

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Execute(
    const CallContext& ctx, const objects::Object& object, const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  ASSIGN_OR_RETURN(const VolumeSnapshot item, VolumeSnapshot::From(object));
  if (!env_.enable_csi) {
    velero::BackupItemResult result;
    if (!item.Annotation(objects::kVolumeSnapshotHandleAnnotation).empty()) {
      // A restore reads it all the same.
      ASSIGN_OR_RETURN(const auto content, FindProof(ctx, item, backup));
      VolumeSnapshot archived = item;
      KeepProven(content.has_value() ? &*content : nullptr, archived);
      result.item = IfChanged(item, std::move(archived));
    }
    return result;
  }
  if (backup.is_finalizing()) {
    return Finalize(ctx, item, backup);
  }
  if (csi::IsOfAnotherBackup(item, backup.name())) {
    CSIDELTA_LOG(kInfo, "a volume snapshot that another backup left is archived as it is",
                 {"namespace", item.namespace_name()}, {"volume_snapshot", item.name()},
                 {"backup", item.Label(objects::kBackupNameLabel)});
    return velero::BackupItemResult{};
  }
  absl::StatusOr<velero::BackupItemResult> result = Archive(ctx, item, backup);
  if (!result.ok() && csi::IsManaged(item, backup)) {
    ReportNoSnapshot(env_, backup, item.namespace_name(), item.source_pvc(),
                     result.status().message());
    if (csi::MemberGroupName(item).empty()) {
      Remove(item);  // A member goes with its group, or not at all.
    }
  }
  return result;
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Archive(
    const CallContext& ctx, const VolumeSnapshot& item, const objects::Backup& backup) {
  const std::string label = velero::ValidLabelValue(backup.name());
  const bool says_done = !item.Annotation(objects::kVolumeSnapshotHandleAnnotation).empty() &&
                         item.Label(objects::kBackupNameLabel) == label;
  const bool is_managed = csi::IsManaged(item, backup);
  if (is_managed && !says_done) {
    return Adopt(ctx, item, backup);
  }
  ASSIGN_OR_RETURN(const auto content, FindProof(ctx, item, backup));
  // That action has labelled the content as well.
  if (says_done && content.has_value() && content->Label(objects::kBackupNameLabel) == label) {
    return Correct(item, *content, backup);
  }
  return is_managed ? Adopt(ctx, item, backup)
                    : DescribeOthers(item, content.has_value() ? &*content : nullptr);
}

absl::StatusOr<std::optional<VolumeSnapshotContent>> VolumeSnapshotAction::FindProof(
    const CallContext& ctx, const VolumeSnapshot& item, const objects::Backup& backup) {
  const k8s::ObjectKey key = VolumeSnapshotContent::Key("", item.bound_content());
  if (key.name.empty()) {
    return std::optional<VolumeSnapshotContent>();
  }
  ASSIGN_OR_RETURN(auto content, csi::RetryTransient(ctx, [&] {
                     return objects::Find<VolumeSnapshotContent>(ctx, env_.api, key);
                   }));
  // The snapshot controller, which alone writes the status, named a parked one before it was that.
  const bool is_proof = content.has_value() &&
                        (content->IsOf(item) ||
                         (csi::IsParked(*content) && content->Label(objects::kBackupNameLabel) ==
                                                         velero::ValidLabelValue(backup.name())));
  return is_proof ? std::move(content) : std::nullopt;
}

velero::BackupItemResult VolumeSnapshotAction::Correct(const VolumeSnapshot& item,
                                                       const VolumeSnapshotContent& content,
                                                       const objects::Backup& backup) const {
  VolumeSnapshot changed = item;
  KeepProven(&content, changed);
  DropUnknownSize(changed);
  if (csi::IsManaged(item, backup)) {
    AddTimes(changed);
  }
  csi::StripForeignOwners(env_.velero_namespace, changed);
  velero::BackupItemResult result;
  result.item = IfChanged(item, std::move(changed));
  return result;
}

velero::BackupItemResult VolumeSnapshotAction::DescribeOthers(
    const VolumeSnapshot& item, const VolumeSnapshotContent* content) const {
  VolumeSnapshot changed = item;
  csi::StripForeignOwners(env_.velero_namespace, changed);
  KeepProven(content, changed);
  velero::BackupItemResult result;
  if (content != nullptr) {
    AddAnnotations(DescribeContent(*content), changed);
    AddContentAndClass(content->key(), changed, result);
  } else {
    CSIDELTA_LOG(kInfo, "a volume snapshot without content is archived as it is",
                 {"namespace", item.namespace_name()}, {"volume_snapshot", item.name()},
                 {"reason", item.error_message()});
  }
  result.item = IfChanged(item, std::move(changed));
  return result;
}

void VolumeSnapshotAction::AddContentAndClass(const k8s::ObjectKey& content,
                                              VolumeSnapshot& archived,
                                              velero::BackupItemResult& result) {
  const std::string class_name = archived.class_name();
  if (!class_name.empty()) {
    result.additional_items.push_back(
        velero::Identify(objects::VolumeSnapshotClass::Key("", class_name)));
  }
  result.additional_items.push_back(velero::Identify(content));
  archived.SetAnnotation(objects::kMustIncludeAnnotation, "true");
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Adopt(
    const CallContext& ctx, const VolumeSnapshot& item, const objects::Backup& backup) {
  const k8s::ObjectKey key = item.key();
  const k8s::ObjectKey content_key = VolumeSnapshotContent::Key("", item.bound_content());
  if (content_key.name.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshot ", key.namespace_name, "/", key.name, " is not bound"));
  }
  ASSIGN_OR_RETURN(const VolumeSnapshotContent content, LabelContent(ctx, content_key, backup));
  if (!content.IsOf(item)) {
    return absl::FailedPreconditionError(absl::StrCat("VolumeSnapshotContent ", content_key.name,
                                                      " belongs to ", content.snapshot_namespace(),
                                                      "/", content.snapshot_name()));
  }
  if (content.handle().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotContent ", content_key.name, " has no snapshot handle"));
  }
  std::map<std::string, std::string> annotations = DescribeContent(content);
  if (const auto snapshot_taken_at = content.taken_at(); snapshot_taken_at.has_value()) {
    annotations[objects::kTakenAtAnnotation] = FormatRfc3339(*snapshot_taken_at);
  }
  VolumeSnapshot archived = item;
  KeepProven(&content, archived);
  AddAnnotations(annotations, archived);
  annotations[objects::kFinalizeAnnotation] = backup.uid();
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&] {
    return objects::Apply(ctx, env_.api, key, objects::Patch().SetAnnotations(annotations));
  }));
  velero::BackupItemResult result;
  AddContentAndClass(content_key, archived, result);
  AddTimes(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = std::move(archived);
  result.operation_id = EncodeOperationId({.namespace_name = key.namespace_name,
                                           .snapshot_name = key.name,
                                           .snapshot_uid = item.uid(),
                                           .started_at = ctx.clock->Now()});
  result.post_operation_items = {velero::Identify(key), velero::Identify(content_key)};
  return result;
}

absl::StatusOr<VolumeSnapshotContent> VolumeSnapshotAction::LabelContent(
    const CallContext& ctx, const k8s::ObjectKey& content, const objects::Backup& backup) {
  const objects::Patch patch =
      objects::Patch().SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name()));
  return csi::RetryTransient(
      ctx, [&] { return objects::Apply<VolumeSnapshotContent>(ctx, env_.api, content, patch); });
}

void VolumeSnapshotAction::Remove(const VolumeSnapshot& item) {
  const absl::Status removed =
      csi::DeleteSnapshot(csi::CleanUpContext(env_.clock), env_.api, item.key(), item.uid());
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume snapshot is left behind", {"namespace", item.namespace_name()},
                 {"volume_snapshot", item.name()}, {"status", removed.ToString()});
  }
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Finalize(
    const CallContext& ctx, const VolumeSnapshot& item, const objects::Backup& backup) {
  velero::BackupItemResult result;
  VolumeSnapshot archived = item;
  if (item.Label(objects::kBackupNameLabel) == velero::ValidLabelValue(backup.name())) {
    DropUnknownSize(archived);
  }
  // What is archived here was read again: its annotations may be others than before.
  if (!item.Annotation(objects::kVolumeSnapshotHandleAnnotation).empty()) {
    ASSIGN_OR_RETURN(const auto content, FindProof(ctx, item, backup));
    if (content.has_value()) {
      KeepProven(&*content, archived);
    } else {
      // Velero >= 1.16 has deleted it. The archive has it, as it was before.
      archived.SetAnnotation(objects::kHandleUnprovenAnnotation, "true");
    }
  }
  if (csi::IsManaged(item, backup)) {
    if (item.Annotation(objects::kFinalizeAnnotation) == backup.uid() &&
        csi::MemberGroupName(item).empty()) {
      RETURN_IF_ERROR(csi::DropSnapshot(ctx, env_.api, item, csi::Data::kRetain));
    }
    archived.RemoveAnnotation(objects::kFinalizeAnnotation);
    AddTimes(archived);
    csi::StripForeignOwners(env_.velero_namespace, archived);
  }
  result.item = IfChanged(item, std::move(archived));
  return result;
}

// What the VolumeSnapshot and its content say about an operation under way.
velero::OperationProgress StatusOfSnapshot(velero::OperationProgress progress,
                                           const VolumeSnapshot& snapshot,
                                           const VolumeSnapshotContent& content, absl::Time now,
                                           absl::Duration grace_period) {
  const csi::SnapshotStatus status =
      csi::StatusOf(snapshot, {.kind = csi::ContentReading::Kind::kPresent, .content = &content});
  const std::string taken = status.taken_at.has_value()
                                ? absl::StrCat("taken at ", FormatRfc3339(*status.taken_at))
                                : "taken";
  if (csi::IsUsable(status.state)) {
    progress.completed = true;
    const auto ready_at = snapshot.ready_at();
    return NotYet(std::move(progress),
                  absl::StrCat(taken, ready_at.has_value()
                                          ? absl::StrCat(", ready at ", FormatRfc3339(*ready_at))
                                          : ", ready"));
  }
  // The VolumeSnapshot follows its content a moment later.
  const std::string error = content.is_ready() ? "" : content.error_message();
  if (error.empty()) {
    return NotYet(std::move(progress), absl::StrCat(taken, ", not ready yet"));
  }
  std::string text = absl::StrCat("volume snapshot not ready, the driver says: ", error);
  return now - *progress.started < grace_period ? NotYet(std::move(progress), std::move(text))
                                                : Failed(std::move(progress), std::move(text));
}

absl::StatusOr<velero::OperationProgress> VolumeSnapshotAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const objects::Object& backup_object) {
  const absl::StatusOr<SnapshotOperation> operation = DecodeOperationId(operation_id);
  velero::OperationProgress progress;
  progress.updated = ctx.clock->Now();
  if (!operation.ok()) {
    return velero::UnknownOperation(operation_id, ctx.clock->Now());
  }
  progress.started = operation->started_at;
  const absl::StatusOr<objects::Backup> backup = objects::Backup::Parse(backup_object);
  const absl::Duration grace_period =
      backup.ok() ? backup->csi_snapshot_timeout() : objects::kCsiSnapshotTimeoutDefault;
  const auto snapshot = objects::Get<VolumeSnapshot>(ctx, env_.api, operation->namespace_name,
                                                     operation->snapshot_name);
  if (absl::IsNotFound(snapshot.status()) ||
      (snapshot.ok() && snapshot->uid() != operation->snapshot_uid)) {
    return Failed(std::move(progress),
                  absl::StrCat("VolumeSnapshot ", operation->namespace_name, "/",
                               operation->snapshot_name, " was deleted before it was ready"));
  }
  if (!snapshot.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", snapshot.status().message()));
  }
  const std::string content_name = snapshot->bound_content();
  const auto content = objects::Get<VolumeSnapshotContent>(ctx, env_.api, "", content_name);
  if (absl::IsNotFound(content.status())) {
    return Failed(std::move(progress), absl::StrCat("VolumeSnapshotContent ", content_name,
                                                    " was deleted before it was ready"));
  }
  if (!content.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", content.status().message()));
  }
  progress =
      StatusOfSnapshot(std::move(progress), *snapshot, *content, ctx.clock->Now(), grace_period);
  if (!progress.error.empty()) {
    ReportNoSnapshot(env_, backup_object, snapshot->namespace_name(), snapshot->source_pvc(),
                     progress.error);
  }
  return progress;
}

absl::Status VolumeSnapshotAction::Cancel(const CallContext& ctx, absl::string_view operation_id,
                                          const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const SnapshotOperation operation, DecodeOperationId(operation_id));
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  const k8s::ObjectKey key = VolumeSnapshot::Key(operation.namespace_name, operation.snapshot_name);
  ASSIGN_OR_RETURN(const auto snapshot, objects::Find<VolumeSnapshot>(ctx, env_.api, key));
  if (!snapshot.has_value() || snapshot->uid() != operation.snapshot_uid ||
      !csi::IsManaged(*snapshot, backup) || !csi::MemberGroupName(*snapshot).empty() ||
      snapshot->is_ready()) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kInfo, "removing a volume snapshot that did not become ready",
               {"namespace", key.namespace_name}, {"volume_snapshot", key.name});
  return csi::DeleteSnapshot(ctx, env_.api, key, operation.snapshot_uid);
}

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotAction(const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotAction>(env);
}

}  // namespace csidelta::backupitemactions
