#include "repository/volume_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/volume_layout.h"

namespace csidelta::repository {
namespace {

absl::StatusOr<std::string> LoadTree(const CallContext& ctx, const Repository& repository,
                                     const BlobId& id) {
  return repository.LoadBlob(ctx, {.type = BlobType::kTree, .id = id});
}

}  // namespace

bool IsVolume(const RepoSnapshot& snapshot) { return TagValue(snapshot, "mode") == "block"; }

VolumeCheck::Whole& VolumeCheck::WholeOf(int64_t chunk_bytes) {
  std::scoped_lock lock(mutex_);
  return whole_.try_emplace(chunk_bytes, repository_.index()).first->second;
}

void VolumeCheck::Note(const BlobId& tree, const Node& file,
                       absl::Span<const uint32_t> chunk_bytes) {
  if (file.name != kDataName || static_cast<int64_t>(chunk_bytes.size()) != kLeafChunks ||
      !IsLegalChunkBytes(chunk_bytes.front())) {
    return;
  }
  const bool equal = std::all_of(chunk_bytes.begin(), chunk_bytes.end(),
                                 [&](uint32_t bytes) { return bytes == chunk_bytes.front(); });
  if (equal) {
    WholeOf(chunk_bytes.front()).leaves.Mark({.type = BlobType::kTree, .id = tree});
  }
}

absl::Status VolumeCheck::Check(const CallContext& ctx, const RepoSnapshot& snapshot) {
  ASSIGN_OR_RETURN(const std::string root_text, LoadTree(ctx, repository_, snapshot.tree));
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
  ASSIGN_OR_RETURN(const std::string image_text, LoadTree(ctx, repository_, root.image_tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> level1_trees,
                   DecodeImageTree(image_text, layout.level1_count()));
  for (std::size_t i = 0; i < level1_trees.size(); ++i) {
    const absl::Status status = CheckLevel1(ctx, level1_trees[i], static_cast<int64_t>(i), layout);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("image/", Level1Name(static_cast<int64_t>(i))));
    }
  }
  return absl::OkStatus();
}

absl::Status VolumeCheck::CheckLevel1(const CallContext& ctx, const BlobId& tree, int64_t level1,
                                      const VolumeLayout& layout) {
  RETURN_IF_ERROR(ctx.Check());
  Whole& whole = WholeOf(layout.chunk_bytes());
  const int64_t whole_leaf_bytes = layout.chunk_bytes() * kLeafChunks;
  const bool all_whole = (level1 + 1) * kFanout * whole_leaf_bytes <= layout.size_bytes();
  const BlobHandle handle = {.type = BlobType::kTree, .id = tree};
  if (all_whole && whole.level1_trees.Contains(handle)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, LoadTree(ctx, repository_, tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> leaves,
                   DecodeLevel1Tree(text, layout.LeavesInLevel1(level1)));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const int64_t leaf = level1 * kFanout + static_cast<int64_t>(i);
    const bool is_whole = layout.LeafBytes(leaf) == whole_leaf_bytes;
    if (!is_whole || !whole.leaves.Contains({.type = BlobType::kTree, .id = leaves[i]})) {
      RETURN_IF_ERROR(CheckLeaf(ctx, leaves[i], leaf, layout));
    }
  }
  if (all_whole) {
    whole.level1_trees.Mark(handle);
  }
  return absl::OkStatus();
}

absl::Status VolumeCheck::CheckLeaf(const CallContext& ctx, const BlobId& tree, int64_t leaf,
                                    const VolumeLayout& layout) const {
  ASSIGN_OR_RETURN(const std::string text, LoadTree(ctx, repository_, tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> chunks,
                   DecodeLeafTree(text, layout.ChunksInLeaf(leaf), layout.LeafBytes(leaf)));
  for (std::size_t slot = 0; slot < chunks.size(); ++slot) {
    const int64_t chunk = leaf * kLeafChunks + static_cast<int64_t>(slot);
    BlobLocation location;
    if (repository_.index().FindAny({.type = BlobType::kData, .id = chunks[slot]}, location) &&
        location.span.plaintext_bytes() != layout.ChunkLength(chunk)) {
      return absl::DataLossError(absl::StrCat("chunk ", chunk, " has another length"));
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::repository
