#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/snapshot_secrets.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "restoreitemactions/snapshot_object_action.h"
#include "velero/backup.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {
namespace {

// When they finished a backup, Velero <= 1.15 and its former CSI plugin replaced the content by one
// that refers to "name-<uid>" in "ns-<uid>", so that nothing can bind to it.
bool IsParked(const Json& content) {
  return absl::StartsWith(GetString(content, {"spec", "volumeSnapshotRef", "name"}), "name-") &&
         absl::StartsWith(GetString(content, {"spec", "volumeSnapshotRef", "namespace"}), "ns-");
}

// The archive holds the Secrets that it names: an action of the backup asked for them.
bool HasSecretsInArchive(const Json& content) {
  return k8s::Annotation(content, objects::kMustIncludeAnnotation) == "true" ||
         !k8s::Annotation(content, objects::kSnapshotterSecretName).empty();
}

class VolumeSnapshotContentAction : public SnapshotObjectAction {
 public:
  explicit VolumeSnapshotContentAction(const csi::Environment& env)
      : SnapshotObjectAction("volumesnapshotcontents.snapshot.storage.k8s.io"), env_(env) {}

 private:
  absl::StatusOr<velero::RestoreItemResult> RestoreObject(const CallContext& ctx,
                                                          const velero::Restore& restore,
                                                          const Json& item,
                                                          const Json& item_from_backup) override {
    if (IsParked(item_from_backup)) {
      return Skip();
    }
    if (csi::HandleOf(item_from_backup).empty() &&
        k8s::Label(item_from_backup, objects::kBackupNameLabel).empty()) {
      CSIDELTA_LOG(kWarn, "left out a content that had no snapshot when it was backed up",
                   {"volume_snapshot_content", k8s::Name(item_from_backup)});
      return Skip();
    }
    velero::RestoreItemResult result;
    Json changed_item = item;
    ASSIGN_OR_RETURN(const bool changed, Converge(ctx, restore, item_from_backup, changed_item));
    if (changed) {
      result.item = std::move(changed_item);
    }
    const bool by_velero = k8s::Name(item) != k8s::Name(item_from_backup);
    if (!by_velero) {
      ASSIGN_OR_RETURN(result.skip_restore,
                       CreateBesideNamesake(ctx, restore, k8s::Name(item), *result.item));
    }
    if (HasSecretsInArchive(item_from_backup)) {
      result.additional_items = csi::SecretsOfContent(item_from_backup);
    }
    return result;
  }

  // Velero <= 1.15 copies the contents of backups that it reads from the object store into the
  // cluster, and, looking for an existing object by the archived name, takes such a copy for the
  // one to restore. Where there is one, the content is created here. Returns whether it was.
  absl::StatusOr<bool> CreateBesideNamesake(const CallContext& ctx, const velero::Restore& restore,
                                            const std::string& archived_name, Json content) {
    const absl::Status namesake =
        env_.api.Get(ctx, csi::VolumeSnapshotContentKey(archived_name)).status();
    if (!namesake.ok()) {
      return absl::IsNotFound(namesake) ? absl::StatusOr<bool>(false) : namesake;
    }
    EraseJson(content, {"metadata", "managedFields"});
    SetJson(content, {"metadata", "labels", objects::kBackupNameLabel},
            velero::ValidLabelValue(restore.backup_name));
    SetJson(content, {"metadata", "labels", objects::kRestoreNameLabel},
            velero::ValidLabelValue(restore.name));
    const absl::Status created =
        env_.api.Create(ctx, csi::VolumeSnapshotContentType(), "", content).status();
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return created;
    }
    return true;
  }

  absl::StatusOr<bool> Converge(const CallContext& ctx, const velero::Restore& restore,
                                const Json& from_backup, Json& item) {
    const std::string new_name = velero::RestoredSnapshotName(
        restore.uid, GetString(from_backup, {"spec", "volumeSnapshotRef", "name"}));
    const bool by_velero = k8s::Name(item) == new_name;
    bool changed = csi::StripMarks(item);
    if (!by_velero) {
      RETURN_IF_ERROR(csi::RewriteForRestore(
          from_backup, new_name,
          restore.MapNamespace(GetString(from_backup, {"spec", "volumeSnapshotRef", "namespace"})),
          item));
      changed = true;
    }
    const std::string class_before = GetString(item, {"spec", "volumeSnapshotClassName"});
    if (by_velero && !class_before.empty()) {
      return changed;
    }
    // The class gives the driver its Secrets; a class that this cluster does not have gives
    // nothing.
    ASSIGN_OR_RETURN(const auto classes, csi::ListSnapshotClasses(ctx, env_));
    const std::string class_name =
        csi::ClassOfDriver(classes, GetString(item, {"spec", "driver"}), class_before);
    if (class_name == class_before) {
      return changed;
    }
    if (class_name.empty()) {
      EraseJson(item, {"spec", "volumeSnapshotClassName"});
    } else {
      SetJson(item, {"spec", "volumeSnapshotClassName"}, class_name);
    }
    return true;
  }

  const csi::Environment env_;
};

}  // namespace

std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env) {
  return std::make_unique<VolumeSnapshotContentAction>(env);
}

}  // namespace csidelta::restoreitemactions
