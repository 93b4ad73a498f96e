#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/node.h"
#include "objects/persistent_volume.h"

// On which node a volume is made that must be usable where another one is, and that no Pod asks
// for: a StorageClass that waits for the first consumer makes it where an annotation of its PVC
// says.
namespace csidelta::inplace {

// The first by name, of those that the affinity of `volume` selects and that have its driver; one
// that is not cordoned, if there is one. "" for none. Pure.
std::string ChooseNodeOf(const objects::PersistentVolume& volume,
                         const std::vector<objects::Node>& nodes,
                         const std::vector<objects::CsiNode>& csi_nodes);

// The same, of the cluster: one LIST of Nodes, one of CSINodes. NOT_FOUND where none exists;
// PERMISSION_DENIED when they may not be listed.
absl::StatusOr<std::string> ChooseNode(const CallContext& ctx, k8s::ApiClient& api,
                                       const objects::PersistentVolume& volume);

}  // namespace csidelta::inplace
