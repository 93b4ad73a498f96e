#include "repository/volume_layout.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "repository/tree.h"
#include "repository/tree_text.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kDirNodeBytes = 248;
constexpr std::size_t kFileNodeBytes = 240;
constexpr std::size_t kChunkIdBytes = 67;  // In a list: digits, quotes, comma.

struct ZeroIds {
  BlobId chunk;
  BlobId leaf_tree;
  BlobId level1_tree;
};

// Of chunks from 256 KiB to 4 MiB, each twice the one before.
constexpr std::array<absl::string_view, 5> kZeroChunkIds = {
    "8a39d2abd3999ab73c34db2476849cddf303ce389b35826850f9a700589b4a90",
    "07854d2fef297a06ba81685e660c332de36d5d18d546927d30daad6d7fda1541",
    "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58",
    "5647f05ec18958947d32874eeb788fa396a05d0bab7c1b71f112ceb7e9b31eee",
    "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"};

ZeroIds MakeZeroIds(std::size_t ordinal) {
  const int64_t chunk_bytes = kChunkBytesMin << ordinal;
  ZeroIds ids;
  ids.chunk = Id::Parse(kZeroChunkIds[ordinal]).value_or(Id());
  const std::vector<BlobId> chunks(kLeafChunks, ids.chunk);
  ids.leaf_tree = Id::Of(EncodeLeafTree(chunks, kLeafChunks * chunk_bytes));
  const std::vector<BlobId> leaves(kFanout, ids.leaf_tree);
  ids.level1_tree = Id::Of(EncodeLevel1Tree(leaves));
  return ids;
}

const ZeroIds& GetZeroIds(int64_t chunk_bytes) {
  static const std::array<ZeroIds, kZeroChunkIds.size()> all = {
      MakeZeroIds(0), MakeZeroIds(1), MakeZeroIds(2), MakeZeroIds(3), MakeZeroIds(4)};
  CSIDELTA_CHECK(IsLegalChunkBytes(chunk_bytes));
  return all[static_cast<std::size_t>(
      std::countr_zero(static_cast<uint64_t>(chunk_bytes / kChunkBytesMin)))];
}

template <typename NameOf>
std::string EncodeDirectories(absl::Span<const BlobId> trees, NameOf name_of) {
  TreeText text(trees.size() * kDirNodeBytes);
  for (std::size_t i = 0; i < trees.size(); ++i) {
    text.AddDir(name_of(static_cast<int64_t>(i)), trees[i]);
  }
  return std::move(text).Finish();
}

absl::Status NotManaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("volume layout: ", what));
}

template <typename NameOf>
absl::StatusOr<std::vector<BlobId>> DecodeDirectories(absl::string_view text, int64_t count,
                                                      NameOf name_of) {
  std::vector<BlobId> trees;
  trees.reserve(static_cast<std::size_t>(count));
  RETURN_IF_ERROR(DecodeTree(text, [&](Node& node) -> absl::Status {
    const auto index = static_cast<int64_t>(trees.size());
    if (index >= count || node.type != NodeType::kDir || !node.subtree.has_value() ||
        node.name != name_of(index)) {
      return NotManaged(absl::StrCat("unexpected entry ", node.name));
    }
    trees.push_back(*node.subtree);
    return absl::OkStatus();
  }));
  if (static_cast<int64_t>(trees.size()) != count) {
    return NotManaged(absl::StrCat(trees.size(), " directories instead of ", count));
  }
  return trees;
}

}  // namespace

absl::StatusOr<VolumeLayout> VolumeLayout::Make(int64_t size_bytes, int64_t chunk_bytes) {
  if (!IsLegalChunkBytes(chunk_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("chunk size ", chunk_bytes,
                                                   " is not a power of two from ", kChunkBytesMin,
                                                   " to ", kChunkBytesMax));
  }
  if (size_bytes <= 0 || size_bytes > kLevel1Max * kLevel1Chunks * chunk_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a volume of ", size_bytes,
                                                   " bytes in chunks of ", chunk_bytes,
                                                   " does not fit the layout"));
  }
  return VolumeLayout(size_bytes, chunk_bytes);
}

std::string Level1Name(int64_t level1) { return absl::StrFormat("%03x", level1); }
std::string LeafName(int64_t index_in_level1) { return absl::StrFormat("%02x", index_in_level1); }

const BlobId& ZeroChunkId(int64_t chunk_bytes) { return GetZeroIds(chunk_bytes).chunk; }
const BlobId& ZeroLeafTreeId(int64_t chunk_bytes) { return GetZeroIds(chunk_bytes).leaf_tree; }
const BlobId& ZeroLevel1TreeId(int64_t chunk_bytes) { return GetZeroIds(chunk_bytes).level1_tree; }

std::string EncodeLeafTree(absl::Span<const BlobId> chunks, int64_t leaf_bytes) {
  CSIDELTA_CHECK(!chunks.empty() && static_cast<int64_t>(chunks.size()) <= kLeafChunks);
  TreeText text(kFileNodeBytes + chunks.size() * kChunkIdBytes);
  text.AddFile(kDataName, static_cast<uint64_t>(leaf_bytes), chunks);
  return std::move(text).Finish();
}

std::string EncodeLevel1Tree(absl::Span<const BlobId> leaves) {
  return EncodeDirectories(leaves, LeafName);
}

std::string EncodeImageTree(absl::Span<const BlobId> level1_trees) {
  return EncodeDirectories(level1_trees, Level1Name);
}

std::string EncodeRootTree(const BlobId& image_tree, const BlobId& manifest_blob,
                           int64_t manifest_bytes) {
  TreeText text(kDirNodeBytes + kFileNodeBytes + kChunkIdBytes);
  text.AddDir(kImageName, image_tree);
  text.AddFile(kManifestName, static_cast<uint64_t>(manifest_bytes), {&manifest_blob, 1});
  return std::move(text).Finish();
}

absl::StatusOr<std::vector<BlobId>> DecodeLeafTree(absl::string_view text, int64_t chunks,
                                                   int64_t leaf_bytes) {
  constexpr absl::string_view kShape = "a leaf has one file, data";
  std::optional<std::vector<BlobId>> ids;
  RETURN_IF_ERROR(DecodeTree(text, [&](Node& node) -> absl::Status {
    if (ids.has_value() || node.name != kDataName || node.type != NodeType::kFile ||
        !node.content.has_value()) {
      return NotManaged(kShape);
    }
    if (std::ssize(*node.content) != chunks ||
        node.size_bytes != static_cast<uint64_t>(leaf_bytes)) {
      return NotManaged(absl::StrCat("a leaf of ", node.content->size(), " chunks and ",
                                     node.size_bytes, " bytes instead of ", chunks, " and ",
                                     leaf_bytes));
    }
    ids = std::move(node.content);
    return absl::OkStatus();
  }));
  return ids.has_value() ? absl::StatusOr<std::vector<BlobId>>(*std::move(ids))
                         : NotManaged(kShape);
}

absl::StatusOr<std::vector<BlobId>> DecodeLevel1Tree(absl::string_view text, int64_t leaves) {
  return DecodeDirectories(text, leaves, LeafName);
}

absl::StatusOr<std::vector<BlobId>> DecodeImageTree(absl::string_view text, int64_t level1_trees) {
  return DecodeDirectories(text, level1_trees, Level1Name);
}

absl::StatusOr<RootTree> DecodeRootTree(absl::string_view text) {
  std::vector<Node> nodes;
  RETURN_IF_ERROR(DecodeTree(text, [&nodes](Node& node) {
    nodes.push_back(std::move(node));
    return nodes.size() <= 2 ? absl::OkStatus() : NotManaged("more than two entries in the root");
  }));
  if (nodes.size() != 2 || nodes[0].name != kImageName || !nodes[0].subtree.has_value() ||
      nodes[1].name != kManifestName || !nodes[1].content.has_value() ||
      nodes[1].content->size() != 1) {
    return NotManaged("the root has one directory, image, and one file, volume.json");
  }
  if (nodes[1].size_bytes == 0 || nodes[1].size_bytes > uint64_t{kManifestBytesMax}) {
    return NotManaged(absl::StrCat("volume.json of ", nodes[1].size_bytes, " bytes"));
  }
  return RootTree{.image_tree = *nodes[0].subtree,
                  .manifest_blob = nodes[1].content->front(),
                  .manifest_bytes = static_cast<int64_t>(nodes[1].size_bytes)};
}

}  // namespace csidelta::repository
