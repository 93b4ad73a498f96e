#include "velero/data_upload.h"

#include "absl/status/status.h"
#include "base/enum_names.h"
#include "base/status_macros.h"
#include "objects/keys.h"
#include "velero/field_reader.h"

namespace csidelta::velero {
namespace {

constexpr EnumNames<DataPhase, 8> kPhases{{
    {DataPhase::kNew, "New"},
    {DataPhase::kAccepted, "Accepted"},
    {DataPhase::kPrepared, "Prepared"},
    {DataPhase::kInProgress, "InProgress"},
    {DataPhase::kCanceling, "Canceling"},
    {DataPhase::kCanceled, "Canceled"},
    {DataPhase::kCompleted, "Completed"},
    {DataPhase::kFailed, "Failed"},
}};

void ReadTransfer(FieldReader& reader, DataTransfer& transfer) {
  transfer.name = reader.Text({"metadata", "name"});
  transfer.namespace_name = reader.Text({"metadata", "namespace"});
  transfer.uid = reader.Text({"metadata", "uid"});
  transfer.labels = reader.Map({"metadata", "labels"});
  transfer.annotations = reader.Map({"metadata", "annotations"});
  transfer.is_being_deleted = !reader.Text({"metadata", "deletionTimestamp"}).empty();
  transfer.data_mover = reader.Text({"spec", "datamover"});
  transfer.storage_location = reader.Text({"spec", "backupStorageLocation"});
  transfer.source_namespace = reader.Text({"spec", "sourceNamespace"});
  transfer.cancel = reader.Flag({"spec", "cancel"}).value_or(false);
  transfer.config = reader.Map({"spec", "dataMoverConfig"});
  const absl::Duration timeout =
      reader.Timeout({"spec", "operationTimeout"}, absl::InfiniteDuration());
  if (timeout != absl::InfiniteDuration()) {
    transfer.operation_timeout = timeout;
  }
  transfer.phase = ParseDataPhase(reader.Text({"status", "phase"}));
  transfer.message = reader.Text({"status", "message"});
  transfer.accepted_at = reader.Time({"status", "acceptedTimestamp"});
  transfer.started_at = reader.Time({"status", "startTimestamp"});
  reader.Require(transfer.name, "metadata.name");
  reader.Require(transfer.namespace_name, "metadata.namespace");
  reader.Require(transfer.uid, "metadata.uid");
  reader.Require(transfer.storage_location, "spec.backupStorageLocation");
  reader.Require(transfer.source_namespace, "spec.sourceNamespace");
}

}  // namespace

std::string ToString(DataPhase phase) { return EnumName(kPhases, phase); }

DataPhase ParseDataPhase(absl::string_view text) {
  return text.empty() ? DataPhase::kNew : EnumValue(kPhases, text).value_or(DataPhase::kUnknown);
}

bool IsTerminal(DataPhase phase) {
  return phase == DataPhase::kCompleted || phase == DataPhase::kFailed ||
         phase == DataPhase::kCanceled;
}

absl::StatusOr<DataUpload> ParseDataUpload(const Json& object) {
  FieldReader reader(object);
  DataUpload upload;
  ReadTransfer(reader, upload);
  upload.source_claim = reader.Text({"spec", "sourcePVC"});
  if (const auto found = upload.labels.find(objects::kPvcUidLabel); found != upload.labels.end()) {
    upload.claim_uid = found->second;
  }
  upload.volume_snapshot = reader.Text({"spec", "csiSnapshot", "volumeSnapshot"});
  upload.storage_class = reader.Text({"spec", "csiSnapshot", "storageClass"});
  upload.snapshot_class = reader.Text({"spec", "csiSnapshot", "snapshotClass"});
  upload.driver = reader.Text({"spec", "csiSnapshot", "driver"});
  reader.Require(upload.source_claim, "spec.sourcePVC");
  reader.Require(upload.volume_snapshot, "spec.csiSnapshot.volumeSnapshot");
  RETURN_IF_ERROR(Annotate(reader.status(), "parse DataUpload"));
  return upload;
}

absl::StatusOr<DataDownload> ParseDataDownload(const Json& object) {
  FieldReader reader(object);
  DataDownload download;
  ReadTransfer(reader, download);
  download.target_namespace = reader.Text({"spec", "targetVolume", "namespace"});
  download.target_claim = reader.Text({"spec", "targetVolume", "pvc"});
  download.target_volume = reader.Text({"spec", "targetVolume", "pv"});
  download.snapshot_id = reader.Text({"spec", "snapshotID"});
  download.snapshot_size_bytes = reader.Size({"spec", "snapshotSize"});
  reader.Require(download.target_namespace, "spec.targetVolume.namespace");
  reader.Require(download.target_claim, "spec.targetVolume.pvc");
  RETURN_IF_ERROR(Annotate(reader.status(), "parse DataDownload"));
  const bool is_in_place = download.annotations.contains(objects::kIntoAnnotation) ||
                           download.annotations.contains(objects::kInPlaceAnnotation);
  if (!download.target_volume.empty() && !is_in_place) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parse DataDownload: spec.targetVolume.pv is ", download.target_volume,
        ": a volume that exists is written into only with the annotation ",
        objects::kIntoAnnotation, ": csi-delta restore --upload; else restore into a new claim"));
  }
  return download;
}

}  // namespace csidelta::velero
