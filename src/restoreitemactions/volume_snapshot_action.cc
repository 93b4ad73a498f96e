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
#include "objects/volume_snapshot.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/claim_rewrite.h"
#include "restoreitemactions/group_restore.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

// Velero's own action has bound the item to a restored content: one that the backup does not name.
bool IsBoundByVelero(const VolumeSnapshot& item, const VolumeSnapshot& item_from_backup) {
  const std::string content = item.source_content();
  return !content.empty() && item.source_pvc().empty() &&
         content != item_from_backup.source_content();
}

// The VolumeSnapshot was archived before the driver had cut anything, or after it failed to: no
// handle is known, and its status says so. Its content in the archive, if any, is of no use.
bool WasNeverTaken(const VolumeSnapshot& from_backup) {
  return from_backup.bound_content().empty() ||
         (from_backup.is_said_unready() && !from_backup.taken_at().has_value() &&
          from_backup.Annotation(objects::kVolumeSnapshotHandleAnnotation).empty());
}

class VolumeSnapshotAction : public SnapshotObjectAction<VolumeSnapshot> {
 public:
  using SnapshotObjectAction::SnapshotObjectAction;

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& ctx, const objects::Restore& restore, const VolumeSnapshot& item,
      const VolumeSnapshot& item_from_backup) override {
    if (WasNeverTaken(item_from_backup)) {
      CSIDELTA_LOG(kWarn, "left out a volume snapshot that was not cut when it was backed up",
                   {"namespace", item_from_backup.namespace_name()},
                   {"volume_snapshot", item_from_backup.name()});
      return Skip();
    }
    velero::RestoreItemResult result;
    VolumeSnapshot changed_item = item;
    bool changed = csi::StripMarks(changed_item);
    if (IsMember(item_from_backup)) {
      PrepareGroup(ctx, restore, item_from_backup, result);
    }
    if (!IsBoundByVelero(item, item_from_backup)) {
      Rewrite(velero::RestoredSnapshotName(restore.uid(), item_from_backup.name()), changed_item);
      result.additional_items.push_back(
          velero::Identify(VolumeSnapshotContent::Key("", item_from_backup.bound_content())));
      changed = true;
    }
    ASSIGN_OR_RETURN(const bool made, EnsureContent(ctx, restore, item_from_backup, changed_item));
    if (made && !IsBoundByVelero(item, item_from_backup)) {
      result.additional_items.pop_back();
    }
    if (!result.additional_items.empty()) {
      MustIncludeAdditionalItems(changed_item);
      changed = true;
    }
    if (changed) {
      result.item = std::move(changed_item);
    }
    return result;
  }

  // What a member needs before its content: its group, where that is restored, else what stands in
  // for it. A failure does not make it right to restore nothing: most drivers can do without.
  void PrepareGroup(const CallContext& ctx, const objects::Restore& restore,
                    const VolumeSnapshot& from_backup, velero::RestoreItemResult& result) {
    absl::Status prepared;
    const std::string group = ManagedGroup(from_backup);
    if (!group.empty() && csi::ReadPluginConfigOrDefaults(ctx, env_).group_restore ==
                              velero::GroupRestore::kPreprovisioned) {
      prepared = RemovePlaceholder(ctx, env_, restore, from_backup);
      result.additional_items.push_back(velero::Identify(
          objects::VolumeGroupSnapshot::Key("v1", from_backup.namespace_name(), group)));
    } else {
      prepared = EnsurePlaceholder(ctx, env_, restore, from_backup);
    }
    if (!prepared.ok()) {
      CSIDELTA_LOG(kWarn, "a member of a volume group may not become ready",
                   {"namespace", from_backup.namespace_name()},
                   {"volume_snapshot", from_backup.name()}, {"error", prepared.ToString()});
    }
  }

  static void Rewrite(const std::string& new_name, VolumeSnapshot& item) {
    item.SetName(new_name);
    item.SetAnnotation(objects::kDeletionPolicyAnnotation, "Retain");
    item.SetSourceContent(new_name);
    item.RemoveClassName();
  }

  // Archives of older Velero hold a content that nothing can bind to any more, and a filter of the
  // restore can leave the content out. The VolumeSnapshot's own annotations are enough to make one,
  // if the backup's action proved them. Returns whether it did.
  absl::StatusOr<bool> EnsureContent(const CallContext& ctx, const objects::Restore& restore,
                                     const VolumeSnapshot& from_backup,
                                     const VolumeSnapshot& item) {
    const std::string name = item.source_content();
    csi::StaticContent content;
    content.handle = from_backup.Annotation(objects::kVolumeSnapshotHandleAnnotation);
    content.driver = from_backup.Annotation(objects::kDriverNameAnnotation);
    if (content.handle.empty() || content.driver.empty() ||
        !from_backup.Annotation(objects::kHandleUnprovenAnnotation).empty()) {
      return false;
    }
    ASSIGN_OR_RETURN(const auto found,
                     objects::Find<VolumeSnapshotContent>(ctx, env_.api, "", name));
    if (found.has_value()) {
      return false;
    }
    ASSIGN_OR_RETURN(const auto classes, csi::ListSnapshotClasses(ctx, env_));
    content.name = name;
    content.snapshot_namespace = restore.MapNamespace(from_backup.namespace_name());
    content.snapshot_name = item.name();
    content.class_name = csi::ClassOfDriver(classes, content.driver, from_backup.class_name());
    content.labels = {
        {objects::kBackupNameLabel, velero::ValidLabelValue(restore.backup_name())},
        {objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name())},
    };
    content.annotations = csi::DeletionSecretAnnotations(from_backup);
    RETURN_IF_ERROR(Annotate(csi::EnsureStaticContent(ctx, env_.api, content),
                             absl::StrCat("restore snapshot ", content.handle)));
    return true;
  }
};

class VolumeSnapshotClassAction : public SnapshotObjectAction<objects::VolumeSnapshotClass> {
 public:
  using SnapshotObjectAction::SnapshotObjectAction;

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& /*ctx*/, const objects::Restore& /*restore*/,
      const objects::VolumeSnapshotClass& item,
      const objects::VolumeSnapshotClass& item_from_backup) override {
    velero::RestoreItemResult result;
    // The archive holds the Secrets only when an action of the backup asked for them.
    if (item_from_backup.Annotation(objects::kMustIncludeAnnotation) == "true" ||
        !item_from_backup.Annotation(objects::kSnapshotterListSecretName).empty()) {
      result.additional_items = csi::SecretsOf(item_from_backup);
    }
    if (objects::Object changed = item; changed.RemoveAnnotation(objects::kMustIncludeAnnotation)) {
      result.item = std::move(changed);
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotAction(const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotAction>(env);
}

std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotClassAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotClassAction>(env);
}

}  // namespace csidelta::restoreitemactions
