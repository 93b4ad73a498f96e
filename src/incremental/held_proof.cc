#include "incremental/held_proof.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

using repository::BlobId;

absl::Status AddBlobsOf(const CallContext& ctx, const VolumeRecord& record, TreeFetcher& fetcher,
                        repository::NeededBlobs& blobs) {
  RETURN_IF_ERROR(blobs.AddTree(record.stored.snapshot.tree));
  RETURN_IF_ERROR(blobs.AddTree(record.root.image_tree));
  RETURN_IF_ERROR(blobs.AddData({record.root.manifest_blob}));
  for (int64_t level1 = 0; level1 < record.layout.level1_count(); ++level1) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(blobs.AddTree(record.level1_trees[static_cast<std::size_t>(level1)]));
    ASSIGN_OR_RETURN(const std::vector<BlobId> trees, LoadLeafIds(ctx, record, fetcher, level1));
    for (const BlobId& tree : trees) {
      RETURN_IF_ERROR(blobs.AddTree(tree));
    }
    std::vector<int64_t> leaves(trees.size());
    std::iota(leaves.begin(), leaves.end(), level1 * repository::kFanout);
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> chunks,
                     LoadChunkIds(ctx, record, fetcher, leaves, trees));
    for (const std::vector<BlobId>& ids : chunks) {
      RETURN_IF_ERROR(blobs.AddData(ids));
    }
  }
  return absl::OkStatus();
}

absl::Status ProveWhole(const CallContext& ctx, const repository::Repository& repository,
                        const VolumeRecord& parent, TreeFetcher& fetcher,
                        const repository::PackBits& unusable,
                        const repository::DistrustedPacks& distrusted) {
  repository::NeededBlobs blobs(repository, unusable, distrusted);
  RETURN_IF_ERROR(AddBlobsOf(ctx, parent, fetcher, blobs));
  return blobs.Resolve();
}

}  // namespace csidelta::incremental
