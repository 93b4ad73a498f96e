#include "csi/node_choice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::csi {
namespace {

using objects::CsiNode;
using objects::Node;

const k8s::ResourceType& NodeType() {
  static const auto& type = *new k8s::ResourceType{
      .group = "", .version = "v1", .plural = "nodes", .kind = "Node", .namespaced = false};
  return type;
}

const k8s::ResourceType& CsiNodeType() {
  static const auto& type = *new k8s::ResourceType{.group = "storage.k8s.io",
                                                   .version = "v1",
                                                   .plural = "csinodes",
                                                   .kind = "CSINode",
                                                   .namespaced = false};
  return type;
}

template <typename View>
absl::StatusOr<std::vector<View>> ListAll(const CallContext& ctx, k8s::ApiClient& api,
                                          const k8s::ResourceType& type) {
  ASSIGN_OR_RETURN(k8s::ObjectList list, api.List(ctx, type, "", {}));
  std::vector<View> views;
  views.reserve(list.items.size());
  for (Json& item : list.items) {
    ASSIGN_OR_RETURN(View view, View::Of(std::move(item)));
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace

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
  ASSIGN_OR_RETURN(const std::vector<Node> nodes, ListAll<Node>(ctx, api, NodeType()));
  ASSIGN_OR_RETURN(const std::vector<CsiNode> csi_nodes, ListAll<CsiNode>(ctx, api, CsiNodeType()));
  std::string chosen = ChooseNodeOf(volume, nodes, csi_nodes);
  if (chosen.empty()) {
    return absl::NotFoundError(absl::StrCat("no node has driver ", volume.driver(),
                                            " where volume ", volume.name(), " can be used"));
  }
  return chosen;
}

}  // namespace csidelta::csi
