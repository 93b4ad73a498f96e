#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_types.h"
#include "csi/snapshot_secrets.h"
#include "csi/static_content.h"
#include "csi/static_group.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/group_restore.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

std::string ApiVersion(const k8s::ResourceType& type) {
  return absl::StrCat(type.group, "/", type.version);
}

velero::ResourceIdentifier Identify(const k8s::ResourceType& type, std::string namespace_name,
                                    std::string name) {
  return {.group = type.group,
          .resource = type.plural,
          .namespace_name = std::move(namespace_name),
          .name = std::move(name)};
}

// What the cluster serves of the group kinds; nothing, with a warning, where that is none of them.
absl::StatusOr<std::optional<csi::GroupKinds>> FindKinds(const CallContext& ctx,
                                                         const csi::Environment& env,
                                                         const Json& item) {
  absl::StatusOr<csi::GroupKinds> kinds = csi::FindGroupKinds(ctx, env.api);
  if (absl::IsNotFound(kinds.status())) {
    CSIDELTA_LOG(kWarn, "left out what belongs to a volume group",
                 {"kind", GetString(item, {"kind"})}, {"namespace", k8s::Namespace(item)},
                 {"name", k8s::Name(item)}, {"reason", kinds.status().ToString()});
    return std::optional<csi::GroupKinds>();
  }
  RETURN_IF_ERROR(kinds.status());
  return std::optional(*std::move(kinds));
}

// --- VolumeGroupSnapshots

class VolumeGroupSnapshotAction : public SnapshotObjectAction {
 public:
  explicit VolumeGroupSnapshotAction(const csi::Environment& env)
      : SnapshotObjectAction("volumegroupsnapshots.groupsnapshot.storage.k8s.io"), env_(env) {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                          const velero::Restore& restore,
                                                          const Json& item,
                                                          const Json& item_from_backup) override {
    const bool ours = !k8s::Label(item_from_backup, objects::kCsiDeltaLabel).empty();
    if (ours && HowToRestoreGroups(ctx, env_) == velero::GroupRestore::kMembers) {
      return Skip();
    }
    ASSIGN_OR_RETURN(const std::optional<csi::GroupKinds> kinds,
                     FindKinds(ctx, env_, item_from_backup));
    if (!kinds.has_value()) {
      return Skip();
    }
    const std::string content_in_backup = csi::BoundGroupContentName(item_from_backup);
    if (content_in_backup.empty()) {
      CSIDELTA_LOG(kWarn, "left out a volume group that was not bound when it was backed up",
                   {"namespace", k8s::Namespace(item_from_backup)},
                   {"volume_group_snapshot", k8s::Name(item_from_backup)});
      return Skip();
    }
    const std::string content_name = RestoredGroupName(
        restore.uid, k8s::Namespace(item_from_backup), k8s::Name(item_from_backup));
    velero::RestoreItemResult result;
    result.item = Rewrite(item, *kinds, item_from_backup, content_name, ours);
    const std::string class_in_backup =
        GetString(item_from_backup, {"spec", "volumeGroupSnapshotClassName"});
    if (!class_in_backup.empty()) {
      result.additional_items.push_back(
          Identify(csi::VolumeGroupSnapshotClassType(kinds->version), "", class_in_backup));
    }
    result.additional_items.push_back(
        Identify(csi::VolumeGroupSnapshotContentType(kinds->version), "", content_in_backup));
    return result;
  }

  static Json Rewrite(Json item, const csi::GroupKinds& kinds, const Json& from_backup,
                      const std::string& content_name, bool ours) {
    csi::StripMarks(item);
    for (const char* key : {objects::kGroupMembersAnnotation, objects::kGroupOfAnnotation,
                            objects::kDeletionPolicyAnnotation}) {
      EraseJson(item, {"metadata", "annotations", key});
    }
    item["apiVersion"] = ApiVersion(csi::VolumeGroupSnapshotType(kinds.version));
    if (ours) {
      SetJson(item, {"metadata", "name"}, content_name);
    }
    SetJson(item, {"spec", "source"}, Json{{"volumeGroupSnapshotContentName", content_name}});
    const std::string class_name = GetString(from_backup, {"spec", "volumeGroupSnapshotClassName"});
    const objects::VolumeGroupSnapshotClass* const group_class = csi::GroupClassOf(
        kinds.classes, k8s::Annotation(from_backup, objects::kDriverNameAnnotation), class_name);
    if (group_class != nullptr) {
      SetJson(item, {"spec", "volumeGroupSnapshotClassName"}, group_class->name());
    }
    return item;
  }

  const csi::Environment env_;
};

// --- VolumeGroupSnapshotContents

// Makes the content itself and has the host leave the item out: the host would label it as
// restored, and Velero >= 1.18.1 deletes what carries that label at the end of the restore.
class VolumeGroupSnapshotContentAction : public SnapshotObjectAction {
 public:
  explicit VolumeGroupSnapshotContentAction(const csi::Environment& env)
      : SnapshotObjectAction("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io"),
        env_(env) {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                          const velero::Restore& restore,
                                                          const Json& /*item*/,
                                                          const Json& item_from_backup) override {
    const bool ours = !k8s::Label(item_from_backup, objects::kGroupNameLabel).empty();
    if (ours && HowToRestoreGroups(ctx, env_) == velero::GroupRestore::kMembers) {
      return Skip();
    }
    ASSIGN_OR_RETURN(const std::optional<csi::GroupKinds> kinds,
                     FindKinds(ctx, env_, item_from_backup));
    if (!kinds.has_value()) {
      return Skip();
    }
    const csi::StaticGroup group = Describe(restore, *kinds, item_from_backup, ours);
    if (group.driver.empty() || group.handle.empty() || group.member_handles.empty()) {
      CSIDELTA_LOG(kWarn, "left out a group content whose driver, handle or members are not told",
                   {"volume_group_snapshot_content", k8s::Name(item_from_backup)});
      return Skip();
    }
    ASSIGN_OR_RETURN(const bool taken, IsTaken(ctx, group));
    if (taken) {
      CSIDELTA_LOG(kWarn, "the volume group exists already: it is left as it is",
                   {"namespace", group.group_namespace},
                   {"volume_group_snapshot", group.group_name});
      return Skip();
    }
    RETURN_IF_ERROR(Annotate(Create(ctx, group), absl::StrCat("restore group ", group.handle)));
    return Skip();
  }

  static csi::StaticGroup Describe(const velero::Restore& restore, const csi::GroupKinds& kinds,
                                   const Json& from_backup, bool ours) {
    const std::string space =
        GetString(from_backup, {"spec", "volumeGroupSnapshotRef", "namespace"});
    const std::string name = GetString(from_backup, {"spec", "volumeGroupSnapshotRef", "name"});
    const auto archived = objects::VolumeGroupSnapshotContent::Of(from_backup)
                              .value_or(objects::VolumeGroupSnapshotContent());
    csi::StaticGroup group;
    group.version = kinds.version;
    group.name = RestoredGroupName(restore.uid, space, name);
    group.driver = GetString(from_backup, {"spec", "driver"});
    group.handle = archived.archived_handle();
    for (const csi::GroupMember& member : archived.archived_members()) {
      group.member_handles.push_back(member.snapshot_handle);
    }
    group.group_namespace = restore.MapNamespace(space);
    group.group_name = ours ? group.name : name;
    group.deletion_policy = "Retain";
    const objects::VolumeGroupSnapshotClass* const group_class =
        csi::GroupClassOf(kinds.classes, group.driver,
                          GetString(from_backup, {"spec", "volumeGroupSnapshotClassName"}));
    group.class_name = group_class == nullptr ? "" : group_class->name();
    group.labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(restore.backup_name)},
                    {objects::kRestoreUidLabel, restore.uid}};
    group.annotations = archived.DeletionSecret(group_class);
    return group;
  }

  // Another VolumeGroupSnapshot has the name that this one would have.
  absl::StatusOr<bool> IsTaken(const CallContext& ctx, const csi::StaticGroup& group) {
    ASSIGN_OR_RETURN(const Json found,
                     k8s::FindOrNull(ctx, env_.api,
                                     {.type = csi::VolumeGroupSnapshotType(group.version),
                                      .namespace_name = group.group_namespace,
                                      .name = group.group_name}));
    return !found.is_null() &&
           GetString(found, {"spec", "source", "volumeGroupSnapshotContentName"}) != group.name;
  }

  // The handle in the status makes members ready before the sidecar has asked the driver; it writes
  // the same.
  absl::Status Create(const CallContext& ctx, const csi::StaticGroup& group) {
    const k8s::ResourceType type = csi::VolumeGroupSnapshotContentType(group.version);
    const absl::Status created =
        objects::Create(ctx, env_.api, type, csi::MakeStaticGroup(group)).status();
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return created;
    }
    const absl::Status written =
        env_.api
            .Patch(ctx, {.type = type, .namespace_name = "", .name = group.name},
                   k8s::PatchKind::kMerge,
                   Json{{"status", {{"volumeGroupSnapshotHandle", group.handle}}}}, "status")
            .status();
    return absl::IsPermissionDenied(written) ? absl::OkStatus() : written;
  }

  const csi::Environment env_;
};

// --- VolumeGroupSnapshotClasses

class VolumeGroupSnapshotClassAction : public SnapshotObjectAction {
 public:
  explicit VolumeGroupSnapshotClassAction(const csi::Environment& env)
      : SnapshotObjectAction("volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io"),
        env_(env) {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                          const velero::Restore& /*restore*/,
                                                          const Json& item,
                                                          const Json& item_from_backup) override {
    ASSIGN_OR_RETURN(const std::optional<csi::GroupKinds> kinds,
                     FindKinds(ctx, env_, item_from_backup));
    if (!kinds.has_value()) {
      return Skip();
    }
    velero::RestoreItemResult result;
    // The archive holds the Secrets only when an action of the backup asked for them.
    if (k8s::Annotation(item_from_backup, objects::kMustIncludeAnnotation) == "true") {
      result.additional_items = csi::SecretsOfGroupClass(item_from_backup);
    }
    Json changed = item;
    changed["apiVersion"] = ApiVersion(csi::VolumeGroupSnapshotClassType(kinds->version));
    EraseJson(changed, {"metadata", "annotations", objects::kMustIncludeAnnotation});
    if (changed != item) {
      result.item = std::move(changed);
    }
    return result;
  }

  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeVolumeGroupSnapshotAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotAction>(env);
}

std::unique_ptr<velero::RestoreItemAction> MakeVolumeGroupSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotContentAction>(env);
}

std::unique_ptr<velero::RestoreItemAction> MakeVolumeGroupSnapshotClassAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeGroupSnapshotClassAction>(env);
}

}  // namespace csidelta::restoreitemactions
