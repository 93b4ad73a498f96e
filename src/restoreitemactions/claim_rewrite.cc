#include "restoreitemactions/claim_rewrite.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/claim_provisioning.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions {

bool EraseMetadata(Json& item, absl::string_view map, absl::string_view key) {
  if (FindJson(item, {"metadata", map, key}) == nullptr) {
    return false;
  }
  EraseJson(item, {"metadata", map, key});
  return true;
}

bool EraseSpec(Json& item, absl::string_view field) {
  const Json* value = FindJson(item, {"spec", field});
  if (value == nullptr || value->is_null() || *value == "") {
    return false;
  }
  EraseJson(item, {"spec", field});
  return true;
}

bool StripBackupMarks(Json& item) {
  bool changed = EraseMetadata(item, "annotations", objects::kMustIncludeAnnotation);
  changed |= EraseMetadata(item, "annotations", objects::kSkippedNoCsiPvAnnotation);
  // What was restored into the volume that it had then.
  changed |= EraseMetadata(item, "annotations", objects::kCopyRecordAnnotation);
  changed |= EraseMetadata(item, "annotations", objects::kMayWriteAnnotation);
  if (k8s::Label(item, objects::kVolumeSnapshotNameLabel).size() > velero::kLabelValueBytesMax) {
    changed |= EraseMetadata(item, "labels", objects::kVolumeSnapshotNameLabel);
  }
  return changed;
}

bool StripBinding(Json& item) {
  bool changed = false;
  for (const char* key :
       {objects::kBindCompletedAnnotation, objects::kBoundByControllerAnnotation,
        objects::kStorageProvisionerAnnotation, objects::kBetaStorageProvisionerAnnotation,
        objects::kSelectedNodeAnnotation, objects::kVolumeSnapshotNameAnnotation,
        objects::kDataUploadNameAnnotation}) {
    changed |= EraseMetadata(item, "annotations", key);
  }
  for (const char* field : {"volumeName", "selector", "dataSourceRef"}) {
    changed |= EraseSpec(item, field);
  }
  return changed;
}

bool ClearVolume(Json& item) {
  bool changed = false;
  for (const char* field : {"volumeName", "dataSource", "dataSourceRef"}) {
    changed |= EraseSpec(item, field);
  }
  return changed;
}

void SetSnapshotSource(absl::string_view volume_snapshot, Json& item) {
  SetJson(item, {"spec", "dataSource"},
          Json{{"apiGroup", csi::VolumeSnapshotType().group},
               {"kind", "VolumeSnapshot"},
               {"name", std::string(volume_snapshot)}});
}

absl::StatusOr<bool> ClaimExists(const CallContext& ctx, const csi::Environment& env,
                                 absl::string_view namespace_name, absl::string_view name) {
  const absl::Status status = env.api.Get(ctx, csi::ClaimKey(namespace_name, name)).status();
  if (status.ok() || absl::IsNotFound(status)) {
    return status.ok();
  }
  return status;
}

absl::Status RequireClass(const CallContext& ctx, const csi::Environment& env,
                          absl::string_view target_namespace, const Json& item,
                          const std::string& driver) {
  ASSIGN_OR_RETURN(const csi::ClassFit fit,
                   csi::FitOfClass(ctx, env.api, csi::StorageClassOf(item), driver));
  return fit.kind != csi::ClassFit::Kind::kNever
             ? absl::OkStatus()
             : absl::FailedPreconditionError(
                   absl::StrCat("persistentvolumeclaim ", target_namespace, "/", k8s::Name(item),
                                " cannot be restored from its snapshot: ", fit.text,
                                "; map its storage class to one of that driver (ConfigMap labelled "
                                "velero.io/change-storage-class: RestoreItemAction)"));
}

}  // namespace csidelta::restoreitemactions
