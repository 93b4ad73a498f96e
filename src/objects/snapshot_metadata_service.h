#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "k8s/api_client.h"
#include "objects/object.h"

namespace csidelta::objects {

// Where a driver's snapshot metadata is served (KEP-3314). Named after the driver.
class SnapshotMetadataService : public ObjectOf<SnapshotMetadataService> {
 public:
  static constexpr KindName kKind = {"cbt.storage.k8s.io", "v1beta1", "snapshotmetadataservices",
                                     "SnapshotMetadataService", false};

  // The versions that clusters have had, newest first.
  static constexpr absl::string_view kVersions[] = {"v1beta1", "v1alpha1"};
  static k8s::ObjectKey Key(absl::string_view version, absl::string_view driver) {
    return {.type = kKind.TypeOf(version), .namespace_name = "", .name = std::string(driver)};
  }

  std::string address() const { return Text({"spec", "address"}); }    // "host:port"
  std::string audience() const { return Text({"spec", "audience"}); }  // of a caller's token
  // Certificates: base64 of PEM by the schema; some write the PEM itself.
  std::string ca_cert() const { return Text({"spec", "caCert"}); }
};

}  // namespace csidelta::objects
