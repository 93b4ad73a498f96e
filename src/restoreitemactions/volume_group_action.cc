#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/expose/snapshot_secrets.h"
#include "csi/static_content.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/claim_rewrite.h"
#include "restoreitemactions/group_restore.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::GroupKinds;
using objects::VolumeGroupSnapshot;
using objects::VolumeGroupSnapshotClass;
using objects::VolumeGroupSnapshotContent;

// What the cluster serves of the group kinds; nothing, with a warning, where that is none of them.
// Nothing, too, if csi-delta manages the group of the item (`own`), and restores members alone.
absl::StatusOr<std::optional<GroupKinds>> FindKinds(const CallContext& ctx,
                                                    const csi::Environment& env,
                                                    const objects::Object& item, bool own) {
  if (own &&
      csi::ReadPluginConfigOrDefaults(ctx, env).group_restore == velero::GroupRestore::kMembers) {
    return std::optional<GroupKinds>();
  }
  absl::StatusOr<GroupKinds> kinds = objects::FindGroupKinds(ctx, env.api);
  if (absl::IsNotFound(kinds.status())) {
    CSIDELTA_LOG(kWarn, "left out what belongs to a volume group", {"kind", item.kind()},
                 {"namespace", item.namespace_name()}, {"name", item.name()},
                 {"reason", kinds.status().ToString()});
    return std::optional<GroupKinds>();
  }
  RETURN_IF_ERROR(kinds.status());
  return std::optional(*std::move(kinds));
}

// --- VolumeGroupSnapshots

class VolumeGroupSnapshotAction : public SnapshotObjectAction<VolumeGroupSnapshot> {
 public:
  using SnapshotObjectAction::SnapshotObjectAction;

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& ctx, const objects::Restore& restore, const VolumeGroupSnapshot& item,
      const VolumeGroupSnapshot& item_from_backup) override {
    const bool own = !item_from_backup.Label(objects::kCsiDeltaLabel).empty();
    ASSIGN_OR_RETURN(const auto kinds, FindKinds(ctx, env_, item_from_backup, own));
    if (!kinds.has_value()) {
      return Skip();
    }
    const std::string content_in_backup = item_from_backup.bound_content();
    if (content_in_backup.empty()) {
      CSIDELTA_LOG(kWarn, "left out a volume group that was not bound when it was backed up",
                   {"namespace", item_from_backup.namespace_name()},
                   {"volume_group_snapshot", item_from_backup.name()});
      return Skip();
    }
    const std::string content_name = RestoredGroupName(
        restore.uid(), item_from_backup.namespace_name(), item_from_backup.name());
    velero::RestoreItemResult result;
    result.item = Rewrite(item, *kinds, item_from_backup, content_name, own);
    const std::string class_in_backup = item_from_backup.class_name();
    if (!class_in_backup.empty()) {
      result.additional_items.push_back(
          velero::Identify(VolumeGroupSnapshotClass::Key("", class_in_backup)));
    }
    result.additional_items.push_back(
        velero::Identify(VolumeGroupSnapshotContent::Key("v1", "", content_in_backup)));
    MustIncludeAdditionalItems(*result.item);
    return result;
  }

  static VolumeGroupSnapshot Rewrite(VolumeGroupSnapshot item, const GroupKinds& kinds,
                                     const VolumeGroupSnapshot& from_backup,
                                     const std::string& content_name, bool own) {
    csi::StripMarks(item);
    for (const char* key : {objects::kGroupMembersAnnotation, objects::kGroupOfAnnotation,
                            objects::kDeletionPolicyAnnotation}) {
      item.RemoveAnnotation(key);
    }
    item.SetVersion(kinds.version);
    if (own) {
      item.SetName(content_name);
    }
    item.SetSourceContent(content_name);
    const VolumeGroupSnapshotClass* const group_class =
        csi::GroupClassOf(kinds.classes, from_backup.Annotation(objects::kDriverNameAnnotation),
                          from_backup.class_name());
    if (group_class != nullptr) {
      item.SetClassName(group_class->name());
    }
    return item;
  }
};

// --- VolumeGroupSnapshotContents

// Makes the content itself and has the host leave the item out: the host would label it as
// restored, and Velero >= 1.18.1 deletes what carries that label at the end of the restore.
class VolumeGroupSnapshotContentAction : public SnapshotObjectAction<VolumeGroupSnapshotContent> {
 public:
  using SnapshotObjectAction::SnapshotObjectAction;

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& ctx, const objects::Restore& restore,
      const VolumeGroupSnapshotContent& /*item*/,
      const VolumeGroupSnapshotContent& item_from_backup) override {
    const bool own = !item_from_backup.Label(objects::kGroupNameLabel).empty();
    ASSIGN_OR_RETURN(const auto kinds, FindKinds(ctx, env_, item_from_backup, own));
    if (!kinds.has_value()) {
      return Skip();
    }
    const csi::StaticContent group = Describe(restore, *kinds, item_from_backup, own);
    if (group.driver.empty() || group.handle.empty() || group.member_handles.empty()) {
      CSIDELTA_LOG(kWarn, "left out a group content whose driver, handle or members are not told",
                   {"volume_group_snapshot_content", item_from_backup.name()});
      return Skip();
    }
    ASSIGN_OR_RETURN(const bool taken, IsTaken(ctx, group));
    if (taken) {
      CSIDELTA_LOG(kWarn, "the volume group exists already: it is left as it is",
                   {"namespace", group.snapshot_namespace},
                   {"volume_group_snapshot", group.snapshot_name});
      return Skip();
    }
    RETURN_IF_ERROR(Annotate(Create(ctx, group), absl::StrCat("restore group ", group.handle)));
    return Skip();
  }

  static csi::StaticContent Describe(const objects::Restore& restore, const GroupKinds& kinds,
                                     const VolumeGroupSnapshotContent& archived, bool own) {
    const std::string space = archived.snapshot_namespace();
    const std::string name = archived.snapshot_name();
    csi::StaticContent group;
    group.version = kinds.version;
    group.name = RestoredGroupName(restore.uid(), space, name);
    group.driver = archived.driver();
    group.handle = archived.archived_handle();
    for (const objects::GroupMember& member : archived.archived_members()) {
      group.member_handles.push_back(member.snapshot_handle);
    }
    group.snapshot_namespace = restore.MapNamespace(space);
    group.snapshot_name = own ? group.name : name;
    const VolumeGroupSnapshotClass* const group_class =
        csi::GroupClassOf(kinds.classes, group.driver, archived.class_name());
    group.class_name = group_class == nullptr ? "" : group_class->name();
    group.labels = {{objects::kBackupNameLabel, velero::ValidLabelValue(restore.backup_name())},
                    {objects::kRestoreUidLabel, restore.uid()}};
    group.annotations = archived.DeletionSecret(group_class);
    return group;
  }

  // Another VolumeGroupSnapshot has the name that this one would have.
  absl::StatusOr<bool> IsTaken(const CallContext& ctx, const csi::StaticContent& group) {
    ASSIGN_OR_RETURN(const auto found,
                     objects::Find<VolumeGroupSnapshot>(
                         ctx, env_.api,
                         VolumeGroupSnapshot::Key(group.version, group.snapshot_namespace,
                                                  group.snapshot_name)));
    return found.has_value() && found->source_content() != group.name;
  }

  // The handle in the status makes members ready before the sidecar has asked the driver; it writes
  // the same.
  absl::Status Create(const CallContext& ctx, const csi::StaticContent& group) {
    const k8s::ObjectKey key = VolumeGroupSnapshotContent::Key(group.version, "", group.name);
    RETURN_IF_ERROR(csi::EnsureStaticContent(ctx, env_.api, group));
    const absl::Status written = objects::Apply(
        ctx, env_.api, key, objects::Patch().SetHandle(key.type, group.handle), "status");
    return absl::IsPermissionDenied(written) ? absl::OkStatus() : written;
  }
};

// --- VolumeGroupSnapshotClasses

class VolumeGroupSnapshotClassAction : public SnapshotObjectAction<VolumeGroupSnapshotClass> {
 public:
  using SnapshotObjectAction::SnapshotObjectAction;

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& ctx, const objects::Restore& /*restore*/,
      const VolumeGroupSnapshotClass& item,
      const VolumeGroupSnapshotClass& item_from_backup) override {
    ASSIGN_OR_RETURN(const auto kinds, FindKinds(ctx, env_, item_from_backup, /*own=*/false));
    if (!kinds.has_value()) {
      return Skip();
    }
    velero::RestoreItemResult result;
    // The archive holds the Secrets only when an action of the backup asked for them.
    if (item_from_backup.Annotation(objects::kMustIncludeAnnotation) == "true") {
      result.additional_items = csi::SecretsOf(item_from_backup);
    }
    VolumeGroupSnapshotClass changed = item;
    changed.SetVersion(kinds->version);
    changed.RemoveAnnotation(objects::kMustIncludeAnnotation);
    if (changed != item) {
      result.item = std::move(changed);
    }
    return result;
  }
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
