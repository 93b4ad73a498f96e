#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"
#include "objects/storage_class.h"

namespace csidelta::csi {

// The newest message of a ProvisioningFailed event for this very PVC; "" if not found.
absl::StatusOr<std::string> LastProvisioningError(const CallContext& ctx, k8s::ApiClient& api,
                                                  const objects::PersistentVolumeClaim& claim);

// The provisioning of a PVC's volume, by the PVC's events.
struct ProvisioningStatus {
  std::string last_failure;               // the newest of ProvisioningFailed; ""
  bool waits_for_first_consumer = false;  // it has no volume until a Pod uses it
  std::string last_message = {};          // the newest of all: "Reason: message"; "" without one
};
absl::StatusOr<ProvisioningStatus> ReadProvisioningStatus(
    const CallContext& ctx, k8s::ApiClient& api, const objects::PersistentVolumeClaim& pvc);

// The access modes of a PVC of mode Block through which the mover writes into a volume that is, or
// will be, of `mode` and `modes` for an application. Files that several nodes share may be a file
// share, which has no device: such a driver must not learn of it before the data is there. Longhorn
// shares any volume that is ReadWriteMany (longhorn-manager, csi/controller_server.go). Pure.
std::vector<std::string> TransferModes(objects::VolumeMode mode,
                                       const std::vector<std::string>& modes);

// "PVC shop/data", for messages. Pure.
std::string PvcText(absl::string_view namespace_name, absl::string_view name);
std::string PvcText(const objects::PersistentVolumeClaim& pvc);
// The volume that was requested with `pvc`, for messages: "10Gi, ReadWriteOnce, mode Block". Pure.
std::string RequestText(const objects::PersistentVolumeClaim& pvc);

// True if a provisioner, as a StorageClass names it, makes volumes of `driver` ("": any). In-tree
// names, which are migrated to CSI drivers, fit any. Pure.
bool IsProvisionerOf(absl::string_view provisioner, absl::string_view driver);

// The StorageClass of this name. If it does not exist, or `name` is "", an empty one: with no name,
// and the defaults of all fields.
absl::StatusOr<objects::StorageClass> ReadStorageClass(const CallContext& ctx, k8s::ApiClient& api,
                                                       absl::string_view name);

// How the StorageClass of a PVC fits a snapshot that the PVC is to be filled from.
struct ClassFit {
  enum class Kind {
    kFits,     // as far as it can be known: the class is one of the snapshot's driver
    kMissing,  // there is no such class; it may come
    kNever,    // "" provisions nothing, and a class of another driver knows no such snapshot
  };
  Kind kind = Kind::kFits;
  std::string text;  // why not: "the storage class x is of driver y"
};

// `storage_class` is nothing for a PVC that names none yet: that fits, because the API server gives
// it the default class when it is made. `driver` "" is unknown, and fits. In-tree names, which are
// migrated to CSI drivers, fit any.
absl::StatusOr<ClassFit> FitOfClass(const CallContext& ctx, k8s::ApiClient& api,
                                    const std::optional<std::string>& storage_class,
                                    absl::string_view driver);

// What a user does in a restore about a class that does not fit. Velero's change-storage-class
// passes over "". Pure.
std::string ClassRemediation(absl::string_view storage_class);

// Why the volume that `claim` is bound to was not made for it; "" if it was, by a provisioner of
// `driver` ("": any). The binder prefers an older, free volume to a new one, whatever the PVC is to
// be filled from. NOT_FOUND if the volume does not exist.
absl::StatusOr<std::string> WhyVolumeIsForeign(const CallContext& ctx, k8s::ApiClient& api,
                                               const objects::PersistentVolumeClaim& claim,
                                               absl::string_view driver);

}  // namespace csidelta::csi
