#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/s3_signer.h"

namespace csidelta::storage {

// What a shared file says of one profile.
struct SharedProfile {
  bool is_there = false;  // The file has its section.
  std::optional<Credentials> credentials = {};
};

// One profile in the text of a shared credentials file, or of the file of settings beside it:
// sections in brackets, "name = value" lines, comments behind "#" or ";". INVALID_ARGUMENT, with
// the line's number and without its text, when a line is none of these; also when the profile has
// an access key without a secret, or gets its keys in a way that we do not know (a role of another
// profile, single sign-on, a command): then with the setting's name. Pure.
absl::StatusOr<SharedProfile> ParseSharedCredentials(absl::string_view text,
                                                     const std::string& profile);

}  // namespace csidelta::storage
