#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::datamover {

// That data of a location was encrypted with a key once.
struct KnownKey {
  std::string source;       // what shows it: "DataUpload velero/nightly-x7k2p"
  std::string fingerprint;  // 16 hexadecimal digits; "" where it does not say
};

// One such key, by the ProtectedVolumes and DataUploads of Velero's namespace; nothing where none
// of them shows one. Reads these objects in pages, up to the first that does; for a Secret of keys
// that is not there. Errors of the API server.
absl::StatusOr<std::optional<KnownKey>> FindKnownKey(const CallContext& ctx, k8s::ApiClient& api,
                                                     const std::string& velero_namespace,
                                                     const std::string& location);

}  // namespace csidelta::datamover
