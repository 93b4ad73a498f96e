#include "datamover/records/upload_report.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/human_text.h"
#include "incremental/mover/full_reason.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

void SetIfKnown(TransferObject& upload, absl::string_view key, absl::string_view value) {
  if (!value.empty()) {
    upload.SetAnnotation(key, value);
  }
}

void SetTimeIfKnown(TransferObject& upload, absl::string_view key,
                    const std::optional<absl::Time>& time) {
  if (time.has_value()) {
    upload.SetTime(key, *time);
  }
}

}  // namespace

std::string Summarize(const objects::BackupFigures& figures) {
  const std::string label =
      figures.reason.empty()
          ? ""
          : absl::StrCat(" (", incremental::LabelOf(figures.reason),
                         figures.reason_detail.empty() ? "" : ": ", figures.reason_detail, ")");
  const std::string size = figures.mode == "incremental"
                               ? absl::StrCat(FormatBytes(figures.changed_bytes), " changed of ",
                                              FormatBytes(figures.logical_bytes))
                               : FormatBytes(figures.logical_bytes);
  return absl::StrCat(figures.mode, " backup", label, ": ", size, ", ",
                      FormatBytes(figures.read_bytes), " read, ", FormatBytes(figures.audit_bytes),
                      " audited, ", FormatBytes(figures.stored_bytes), " stored");
}

void AnnotateFigures(const objects::BackupFigures& figures, const objects::VolumeTaskStatus& task,
                     TransferObject& upload) {
  upload.SetFigures(figures);
  SetIfKnown(upload, objects::kUploadNodeAnnotation, task.node);
  SetTimeIfKnown(upload, objects::kUploadedAtAnnotation, task.completed_at);
}

void AnnotateExposure(const csi::Exposure& exposure, TransferObject& upload) {
  SetTimeIfKnown(upload, objects::kMoverAskedAtAnnotation, upload.object().created_at());
  SetTimeIfKnown(upload, objects::kMoverTakenAtAnnotation, exposure.snapshot_taken_at);
  SetTimeIfKnown(upload, objects::kMoverReadyAtAnnotation, exposure.ready_at);
  if (exposure.group.has_value()) {
    SetIfKnown(upload, objects::kUploadGroupAnnotation, exposure.group->name);
    SetIfKnown(upload, objects::kUploadGroupSnapshotAnnotation, exposure.group->snapshot);
    SetTimeIfKnown(upload, objects::kUploadGroupTakenAtAnnotation,
                   exposure.group->snapshot_taken_at);
  }
}

std::string GroupSummary(const TransferObject& upload) {
  const std::string group = upload.Annotation(objects::kUploadGroupAnnotation);
  const std::string snapshot_taken_at = upload.Annotation(objects::kUploadGroupTakenAtAnnotation);
  return group.empty()
             ? ""
             : absl::StrCat("; of volume group ", group,
                            snapshot_taken_at.empty() ? "" : ", taken at ", snapshot_taken_at);
}

}  // namespace csidelta::datamover
