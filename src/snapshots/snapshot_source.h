#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"

// The PVCs that a person wants snapshots of, and what a snapshot of each needs. Nothing is made
// here, so that all that stands in the way is known before anything is.
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
  std::vector<objects::PersistentVolumeClaim> pvcs;  // each once, by name; never empty
  std::string workload;                              // "StatefulSet/db", "Pod/db-0"; else ""
};

// INVALID_ARGUMENT unless exactly one way is used; NOT_FOUND, naming it, for a PVC, Pod or
// StatefulSet that does not exist, and where nothing is selected; else what the API server says.
// One or two requests, and one per name.
absl::StatusOr<SelectedPvcs> SelectPvcs(const CallContext& ctx, k8s::ApiClient& api,
                                        const PvcSelection& selection);

struct SnapshotSource {
  objects::PersistentVolumeClaim pvc;
  std::string driver;      // "" where the PersistentVolume may not be read
  std::string class_name;  // "": the driver's default class, which the snapshot controller finds
};

struct SnapshotSources {
  std::vector<SnapshotSource> sources;  // in the order of the PVCs
  // What the caller may not read, and what is not known for it: "driver not checked: ...".
  std::vector<std::string> not_checked;
};

// Finds the driver of each PVC, and the class: `class_name`, else as backups do, by the PVC's
// annotation, the label of a class, the driver's default or its only one. FAILED_PRECONDITION, a
// line for each PVC that is in the way: one that is not bound, whose volume is not of CSI, for
// which there is no class, or `class_name` is of another driver or does not exist. A GET per PVC
// and one LIST of classes.
absl::StatusOr<SnapshotSources> PrepareSources(
    const CallContext& ctx, k8s::ApiClient& api,
    const std::vector<objects::PersistentVolumeClaim>& pvcs, const std::string& class_name);

}  // namespace csidelta::snapshots
