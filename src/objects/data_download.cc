#include "objects/data_download.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {

absl::Status DataDownload::Validate() const {
  static constexpr FieldRule kRules[] = {
      {"spec.targetVolume.namespace", IsTextThatIsSet},
      {"spec.targetVolume.pvc", IsTextThatIsSet},
      {"spec.targetVolume.pv", IsText},
      {"spec.snapshotID", IsText},
      {"spec.snapshotSize", IsSize},
  };
  RETURN_IF_ERROR(ValidateTransfer(kRules, kKind.kind));
  const std::map<std::string, std::string> marks = annotations();
  if (target_volume().empty() || marks.contains(kIntoAnnotation) ||
      marks.contains(kInPlaceAnnotation)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("parse DataDownload: spec.targetVolume.pv is ", target_volume(),
                   ": a volume that exists is written into only with the annotation ",
                   kIntoAnnotation, ": csi-delta restore --upload; else restore into a new claim"));
}

absl::Status DataDownload::SetSource(absl::string_view upload_result) {
  ASSIGN_OR_RETURN(const Json result, ParseJsonObject(upload_result));
  for (const char* const field : {"backupStorageLocation", "datamover", "snapshotID",
                                  "sourceNamespace", "snapshotSize", "nodeOS"}) {
    if (const Json* const value = FindJson(result, {field}); value != nullptr) {
      Set({"spec", field}, *value);
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::objects
