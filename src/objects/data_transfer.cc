#include "objects/data_transfer.h"

#include "base/rfc3339.h"
#include "objects/data_download.h"
#include "objects/data_upload.h"

namespace csidelta::objects {

absl::StatusOr<DataTransfer> DataTransfer::Of(Json json) {
  if (!CheckKind(json, DataDownload::kKind.kind).ok()) {
    if (absl::Status status = CheckKind(json, DataUpload::kKind.kind); !status.ok()) {
      return status;
    }
  }
  return DataTransfer(std::move(json));
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
  Set({"status", field}, FormatRfc3339(time));
}

}  // namespace csidelta::objects
