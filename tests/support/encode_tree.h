#pragma once

#include <string>
#include <utility>

#include "absl/types/span.h"
#include "repository/tree.h"
#include "repository/tree_text.h"

namespace csidelta::support {

// The text of a tree, as the product writes it. REQUIRES nodes of type file or dir, strictly
// ascending by name, names of [0-9a-z._-].
inline std::string EncodeTree(absl::Span<const repository::Node> nodes) {
  repository::TreeText text(nodes.size() * 320);
  for (const repository::Node& node : nodes) {
    if (node.type == repository::NodeType::kDir) {
      text.AddDir(node.name, *node.subtree);
    } else {
      text.AddFile(node.name, node.size_bytes, *node.content);
    }
  }
  return std::move(text).Finish();
}

}  // namespace csidelta::support
