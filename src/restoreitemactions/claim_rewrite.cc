#include "restoreitemactions/claim_rewrite.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "k8s/event_recorder.h"
#include "objects/client.h"
#include "objects/copy_record.h"
#include "objects/event.h"
#include "velero/data_reference.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {

using objects::PersistentVolumeClaim;
using objects::Restore;

namespace {

constexpr char kDataNotRestoredReason[] = "DataNotRestored";

std::string RestoreCommand(const Restore& restore, const PersistentVolumeClaim& item_from_backup,
                           const std::string& target) {
  const std::string from = item_from_backup.namespace_name();
  const std::string source = velero::IsNamespaceName(from) ? from : "NAMESPACE";
  return absl::StrCat(
      "velero restore create --from-backup ", restore.backup_name(), " --include-namespaces ",
      source, source == target ? "" : absl::StrCat(" --namespace-mappings ", source, ":", target));
}

// The Restore that the host passes is as old as its beginning.
absl::Status RecordWithoutData(const CallContext& ctx, const csi::Environment& env,
                               const Restore& restore, const objects::PvcWithoutData& pvc,
                               const std::string& message) {
  const k8s::ObjectKey key = Restore::Key(restore.namespace_name(), restore.name());
  ASSIGN_OR_RETURN(const auto now, objects::Get<Restore>(ctx, env.api, key));
  objects::TryEmitEvent(ctx, env.api, now, k8s::EventType::kWarning, kDataNotRestoredReason,
                        message);
  std::vector<objects::PvcWithoutData> all = now.pvcs_without_data();
  std::erase_if(all, [&](const objects::PvcWithoutData& one) { return one.uid == pvc.uid; });
  all.push_back(pvc);
  return objects::Apply(ctx, env.api, key, now.PatchOfPvcsWithoutData(all));
}

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

bool StripBackupMarks(PersistentVolumeClaim& item) {
  bool changed = item.RemoveAnnotation(objects::kMustIncludeAnnotation);
  changed |= item.RemoveAnnotation(objects::kRestoreMustIncludeAnnotation);
  changed |= item.RemoveAnnotation(objects::kSkippedNoCsiPvAnnotation);
  // What was restored into the volume that it had then.
  changed |= item.RemoveAnnotation(objects::kCopyRecordAnnotation);
  changed |= item.RemoveAnnotation(objects::kRestoredAtAnnotation);
  changed |= item.RemoveAnnotation(objects::kMayWriteAnnotation);
  if (item.Label(objects::kVolumeSnapshotNameLabel).size() > velero::kLabelValueBytesMax) {
    changed |= item.RemoveLabel(objects::kVolumeSnapshotNameLabel);
  }
  return changed;
}

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

void KeepVolume(const PersistentVolumeClaim& existing, PersistentVolumeClaim& item) {
  item.SetSpecOf(existing);
  item.SetAnnotations(existing.annotations());
}

void ReportWithoutData(const CallContext& ctx, const csi::Environment& env, const Restore& restore,
                       const PersistentVolumeClaim& item_from_backup,
                       const PersistentVolumeClaim& existing, std::string command) {
  const std::string target = existing.namespace_name();
  const bool has_volume = !existing.volume_name().empty();
  if (!has_volume) {
    command = absl::StrCat("kubectl delete pvc ", existing.name(), " -n ", target, " && ",
                           RestoreCommand(restore, item_from_backup, target));
  } else if (command.empty()) {  // Its volume may hold the very snapshot.
    command = RestoreCommand(restore, item_from_backup, absl::StrCat(target, "-restored"));
  }
  const std::string name = absl::StrCat(target, "/", existing.name());
  const std::string next = objects::NextStepOf(command);
  const std::string message =
      absl::StrCat("the data of backup ", restore.backup_name(), " was not restored: PVC ", name,
                   " existed before, and is left as it is; next: ", next);
  CSIDELTA_LOG(kWarn, "the claim exists already: its volume is left as it is",
               {"namespace", target}, {"pvc", existing.name()}, {"next", next});
  const absl::Status recorded = RecordWithoutData(
      ctx, env, restore, {target, existing.name(), existing.uid(), command}, message);
  if (!recorded.ok()) {
    CSIDELTA_LOG(kInfo, "a PVC without data could not be recorded on its Restore", {"pvc", name},
                 {"status", recorded.ToString()});
  }
  objects::TryEmitEvent(ctx, env.api, existing, k8s::EventType::kWarning, kDataNotRestoredReason,
                        message);
}

absl::Status RequireVolumeIsNotReserved(const CallContext& ctx, const csi::Environment& env,
                                        absl::string_view target_namespace,
                                        const PersistentVolumeClaim& item_from_backup) {
  const std::string name = item_from_backup.volume_name();
  if (name.empty()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto pv, objects::Find<objects::PersistentVolume>(ctx, env.api, "", name));
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
