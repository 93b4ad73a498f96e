#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/item_results.h"
#include "backupitemactions/snapshot_operation.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/group_lifecycle.h"
#include "csi/owner_references.h"
#include "csi/retry.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_state.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

// What a restore anywhere needs to know of the content.
Json DescribeContent(const Json& content) {
  Json annotations = Json::object();
  const std::string policy = GetString(content, {"spec", "deletionPolicy"});
  if (!policy.empty()) {
    annotations[objects::kDeletionPolicyAnnotation] = policy;
  }
  const std::string handle = csi::SnapshotHandle(content);
  if (!handle.empty()) {
    annotations[objects::kVolumeSnapshotHandleAnnotation] = handle;
    annotations[objects::kDriverNameAnnotation] = GetString(content, {"spec", "driver"});
  }
  if (const auto size_bytes = csi::RestoreSizeBytes(content); size_bytes.has_value()) {
    annotations[objects::kRestoreSizeAnnotation] = FormatBinaryQuantity(*size_bytes);
  }
  const std::string group = GetString(content, {"status", "volumeGroupSnapshotHandle"});
  if (!group.empty()) {
    annotations[objects::kGroupSnapshotHandleAnnotation] = group;
  }
  return annotations;
}

// The times that the VolumeSnapshot itself tells, for one of ours.
void AddTimes(Json& snapshot) {
  const std::string cut_at = GetString(snapshot, {"status", "creationTime"});
  if (!cut_at.empty() && k8s::Annotation(snapshot, objects::kTakenAtAnnotation).empty()) {
    SetJson(snapshot, {"metadata", "annotations", objects::kTakenAtAnnotation}, cut_at);
  }
  AddReadyTime(snapshot);
}

// Velero's action writes 0 where the driver did not tell the size.
void DropUnknownSize(Json& snapshot) {
  if (k8s::Annotation(snapshot, objects::kRestoreSizeAnnotation) == "0") {
    EraseJson(snapshot, {"metadata", "annotations", objects::kRestoreSizeAnnotation});
  }
}

class VolumeSnapshotAction : public velero::BackupItemAction {
 public:
  explicit VolumeSnapshotAction(const csi::Environment& env) : env_(env) {}

  velero::ResourceSelector AppliesTo() const override;
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx, const Json& item,
                                                   const Json& backup_object) override;

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const Json& backup_object) override;

  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const Json& backup_object) override;

 private:
  // Another action did the work already. Sets right what it says about the snapshot.
  velero::BackupItemResult Correct(const Json& item, const velero::Backup& backup) const;

  // A VolumeSnapshot of somebody else: goes along with its content and class, and stays as it is.
  absl::StatusOr<velero::BackupItemResult> DescribeOthers(const CallContext& ctx, const Json& item);
  static void AddContentAndClass(const Json& snapshot, const k8s::ObjectKey& content,
                                 Json& archived, velero::BackupItemResult& result);

  // One of ours, and nobody but us looks after it.
  absl::StatusOr<velero::BackupItemResult> Adopt(const CallContext& ctx, const Json& item,
                                                 const velero::Backup& backup);

  // The content with the label by which the backup's deletion knows it.
  absl::StatusOr<Json> Label(const CallContext& ctx, const k8s::ObjectKey& content,
                             const velero::Backup& backup);
  void Remove(const Json& item);
  absl::StatusOr<velero::BackupItemResult> Finalize(const CallContext& ctx, const Json& item,
                                                    const velero::Backup& backup);

  csi::Environment env_;
};

velero::ResourceSelector VolumeSnapshotAction::AppliesTo() const {
  return {.included_namespaces = {},
          .excluded_namespaces = {},
          .included_resources = {"volumesnapshots.snapshot.storage.k8s.io"},
          .excluded_resources = {},
          .label_selector = ""};
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Execute(const CallContext& ctx,
                                                                       const Json& item,
                                                                       const Json& backup_object) {
  ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
  if (!env_.enable_csi) {
    return velero::BackupItemResult{};
  }
  if (backup.Finalizing()) {
    return Finalize(ctx, item, backup);
  }
  if (!k8s::Annotation(item, objects::kVolumeSnapshotHandleAnnotation).empty() &&
      k8s::Label(item, objects::kBackupNameLabel) == velero::ValidLabelValue(backup.name)) {
    return Correct(item, backup);
  }
  if (csi::IsOfAnotherBackup(objects::Object(item), backup.name)) {
    CSIDELTA_LOG(kInfo, "a volume snapshot that another backup left is archived as it is",
                 {"namespace", k8s::Namespace(item)}, {"volume_snapshot", k8s::Name(item)},
                 {"backup", k8s::Label(item, objects::kBackupNameLabel)});
    return velero::BackupItemResult{};
  }
  ASSIGN_OR_RETURN(const auto snapshot, objects::VolumeSnapshot::Of(item));
  if (!csi::IsOurs(snapshot, backup)) {
    return DescribeOthers(ctx, item);
  }
  absl::StatusOr<velero::BackupItemResult> result = Adopt(ctx, item, backup);
  if (!result.ok() && csi::MemberGroupName(snapshot).empty()) {
    Remove(item);  // A member goes with its group, or not at all.
  }
  return result;
}

velero::BackupItemResult VolumeSnapshotAction::Correct(const Json& item,
                                                       const velero::Backup& backup) const {
  Json changed = item;
  DropUnknownSize(changed);
  if (const auto snapshot = objects::VolumeSnapshot::Of(item);
      snapshot.ok() && csi::IsOurs(*snapshot, backup)) {
    AddTimes(changed);
  }
  csi::StripForeignOwners(env_.velero_namespace, changed);
  velero::BackupItemResult result;
  result.item = IfChanged(item, std::move(changed));
  return result;
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::DescribeOthers(
    const CallContext& ctx, const Json& item) {
  Json changed = item;
  csi::StripForeignOwners(env_.velero_namespace, changed);
  velero::BackupItemResult result;
  const k8s::ObjectKey content_key = csi::VolumeSnapshotContentKey(csi::BoundContentName(item));
  if (!content_key.name.empty()) {
    const absl::StatusOr<Json> content = env_.api.Get(ctx, content_key);
    if (content.ok()) {
      AddAnnotations(DescribeContent(*content), changed);
      AddContentAndClass(item, content_key, changed, result);
    } else if (!absl::IsNotFound(content.status())) {
      return content.status();
    }
  }
  if (result.additional_items.empty()) {
    CSIDELTA_LOG(kInfo, "a volume snapshot without content is archived as it is",
                 {"namespace", k8s::Namespace(item)}, {"volume_snapshot", k8s::Name(item)},
                 {"reason", csi::ErrorMessage(item)});
  }
  result.item = IfChanged(item, std::move(changed));
  return result;
}

void VolumeSnapshotAction::AddContentAndClass(const Json& snapshot, const k8s::ObjectKey& content,
                                              Json& archived, velero::BackupItemResult& result) {
  const std::string class_name = GetString(snapshot, {"spec", "volumeSnapshotClassName"});
  if (!class_name.empty()) {
    result.additional_items.push_back(Identify(
        {.type = csi::VolumeSnapshotClassType(), .namespace_name = "", .name = class_name}));
  }
  result.additional_items.push_back(Identify(content));
  SetJson(archived, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Adopt(const CallContext& ctx,
                                                                     const Json& item,
                                                                     const velero::Backup& backup) {
  const k8s::ObjectKey key = csi::VolumeSnapshotKey(k8s::Namespace(item), k8s::Name(item));
  const k8s::ObjectKey content_key = csi::VolumeSnapshotContentKey(csi::BoundContentName(item));
  if (content_key.name.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshot ", key.namespace_name, "/", key.name, " is not bound"));
  }
  ASSIGN_OR_RETURN(const Json content, Label(ctx, content_key, backup));
  if (csi::SnapshotHandle(content).empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeSnapshotContent ", content_key.name, " has no snapshot handle"));
  }
  Json annotations = DescribeContent(content);
  if (const auto cut_at = csi::CutTime(content); cut_at.has_value()) {
    annotations[objects::kTakenAtAnnotation] = FormatRfc3339(*cut_at);
  }
  Json archived = item;
  AddAnnotations(annotations, archived);
  annotations[objects::kFinalizeAnnotation] = backup.uid;
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&] {
    return env_.api
        .Patch(ctx, key, k8s::PatchKind::kMerge, {{"metadata", {{"annotations", annotations}}}}, "")
        .status();
  }));
  velero::BackupItemResult result;
  AddContentAndClass(item, content_key, archived, result);
  AddTimes(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = std::move(archived);
  result.operation_id = EncodeOperationId({.namespace_name = key.namespace_name,
                                           .snapshot_name = key.name,
                                           .snapshot_uid = k8s::Uid(item),
                                           .started_at = ctx.clock->Now()});
  result.post_operation_items = {Identify(key), Identify(content_key)};
  return result;
}

absl::StatusOr<Json> VolumeSnapshotAction::Label(const CallContext& ctx,
                                                 const k8s::ObjectKey& content,
                                                 const velero::Backup& backup) {
  const Json label = {{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name)}};
  Json labelled;
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(labelled, env_.api.Patch(ctx, content, k8s::PatchKind::kMerge,
                                              {{"metadata", {{"labels", label}}}}, ""));
    return absl::OkStatus();
  }));
  return labelled;
}

void VolumeSnapshotAction::Remove(const Json& item) {
  const absl::Status removed = csi::RemoveSnapshot(
      csi::CleanUpContext(env_.clock), env_.api,
      csi::VolumeSnapshotKey(k8s::Namespace(item), k8s::Name(item)), k8s::Uid(item));
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume snapshot is left behind", {"namespace", k8s::Namespace(item)},
                 {"volume_snapshot", k8s::Name(item)}, {"status", removed.ToString()});
  }
}

absl::StatusOr<velero::BackupItemResult> VolumeSnapshotAction::Finalize(
    const CallContext& ctx, const Json& item, const velero::Backup& backup) {
  velero::BackupItemResult result;
  Json archived = item;
  if (k8s::Label(item, objects::kBackupNameLabel) == velero::ValidLabelValue(backup.name)) {
    DropUnknownSize(archived);
  }
  ASSIGN_OR_RETURN(const auto snapshot, objects::VolumeSnapshot::Of(item));
  if (!csi::IsOurs(snapshot, backup)) {
    result.item = IfChanged(item, std::move(archived));
    return result;
  }
  if (k8s::Annotation(item, objects::kFinalizeAnnotation) == backup.uid &&
      csi::MemberGroupName(snapshot).empty()) {
    RETURN_IF_ERROR(csi::RetainAndForget(ctx, env_.api, snapshot));
  }
  EraseJson(archived, {"metadata", "annotations", objects::kFinalizeAnnotation});
  AddTimes(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = IfChanged(item, std::move(archived));
  return result;
}

// What the VolumeSnapshot and its content say about an operation under way.
velero::OperationProgress Judge(velero::OperationProgress progress,
                                const objects::VolumeSnapshot& snapshot,
                                const objects::VolumeSnapshotContent& content, absl::Time now,
                                absl::Duration patience) {
  const csi::SnapshotStatus status =
      csi::StatusOf(snapshot, {.kind = csi::ContentReading::Kind::kPresent, .content = &content});
  const std::string cut = status.taken_at.has_value()
                              ? absl::StrCat("cut at ", FormatRfc3339(*status.taken_at))
                              : "cut";
  if (csi::IsUsable(status.state)) {
    progress.completed = true;
    const auto ready_at = snapshot.ready_at();
    return NotYet(std::move(progress),
                  absl::StrCat(cut, ready_at.has_value()
                                        ? absl::StrCat(", ready at ", FormatRfc3339(*ready_at))
                                        : ", ready"));
  }
  // The VolumeSnapshot follows its content a moment later.
  const std::string error =
      csi::ReadyToUse(content.json()) ? "" : csi::ErrorMessage(content.json());
  if (error.empty()) {
    return NotYet(std::move(progress), absl::StrCat(cut, ", not ready yet"));
  }
  std::string text = absl::StrCat("volume snapshot not ready, the driver says: ", error);
  return now - *progress.started < patience ? NotYet(std::move(progress), std::move(text))
                                            : Failed(std::move(progress), std::move(text));
}

absl::StatusOr<velero::OperationProgress> VolumeSnapshotAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const Json& backup_object) {
  const absl::StatusOr<SnapshotOperation> operation = DecodeOperationId(operation_id);
  velero::OperationProgress progress;
  progress.updated = ctx.clock->Now();
  if (!operation.ok()) {
    return UnknownOperation(operation_id, ctx.clock->Now());
  }
  progress.started = operation->started_at;
  const absl::StatusOr<velero::Backup> backup = velero::ParseBackup(backup_object);
  const absl::Duration patience =
      backup.ok() ? backup->csi_snapshot_timeout : velero::kCsiSnapshotTimeoutDefault;
  const absl::StatusOr<Json> snapshot = env_.api.Get(
      ctx, csi::VolumeSnapshotKey(operation->namespace_name, operation->snapshot_name));
  if (absl::IsNotFound(snapshot.status()) ||
      (snapshot.ok() && k8s::Uid(*snapshot) != operation->snapshot_uid)) {
    return Failed(std::move(progress),
                  absl::StrCat("VolumeSnapshot ", operation->namespace_name, "/",
                               operation->snapshot_name, " was deleted before it was ready"));
  }
  if (!snapshot.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", snapshot.status().message()));
  }
  const std::string content_name = csi::BoundContentName(*snapshot);
  const absl::StatusOr<Json> content =
      env_.api.Get(ctx, csi::VolumeSnapshotContentKey(content_name));
  if (absl::IsNotFound(content.status())) {
    return Failed(std::move(progress), absl::StrCat("VolumeSnapshotContent ", content_name,
                                                    " was deleted before it was ready"));
  }
  if (!content.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", content.status().message()));
  }
  ASSIGN_OR_RETURN(const auto typed, objects::VolumeSnapshot::Of(*snapshot));
  ASSIGN_OR_RETURN(const auto typed_content, objects::VolumeSnapshotContent::Of(*content));
  return Judge(std::move(progress), typed, typed_content, ctx.clock->Now(), patience);
}

absl::Status VolumeSnapshotAction::Cancel(const CallContext& ctx, absl::string_view operation_id,
                                          const Json& backup_object) {
  ASSIGN_OR_RETURN(const SnapshotOperation operation, DecodeOperationId(operation_id));
  ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
  const k8s::ObjectKey key =
      csi::VolumeSnapshotKey(operation.namespace_name, operation.snapshot_name);
  ASSIGN_OR_RETURN(const auto snapshot, objects::Find<objects::VolumeSnapshot>(ctx, env_.api, key));
  if (!snapshot.has_value() || snapshot->uid() != operation.snapshot_uid ||
      !csi::IsOurs(*snapshot, backup) || !csi::MemberGroupName(*snapshot).empty() ||
      snapshot->is_ready()) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kInfo, "removing a volume snapshot that did not become ready",
               {"namespace", key.namespace_name}, {"volume_snapshot", key.name});
  return csi::RemoveSnapshot(ctx, env_.api, key, operation.snapshot_uid);
}

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotAction(const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotAction>(env);
}

}  // namespace csidelta::backupitemactions
