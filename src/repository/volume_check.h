#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/index.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"
#include "repository/tree.h"
#include "repository/verified_packs.h"
#include "repository/volume_layout.h"

namespace csidelta::repository {

// Proves that the trees of volumes are exactly those of a volume of the recorded size: nothing
// missing, nothing too much, every chunk of its length. Leaves are noted when the content of all
// trees is looked up anyway (AddWholeLeaf), volumes afterwards (Check), which reads per volume
// only the trees above the leaves, each level-1 tree once. Memory: two bits per blob for each chunk
// length in use.
class VolumeCheck {
 public:
  // `verified` gets to know which trees the level-1 trees need.
  VolumeCheck(const Repository& repository, VerifiedPacks& verified)
      : repository_(repository), verified_(verified) {}

  // Whether a file is that of a leaf, if its chunks are as long as those of one.
  static bool MayBeWholeLeaf(const Node& file);
  // Takes the tree of such a file, by its number in the index. Its chunks are all that long.
  // Thread-safe.
  void AddWholeLeaf(uint32_t tree, int64_t chunk_bytes);

  // DATA_LOSS when the volume's trees are not as they should be, or do not read. Thread-compatible.
  absl::Status Check(const CallContext& ctx, const RepoSnapshot& snapshot);
  // Of the packs that hold the volume which was found as it should be last.
  Verdict oldest() const { return oldest_; }

 private:
  struct Whole {
    explicit Whole(const BlobIndex& index) : leaves(index), level1_trees(index) {}
    BlobMarks leaves;        // 256 whole chunks.
    BlobMarks level1_trees;  // 256 whole leaves.
  };

  Whole& WholeOf(int64_t chunk_bytes);
  absl::Status CheckLevel1(const CallContext& ctx, const BlobId& tree, int64_t level1,
                           const VolumeLayout& layout);
  absl::Status CheckLeaf(const CallContext& ctx, const BlobId& tree, int64_t leaf,
                         const VolumeLayout& layout) const;

  absl::Status AddTree(const BlobId& tree);

  const Repository& repository_;
  VerifiedPacks& verified_;
  Verdict oldest_ = 0;
  Mutex mutex_;  // Guards the map, whose elements stay where they are.
  std::map<int64_t, Whole> whole_ ABSL_GUARDED_BY(mutex_);  // By the length of a chunk.
};

}  // namespace csidelta::repository
