// A file of credentials, as anybody may write it.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "storage/credentials_file.h"
#include "storage/location.h"
#include "storage/shared_credentials.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto found = csidelta::storage::ParseSharedCredentials(text, "default");
  if (!found.ok()) {
    CSIDELTA_CHECK(found.status().code() == absl::StatusCode::kInvalidArgument);
  } else if (found->credentials.has_value()) {
    CSIDELTA_CHECK(found->is_there && !found->credentials->access_key_id.empty() &&
                   !found->credentials->secret_access_key.empty());
  }
  using Kind = csidelta::storage::Location::Kind;
  for (const Kind kind : {Kind::kAzure, Kind::kGoogle}) {
    csidelta::storage::CheckCredentialsFile(kind, text, "KEY").IgnoreError();
  }
  // The same bytes as a repository's location.
  if (const auto location = csidelta::storage::ParseLocation(text);
      location.ok() && location->kind == Kind::kS3) {
    CSIDELTA_CHECK(!location->bucket.empty() && location->endpoint.user_info.empty());
  }
  return 0;
}
