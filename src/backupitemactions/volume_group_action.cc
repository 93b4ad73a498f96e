#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/item_results.h"
#include "backupitemactions/snapshot_operation.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/group_lifecycle.h"
#include "csi/group_removal.h"
#include "csi/group_types.h"
#include "csi/owner_references.h"
#include "csi/retry.h"
#include "csi/snapshot_secrets.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

// Of a VolumeGroupSnapshot or its content, whose annotation is the same.
std::vector<csi::GroupClaim> PlannedOf(const Json& object) {
  return csi::PlannedMembers(objects::Object(object));
}

using Kind = SnapshotOperation::Kind;

velero::ResourceSelector Selecting(const k8s::ResourceType& type) {
  return {.included_namespaces = {},
          .excluded_namespaces = {},
          .included_resources = {absl::StrCat(type.plural, ".", type.group)},
          .excluded_resources = {},
          .label_selector = ""};
}

// What a restore or deletion anywhere needs to know of the group.
Json DescribeGroup(const Json& content) {
  Json annotations = Json::object();
  const std::string policy = GetString(content, {"spec", "deletionPolicy"});
  if (!policy.empty()) {
    annotations[objects::kDeletionPolicyAnnotation] = policy;
  }
  const std::string handle = csi::GroupHandleOf(content);
  if (!handle.empty()) {
    annotations[objects::kGroupSnapshotHandleAnnotation] = handle;
    annotations[objects::kDriverNameAnnotation] = GetString(content, {"spec", "driver"});
  }
  if (const auto cut_at = csi::GroupCutTime(content); cut_at.has_value()) {
    annotations[objects::kTakenAtAnnotation] = FormatRfc3339(*cut_at);
  }
  return annotations;
}

// --- VolumeGroupSnapshots

class VolumeGroupSnapshotAction : public velero::BackupItemAction {
 public:
  explicit VolumeGroupSnapshotAction(const csi::Environment& env) : env_(env) {}

  velero::ResourceSelector AppliesTo() const override {
    return Selecting(csi::VolumeGroupSnapshotType("v1"));
  }

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx, const Json& item,
                                                   const Json& backup_object) override;

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const Json& backup_object) override;

  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const Json& backup_object) override;

 private:
  static k8s::ObjectKey ContentKeyOf(const Json& group) {
    return csi::GroupContentKey(csi::GroupVersionOf(group), csi::BoundGroupContentName(group));
  }

  static void AddContentAndClass(const Json& group, Json& archived,
                                 velero::BackupItemResult& result);

  // A group of somebody else: goes along with its content and class, and stays as it is. Its
  // members are not returned: on Velero >= 1.14 they would be deleted at the end of the backup.
  absl::StatusOr<velero::BackupItemResult> DescribeOthers(const CallContext& ctx, const Json& item);
  absl::StatusOr<velero::BackupItemResult> Adopt(const CallContext& ctx, const Json& item,
                                                 const velero::Backup& backup);

  // The content with the labels by which the backup's deletion knows it, and with the claims of its
  // members.
  absl::StatusOr<Json> Mark(const CallContext& ctx, const Json& group,
                            const velero::Backup& backup);
  void Remove(const Json& item);
  absl::StatusOr<velero::BackupItemResult> Finalize(const CallContext& ctx, const Json& item,
                                                    const velero::Backup& backup);
  absl::StatusOr<Json> FindGroup(const CallContext& ctx, const SnapshotOperation& operation);

  velero::OperationProgress Judge(const CallContext& ctx, velero::OperationProgress progress,
                                  const Json& group, absl::Duration patience);

  csi::Environment env_;
};

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::Execute(
    const CallContext& ctx, const Json& item, const Json& backup_object) {
  ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
  if (!env_.enable_csi) {
    return velero::BackupItemResult{};
  }
  ASSIGN_OR_RETURN(const auto group, objects::VolumeGroupSnapshot::Of(item));
  const bool ours = csi::IsGroupOurs(group, backup);
  if (backup.Finalizing()) {
    return ours ? Finalize(ctx, item, backup) : velero::BackupItemResult{};
  }
  if (!ours) {
    return DescribeOthers(ctx, item);
  }
  absl::StatusOr<velero::BackupItemResult> result = Adopt(ctx, item, backup);
  if (!result.ok()) {
    Remove(item);
  }
  return result;
}

void VolumeGroupSnapshotAction::AddContentAndClass(const Json& group, Json& archived,
                                                   velero::BackupItemResult& result) {
  const std::string class_name = GetString(group, {"spec", "volumeGroupSnapshotClassName"});
  if (!class_name.empty()) {
    result.additional_items.push_back(
        Identify({.type = csi::VolumeGroupSnapshotClassType(csi::GroupVersionOf(group)),
                  .namespace_name = "",
                  .name = class_name}));
  }
  result.additional_items.push_back(Identify(ContentKeyOf(group)));
  SetJson(archived, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
}

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::DescribeOthers(
    const CallContext& ctx, const Json& item) {
  Json archived = item;
  csi::StripForeignOwners(env_.velero_namespace, archived);
  velero::BackupItemResult result;
  if (!csi::BoundGroupContentName(item).empty()) {
    ASSIGN_OR_RETURN(const Json content, k8s::FindOrNull(ctx, env_.api, ContentKeyOf(item)));
    if (!content.is_null()) {
      AddAnnotations(DescribeGroup(content), archived);
      AddContentAndClass(item, archived, result);
    }
  }
  result.item = IfChanged(item, std::move(archived));
  return result;
}

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::Adopt(
    const CallContext& ctx, const Json& item, const velero::Backup& backup) {
  const k8s::ObjectKey key = csi::GroupSnapshotKey(item);
  if (csi::BoundGroupContentName(item).empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeGroupSnapshot ", key.namespace_name, "/", key.name, " is not bound"));
  }
  ASSIGN_OR_RETURN(const Json content, Mark(ctx, item, backup));
  if (csi::GroupHandleOf(content).empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeGroupSnapshotContent ", k8s::Name(content), " has no group handle"));
  }
  Json annotations = DescribeGroup(content);
  Json archived = item;
  AddAnnotations(annotations, archived);
  annotations[objects::kFinalizeAnnotation] = backup.uid;
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&] {
    return env_.api
        .Patch(ctx, key, k8s::PatchKind::kMerge, {{"metadata", {{"annotations", annotations}}}}, "")
        .status();
  }));
  velero::BackupItemResult result;
  AddContentAndClass(item, archived, result);
  AddReadyTime(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = std::move(archived);
  result.operation_id = EncodeOperationId({.kind = Kind::kGroup,
                                           .namespace_name = key.namespace_name,
                                           .snapshot_name = key.name,
                                           .snapshot_uid = k8s::Uid(item),
                                           .started_at = ctx.clock->Now()});
  result.post_operation_items = {Identify(key), Identify(ContentKeyOf(item))};
  return result;
}

absl::StatusOr<Json> VolumeGroupSnapshotAction::Mark(const CallContext& ctx, const Json& group,
                                                     const velero::Backup& backup) {
  const Json labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name)},
                       {objects::kGroupNameLabel, k8s::Name(group)}};
  const Json annotations = {
      {objects::kGroupMembersAnnotation, k8s::Annotation(group, objects::kGroupMembersAnnotation)}};
  const Json patch = {{"metadata", {{"labels", labels}, {"annotations", annotations}}}};
  Json content;
  RETURN_IF_ERROR(csi::RetryTransient(ctx, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(content,
                     env_.api.Patch(ctx, ContentKeyOf(group), k8s::PatchKind::kMerge, patch, ""));
    return absl::OkStatus();
  }));
  return content;
}

void VolumeGroupSnapshotAction::Remove(const Json& item) {
  const auto group = objects::VolumeGroupSnapshot::Of(item);
  const absl::Status removed =
      group.ok() ? csi::RemoveGroup(csi::CleanUpContext(env_.clock), env_.api, *group)
                 : group.status();
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume group snapshot is left behind",
                 {"namespace", k8s::Namespace(item)}, {"volume_group_snapshot", k8s::Name(item)},
                 {"status", removed.ToString()});
  }
}

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::Finalize(
    const CallContext& ctx, const Json& item, const velero::Backup& backup) {
  if (k8s::Annotation(item, objects::kFinalizeAnnotation) == backup.uid) {
    ASSIGN_OR_RETURN(const auto group, objects::VolumeGroupSnapshot::Of(item));
    RETURN_IF_ERROR(csi::RetainAndForgetGroup(ctx, env_.api, group));
  }
  velero::BackupItemResult result;
  Json archived = item;
  EraseJson(archived, {"metadata", "annotations", objects::kFinalizeAnnotation});
  AddReadyTime(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = IfChanged(item, std::move(archived));
  return result;
}

absl::StatusOr<Json> VolumeGroupSnapshotAction::FindGroup(const CallContext& ctx,
                                                          const SnapshotOperation& operation) {
  const absl::StatusOr<csi::GroupKinds> kinds = csi::FindGroupKinds(ctx, env_.api);
  RETURN_IF_ERROR(kinds.status());
  ASSIGN_OR_RETURN(Json group,
                   env_.api.Get(ctx, {.type = csi::VolumeGroupSnapshotType(kinds->version),
                                      .namespace_name = operation.namespace_name,
                                      .name = operation.snapshot_name}));
  if (k8s::Uid(group) != operation.snapshot_uid) {
    return absl::NotFoundError("another one has its name");
  }
  return group;
}

velero::OperationProgress Complain(velero::OperationProgress progress, const std::string& error,
                                   absl::Time now, absl::Duration patience) {
  std::string text = absl::StrCat("volume group not ready, the driver says: ", error);
  return now - *progress.started < patience ? NotYet(std::move(progress), std::move(text))
                                            : Failed(std::move(progress), std::move(text));
}

// For people who read how a backup goes.
std::string CutText(const Json& group) {
  return absl::StrCat("cut, freeze window ",
                      FreezeWindowText(objects::VolumeGroupSnapshot::Of(group).value_or(
                          objects::VolumeGroupSnapshot())));
}

// What the group, and then its members, say about an operation under way.
velero::OperationProgress VolumeGroupSnapshotAction::Judge(const CallContext& ctx,
                                                           velero::OperationProgress progress,
                                                           const Json& group,
                                                           absl::Duration patience) {
  if (!csi::ReadyToUse(group)) {
    const std::string error = csi::ErrorMessage(group);
    return error.empty() ? NotYet(std::move(progress), absl::StrCat(CutText(group), ", not ready"))
                         : Complain(std::move(progress), error, ctx.clock->Now(), patience);
  }
  const absl::StatusOr<k8s::ObjectList> contents = env_.api.List(
      ctx, csi::VolumeSnapshotContentType(), "",
      {.label_selector = absl::StrCat(objects::kGroupNameLabel, "=", k8s::Name(group)),
       .field_selector = ""});
  if (!contents.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", contents.status().message()));
  }
  int ready = 0;
  for (const Json& content : contents->items) {
    if (csi::ReadyToUse(content)) {
      ++ready;
    } else if (const std::string error = csi::ErrorMessage(content); !error.empty()) {
      return Complain(
          std::move(progress),
          absl::StrCat("VolumeSnapshot ", GetString(content, {"spec", "volumeSnapshotRef", "name"}),
                       ": ", error),
          ctx.clock->Now(), patience);
    }
  }
  const auto total = static_cast<int>(PlannedOf(group).size());
  progress.completed_units = ready;
  progress.total_units = total;
  progress.units = "Members";
  if (ready < total) {
    return NotYet(std::move(progress),
                  absl::StrCat(CutText(group), ", ", ready, " of ", total, " members ready"));
  }
  progress.completed = true;
  return NotYet(std::move(progress), absl::StrCat(CutText(group), ", ", total, " members ready"));
}

absl::StatusOr<velero::OperationProgress> VolumeGroupSnapshotAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const Json& backup_object) {
  const absl::StatusOr<SnapshotOperation> operation = DecodeOperationId(operation_id, Kind::kGroup);
  if (!operation.ok()) {
    return UnknownOperation(operation_id, ctx.clock->Now());
  }
  velero::OperationProgress progress;
  progress.updated = ctx.clock->Now();
  progress.started = operation->started_at;
  const absl::StatusOr<Json> group = FindGroup(ctx, *operation);
  if (absl::IsNotFound(group.status())) {
    return Failed(std::move(progress),
                  absl::StrCat("VolumeGroupSnapshot ", operation->namespace_name, "/",
                               operation->snapshot_name, " was deleted before it was ready"));
  }
  if (!group.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", group.status().message()));
  }
  const absl::StatusOr<velero::Backup> backup = velero::ParseBackup(backup_object);
  return Judge(ctx, std::move(progress), *group,
               backup.ok() ? backup->csi_snapshot_timeout : velero::kCsiSnapshotTimeoutDefault);
}

absl::Status VolumeGroupSnapshotAction::Cancel(const CallContext& ctx,
                                               absl::string_view operation_id,
                                               const Json& backup_object) {
  ASSIGN_OR_RETURN(const SnapshotOperation operation,
                   DecodeOperationId(operation_id, Kind::kGroup));
  ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
  const auto group = objects::As<objects::VolumeGroupSnapshot>(FindGroup(ctx, operation));
  if (absl::IsNotFound(group.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(group.status());
  if (!csi::IsGroupOurs(*group, backup) || group->is_ready()) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kInfo, "removing a volume group snapshot that did not become ready",
               {"namespace", group->namespace_name()}, {"volume_group_snapshot", group->name()});
  return csi::RemoveGroup(ctx, env_.api, *group);
}

// --- VolumeGroupSnapshotContents

class VolumeGroupSnapshotContentAction : public velero::BackupItemAction {
 public:
  explicit VolumeGroupSnapshotContentAction(const csi::Environment& env) : env_(env) {}

  velero::ResourceSelector AppliesTo() const override {
    return Selecting(csi::VolumeGroupSnapshotContentType("v1"));
  }

  // The same when the backup is finalized: what is archived then is a new copy.
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx, const Json& item,
                                                   const Json& backup_object) override {
    ASSIGN_OR_RETURN(const velero::Backup backup, velero::ParseBackup(backup_object));
    velero::BackupItemResult result;
    if (!env_.enable_csi) {
      return result;
    }
    Json archived = item;
    AddAnnotations(DescribeGroup(item), archived);
    SetJson(archived, {"metadata", "annotations", objects::kGroupMembersAnnotation},
            DumpJson(Members(ctx, item)));
    AddReadyTime(archived);
    csi::StripForeignOwners(env_.velero_namespace, archived);
    if (!backup.Finalizing()) {
      result.additional_items = csi::SecretsOfGroupContent(item);
    }
    if (!result.additional_items.empty()) {
      SetJson(archived, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
    }
    result.item = IfChanged(item, std::move(archived));
    return result;
  }

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const Json& /*backup*/) override {
    return UnknownOperation(operation_id, ctx.clock->Now());
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const Json& /*backup*/) override {
    return absl::OkStatus();
  }

 private:
  // Who was cut together: handles as the content has them, or else the plan; claims as the
  // VolumeGroupSnapshot was asked for them.
  Json Members(const CallContext& ctx, const Json& content) {
    std::map<std::string, csi::GroupClaim> claims;  // by volume handle
    std::vector<csi::GroupMember> noted;
    for (csi::GroupClaim& claim : Planned(ctx, content)) {
      if (!claim.snapshot_handle.empty()) {
        noted.push_back(
            {.volume_handle = claim.volume_handle, .snapshot_handle = claim.snapshot_handle});
      }
      std::string volume = claim.volume_handle;
      claims.emplace(std::move(volume), std::move(claim));
    }
    const std::vector<csi::GroupMember> listed = csi::GroupMembers(content);
    Json members = Json::array();
    for (const csi::GroupMember& member : listed.empty() ? noted : listed) {
      Json entry = {{"volumeHandle", member.volume_handle},
                    {"snapshotHandle", member.snapshot_handle}};
      if (const auto claim = claims.find(member.volume_handle); claim != claims.end()) {
        entry["claim"] = claim->second.name;
        entry["claimUid"] = claim->second.uid;
      }
      members.push_back(std::move(entry));
    }
    return members;
  }

  // The snapshot controller may have replaced the content's annotations.
  std::vector<csi::GroupClaim> Planned(const CallContext& ctx, const Json& content) {
    std::vector<csi::GroupClaim> planned = PlannedOf(content);
    if (!planned.empty() || k8s::Label(content, objects::kGroupNameLabel).empty()) {
      return planned;
    }
    const absl::StatusOr<Json> group = env_.api.Get(
        ctx, {.type = csi::VolumeGroupSnapshotType(csi::GroupVersionOf(content)),
              .namespace_name = GetString(content, {"spec", "volumeGroupSnapshotRef", "namespace"}),
              .name = GetString(content, {"spec", "volumeGroupSnapshotRef", "name"})});
    return group.ok() ? PlannedOf(*group) : planned;
  }

  csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotAction>(env);
}

std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotContentAction>(env);
}

}  // namespace csidelta::backupitemactions
