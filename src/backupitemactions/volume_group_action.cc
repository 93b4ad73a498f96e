#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/item_results.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/drop.h"
#include "csi/expose/snapshot_secrets.h"
#include "csi/group/group_lifecycle.h"
#include "csi/owner_references.h"
#include "csi/retry.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

using Kind = SnapshotOperation::Kind;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotContent;

// What a restore or deletion anywhere needs to know of the group.
std::map<std::string, std::string> DescribeGroup(const VolumeGroupSnapshotContent& content) {
  std::map<std::string, std::string> annotations;
  if (const std::string policy = content.deletion_policy(); !policy.empty()) {
    annotations[objects::kDeletionPolicyAnnotation] = policy;
  }
  if (const std::string handle = content.handle_or_source(); !handle.empty()) {
    annotations[objects::kGroupSnapshotHandleAnnotation] = handle;
    annotations[objects::kDriverNameAnnotation] = content.driver();
  }
  if (const auto taken_at = content.taken_at(); taken_at.has_value()) {
    annotations[objects::kTakenAtAnnotation] = FormatRfc3339(*taken_at);
  }
  return annotations;
}

absl::StatusOr<std::vector<objects::VolumeSnapshotContent>> ListMemberContents(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeGroupSnapshot& group) {
  return objects::List<objects::VolumeSnapshotContent>(
      ctx, api, "", {.label_selector = absl::StrCat(objects::kGroupNameLabel, "=", group.name())});
}

// The plan of a group. Every writer of a VolumeGroupSnapshot writes its annotations, so only those
// handles count that contents of its members have: a restore or a deletion would go by any.
absl::StatusOr<std::vector<objects::PlannedGroupMember>> ProvenMembers(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeGroupSnapshot& group) {
  std::vector<objects::PlannedGroupMember> planned = csi::PlannedMembers(group);
  if (absl::c_all_of(planned, [](const auto& one) { return one.snapshot_handle.empty(); })) {
    return planned;
  }
  ASSIGN_OR_RETURN(const auto contents,
                   csi::RetryTransient(ctx, [&] { return ListMemberContents(ctx, api, group); }));
  for (objects::PlannedGroupMember& member : planned) {
    if (absl::c_none_of(contents, [&](const objects::VolumeSnapshotContent& content) {
          return content.snapshot_namespace() == group.namespace_name() &&
                 content.handle_or_source() == member.snapshot_handle;
        })) {
      member.snapshot_handle.clear();
    }
  }
  return planned;
}

// --- VolumeGroupSnapshots

class VolumeGroupSnapshotAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit VolumeGroupSnapshotAction(const csi::Environment& env)
      : ActionOn(k8s::ToString(VolumeGroupSnapshot::kKind.TypeOf("v1"))), env_(env) {}

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override;

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& backup_object) override;

  absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                      const objects::Object& backup_object) override;

 private:
  static k8s::ObjectKey ContentKeyOf(const VolumeGroupSnapshot& group) {
    return VolumeGroupSnapshotContent::Key(group.version(), "", group.bound_content());
  }

  static void AddContentAndClass(const VolumeGroupSnapshot& group, VolumeGroupSnapshot& archived,
                                 velero::BackupItemResult& result);

  // A foreign group: goes along with its content and class, and stays as it is. Its
  // members are not returned: on Velero >= 1.14 they would be deleted at the end of the backup.
  absl::StatusOr<velero::BackupItemResult> DescribeOthers(const CallContext& ctx,
                                                          const VolumeGroupSnapshot& group);
  absl::StatusOr<velero::BackupItemResult> Adopt(const CallContext& ctx,
                                                 const VolumeGroupSnapshot& group,
                                                 const objects::Backup& backup);

  // The content with the labels by which the backup's deletion knows it, and with the claims of its
  // members.
  absl::StatusOr<VolumeGroupSnapshotContent> Mark(const CallContext& ctx,
                                                  const VolumeGroupSnapshot& group,
                                                  const objects::Backup& backup);
  void Remove(const VolumeGroupSnapshot& group);
  absl::StatusOr<velero::BackupItemResult> Finalize(const CallContext& ctx,
                                                    const VolumeGroupSnapshot& group,
                                                    const objects::Backup& backup);
  absl::StatusOr<VolumeGroupSnapshot> FindGroup(const CallContext& ctx,
                                                const SnapshotOperation& operation);

  velero::OperationProgress StatusOfGroup(const CallContext& ctx,
                                          velero::OperationProgress progress,
                                          const VolumeGroupSnapshot& group,
                                          absl::Duration grace_period);

  csi::Environment env_;
};

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::Execute(
    const CallContext& ctx, const objects::Object& item, const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  if (!env_.enable_csi) {
    return velero::BackupItemResult{};
  }
  ASSIGN_OR_RETURN(const auto group, VolumeGroupSnapshot::From(item));
  const bool own = csi::IsManaged(group, backup);
  if (backup.is_finalizing()) {
    return own ? Finalize(ctx, group, backup) : velero::BackupItemResult{};
  }
  if (!own) {
    return DescribeOthers(ctx, group);
  }
  absl::StatusOr<velero::BackupItemResult> result = Adopt(ctx, group, backup);
  if (!result.ok()) {
    Remove(group);
  }
  return result;
}

void VolumeGroupSnapshotAction::AddContentAndClass(const VolumeGroupSnapshot& group,
                                                   VolumeGroupSnapshot& archived,
                                                   velero::BackupItemResult& result) {
  if (const std::string class_name = group.class_name(); !class_name.empty()) {
    result.additional_items.push_back(velero::Identify(
        k8s::ObjectKey{.type = objects::VolumeGroupSnapshotClass::kKind.TypeOf(group.version()),
                       .namespace_name = "",
                       .name = class_name}));
  }
  result.additional_items.push_back(velero::Identify(ContentKeyOf(group)));
  archived.SetAnnotation(objects::kMustIncludeAnnotation, "true");
}

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::DescribeOthers(
    const CallContext& ctx, const VolumeGroupSnapshot& group) {
  VolumeGroupSnapshot archived = group;
  csi::StripForeignOwners(env_.velero_namespace, archived);
  velero::BackupItemResult result;
  if (!group.bound_content().empty()) {
    ASSIGN_OR_RETURN(const auto content,
                     objects::Find<VolumeGroupSnapshotContent>(ctx, env_.api, ContentKeyOf(group)));
    if (content.has_value()) {
      AddAnnotations(DescribeGroup(*content), archived);
      AddContentAndClass(group, archived, result);
    }
  }
  result.item = IfChanged(group, std::move(archived));
  return result;
}

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::Adopt(
    const CallContext& ctx, const VolumeGroupSnapshot& group, const objects::Backup& backup) {
  const k8s::ObjectKey key = group.key();
  if (group.bound_content().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeGroupSnapshot ", key.namespace_name, "/", key.name, " is not bound"));
  }
  ASSIGN_OR_RETURN(const VolumeGroupSnapshotContent content, Mark(ctx, group, backup));
  if (content.handle_or_source().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("VolumeGroupSnapshotContent ", content.name(), " has no group handle"));
  }
  const std::map<std::string, std::string> annotations = DescribeGroup(content);
  VolumeGroupSnapshot archived = group;
  AddAnnotations(annotations, archived);
  const objects::Patch patch = objects::Patch()
                                   .SetAnnotations(annotations)
                                   .SetAnnotation(objects::kFinalizeAnnotation, backup.uid());
  RETURN_IF_ERROR(
      csi::RetryTransient(ctx, [&] { return objects::Apply(ctx, env_.api, key, patch); }));
  velero::BackupItemResult result;
  AddContentAndClass(group, archived, result);
  AddReadyTime(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = std::move(archived);
  result.operation_id = EncodeOperationId({.kind = Kind::kGroup,
                                           .namespace_name = key.namespace_name,
                                           .snapshot_name = key.name,
                                           .snapshot_uid = group.uid(),
                                           .started_at = ctx.clock->Now()});
  result.post_operation_items = {velero::Identify(key), velero::Identify(ContentKeyOf(group))};
  return result;
}

absl::StatusOr<VolumeGroupSnapshotContent> VolumeGroupSnapshotAction::Mark(
    const CallContext& ctx, const VolumeGroupSnapshot& group, const objects::Backup& backup) {
  ASSIGN_OR_RETURN(const auto members, ProvenMembers(ctx, env_.api, group));
  const objects::Patch patch =
      objects::Patch()
          .SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name()))
          .SetLabel(objects::kGroupNameLabel, group.name())
          .SetAnnotation(objects::kGroupMembersAnnotation, objects::FormatGroupPlan(members));
  return csi::RetryTransient(ctx, [&] {
    return objects::Apply<VolumeGroupSnapshotContent>(ctx, env_.api, ContentKeyOf(group), patch);
  });
}

void VolumeGroupSnapshotAction::Remove(const VolumeGroupSnapshot& group) {
  const absl::Status removed =
      csi::DropSnapshot(csi::CleanUpContext(env_.clock), env_.api, group, csi::Data::kDelete);
  if (!removed.ok()) {
    CSIDELTA_LOG(kWarn, "a volume group snapshot is left behind",
                 {"namespace", group.namespace_name()}, {"volume_group_snapshot", group.name()},
                 {"status", removed.ToString()});
  }
}

absl::StatusOr<velero::BackupItemResult> VolumeGroupSnapshotAction::Finalize(
    const CallContext& ctx, const VolumeGroupSnapshot& group, const objects::Backup& backup) {
  if (group.Annotation(objects::kFinalizeAnnotation) == backup.uid()) {
    RETURN_IF_ERROR(csi::DropSnapshot(ctx, env_.api, group, csi::Data::kRetain));
  }
  velero::BackupItemResult result;
  VolumeGroupSnapshot archived = group;
  archived.RemoveAnnotation(objects::kFinalizeAnnotation);
  AddReadyTime(archived);
  csi::StripForeignOwners(env_.velero_namespace, archived);
  result.item = IfChanged(group, std::move(archived));
  return result;
}

absl::StatusOr<VolumeGroupSnapshot> VolumeGroupSnapshotAction::FindGroup(
    const CallContext& ctx, const SnapshotOperation& operation) {
  ASSIGN_OR_RETURN(const objects::GroupKinds kinds, objects::FindGroupKinds(ctx, env_.api));
  ASSIGN_OR_RETURN(auto group, objects::Get<VolumeGroupSnapshot>(
                                   ctx, env_.api,
                                   VolumeGroupSnapshot::Key(kinds.version, operation.namespace_name,
                                                            operation.snapshot_name)));
  if (group.uid() != operation.snapshot_uid) {
    return absl::NotFoundError("another one has its name");
  }
  return group;
}

velero::OperationProgress ReportError(velero::OperationProgress progress, const std::string& error,
                                      absl::Time now, absl::Duration grace_period) {
  std::string text = absl::StrCat("volume group not ready, the driver says: ", error);
  return now - *progress.started < grace_period ? NotYet(std::move(progress), std::move(text))
                                                : Failed(std::move(progress), std::move(text));
}

// For people who read how a backup goes.
std::string TakenText(const VolumeGroupSnapshot& group) {
  return absl::StrCat("taken, freeze window ", FreezeWindowText(group));
}

// What the group, and then its members, say about an operation under way.
velero::OperationProgress VolumeGroupSnapshotAction::StatusOfGroup(
    const CallContext& ctx, velero::OperationProgress progress, const VolumeGroupSnapshot& group,
    absl::Duration grace_period) {
  if (!group.is_ready()) {
    const std::string error = group.error_message();
    return error.empty()
               ? NotYet(std::move(progress), absl::StrCat(TakenText(group), ", not ready"))
               : ReportError(std::move(progress), error, ctx.clock->Now(), grace_period);
  }
  const auto contents = ListMemberContents(ctx, env_.api, group);
  if (!contents.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", contents.status().message()));
  }
  int ready = 0;
  for (const objects::VolumeSnapshotContent& content : *contents) {
    if (content.is_ready()) {
      ++ready;
    } else if (const std::string error = content.error_message(); !error.empty()) {
      return ReportError(std::move(progress),
                         absl::StrCat("VolumeSnapshot ", content.snapshot_name(), ": ", error),
                         ctx.clock->Now(), grace_period);
    }
  }
  const auto total = static_cast<int>(csi::PlannedMembers(group).size());
  progress.completed_units = ready;
  progress.total_units = total;
  progress.units = "Members";
  if (ready < total) {
    return NotYet(std::move(progress),
                  absl::StrCat(TakenText(group), ", ", ready, " of ", total, " members ready"));
  }
  progress.completed = true;
  return NotYet(std::move(progress), absl::StrCat(TakenText(group), ", ", total, " members ready"));
}

absl::StatusOr<velero::OperationProgress> VolumeGroupSnapshotAction::Progress(
    const CallContext& ctx, absl::string_view operation_id, const objects::Object& backup_object) {
  const absl::StatusOr<SnapshotOperation> operation = DecodeOperationId(operation_id, Kind::kGroup);
  if (!operation.ok()) {
    return velero::UnknownOperation(operation_id, ctx.clock->Now());
  }
  velero::OperationProgress progress;
  progress.updated = ctx.clock->Now();
  progress.started = operation->started_at;
  const absl::StatusOr<VolumeGroupSnapshot> group = FindGroup(ctx, *operation);
  if (absl::IsNotFound(group.status())) {
    return Failed(std::move(progress),
                  absl::StrCat("VolumeGroupSnapshot ", operation->namespace_name, "/",
                               operation->snapshot_name, " was deleted before it was ready"));
  }
  if (!group.ok()) {
    return NotYet(std::move(progress), absl::StrCat("not known: ", group.status().message()));
  }
  const absl::StatusOr<objects::Backup> backup = objects::Backup::Parse(backup_object);
  return StatusOfGroup(
      ctx, std::move(progress), *group,
      backup.ok() ? backup->csi_snapshot_timeout() : objects::kCsiSnapshotTimeoutDefault);
}

absl::Status VolumeGroupSnapshotAction::Cancel(const CallContext& ctx,
                                               absl::string_view operation_id,
                                               const objects::Object& backup_object) {
  ASSIGN_OR_RETURN(const SnapshotOperation operation,
                   DecodeOperationId(operation_id, Kind::kGroup));
  ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
  const absl::StatusOr<VolumeGroupSnapshot> group = FindGroup(ctx, operation);
  if (absl::IsNotFound(group.status())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(group.status());
  if (!csi::IsManaged(*group, backup) || group->is_ready()) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kInfo, "removing a volume group snapshot that did not become ready",
               {"namespace", group->namespace_name()}, {"volume_group_snapshot", group->name()});
  return csi::DropSnapshot(ctx, env_.api, *group, csi::Data::kDelete);
}

// --- VolumeGroupSnapshotContents

class VolumeGroupSnapshotContentAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit VolumeGroupSnapshotContentAction(const csi::Environment& env)
      : ActionOn(k8s::ToString(VolumeGroupSnapshotContent::kKind.TypeOf("v1"))), env_(env) {}

  // The same when the backup is finalized: what is archived then is a new copy.
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    velero::BackupItemResult result;
    if (!env_.enable_csi) {
      return result;
    }
    ASSIGN_OR_RETURN(const auto content, VolumeGroupSnapshotContent::From(item));
    VolumeGroupSnapshotContent archived = content;
    AddAnnotations(DescribeGroup(content), archived);
    ASSIGN_OR_RETURN(const auto members, Members(ctx, content));
    archived.SetAnnotation(objects::kGroupMembersAnnotation, objects::FormatGroupPlan(members));
    AddReadyTime(archived);
    csi::StripForeignOwners(env_.velero_namespace, archived);
    if (!backup.is_finalizing()) {
      result.additional_items = csi::SecretsOf(content);
    }
    if (!result.additional_items.empty()) {
      archived.SetAnnotation(objects::kMustIncludeAnnotation, "true");
    }
    result.item = IfChanged(content, std::move(archived));
    return result;
  }

 private:
  // The members of the group: handles as the content has them, or else the plan; claims as the
  // VolumeGroupSnapshot was asked for them.
  absl::StatusOr<std::vector<objects::PlannedGroupMember>> Members(
      const CallContext& ctx, const VolumeGroupSnapshotContent& content) {
    std::map<std::string, objects::PlannedGroupMember> claims;  // by volume handle
    std::vector<objects::GroupMember> recorded;
    ASSIGN_OR_RETURN(std::vector<objects::PlannedGroupMember> all, Planned(ctx, content));
    for (objects::PlannedGroupMember& claim : all) {
      if (!claim.snapshot_handle.empty()) {
        recorded.push_back(
            {.volume_handle = claim.volume_handle, .snapshot_handle = claim.snapshot_handle});
      }
      std::string volume = claim.volume_handle;
      claims.emplace(std::move(volume), std::move(claim));
    }
    const std::vector<objects::GroupMember> listed = content.members();
    std::vector<objects::PlannedGroupMember> members;
    for (const objects::GroupMember& member : listed.empty() ? recorded : listed) {
      objects::PlannedGroupMember& planned = claims[member.volume_handle];
      planned.volume_handle = member.volume_handle;
      planned.snapshot_handle = member.snapshot_handle;
      members.push_back(planned);
    }
    return members;
  }

  // The snapshot controller may have replaced the content's annotations.
  absl::StatusOr<std::vector<objects::PlannedGroupMember>> Planned(
      const CallContext& ctx, const VolumeGroupSnapshotContent& content) {
    std::vector<objects::PlannedGroupMember> planned = csi::PlannedMembers(content);
    if (!planned.empty() || content.Label(objects::kGroupNameLabel).empty()) {
      return planned;
    }
    const auto group = objects::Get<VolumeGroupSnapshot>(
        ctx, env_.api,
        VolumeGroupSnapshot::Key(content.version(), content.snapshot_namespace(),
                                 content.snapshot_name()));
    return group.ok() ? ProvenMembers(ctx, env_.api, *group)
                      : absl::StatusOr<std::vector<objects::PlannedGroupMember>>(planned);
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
