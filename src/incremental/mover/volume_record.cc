#include "incremental/mover/volume_record.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "incremental/mover/tree_fetcher.h"

namespace csidelta::incremental {
namespace {

using repository::BlobHandle;
using repository::BlobId;
using repository::BlobLocation;
using repository::BlobType;
using repository::Repository;
using repository::VolumeLayout;
using repository::VolumeManifest;

// volume.json: where the locator says, else through the index.
absl::StatusOr<std::string> LoadManifestText(const CallContext& ctx, Repository& repository,
                                             const BlobId& id,
                                             const std::optional<BlobLocation>& place) {
  const BlobHandle handle{BlobType::kData, id};
  if (place.has_value()) {
    absl::StatusOr<std::string> text = repository.LoadBlobAt(ctx, handle, *place);
    if (text.ok()) {
      return text;
    }
  }
  RETURN_IF_ERROR(repository.LoadReadableIndex(ctx));
  return repository.LoadBlob(ctx, handle);
}

}  // namespace

absl::StatusOr<std::unique_ptr<VolumeRecord>> OpenVolumeRecord(
    const CallContext& ctx, Repository& repository, const repository::StoredSnapshot& stored) {
  const std::string what = absl::StrCat("snapshot ", stored.id.ShortHex());
  // A cache: whatever is wrong with it, the index knows.
  absl::StatusOr<repository::TreeLocator> loaded = repository.LoadLocator(ctx, stored.id);
  RETURN_IF_ERROR(ctx.Check());
  const auto places = std::make_shared<TreePositions>(
      repository, loaded.ok() ? *std::move(loaded) : repository::TreeLocator());
  const repository::TreeLocator& locator = places->locator();
  ASSIGN_OR_RETURN(const std::string root_text,
                   Annotate(repository.LoadTree(ctx, stored.snapshot.tree, locator.root), what));
  absl::StatusOr<repository::RootTree> root = repository::DecodeRootTree(root_text);
  if (!root.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, " is not a volume backup (", root.status().message(), "); restore it with restic"));
  }
  ASSIGN_OR_RETURN(const std::string manifest_text,
                   LoadManifestText(ctx, repository, root->manifest_blob, locator.manifest));
  absl::StatusOr<VolumeManifest> manifest = repository::DecodeManifest(manifest_text);
  if (!manifest.ok()) {
    const absl::StatusCode code = absl::IsInvalidArgument(manifest.status())
                                      ? absl::StatusCode::kDataLoss
                                      : manifest.status().code();
    return absl::Status(code, absl::StrCat(what, ": ", manifest.status().message()));
  }
  ASSIGN_OR_RETURN(const VolumeLayout layout,
                   VolumeLayout::Make(manifest->size_bytes, manifest->chunk_bytes));
  ASSIGN_OR_RETURN(const std::string image_text,
                   repository.LoadTree(ctx, root->image_tree, locator.image_tree));
  ASSIGN_OR_RETURN(std::vector<BlobId> level1_trees,
                   Annotate(repository::DecodeImageTree(image_text, layout.level1_count()), what));
  return std::make_unique<VolumeRecord>(VolumeRecord{.stored = stored,
                                                     .places = places,
                                                     .root = *root,
                                                     .manifest = *std::move(manifest),
                                                     .layout = layout,
                                                     .level1_trees = std::move(level1_trees)});
}

absl::StatusOr<std::vector<BlobId>> LoadLeafIds(const CallContext& ctx, const VolumeRecord& record,
                                                int64_t level1) {
  const VolumeLayout& layout = record.layout;
  const BlobId& tree = record.level1_trees[static_cast<std::size_t>(level1)];
  // Wherever it stands; one that does not fit the volume is found out by its leaves' number.
  if (tree == repository::ZeroLevel1TreeId(layout.chunk_bytes()) &&
      layout.LeavesInLevel1(level1) == repository::kFanout) {
    return std::vector<BlobId>(static_cast<std::size_t>(repository::kFanout),
                               repository::ZeroLeafTreeId(layout.chunk_bytes()));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   LoadTrees(ctx, *record.places, {{tree, {.is_leaf = false, .number = level1}}}));
  return Annotate(repository::DecodeLevel1Tree(texts[0], layout.LeavesInLevel1(level1)),
                  absl::StrCat("level-1 tree ", tree.ShortHex()));
}

absl::StatusOr<std::vector<std::vector<BlobId>>> LoadChunkIds(const CallContext& ctx,
                                                              const VolumeRecord& record,
                                                              absl::Span<const int64_t> leaves,
                                                              absl::Span<const BlobId> leaf_trees) {
  CSIDELTA_CHECK(leaves.size() == leaf_trees.size());
  const VolumeLayout& layout = record.layout;
  const BlobId& zero_leaf = repository::ZeroLeafTreeId(layout.chunk_bytes());
  const auto is_zero = [&](std::size_t i) {
    return leaf_trees[i] == zero_leaf && layout.ChunksInLeaf(leaves[i]) == repository::kLeafChunks;
  };
  std::vector<PlacedTree> wanted;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!is_zero(i)) {
      wanted.push_back({leaf_trees[i], {.is_leaf = true, .number = leaves[i]}});
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, LoadTrees(ctx, *record.places, wanted));
  std::vector<std::vector<BlobId>> chunks(leaves.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (is_zero(i)) {
      chunks[i].assign(static_cast<std::size_t>(repository::kLeafChunks),
                       repository::ZeroChunkId(layout.chunk_bytes()));
      continue;
    }
    ASSIGN_OR_RETURN(chunks[i], Annotate(repository::DecodeLeafTree(texts[next++],
                                                                    layout.ChunksInLeaf(leaves[i]),
                                                                    layout.LeafBytes(leaves[i])),
                                         absl::StrCat("tree of leaf ", leaves[i])));
  }
  return chunks;
}

}  // namespace csidelta::incremental
