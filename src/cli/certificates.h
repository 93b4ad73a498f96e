#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/location.h"

namespace csidelta::cli {

// Makes `settings` trust these certificates beside those of --cacert or the system's, for the
// bucket and where its keys are asked for. INVALID_ARGUMENT, naming the source, when none exist.
absl::Status TrustBesides(const std::string& pem, absl::string_view source,
                          storage::StoreSettings& settings);

}  // namespace csidelta::cli
