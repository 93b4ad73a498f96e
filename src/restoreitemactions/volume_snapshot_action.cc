#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/group_types.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
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

// Velero's own action has bound the item to a restored content: one that the backup does not name.
bool IsBoundByVelero(const Json& item, const Json& item_from_backup) {
  const std::string content = GetString(item, {"spec", "source", "volumeSnapshotContentName"});
  return !content.empty() && csi::SourceClaimName(item).empty() &&
         content != GetString(item_from_backup, {"spec", "source", "volumeSnapshotContentName"});
}

// The VolumeSnapshot was archived before the driver had cut anything, or after it failed to: no
// handle is known, and its status says so. Its content in the archive, if any, is of no use.
bool WasNeverCut(const Json& from_backup) {
  const Json* ready = FindJson(from_backup, {"status", "readyToUse"});
  return csi::BoundContentName(from_backup).empty() ||
         (ready != nullptr && *ready == false &&
          FindJson(from_backup, {"status", "creationTime"}) == nullptr &&
          k8s::Annotation(from_backup, objects::kVolumeSnapshotHandleAnnotation).empty());
}

class VolumeSnapshotAction : public SnapshotObjectAction {
 public:
  explicit VolumeSnapshotAction(const csi::Environment& env)
      : SnapshotObjectAction("volumesnapshots.snapshot.storage.k8s.io"), env_(env) {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                          const velero::Restore& restore,
                                                          const Json& item,
                                                          const Json& item_from_backup) override {
    if (WasNeverCut(item_from_backup)) {
      CSIDELTA_LOG(kWarn, "left out a volume snapshot that was not cut when it was backed up",
                   {"namespace", k8s::Namespace(item_from_backup)},
                   {"volume_snapshot", k8s::Name(item_from_backup)});
      return Skip();
    }
    velero::RestoreItemResult result;
    Json changed_item = item;
    bool changed = csi::StripMarks(changed_item);
    if (IsMember(item_from_backup)) {
      PrepareGroup(ctx, restore, item_from_backup, result);
    }
    if (!IsBoundByVelero(item, item_from_backup)) {
      Rewrite(velero::RestoredSnapshotName(restore.uid, k8s::Name(item_from_backup)), changed_item);
      result.additional_items.push_back({.group = csi::VolumeSnapshotType().group,
                                         .resource = csi::VolumeSnapshotContentType().plural,
                                         .namespace_name = "",
                                         .name = csi::BoundContentName(item_from_backup)});
      changed = true;
    }
    ASSIGN_OR_RETURN(const bool made, EnsureContent(ctx, restore, item_from_backup, changed_item));
    if (made && !IsBoundByVelero(item, item_from_backup)) {
      result.additional_items.pop_back();
    }
    if (changed) {
      result.item = std::move(changed_item);
    }
    return result;
  }

  // What a member needs before its content: its group, where that is restored, else what stands in
  // for it. A failure is no reason to restore nothing: most drivers can do without.
  void PrepareGroup(const CallContext& ctx, const velero::Restore& restore, const Json& from_backup,
                    velero::RestoreItemResult& result) {
    absl::Status prepared;
    const std::string group = GroupOfOurs(from_backup);
    if (!group.empty() && HowToRestoreGroups(ctx, env_) == velero::GroupRestore::kPreprovisioned) {
      prepared = RemoveStandIn(ctx, env_, restore, from_backup);
      result.additional_items.push_back({.group = csi::kGroupSnapshotGroup,
                                         .resource = csi::VolumeGroupSnapshotType("v1").plural,
                                         .namespace_name = k8s::Namespace(from_backup),
                                         .name = group});
    } else {
      prepared = EnsureStandIn(ctx, env_, restore, from_backup);
    }
    if (!prepared.ok()) {
      CSIDELTA_LOG(kWarn, "a member of a volume group may not become ready",
                   {"namespace", k8s::Namespace(from_backup)},
                   {"volume_snapshot", k8s::Name(from_backup)}, {"error", prepared.ToString()});
    }
  }

  static void Rewrite(const std::string& new_name, Json& item) {
    SetJson(item, {"metadata", "name"}, new_name);
    SetJson(item, {"metadata", "annotations", objects::kDeletionPolicyAnnotation}, "Retain");
    SetJson(item, {"spec", "source"}, Json{{"volumeSnapshotContentName", new_name}});
    EraseJson(item, {"spec", "volumeSnapshotClassName"});
  }

  // Archives of older Velero hold a content that nothing can bind to any more, and a filter of the
  // restore can leave the content out. The VolumeSnapshot's own annotations are enough to make one.
  // Returns whether it did.
  absl::StatusOr<bool> EnsureContent(const CallContext& ctx, const velero::Restore& restore,
                                     const Json& from_backup, const Json& item) {
    const std::string name = GetString(item, {"spec", "source", "volumeSnapshotContentName"});
    csi::StaticContent content;
    content.handle = k8s::Annotation(from_backup, objects::kVolumeSnapshotHandleAnnotation);
    content.driver = k8s::Annotation(from_backup, objects::kDriverNameAnnotation);
    if (content.handle.empty() || content.driver.empty()) {
      return false;
    }
    const absl::Status found = env_.api.Get(ctx, csi::VolumeSnapshotContentKey(name)).status();
    if (!absl::IsNotFound(found)) {
      RETURN_IF_ERROR(found);
      return false;
    }
    ASSIGN_OR_RETURN(const auto classes, csi::ListSnapshotClasses(ctx, env_));
    content.name = name;
    content.snapshot_namespace = restore.MapNamespace(k8s::Namespace(from_backup));
    content.snapshot_name = k8s::Name(item);
    content.deletion_policy = "Retain";
    content.class_name = csi::ClassOfDriver(
        classes, content.driver, GetString(from_backup, {"spec", "volumeSnapshotClassName"}));
    content.labels = {
        {objects::kBackupNameLabel, velero::ValidLabelValue(restore.backup_name)},
        {objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name)},
    };
    content.annotations = csi::DeletionSecretAnnotations(objects::Object(from_backup));
    const absl::Status created =
        objects::Create(ctx, env_.api, csi::MakeStaticContent(content)).status();
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return Annotate(created, absl::StrCat("restore snapshot ", content.handle));
    }
    return true;
  }

  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotAction(const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotAction>(env);
}

}  // namespace csidelta::restoreitemactions
