#include "backupitemactions/data_upload.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "base/status_macros.h"
#include "csi/expose/data_transfer.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions {
namespace {

class DataUploadAction : public velero::ActionOn<velero::BackupItemAction> {
 public:
  explicit DataUploadAction(const csi::Environment& env)
      : ActionOn("datauploads.velero.io"), env_(env) {}

  // Only what the host writes into the archive at the very end counts. An error here keeps the item
  // out of the archive: the data mover would take it for one that never entered it.
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup_object) override {
    ASSIGN_OR_RETURN(const objects::Backup backup, objects::Backup::Parse(backup_object));
    velero::BackupItemResult result;
    if (!backup.is_finalizing() || item.namespace_name() != backup.namespace_name() ||
        item.Annotation(objects::kArchivedAnnotation) != objects::kArchiveAwaited ||
        item.Label(objects::kBackupNameLabel) != velero::ValidLabelValue(backup.name())) {
      return result;
    }
    const absl::Status marked = csi::RetryTransient(ctx, [&] {
      return objects::Apply(ctx, env_.api,
                            objects::DataUpload::Key(item.namespace_name(), item.name()),
                            objects::Patch().SetAnnotation(objects::kArchivedAnnotation, "true"));
    });
    RETURN_IF_ERROR(
        Annotate(marked, absl::StrCat("mark DataUpload ", item.name(), " as archived")));
    result.item = item;
    result.item->SetAnnotation(objects::kArchivedAnnotation, "true");
    return result;
  }

 private:
  const csi::Environment env_;
};

}  // namespace

objects::DataUpload MakeDataUpload(const MoveRequest& request) {
  const objects::Backup& backup = request.backup;
  const objects::PersistentVolumeClaim& claim = request.claim;
  const std::string operation = csi::UploadOperationId(backup.uid(), claim.uid());
  objects::DataUpload upload = objects::DataUpload::Make(
      backup.namespace_name(), csi::TransferName(backup.name(), operation));
  upload.SetOwners({{.api_version = "velero.io/v1",
                     .kind = "Backup",
                     .name = backup.name(),
                     .uid = backup.uid(),
                     .is_controller = true}});
  upload.SetAnnotation(objects::kArchivedAnnotation, objects::kArchiveAwaited);
  upload.SetLabels({{objects::kBackupNameLabel, velero::ValidLabelValue(backup.name())},
                    {objects::kBackupUidLabel, backup.uid()},
                    {objects::kPvcUidLabel, claim.uid()},
                    {objects::kAsyncOperationIdLabel, operation}});
  upload.SetSource(claim.namespace_name(), claim.name(), claim.storage_class().value_or(""));
  upload.SetSnapshot(request.volume_snapshot, request.snapshot_class, request.driver);
  if (!request.file_system.empty()) {
    upload.SetSourceFileSystem(request.file_system);
  }
  if (backup.is_full()) {
    upload.RequestFull();
  }
  upload.SetDataMover(objects::kDataMoverName);
  upload.SetStorageLocation(backup.storage_location());
  upload.SetOperationTimeout(absl::FormatDuration(backup.csi_snapshot_timeout()));
  return upload;
}

objects::PersistentVolumeClaim MovedClaim(objects::PersistentVolumeClaim claim,
                                          const objects::Backup& backup,
                                          const objects::DataUpload& upload) {
  const std::string snapshot = upload.volume_snapshot();
  claim.SetLabel(objects::kVolumeSnapshotNameLabel, snapshot);
  claim.SetLabel(objects::kBackupNameLabel, velero::ValidLabelValue(backup.name()));
  claim.SetAnnotation(objects::kDataUploadNameAnnotation,
                      absl::StrCat(upload.namespace_name(), "/", upload.name()));
  if (backup.snapshot_move_data()) {
    claim.SetAnnotation(objects::kVolumeSnapshotNameAnnotation, snapshot);
  } else {
    // It would make Velero's own action look for a VolumeSnapshot, and this archive has none.
    claim.RemoveAnnotation(objects::kVolumeSnapshotNameAnnotation);
  }
  return claim;
}

std::unique_ptr<velero::BackupItemAction> MakeDataUploadAction(const csi::Environment& env) {
  return std::make_unique<DataUploadAction>(env);
}

}  // namespace csidelta::backupitemactions
