#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace csidelta::objects {

// What Velero tells a restore of a DataUpload in the archive, in a ConfigMap.
class DataUploadResult {
 public:
  // INVALID_ARGUMENT for what is no JSON object.
  static absl::StatusOr<DataUploadResult> Parse(absl::string_view text);

  std::string snapshot_id() const { return GetString(spec_, {"snapshotID"}); }  // "": no data
  // The fields that go into the spec of a DataDownload, as they are.
  const Json& spec() const { return spec_; }

 private:
  explicit DataUploadResult(Json spec) : spec_(std::move(spec)) {}

  Json spec_;
};

}  // namespace csidelta::objects
