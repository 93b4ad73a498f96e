#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

namespace csidelta::csi {

// The address of a driver's snapshot metadata: a SnapshotMetadataService, which is named after the
// driver.
struct MetadataService {
  std::string driver;
  std::string api_version;  // "v1beta1", or "v1alpha1" on old installations
  std::string uid;
  std::string address;           // "host:port"
  std::string audience;          // that a caller's token must be for; never ""
  std::string ca_pem;            // the only certificates to trust
  std::string server_name = {};  // in its certificate; "": the host of the address

  // True if the service may take the base for the name of a VolumeSnapshot.
  bool may_be_old() const { return api_version == "v1alpha1"; }
};

// Finds the driver's service in the versions that clusters have had, the newest first. Errors are
// those of the API server, and:
//   NOT_FOUND         the driver has none, or the cluster does not know the kind
//   INVALID_ARGUMENT  a field of the object is missing or malformed; names it
absl::StatusOr<MetadataService> FindMetadataService(const CallContext& ctx, k8s::ApiClient& api,
                                                    absl::string_view driver);

}  // namespace csidelta::csi
