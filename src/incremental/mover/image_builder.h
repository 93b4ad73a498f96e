#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "incremental/mover/chunk_journal.h"
#include "incremental/mover/chunk_plan.h"
#include "incremental/mover/chunk_reader.h"
#include "incremental/mover/tree_fetcher.h"
#include "incremental/mover/volume_record.h"
#include "repository/blob_writer.h"
#include "repository/tree_locator.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

struct BuiltImage {
  repository::BlobId tree;
  int64_t listed_bytes = 0;  // of chunks that were named, or forced by a change of size
  int64_t zero_chunks = 0;   // of the whole image
  int64_t leaves_touched = 0;
  int64_t level1_touched = 0;
  int64_t resumed_bytes = 0;                 // of chunks that an earlier run has read
  std::vector<PlacedTree> moved_trees = {};  // that the parent does not have at their place
  std::vector<uint32_t> resumed = {};        // chunks whose ids are the journal's, ascending
  std::vector<ChunkId> sample = {};          // of those that were read: SampleEvery(), ascending
};

// Builds the trees of a volume from plans: reads the chunks that a plan names, writes those that
// are new, and builds the leaves and level-1 trees above them again. What no plan names is the
// parent's, unread; without a parent it is zero.
//
//   AddLevel1()* --> Finish()
//
// Both belong to one thread; chunks are worked on by those of `reader`, and the one that finishes
// the last chunk of a leaf builds the leaf, and so on upwards. Borrows all it is given. `parent`
// may be null.
class ImageBuilder {
 public:
  // Several threads call `on_chunk` for each chunk that is to be read, once that is done, or found
  // to be `resumed` from the journal. `journal` may be null. With `trusts_parent` what is the
  // parent's counts as stored; without it only what `writer` knows.
  ImageBuilder(const repository::VolumeLayout& layout, const VolumeRecord* parent,
               bool trusts_parent, ChunkReader& reader, repository::BlobWriter& writer,
               ChunkJournal* journal, std::function<void(bool resumed)> on_chunk);

  // Of every `stride` chunks that are read the one at `offset` comes into the sample. Before the
  // first AddLevel1().
  void SampleEvery(int64_t stride, int64_t offset) {
    sample_stride_ = stride;
    sample_offset_ = offset;
  }

  // Fetches the parent's trees ahead, for kPreparedMax level-1 trees: what is read is one of those
  // before, if there are more.
  absl::Status AddLevel1(const Level1Plan& plan);

  // Last call. Finishes the reader.
  absl::StatusOr<BuiltImage> Finish();

  // Whether the error that ended this is one of the parent's trees: the volume can still be backed
  // up without it.
  bool parent_failed() const { return parent_failed_; }

 private:
  struct Level1Job;
  struct LeafJob;
  // A level-1 tree with all that is needed from the parent.
  struct Prepared {
    Level1Plan plan;
    std::shared_ptr<Level1Job> job;
    std::vector<std::shared_ptr<LeafJob>> leaves;
  };
  static constexpr std::size_t kPreparedMax = 2;  // 2 MiB of ids each

  template <typename T>
  absl::StatusOr<T> OfParent(absl::StatusOr<T> loaded);
  // The parent's leaf trees of one level-1 tree; empty where it has none.
  absl::StatusOr<std::vector<repository::BlobId>> LoadParentLeaves(int64_t level1);
  // Leaves of the plan that must be built; the ids of the others are set in `job`.
  absl::StatusOr<std::vector<int64_t>> SortLeaves(const Level1Plan& plan,
                                                  const std::vector<repository::BlobId>& parent,
                                                  Level1Job& job);
  absl::StatusOr<std::vector<std::shared_ptr<LeafJob>>> MakeLeafJobs(
      const std::vector<int64_t>& dirty, const std::vector<repository::BlobId>& parent,
      const std::shared_ptr<Level1Job>& level1);
  absl::StatusOr<Prepared> Prepare(Level1Plan plan);
  // Waits for what was prepared first, and reads its chunks.
  absl::Status StartFirst();
  absl::Status StartLeaf(const Level1Plan& plan, const std::shared_ptr<LeafJob>& job);
  // The id of a chunk that an earlier run has read and stored, or whose zeros are stored now; null:
  // it must be read.
  absl::StatusOr<const repository::BlobId*> FindInJournal(int64_t chunk);
  absl::Status TakeChunk(const std::shared_ptr<LeafJob>& job, int64_t slot,
                         absl::string_view bytes);
  absl::Status Release(const std::shared_ptr<LeafJob>& job);
  absl::Status FinishLeaf(LeafJob& job);
  absl::Status Release(const std::shared_ptr<Level1Job>& job);

  // Takes the zeros of what a volume that shrank has lost out of the count.
  absl::Status UncountLostZeros();
  // Writes a tree that is not the parent's at this place.
  absl::Status WriteTree(const repository::TreePosition& position, const repository::BlobId& id,
                         const repository::BlobId& parents, absl::string_view text);
  absl::Status EnsureZeroChunk();
  absl::Status EnsureZeroLeaf();
  absl::Status EnsureZeroLevel1();

  const repository::VolumeLayout layout_;
  const VolumeRecord* const parent_;
  const bool trusts_parent_;
  ChunkReader& reader_;
  repository::BlobWriter& writer_;
  ChunkJournal* const journal_;
  const std::function<void(bool resumed)> on_chunk_;
  const CallContext ctx_;  // the reader's
  const repository::BlobId zero_chunk_;

  int64_t sample_stride_ = 0;  // 0: no sample
  int64_t sample_offset_ = 0;

  std::atomic<bool> parent_failed_ = false;
  std::vector<repository::BlobId> level1_trees_;  // each written by one job
  std::vector<bool> planned_;                     // the owner's
  std::atomic<bool> zero_leaf_written_ = false;
  std::atomic<int64_t> zero_chunks_ = 0;
  std::atomic<int64_t> leaves_touched_ = 0;
  std::atomic<int64_t> level1_touched_ = 0;
  BuiltImage built_;  // the owner's
  std::atomic<bool> zero_chunk_written_ = false;
  Mutex mutex_;
  std::vector<PlacedTree> moved_ ABSL_GUARDED_BY(mutex_);
  std::vector<ChunkId> sample_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::future<absl::StatusOr<Prepared>>> prepared_;  // last: they use all of the above
};

}  // namespace csidelta::incremental
