#include "inplace/node_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::inplace {

using objects::CsiNode;
using objects::Node;

std::string ChooseNodeOf(const objects::PersistentVolume& volume, const std::vector<Node>& nodes,
                         const std::vector<CsiNode>& csi_nodes) {
  const Node* chosen = nullptr;
  for (const Node& node : nodes) {
    const bool has_driver =
        std::any_of(csi_nodes.begin(), csi_nodes.end(), [&](const CsiNode& one) {
          return one.name() == node.name() && one.HasDriver(volume.driver());
        });
    if (!has_driver || !node.IsSelectedBy(volume.node_affinity())) {
      continue;
    }
    const bool is_better = chosen == nullptr || (node.is_schedulable() != chosen->is_schedulable()
                                                     ? node.is_schedulable()
                                                     : node.name() < chosen->name());
    if (is_better) {
      chosen = &node;
    }
  }
  return chosen == nullptr ? "" : chosen->name();
}

absl::StatusOr<std::string> ChooseNode(const CallContext& ctx, k8s::ApiClient& api,
                                       const objects::PersistentVolume& volume) {
  ASSIGN_OR_RETURN(const std::vector<Node> nodes, objects::List<Node>(ctx, api, ""));
  ASSIGN_OR_RETURN(const std::vector<CsiNode> csi_nodes, objects::List<CsiNode>(ctx, api, ""));
  std::string chosen = ChooseNodeOf(volume, nodes, csi_nodes);
  if (chosen.empty()) {
    return absl::NotFoundError(absl::StrCat("no node has driver ", volume.driver(),
                                            " where volume ", volume.name(), " can be used"));
  }
  return chosen;
}

}  // namespace csidelta::inplace
