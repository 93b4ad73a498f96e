#include "objects/data_upload_result.h"

#include "base/status_macros.h"

namespace csidelta::objects {

absl::StatusOr<DataUploadResult> DataUploadResult::Parse(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text));
  Json spec = Json::object();
  for (const char* const field : {"backupStorageLocation", "datamover", "snapshotID",
                                  "sourceNamespace", "snapshotSize", "nodeOS"}) {
    if (const Json* const value = FindJson(json, {field}); value != nullptr) {
      spec[field] = *value;
    }
  }
  return DataUploadResult(std::move(spec));
}

}  // namespace csidelta::objects
