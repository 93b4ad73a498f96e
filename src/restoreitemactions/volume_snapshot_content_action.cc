#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "csi/expose/snapshot_secrets.h"
#include "csi/static_content.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::VolumeSnapshotContent;

// The archive holds the Secrets that it names: an action of the backup asked for them.
bool HasSecretsInArchive(const VolumeSnapshotContent& content) {
  return content.Annotation(objects::kMustIncludeAnnotation) == "true" ||
         !content.Annotation(objects::kSnapshotterSecretName).empty();
}

class VolumeSnapshotContentAction : public SnapshotObjectAction<VolumeSnapshotContent> {
 public:
  using SnapshotObjectAction::SnapshotObjectAction;

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(
      const CallContext& ctx, const objects::Restore& restore, const VolumeSnapshotContent& item,
      const VolumeSnapshotContent& item_from_backup) override {
    if (csi::IsParked(item_from_backup)) {
      return Skip();
    }
    if (item_from_backup.handle_or_source().empty() &&
        item_from_backup.Label(objects::kBackupNameLabel).empty()) {
      CSIDELTA_LOG(kWarn, "left out a content that had no snapshot when it was backed up",
                   {"volume_snapshot_content", item_from_backup.name()});
      return Skip();
    }
    velero::RestoreItemResult result;
    VolumeSnapshotContent changed_item = item;
    ASSIGN_OR_RETURN(const bool changed, Converge(ctx, restore, item_from_backup, changed_item));
    if (changed) {
      result.item = changed_item;
    }
    const bool by_velero = item.name() != item_from_backup.name();
    if (!by_velero) {
      ASSIGN_OR_RETURN(result.skip_restore,
                       CreateBesideNamesake(ctx, restore, item.name(), changed_item));
    }
    if (HasSecretsInArchive(item_from_backup)) {
      result.additional_items = csi::SecretsOf(item_from_backup);
    }
    return result;
  }

  // Velero <= 1.15 copies the contents of backups that it reads from the object store into the
  // cluster, and, looking for an existing object by the archived name, takes such a copy for the
  // one to restore. Where there is one, the content is created here. Returns whether it was.
  absl::StatusOr<bool> CreateBesideNamesake(const CallContext& ctx, const objects::Restore& restore,
                                            const std::string& archived_name,
                                            VolumeSnapshotContent content) {
    ASSIGN_OR_RETURN(const auto namesake,
                     objects::Find<VolumeSnapshotContent>(ctx, env_.api, "", archived_name));
    if (!namesake.has_value()) {
      return false;
    }
    content.RemoveManagedFields();
    content.SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(restore.backup_name()));
    content.SetLabel(objects::kRestoreNameLabel, velero::ValidLabelValue(restore.name()));
    const absl::Status created = objects::Create(ctx, env_.api, content).status();
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return created;
    }
    return true;
  }

  absl::StatusOr<bool> Converge(const CallContext& ctx, const objects::Restore& restore,
                                const VolumeSnapshotContent& from_backup,
                                VolumeSnapshotContent& item) {
    const std::string new_name =
        velero::RestoredSnapshotName(restore.uid(), from_backup.snapshot_name());
    const bool by_velero = item.name() == new_name;
    bool changed = csi::StripMarks(item);
    if (!by_velero) {
      RETURN_IF_ERROR(csi::RewriteForRestore(
          from_backup, new_name, restore.MapNamespace(from_backup.snapshot_namespace()), item));
      changed = true;
    }
    const std::string class_before = item.class_name();
    if (by_velero && !class_before.empty()) {
      return changed;
    }
    // The class gives the driver its Secrets; a class that this cluster does not have gives
    // nothing.
    ASSIGN_OR_RETURN(const auto classes, csi::ListSnapshotClasses(ctx, env_));
    const std::string class_name = csi::ClassOfDriver(classes, item.driver(), class_before);
    if (class_name == class_before) {
      return changed;
    }
    if (class_name.empty()) {
      item.RemoveClassName();
    } else {
      item.SetClassName(class_name);
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotContentAction>(env);
}

}  // namespace csidelta::restoreitemactions
