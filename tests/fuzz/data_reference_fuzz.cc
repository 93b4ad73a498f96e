// status.snapshotID of a DataUpload: it names a place in a bucket, and may come from anybody.

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "velero/data_reference.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  namespace velero = csidelta::velero;
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto reference = velero::ParseDataReference(text);
  if (!reference.ok()) {
    CSIDELTA_CHECK(reference.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  CSIDELTA_CHECK(velero::FormatDataReference(*reference) == text);
  const std::string path = velero::RepositoryPath(*reference);
  CSIDELTA_CHECK(absl::StartsWith(path, absl::StrCat(velero::kRepositoryRoot, "/")));
  CSIDELTA_CHECK(!absl::StrContains(path, "/../") && !absl::StrContains(path, "//") &&
                 !absl::EndsWith(path, "/.."));
  return 0;
}
