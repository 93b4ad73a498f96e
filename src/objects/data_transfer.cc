#include "objects/data_transfer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/enum_names.h"
#include "base/json_fields.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/outcome.h"

namespace csidelta::objects {
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

constexpr auto kFigureAnnotations = [](auto& annotations, auto& figures) {
  annotations.IfSet(kUploadModeAnnotation, figures.mode);
  annotations.IfSet(kUploadReasonAnnotation, figures.reason);
  annotations.IfSet(kUploadBaseAnnotation, figures.base);
  annotations(kChangedBytesAnnotation, figures.changed_bytes, AsText());
  annotations(kReadBytesAnnotation, figures.read_bytes, AsText());
  annotations(kAuditBytesAnnotation, figures.audit_bytes, AsText());
  annotations(kStoredBytesAnnotation, figures.stored_bytes, AsText());
  annotations.IfSet(kRepositoryBytesAnnotation, figures.repository_bytes, AsText());
  annotations.IfSet(kRepositorySnapshotsAnnotation, figures.repository_snapshots, AsText());
};

constexpr FieldRule kTransferRules[] = {
    {"metadata.name", IsTextThatIsSet},
    {"metadata.namespace", IsTextThatIsSet},
    {"metadata.uid", IsTextThatIsSet},
    {"metadata.labels", IsTextMap},
    {"metadata.annotations", IsTextMap},
    {"metadata.deletionTimestamp", IsText},
    {"spec.datamover", IsText},
    {"spec.backupStorageLocation", IsTextThatIsSet},
    {"spec.sourceNamespace", IsTextThatIsSet},
    {"spec.cancel", IsFlag},
    {"spec.dataMoverConfig", IsTextMap},
    {"spec.operationTimeout", IsTimeout},
    {"status.phase", IsText},
    {"status.message", IsText},
    {"status.acceptedTimestamp", IsTime},
    {"status.startTimestamp", IsTime},
};

}  // namespace

std::string ToString(DataPhase phase) { return EnumName(kPhases, phase); }

absl::StatusOr<DataTransfer> DataTransfer::Of(Json json) {
  if (!CheckKind(json, DataDownload::kKind.kind).ok()) {
    if (absl::Status status = CheckKind(json, DataUpload::kKind.kind); !status.ok()) {
      return status;
    }
  }
  return DataTransfer(std::move(json));
}

DataPhase DataTransfer::known_phase() const {
  const std::string text = phase();
  return text.empty() ? DataPhase::kNew : EnumValue(kPhases, text).value_or(DataPhase::kUnknown);
}

bool DataTransfer::is_over() const {
  const DataPhase now = known_phase();
  return now == DataPhase::kCompleted || now == DataPhase::kFailed || now == DataPhase::kCanceled;
}

absl::Status DataTransfer::ValidateTransfer(absl::Span<const FieldRule> others,
                                            const char* kind) const {
  absl::Status status = CheckFields(json(), kTransferRules);
  if (status.ok()) {
    status = CheckFields(json(), others);
  }
  return Annotate(status, absl::StrCat("parse ", kind));
}

std::optional<absl::Duration> DataTransfer::duration() const {
  const std::optional<absl::Time> begun = started_at();
  const std::optional<absl::Time> ended = completed_at();
  return begun.has_value() && ended >= begun ? std::optional(*ended - *begun) : std::nullopt;
}

BackupFigures DataTransfer::figures() const {
  auto figures = ReadFields<BackupFigures>(kFigureAnnotations, Find({"metadata", "annotations"}));
  const std::vector<std::string> reason =
      absl::StrSplit(figures.reason, absl::MaxSplits(": ", 1));  // as ReasonText() joins them
  figures.reason = reason.front();
  figures.reason_detail = reason.size() > 1 ? reason.back() : "";
  figures.logical_bytes = std::max<int64_t>(0, total_bytes());
  return figures;
}

void DataTransfer::SetFigures(const BackupFigures& figures) {
  BackupFigures shown = figures;
  shown.reason = ReasonText(figures);
  const Json annotations = WriteFields(kFigureAnnotations, shown);
  for (const auto& [key, text] : annotations.items()) {
    Set({"metadata", "annotations", key}, text);
  }
}

void DataTransfer::ReduceToOutcome(absl::string_view annotation) {
  const std::string text = Annotation(annotation);
  Set({"metadata"}, PickAt("metadata", {"name", "namespace", "uid", "creationTimestamp"}));
  if (!text.empty()) {
    SetAnnotation(annotation, text);
  }
  Set({"spec"}, PickAt("spec", {"datamover", "sourceNamespace", "sourcePVC"}));
  Set({"status"}, PickAt("status", {"phase", "message", "startTimestamp", "completionTimestamp"}));
}

void DataTransfer::SetTime(absl::string_view field, absl::Time time) {
  CSIDELTA_CHECK(time > absl::InfinitePast() && time < absl::InfiniteFuture());
  Set({"status", field}, FormatRfc3339(time));
}

absl::Status DataUpload::Validate() const {
  static constexpr FieldRule kRules[] = {
      {"spec.sourcePVC", IsTextThatIsSet},
      {"spec.csiSnapshot.volumeSnapshot", IsTextThatIsSet},
      {"spec.csiSnapshot.storageClass", IsText},
      {"spec.csiSnapshot.snapshotClass", IsText},
      {"spec.csiSnapshot.driver", IsText},
      {"spec.parentSnapshot", IsText},
      {"spec.backupType", IsText},
  };
  return ValidateTransfer(kRules, kKind.kind);
}

void DataUpload::SetSource(absl::string_view pvc_namespace, absl::string_view pvc,
                           absl::string_view storage_class) {
  Set({"spec", "sourceNamespace"}, pvc_namespace);
  Set({"spec", "sourcePVC"}, pvc);
  Set({"spec", "csiSnapshot", "storageClass"}, storage_class);
}

void DataUpload::SetSnapshot(absl::string_view volume_snapshot, absl::string_view snapshot_class,
                             absl::string_view driver) {
  Set({"spec", "snapshotType"}, "CSI");
  // Velero reads csiSnapshot without looking whether it is there.
  Set({"spec", "csiSnapshot", "volumeSnapshot"}, volume_snapshot);
  Set({"spec", "csiSnapshot", "snapshotClass"}, snapshot_class);
  Set({"spec", "csiSnapshot", "driver"}, driver);
}

void DataUpload::ReduceTo(absl::string_view label, absl::string_view annotation) {
  const std::string label_text = Label(label);
  const std::string annotation_text = Annotation(annotation);
  Set({"metadata"}, PickAt("metadata", {"name", "namespace", "uid", "ownerReferences"}));
  if (!label_text.empty()) {
    SetLabels({{std::string(label), label_text}});
  }
  if (!annotation_text.empty()) {
    SetAnnotation(annotation, annotation_text);
  }
  const std::string snapshot = volume_snapshot();
  Set({"spec"},
      PickAt("spec", {"datamover", "backupStorageLocation", "sourceNamespace", "sourcePVC"}));
  if (!snapshot.empty()) {
    Set({"spec", "csiSnapshot", "volumeSnapshot"}, snapshot);
  }
  Set({"status"}, {{"phase", phase()}, {"snapshotID", snapshot_id()}});
}

absl::Status DataDownload::Validate() const {
  static constexpr FieldRule kRules[] = {
      {"spec.targetVolume.namespace", IsTextThatIsSet},
      {"spec.targetVolume.pvc", IsTextThatIsSet},
      {"spec.targetVolume.pv", IsText},
      {"spec.targetVolume.fsType", IsText},
      {"spec.snapshotID", IsText},
      {"spec.snapshotSize", IsSize},
  };
  RETURN_IF_ERROR(ValidateTransfer(kRules, kKind.kind));
  const std::map<std::string, std::string> marks = annotations();
  if (target_volume().empty() || marks.contains(kIntoAnnotation) ||
      marks.contains(kInPlaceAnnotation)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "parse DataDownload: spec.targetVolume.pv is ", target_volume(),
      ": Velero's restore in place is not supported. csi-delta restore --upload --into "
      "writes into a volume that exists (annotation ",
      kIntoAnnotation, "); else restore into a new claim"));
}

absl::Status DataDownload::SetSource(absl::string_view upload_result) {
  ASSIGN_OR_RETURN(const Json result, ParseJsonObject(upload_result));
  for (const char* const field : {"backupStorageLocation", "datamover", "snapshotID",
                                  "sourceNamespace", "snapshotSize", "nodeOS"}) {
    if (const Json* const value = FindJson(result, {field}); value != nullptr) {
      Set({"spec", field}, *value);
    }
  }
  if (const std::string file_system = GetString(result, {"fsType"}); !file_system.empty()) {
    Set({"spec", "targetVolume", "fsType"}, file_system);
  }
  return absl::OkStatus();
}

}  // namespace csidelta::objects
