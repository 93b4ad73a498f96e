#include "repository/volume_check.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::repository {

VolumeCheck::Whole& VolumeCheck::WholeOf(int64_t chunk_bytes) {
  const MutexLock lock(mutex_);
  return whole_.try_emplace(chunk_bytes, repository_.index()).first->second;
}

bool VolumeCheck::MayBeWholeLeaf(const Node& file) {
  return file.name == kDataName && static_cast<int64_t>(file.content->size()) == kLeafChunks;
}

void VolumeCheck::AddWholeLeaf(uint32_t tree, int64_t chunk_bytes) {
  if (IsLegalChunkBytes(chunk_bytes)) {
    WholeOf(chunk_bytes).leaves.Mark(tree);
  }
}

absl::Status VolumeCheck::Check(const CallContext& ctx, const RepoSnapshot& snapshot) {
  ASSIGN_OR_RETURN(const std::string root_text, repository_.LoadTree(ctx, snapshot.tree));
  ASSIGN_OR_RETURN(const RootTree root, DecodeRootTree(root_text));
  if (root.manifest_bytes > kManifestBytesMax) {
    return absl::DataLossError("its volume.json is too long");
  }
  ASSIGN_OR_RETURN(const std::string json,
                   repository_.LoadBlob(ctx, {.type = BlobType::kData, .id = root.manifest_blob}));
  ASSIGN_OR_RETURN(const VolumeManifest manifest, DecodeManifest(json));
  if (manifest.image_tree != root.image_tree) {
    return absl::DataLossError("its volume.json names another image");
  }
  ASSIGN_OR_RETURN(const VolumeLayout layout,
                   VolumeLayout::Make(manifest.size_bytes, manifest.chunk_bytes));
  ASSIGN_OR_RETURN(const std::string image_text, repository_.LoadTree(ctx, root.image_tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> level1_trees,
                   DecodeImageTree(image_text, layout.level1_count()));
  oldest_ = std::numeric_limits<Verdict>::max();
  RETURN_IF_ERROR(AddTree(snapshot.tree));
  RETURN_IF_ERROR(AddTree(root.image_tree));
  for (std::size_t i = 0; i < level1_trees.size(); ++i) {
    const absl::Status status = CheckLevel1(ctx, level1_trees[i], static_cast<int64_t>(i), layout);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("image/", Level1Name(static_cast<int64_t>(i))));
    }
    RETURN_IF_ERROR(AddTree(level1_trees[i]));
  }
  return absl::OkStatus();
}

absl::Status VolumeCheck::AddTree(const BlobId& tree) {
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy, repository_.index().FindTree(tree));
  oldest_ = std::min(oldest_, copy.has_value() ? verified_.OfTree(*copy) : 0);
  return absl::OkStatus();
}

absl::Status VolumeCheck::CheckLevel1(const CallContext& ctx, const BlobId& tree, int64_t level1,
                                      const VolumeLayout& layout) {
  RETURN_IF_ERROR(ctx.Check());
  Whole& whole = WholeOf(layout.chunk_bytes());
  const int64_t whole_leaf_bytes = layout.chunk_bytes() * kLeafChunks;
  const bool all_whole = (level1 + 1) * kFanout * whole_leaf_bytes <= layout.size_bytes();
  ASSIGN_OR_RETURN(const std::optional<IndexedCopy> found, repository_.index().FindTree(tree));
  if (all_whole && found.has_value() && whole.level1_trees.Contains(found->first)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, repository_.LoadTree(ctx, tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> leaves,
                   DecodeLevel1Tree(text, layout.LeavesInLevel1(level1)));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const int64_t leaf = level1 * kFanout + static_cast<int64_t>(i);
    ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy,
                     repository_.index().FindTree(leaves[i]));
    if (found.has_value() && copy.has_value()) {
      verified_.AddNeed(found->first, *copy);
    }
    const bool is_whole = layout.LeafBytes(leaf) == whole_leaf_bytes;
    if (!is_whole || !copy.has_value() || !whole.leaves.Contains(copy->first)) {
      RETURN_IF_ERROR(CheckLeaf(ctx, leaves[i], leaf, layout));
    }
  }
  if (all_whole && found.has_value()) {
    whole.level1_trees.Mark(found->first);
  }
  return absl::OkStatus();
}

absl::Status VolumeCheck::CheckLeaf(const CallContext& ctx, const BlobId& tree, int64_t leaf,
                                    const VolumeLayout& layout) const {
  ASSIGN_OR_RETURN(const std::string text, repository_.LoadTree(ctx, tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> chunks,
                   DecodeLeafTree(text, layout.ChunksInLeaf(leaf), layout.LeafBytes(leaf)));
  for (std::size_t slot = 0; slot < chunks.size(); ++slot) {
    const int64_t chunk = leaf * kLeafChunks + static_cast<int64_t>(slot);
    ASSIGN_OR_RETURN(const std::optional<IndexedCopy> copy,
                     repository_.index().Find({.type = BlobType::kData, .id = chunks[slot]}));
    if (copy.has_value() && copy->entry.span.plaintext_bytes() != layout.ChunkLength(chunk)) {
      return absl::DataLossError(absl::StrCat("chunk ", chunk, " has another length"));
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::repository
