#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "repository/blob.h"

namespace csidelta::repository {

enum class NodeType { kFile, kDir, kSymlink, kOther };

// One entry of a directory. What we write has constant mode, times and owner, so that the id of a
// tree depends on names and content only; of what others wrote, these fields are left unread.
struct Node {
  std::string name;  // As bytes on disk, unescaped.
  NodeType type = NodeType::kOther;
  uint64_t size_bytes = 0;                          // Files.
  std::optional<std::vector<BlobId>> content = {};  // Files; a file without it is damaged.
  std::optional<BlobId> subtree = {};               // Directories; one without it is damaged.
  std::string link_target = {};                     // Symbolic links.
};

// Feeds `sink` each node of a tree from anyone; the argument may be moved from. DATA_LOSS when
// malformed, when names are empty, longer than 4096
// bytes, contain "/" or do not ascend strictly, or when an id is null.
// An error of `sink` is returned unchanged. Memory is bounded by the largest node.
absl::Status DecodeTree(absl::string_view text, absl::FunctionRef<absl::Status(Node&)> sink);

// The same, collected.
absl::StatusOr<std::vector<Node>> DecodeTree(absl::string_view text);

// The bytes of a node's name, which restic writes as the inside of a quoted Go string.
// False when malformed.
bool UnquoteName(absl::string_view quoted, std::string& name);

}  // namespace csidelta::repository
