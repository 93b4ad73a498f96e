#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "incremental/mover/tree_positions.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

// One volume backup as the repository holds it, down to the ids of its level-1 trees. What is below
// is loaded piece by piece. Thread-compatible.
struct VolumeRecord {
  repository::StoredSnapshot stored;
  std::shared_ptr<TreePositions> places;  // knows nothing where the sidecar is gone
  repository::RootTree root;
  repository::VolumeManifest manifest;
  repository::VolumeLayout layout;
  std::vector<repository::BlobId> level1_trees;
};

// FAILED_PRECONDITION when the snapshot is not a volume of our layout; DATA_LOSS when it is
// damaged. Loads the index only where the sidecar does not help.
absl::StatusOr<std::unique_ptr<VolumeRecord>> OpenVolumeRecord(
    const CallContext& ctx, repository::Repository& repository,
    const repository::StoredSnapshot& stored);

// The leaf trees of a level-1 tree.
absl::StatusOr<std::vector<repository::BlobId>> LoadLeafIds(const CallContext& ctx,
                                                            const VolumeRecord& record,
                                                            int64_t level1);

// The chunks of some leaves: `leaf_trees[i]` is the tree of leaf `leaves[i]`. Trees of zeros are
// not fetched.
absl::StatusOr<std::vector<std::vector<repository::BlobId>>> LoadChunkIds(
    const CallContext& ctx, const VolumeRecord& record, absl::Span<const int64_t> leaves,
    absl::Span<const repository::BlobId> leaf_trees);

}  // namespace csidelta::incremental
