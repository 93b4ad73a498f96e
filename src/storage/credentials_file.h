#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/location.h"

namespace csidelta::storage {

// Whether a file of credentials has the form that a store of `kind` reads: AWS shared credentials,
// lines NAME=VALUE for Azure, a JSON object with a type for Google. `part` is the profile for AWS,
// and for Azure the line that must be there, if it is not "".
//
// INVALID_ARGUMENT with the form that is expected, and with the cloud that the file seems to be of.
// It does not repeat the file. Whether the credentials are accepted shows at the first request.
// Pure.
absl::Status CheckCredentialsFile(Location::Kind kind, absl::string_view text,
                                  const std::string& part);

}  // namespace csidelta::storage
