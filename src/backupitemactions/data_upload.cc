#include "backupitemactions/data_upload.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "csi/data_transfer.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/data_upload.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

constexpr char kSnapshotType[] = "CSI";

Json OwnedBy(const velero::Backup& backup) {
  return Json::array({{{"apiVersion", "velero.io/v1"},
                       {"kind", "Backup"},
                       {"name", backup.name},
                       {"uid", backup.uid},
                       {"controller", true}}});
}

}  // namespace

Json MakeDataUpload(const MoveRequest& request) {
  const velero::Backup& backup = request.backup;
  const std::string operation = csi::UploadOperationId(backup.uid, k8s::Uid(request.claim));
  const k8s::ResourceType& type = csi::DataUploadType();
  return {{"apiVersion", absl::StrCat(type.group, "/", type.version)},
          {"kind", type.kind},
          {"metadata",
           {{"name", csi::TransferName(backup.name, operation)},
            {"namespace", backup.namespace_name},
            {"ownerReferences", OwnedBy(backup)},
            {"annotations", {{objects::kArchivedAnnotation, objects::kArchiveAwaited}}},
            {"labels",
             {{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name)},
              {objects::kBackupUidLabel, backup.uid},
              {objects::kPvcUidLabel, k8s::Uid(request.claim)},
              {objects::kAsyncOperationIdLabel, operation}}}}},
          {"spec",
           {{"snapshotType", kSnapshotType},
            // Velero reads it without looking whether it is there.
            {"csiSnapshot",
             {{"volumeSnapshot", request.volume_snapshot},
              {"storageClass", GetString(request.claim, {"spec", "storageClassName"})},
              {"snapshotClass", request.snapshot_class},
              {"driver", request.driver}}},
            {"sourcePVC", k8s::Name(request.claim)},
            {"sourceNamespace", k8s::Namespace(request.claim)},
            {"datamover", velero::kDataMoverName},
            {"backupStorageLocation", backup.storage_location},
            {"operationTimeout", absl::FormatDuration(backup.csi_snapshot_timeout)}}}};
}

Json MovedClaim(Json claim, const velero::Backup& backup, const Json& upload) {
  const std::string snapshot = GetString(upload, {"spec", "csiSnapshot", "volumeSnapshot"});
  SetJson(claim, {"metadata", "labels", objects::kVolumeSnapshotNameLabel}, snapshot);
  SetJson(claim, {"metadata", "labels", objects::kBackupNameLabel},
          velero::ValidLabelValue(backup.name));
  SetJson(claim, {"metadata", "annotations", objects::kDataUploadNameAnnotation},
          absl::StrCat(k8s::Namespace(upload), "/", k8s::Name(upload)));
  if (backup.snapshot_move_data) {
    SetJson(claim, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation}, snapshot);
  } else {
    // It would make Velero's own action look for a VolumeSnapshot, and this archive has none.
    EraseJson(claim, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation});
  }
  return claim;
}

}  // namespace csidelta::backupitemactions
