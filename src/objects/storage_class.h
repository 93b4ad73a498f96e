#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "k8s/api_client.h"
#include "objects/keys.h"
#include "objects/object.h"

// What an administrator registers of storage: classes and drivers.
namespace csidelta::objects {

class StorageClass : public ObjectOf<StorageClass> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "storageclasses", "StorageClass",
                                     false};

  // The driver, or its name in the tree of Kubernetes.
  std::string provisioner() const { return Text({"provisioner"}); }
  bool is_default() const {  // of the cluster
    return Annotation(kDefaultStorageClassAnnotation) == "true" ||
           Annotation(kBetaDefaultStorageClassAnnotation) == "true";
  }
  // A PVC of it stays without a volume until a Pod uses it.
  bool waits_for_first_consumer() const {
    return Text({"volumeBindingMode"}) == "WaitForFirstConsumer";
  }
  // Its volumes stay when their PVCs go.
  bool retains_volumes() const { return Text({"reclaimPolicy"}) == "Retain"; }
  // The file system of its volumes, by its parameters; "": the driver chooses.
  std::string file_system() const {
    std::string named = Text({"parameters", "csi.storage.k8s.io/fstype"});
    return named.empty() ? Text({"parameters", "fstype"}) : named;
  }
  bool is_encrypted() const { return Text({"parameters", "encrypted"}) == "true"; }
  std::vector<std::string> mount_options() const { return Texts({"mountOptions"}); }
};

// The registration of a CSI driver; it has the driver's name.
class CsiDriver : public ObjectOf<CsiDriver> {
 public:
  static constexpr KindName kKind = {"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false};
};

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
