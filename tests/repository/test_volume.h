#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/call_context.h"
#include "base/status_macros.h"
#include "repository/blob_writer.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"
#include "tests/support/unproven.h"

namespace csidelta::repository {

// What the index of a repository lists, as if all of it were stored.
inline std::shared_ptr<StoredBlobs> KnownIn(const Repository& repository) {
  return std::make_shared<StoredBlobs>(repository.index(),
                                       PackBits(repository.index().pack_count()));
}

// Writes `image` as one repository snapshot, the plain way: every chunk is read, every tree made.
// The time is that of the context's clock.
inline absl::StatusOr<Id> BackUpImage(const CallContext& ctx, Repository& repository,
                                      absl::string_view image, int64_t chunk_bytes,
                                      const BlobWriterOptions& options = {}) {
  ASSIGN_OR_RETURN(const VolumeLayout layout,
                   VolumeLayout::Make(static_cast<int64_t>(image.size()), chunk_bytes));
  BlobWriter writer(ctx, repository, options);
  const auto add_tree = [&](const std::string& text) -> absl::StatusOr<BlobId> {
    RETURN_IF_ERROR(writer.AddBlob(BlobType::kTree, Id::Of(text), text).status());
    return Id::Of(text);
  };
  std::vector<BlobId> leaves;
  std::vector<BlobId> level1_trees;
  for (int64_t leaf = 0; leaf < layout.leaf_count(); ++leaf) {
    std::vector<BlobId> chunks;
    for (int64_t slot = 0; slot < layout.ChunksInLeaf(leaf); ++slot) {
      const int64_t chunk = leaf * kLeafChunks + slot;
      const absl::string_view bytes =
          image.substr(static_cast<std::size_t>(layout.ChunkOffset(chunk)),
                       static_cast<std::size_t>(layout.ChunkLength(chunk)));
      chunks.push_back(Id::Of(bytes));
      RETURN_IF_ERROR(writer.AddBlob(BlobType::kData, chunks.back(), bytes).status());
    }
    ASSIGN_OR_RETURN(const BlobId tree, add_tree(EncodeLeafTree(chunks, layout.LeafBytes(leaf))));
    leaves.push_back(tree);
    if (static_cast<int64_t>(leaves.size()) == kFanout || leaf + 1 == layout.leaf_count()) {
      ASSIGN_OR_RETURN(const BlobId level1, add_tree(EncodeLevel1Tree(leaves)));
      level1_trees.push_back(level1);
      leaves.clear();
    }
  }
  VolumeManifest manifest;
  manifest.size_bytes = layout.size_bytes();
  manifest.chunk_bytes = chunk_bytes;
  ASSIGN_OR_RETURN(manifest.image_tree, add_tree(EncodeImageTree(level1_trees)));
  const std::string json = EncodeManifest(manifest);
  RETURN_IF_ERROR(writer.AddBlob(BlobType::kData, Id::Of(json), json).status());
  RepoSnapshot snapshot;
  ASSIGN_OR_RETURN(snapshot.tree, add_tree(EncodeRootTree(manifest.image_tree, Id::Of(json),
                                                          static_cast<int64_t>(json.size()))));
  RETURN_IF_ERROR(writer.Flush());
  snapshot.time = ctx.clock->Now();
  snapshot.paths = {"/shop/db-0"};
  snapshot.hostname = "cluster";
  snapshot.username = "csi-delta";
  snapshot.tags = {"vol-uid=1", "mode=block"};
  snapshot.summary = SnapshotSummary{.backup_start = snapshot.time,
                                     .backup_end = snapshot.time,
                                     .total_bytes_processed = image.size()};
  return repository.SaveSnapshot(ctx, snapshot, support::Unproven());
}

// The image of a snapshot. REQUIRES a loaded index.
inline absl::StatusOr<std::string> RestoreImage(const CallContext& ctx, Repository& repository,
                                                const Id& id) {
  const auto load_tree = [&](const BlobId& tree) {
    return repository.LoadBlob(ctx, {BlobType::kTree, tree});
  };
  ASSIGN_OR_RETURN(const RepoSnapshot snapshot, repository.LoadSnapshot(ctx, id));
  ASSIGN_OR_RETURN(const std::string root_text, load_tree(snapshot.tree));
  ASSIGN_OR_RETURN(const RootTree root, DecodeRootTree(root_text));
  ASSIGN_OR_RETURN(const std::string json,
                   repository.LoadBlob(ctx, {BlobType::kData, root.manifest_blob}));
  ASSIGN_OR_RETURN(const VolumeManifest manifest, DecodeManifest(json));
  ASSIGN_OR_RETURN(const VolumeLayout layout,
                   VolumeLayout::Make(manifest.size_bytes, manifest.chunk_bytes));
  ASSIGN_OR_RETURN(const std::string image_text, load_tree(root.image_tree));
  ASSIGN_OR_RETURN(const std::vector<BlobId> level1_trees,
                   DecodeImageTree(image_text, layout.level1_count()));
  std::string image;
  int64_t leaf = 0;
  for (std::size_t i = 0; i < level1_trees.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string level1_text, load_tree(level1_trees[i]));
    ASSIGN_OR_RETURN(const std::vector<BlobId> leaves,
                     DecodeLevel1Tree(level1_text, layout.LeavesInLevel1(static_cast<int64_t>(i))));
    for (const BlobId& leaf_tree : leaves) {
      ASSIGN_OR_RETURN(const std::string leaf_text, load_tree(leaf_tree));
      ASSIGN_OR_RETURN(
          const std::vector<BlobId> chunks,
          DecodeLeafTree(leaf_text, layout.ChunksInLeaf(leaf), layout.LeafBytes(leaf)));
      for (const BlobId& chunk : chunks) {
        ASSIGN_OR_RETURN(const std::string bytes,
                         repository.LoadBlob(ctx, {BlobType::kData, chunk}));
        image += bytes;
      }
      ++leaf;
    }
  }
  return image;
}

}  // namespace csidelta::repository
