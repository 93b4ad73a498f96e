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

void DataTransfer::SetTime(absl::string_view field, absl::Time time) {
  Set({"status", field}, FormatRfc3339(time));
}

}  // namespace csidelta::objects
