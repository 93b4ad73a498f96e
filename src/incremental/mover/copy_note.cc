#include "incremental/mover/copy_note.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "incremental/mover/tree_positions.h"
#include "incremental/mover/volume_record.h"
#include "repository/chain.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::BlobLocation;
using repository::BlobType;
using repository::CopyToNote;
using repository::Repository;
using repository::TreePosition;

// The trees that `volume` has otherwise than `parent`, which may be null.
absl::Status FindMovedTrees(const CallContext& ctx, const VolumeRecord& volume,
                            const VolumeRecord* parent, const CopyToNote& copy,
                            std::vector<MovedTree>& moved) {
  const auto add = [&](const TreePosition& position, const BlobId& tree) {
    const std::optional<BlobLocation> place = copy.find({BlobType::kTree, tree});
    if (place.has_value() || parent != nullptr) {
      moved.push_back({.position = position, .place = place});
    }
  };
  const std::vector<BlobId>& trees = volume.level1_trees;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const bool has_parent = parent != nullptr && i < parent->level1_trees.size();
    if (has_parent && parent->level1_trees[i] == trees[i]) {
      continue;
    }
    const auto level1 = static_cast<int64_t>(i);
    add({.is_leaf = false, .number = level1}, trees[i]);
    ASSIGN_OR_RETURN(const std::vector<BlobId> leaves, LoadLeafIds(ctx, volume, level1));
    std::vector<BlobId> parents;
    if (has_parent) {
      ASSIGN_OR_RETURN(parents, LoadLeafIds(ctx, *parent, level1));
    }
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      // Trees of zeros are not fetched, so nothing need be known of where they lie.
      const bool is_same = leaf < parents.size() && parents[leaf] == leaves[leaf];
      const bool is_zero = leaves[leaf] == repository::ZeroLeafTreeId(volume.layout.chunk_bytes());
      if (!is_same && (!is_zero || leaf < parents.size())) {
        add({.is_leaf = true, .number = level1 * repository::kFanout + static_cast<int64_t>(leaf)},
            leaves[leaf]);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RecordCopy(const CallContext& ctx, Repository& from, Repository& to,
                        const CopyToNote& copy) {
  const absl::StatusOr<std::unique_ptr<VolumeRecord>> volume =
      OpenVolumeRecord(ctx, from, copy.source);
  if (absl::IsFailedPrecondition(volume.status())) {
    return to.SaveLocator(ctx, copy.copy, {.needs = copy.needs});
  }
  RETURN_IF_ERROR(volume.status());
  std::unique_ptr<VolumeRecord> parent;
  std::unique_ptr<TreePositions> parents_locations;
  if (copy.source_parent != nullptr) {
    absl::StatusOr<std::unique_ptr<VolumeRecord>> opened =
        OpenVolumeRecord(ctx, from, *copy.source_parent);
    absl::StatusOr<repository::TreeLocator> locator = to.LoadLocator(ctx, *copy.copy_parent);
    if (opened.ok() && locator.ok()) {
      parent = *std::move(opened);
      parents_locations = std::make_unique<TreePositions>(to, *std::move(locator));
    }
  }
  const VolumeRecord& record = **volume;
  LocatorChange change{
      .layout = record.layout,
      .volume = repository::ChainOf(copy.source.snapshot.hostname, copy.source.snapshot.paths),
      .trees = {},
      .root = copy.find({BlobType::kTree, copy.source.snapshot.tree}),
      .image_tree = copy.find({BlobType::kTree, record.root.image_tree}),
      .manifest = copy.find({BlobType::kData, record.root.manifest_blob}),
      .needs = copy.needs};
  RETURN_IF_ERROR(FindMovedTrees(ctx, record, parent.get(), copy, change.trees));
  int64_t stored_bytes = 0;
  return SaveLocator(ctx, to, copy.copy, change, parents_locations.get(), stored_bytes);
}

}  // namespace csidelta::incremental
