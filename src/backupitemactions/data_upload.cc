#include "backupitemactions/data_upload.h"

#include "absl/strings/str_cat.h"
#include "csi/data_transfer.h"
#include "objects/keys.h"
#include "velero/data_upload.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {

objects::DataUpload MakeDataUpload(const MoveRequest& request) {
  const velero::Backup& backup = request.backup;
  const objects::PersistentVolumeClaim& claim = request.claim;
  const std::string operation = csi::UploadOperationId(backup.uid, claim.uid());
  objects::DataUpload upload =
      objects::DataUpload::Make(backup.namespace_name, csi::TransferName(backup.name, operation));
  upload.SetOwners({{.api_version = "velero.io/v1",
                     .kind = "Backup",
                     .name = backup.name,
                     .uid = backup.uid,
                     .is_controller = true}});
  upload.SetAnnotation(objects::kArchivedAnnotation, objects::kArchiveAwaited);
  upload.SetLabels({{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name)},
                    {objects::kBackupUidLabel, backup.uid},
                    {objects::kPvcUidLabel, claim.uid()},
                    {objects::kAsyncOperationIdLabel, operation}});
  upload.SetSpec({.pvc_namespace = claim.namespace_name(),
                  .pvc = claim.name(),
                  .volume_snapshot = request.volume_snapshot,
                  .storage_class = claim.storage_class().value_or(""),
                  .snapshot_class = request.snapshot_class,
                  .driver = request.driver,
                  .data_mover = velero::kDataMoverName,
                  .storage_location = backup.storage_location,
                  .operation_timeout = backup.csi_snapshot_timeout});
  return upload;
}

objects::PersistentVolumeClaim MovedClaim(objects::PersistentVolumeClaim claim,
                                          const velero::Backup& backup,
                                          const objects::DataUpload& upload) {
  const std::string snapshot = upload.volume_snapshot();
  claim.SetLabel(objects::kVolumeSnapshotNameLabel, snapshot);
  claim.SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name));
  claim.SetAnnotation(objects::kDataUploadNameAnnotation,
                      absl::StrCat(upload.namespace_name(), "/", upload.name()));
  if (backup.snapshot_move_data) {
    claim.SetAnnotation(objects::kVolumeSnapshotNameAnnotation, snapshot);
  } else {
    // It would make Velero's own action look for a VolumeSnapshot, and this archive has none.
    claim.RemoveAnnotation(objects::kVolumeSnapshotNameAnnotation);
  }
  return claim;
}

}  // namespace csidelta::backupitemactions
