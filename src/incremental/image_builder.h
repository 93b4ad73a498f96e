#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "incremental/chunk_plan.h"
#include "incremental/chunk_reader.h"
#include "incremental/tree_fetcher.h"
#include "incremental/volume_record.h"
#include "repository/blob_writer.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

struct ImageCounts {
  int64_t listed_bytes = 0;  // of chunks that were named, or forced by a change of size
  int64_t zero_chunks = 0;   // of the whole image; an estimate after a volume shrank
  int64_t leaves_touched = 0;
  int64_t level1_touched = 0;
};

// Builds the trees of a volume from plans: reads the chunks that a plan names, writes those that
// are new, and builds the leaves and level-1 trees above them anew. What no plan names is the
// parent's, unread; without a parent it is zero.
//
//   AddLevel1()* --> Finish()
//
// Both belong to one thread; chunks are worked on by those of `reader`, and whoever finishes the
// last chunk of a leaf builds the leaf, and so on upwards. Borrows all it is given. `parent` and
// `fetcher` may both be null.
class ImageBuilder {
 public:
  ImageBuilder(const repository::VolumeLayout& layout, const VolumeRecord* parent,
               TreeFetcher* fetcher, ChunkReader& reader, repository::BlobWriter& writer);

  absl::Status AddLevel1(const Level1Plan& plan);

  // The id of the image tree. Finishes the reader.
  absl::StatusOr<repository::BlobId> Finish();

  // Whether the error that ended this is one of the parent's trees: the volume can still be backed
  // up without it.
  bool parent_failed() const { return parent_failed_; }

  // After Finish().
  ImageCounts counts() const;
  // Trees of the parent that this image does not have at their place.
  const absl::flat_hash_set<repository::BlobId>& replaced_trees() const { return replaced_; }

 private:
  struct Level1Job;
  struct LeafJob;
  // The parent's side of one level-1 tree.
  struct ParentLeaves {
    std::vector<repository::BlobId> trees;  // empty where the parent has none
  };

  absl::StatusOr<ParentLeaves> LoadParentLeaves(int64_t level1);
  // Leaves of the plan that must be built; the ids of the others are set in `job`.
  absl::StatusOr<std::vector<int64_t>> SortLeaves(const Level1Plan& plan,
                                                  const ParentLeaves& parent, Level1Job& job);
  absl::StatusOr<std::vector<std::shared_ptr<LeafJob>>> MakeLeafJobs(
      const std::vector<int64_t>& dirty, const ParentLeaves& parent,
      const std::shared_ptr<Level1Job>& level1);
  absl::Status StartLeaf(const Level1Plan& plan, const std::shared_ptr<LeafJob>& job);
  absl::Status TakeChunk(const std::shared_ptr<LeafJob>& job, int64_t slot,
                         absl::string_view bytes);
  absl::Status Release(const std::shared_ptr<LeafJob>& job);
  absl::Status FinishLeaf(LeafJob& job);
  absl::Status Release(const std::shared_ptr<Level1Job>& job);

  bool IsWholeZero(const repository::BlobId& id) const;
  // Writes a tree that is not the parent's at this place.
  absl::Status WriteTree(const repository::BlobId& id, const repository::BlobId& parents,
                         absl::string_view text);
  absl::Status EnsureZeroChunk();
  absl::Status EnsureZeroLeaf();
  absl::Status EnsureZeroLevel1();

  const repository::VolumeLayout layout_;
  const VolumeRecord* const parent_;
  TreeFetcher* const fetcher_;
  ChunkReader& reader_;
  repository::BlobWriter& writer_;
  const repository::BlobId zero_chunk_;

  bool parent_failed_ = false;                    // the owner's
  std::vector<repository::BlobId> level1_trees_;  // each written by one job
  std::vector<bool> planned_;                     // the owner's
  bool zero_leaf_written_ = false;                // the owner's
  int64_t listed_bytes_ = 0;                      // the owner's
  std::atomic<int64_t> zero_chunks_ = 0;
  std::atomic<int64_t> leaves_touched_ = 0;
  std::atomic<int64_t> level1_touched_ = 0;
  std::atomic<bool> zero_chunk_written_ = false;
  std::mutex mutex_;
  absl::flat_hash_set<repository::BlobId> replaced_;  // under mutex_
};

}  // namespace csidelta::incremental
