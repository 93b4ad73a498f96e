#include <cstddef>
#include <string>

#include "base/status_macros.h"
#include "repository/repairer.h"
#include "repository/volume_layout.h"

namespace csidelta::repository {
namespace {

class ChunkFinder {
 public:
  ChunkFinder(const CallContext& ctx, const Repository& repository, const VolumeLayout& layout,
              const absl::flat_hash_set<BlobId>& blobs)
      : ctx_(ctx), repository_(repository), layout_(layout), blobs_(blobs) {}

  // False when every blob was found.
  bool wants_more() const { return chunks_.size() < blobs_.size(); }

  absl::Status LookIntoLevel1(const BlobId& tree, int64_t level1) {
    ASSIGN_OR_RETURN(const std::string text, repository_.LoadTree(ctx_, tree));
    ASSIGN_OR_RETURN(const std::vector<BlobId> leaves,
                     DecodeLevel1Tree(text, layout_.LeavesInLevel1(level1)));
    for (std::size_t i = 0; i < leaves.size() && wants_more(); ++i) {
      // Equal leaves hold equal chunks.
      if (looked_at_.insert(leaves[i]).second) {
        const absl::Status status =
            LookIntoLeaf(leaves[i], level1 * kFanout + static_cast<int64_t>(i));
        if (!status.ok() && !IsDamage(status)) {
          return status;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::flat_hash_map<BlobId, Extent> TakeChunks() { return std::move(chunks_); }

 private:
  absl::Status LookIntoLeaf(const BlobId& tree, int64_t leaf) {
    ASSIGN_OR_RETURN(const std::string text, repository_.LoadTree(ctx_, tree));
    ASSIGN_OR_RETURN(const std::vector<BlobId> ids,
                     DecodeLeafTree(text, layout_.ChunksInLeaf(leaf), layout_.LeafBytes(leaf)));
    for (std::size_t slot = 0; slot < ids.size(); ++slot) {
      if (blobs_.contains(ids[slot])) {
        const int64_t chunk = leaf * kLeafChunks + static_cast<int64_t>(slot);
        chunks_.emplace(ids[slot], Extent{.offset_bytes = layout_.ChunkOffset(chunk),
                                          .length_bytes = layout_.ChunkLength(chunk)});
      }
    }
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  const Repository& repository_;
  const VolumeLayout& layout_;
  const absl::flat_hash_set<BlobId>& blobs_;
  absl::flat_hash_set<BlobId> looked_at_;
  absl::flat_hash_map<BlobId, Extent> chunks_;
};

}  // namespace

absl::StatusOr<absl::flat_hash_map<BlobId, Extent>> FindChunks(
    const CallContext& ctx, const Repository& repository, const RepoSnapshot& snapshot,
    const absl::flat_hash_set<BlobId>& blobs) {
  ASSIGN_OR_RETURN(const std::string root_text, repository.LoadTree(ctx, snapshot.tree));
  ASSIGN_OR_RETURN(const RootTree root, DecodeRootTree(root_text));
  ASSIGN_OR_RETURN(const std::string json,
                   repository.LoadBlob(ctx, {.type = BlobType::kData, .id = root.manifest_blob}));
  ASSIGN_OR_RETURN(const VolumeManifest manifest, DecodeManifest(json));
  ASSIGN_OR_RETURN(const VolumeLayout layout,
                   VolumeLayout::Make(manifest.size_bytes, manifest.chunk_bytes));
  ASSIGN_OR_RETURN(const std::string image_text, repository.LoadTree(ctx, root.image_tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> level1_trees,
                   DecodeImageTree(image_text, layout.level1_count()));
  ChunkFinder finder(ctx, repository, layout, blobs);
  for (std::size_t i = 0; i < level1_trees.size() && finder.wants_more(); ++i) {
    RETURN_IF_ERROR(finder.LookIntoLevel1(level1_trees[i], static_cast<int64_t>(i)));
  }
  return finder.TakeChunks();
}

}  // namespace csidelta::repository
