#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"

// The PVCs that a person wants snapshots of, and the driver and class for each. Nothing is made
// here, so that every obstacle is known before anything is.
namespace csidelta::snapshots {

// One way of naming PVCs of a namespace; the others are empty.
struct PvcSelection {
  std::string namespace_name;
  std::vector<std::string> names;
  std::string pod;             // those of its volumes
  std::string stateful_set;    // those of its templates, and others that its Pods name
  std::string label_selector;  // those with these labels
  bool all = false;
};

struct SelectedPvcs {
  std::vector<objects::PersistentVolumeClaim> pvcs = {};  // each once, by name; never empty
  std::string workload;                                   // "StatefulSet/db", "Pod/db-0"; else ""
};

absl::Status CheckOneWay(const PvcSelection& selection);  // INVALID_ARGUMENT unless one is used

// As CheckOneWay. NOT_FOUND, naming it, for a PVC, Pod or StatefulSet that does not exist, and if
// nothing is selected. Other errors are those of the API server. One or two requests, and one per
// name.
absl::StatusOr<SelectedPvcs> SelectPvcs(const CallContext& ctx, k8s::ApiClient& api,
                                        const PvcSelection& selection);

struct SnapshotSource {
  objects::PersistentVolumeClaim pvc;
  std::string driver = {};      // "" if the PersistentVolume cannot be read
  std::string class_name = {};  // "": the driver's default, which the snapshot controller finds
};

struct SnapshotSources {
  std::vector<SnapshotSource> sources;  // in the order of the PVCs
  // Objects that the caller cannot read, and what is therefore unknown: "driver not checked: ...".
  std::vector<std::string> not_checked;
};

// Finds the driver of each PVC, and the class: `class_name`, else as backups do, by the PVC's
// annotation, the label of a class, the driver's default or its only one. FAILED_PRECONDITION with
// a line for each unsuitable PVC: it is not bound, its volume is not of CSI, there is no class for
// it, or `class_name` does not exist or is of another driver. A GET per PVC and one LIST of
// classes.
absl::StatusOr<SnapshotSources> PrepareSources(
    const CallContext& ctx, k8s::ApiClient& api,
    const std::vector<objects::PersistentVolumeClaim>& pvcs, const std::string& class_name);

}  // namespace csidelta::snapshots
