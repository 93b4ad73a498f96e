#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/s3_signer.h"

namespace csidelta::storage {

// The keys of one profile in the text of a shared credentials file: sections in brackets, "name =
// value" lines, comments behind "#" or ";". Nothing when the profile is not there or has no access
// key. INVALID_ARGUMENT, with the line's number and without its text, when a line is none of these
// or a profile has an access key without a secret. Pure.
absl::StatusOr<std::optional<Credentials>> ParseSharedCredentials(absl::string_view text,
                                                                  const std::string& profile);

}  // namespace csidelta::storage
