#include "restoreitemactions/claim_rewrite.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {

using objects::PersistentVolumeClaim;

bool StripBackupMarks(PersistentVolumeClaim& item) {
  bool changed = item.RemoveAnnotation(objects::kMustIncludeAnnotation);
  changed |= item.RemoveAnnotation(objects::kRestoreMustIncludeAnnotation);
  changed |= item.RemoveAnnotation(objects::kSkippedNoCsiPvAnnotation);
  // What was restored into the volume that it had then.
  changed |= item.RemoveAnnotation(objects::kCopyRecordAnnotation);
  changed |= item.RemoveAnnotation(objects::kMayWriteAnnotation);
  if (item.Label(objects::kVolumeSnapshotNameLabel).size() > velero::kLabelValueBytesMax) {
    changed |= item.RemoveLabel(objects::kVolumeSnapshotNameLabel);
  }
  return changed;
}

namespace {

bool StripVolume(PersistentVolumeClaim& item) {
  bool changed = false;
  for (const char* key :
       {objects::kBindCompletedAnnotation, objects::kBoundByControllerAnnotation,
        objects::kStorageProvisionerAnnotation, objects::kBetaStorageProvisionerAnnotation,
        objects::kSelectedNodeAnnotation, objects::kVolumeSnapshotNameAnnotation,
        objects::kDataUploadNameAnnotation}) {
    changed |= item.RemoveAnnotation(key);
  }
  changed |= item.RemoveVolumeName();
  changed |= item.RemoveDataSourceRef();
  return changed;
}

}  // namespace

bool StripBinding(PersistentVolumeClaim& item) {
  const bool changed = StripVolume(item);
  return item.RemoveSelector() || changed;
}

bool ClearVolume(PersistentVolumeClaim& item) {
  const bool changed = StripVolume(item);
  const bool is_of_mover = item.selected_labels().contains(objects::kDynamicPvRestoreLabel);
  const bool has_selected = is_of_mover && item.RemoveSelector();
  return item.RemoveDataSource() || has_selected || changed;
}

absl::StatusOr<bool> ClaimExists(const CallContext& ctx, const csi::Environment& env,
                                 absl::string_view namespace_name, absl::string_view name) {
  ASSIGN_OR_RETURN(const std::optional<PersistentVolumeClaim> found,
                   objects::Find<PersistentVolumeClaim>(
                       ctx, env.api, PersistentVolumeClaim::Key(namespace_name, name)));
  return found.has_value();
}

absl::Status RequireVolumeIsNotReserved(const CallContext& ctx, const csi::Environment& env,
                                        absl::string_view target_namespace,
                                        const PersistentVolumeClaim& item_from_backup) {
  const std::string name = item_from_backup.volume_name();
  if (name.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::optional<objects::PersistentVolume> pv,
                   objects::Find<objects::PersistentVolume>(
                       ctx, env.api, objects::PersistentVolume::Key("", name)));
  const bool is_reserved = pv.has_value() && pv->pvc_namespace() == target_namespace &&
                           pv->pvc_name() == item_from_backup.name() && pv->pvc_uid().empty();
  return !is_reserved
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "PersistentVolume ", name,
                   " is reserved for it, with what the volume holds now and not what the backup "
                   "has; delete that PersistentVolume, which leaves the volume where it is "
                   "retained, and restore with --exclude-resources persistentvolumes"));
}

absl::Status RequireClass(const CallContext& ctx, const csi::Environment& env,
                          const objects::Restore& restore, const PersistentVolumeClaim& item,
                          const std::string& driver) {
  if (restore.has_resource_modifier()) {
    return absl::OkStatus();
  }
  const std::optional<std::string> storage_class = item.storage_class();
  ASSIGN_OR_RETURN(const csi::ClassFit fit, csi::FitOfClass(ctx, env.api, storage_class, driver));
  return fit.kind != csi::ClassFit::Kind::kNever
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "persistentvolumeclaim ", restore.MapNamespace(item.namespace_name()), "/",
                   item.name(), " cannot be restored from its snapshot: ", fit.text, "; ",
                   csi::ClassRemediation(*storage_class)));
}

}  // namespace csidelta::restoreitemactions
