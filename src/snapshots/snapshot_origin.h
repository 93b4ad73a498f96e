#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "snapshots/snapshot_inventory.h"

// Selects the VolumeSnapshots of the PVCs of a Pod or StatefulSet, or of a PersistentVolume, even
// if the PVCs are gone.
//
//   asked for    what says so
//   -----------  ----------------------------------------------------------------------------------
//   Pod          its PVC is one of the Pod's volumes; or it was taken of this Pod
//                (snapshot.csi-delta.io/workload), which then need not exist any more
//   StatefulSet  its PVC has the name of one of its templates, or its Pods name it; or it was taken
//                of this StatefulSet, which then need not exist any more
//   volume       its content was taken of the volume handle of the PersistentVolume, by its driver;
//                where no content may be read: its PVC is the one that the PersistentVolume names
namespace csidelta::snapshots {

// At most one of pod and stateful_set; empty fields do not select.
struct OriginRequest {
  std::string namespace_name;  // of the Pod or StatefulSet
  std::string pod = {};
  std::string stateful_set = {};
  // The name of a PersistentVolume. If it is gone: its volume handle, which many drivers name
  // alike.
  std::string volume = {};
};

struct SnapshotOrigin {
  std::function<bool(const SnapshotEntry& entry)> is_of;
  // Objects that the caller cannot read, and the replacement for each.
  std::vector<std::string> not_checked;
};

// At most one GET for the workload and one for the volume. INVALID_ARGUMENT for a Pod or
// StatefulSet of all namespaces, and for both of them. PERMISSION_DENIED if the volume cannot be
// read; FAILED_PRECONDITION if it is not of CSI. A workload that does not exist or cannot be read
// is no error. Other errors of the API server are returned.
absl::StatusOr<SnapshotOrigin> FindOrigin(const CallContext& ctx, k8s::ApiClient& api,
                                          const OriginRequest& request);

}  // namespace csidelta::snapshots
