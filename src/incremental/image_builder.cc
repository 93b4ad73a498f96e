#include "incremental/image_builder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::incremental {

using repository::BlobId;
using repository::BlobType;
using repository::kFanout;
using repository::kLeafChunks;
using repository::kLevel1Chunks;
using repository::VolumeLayout;

struct ImageBuilder::Level1Job {
  int64_t level1 = 0;
  BlobId parents_tree;  // null where there is none
  std::vector<BlobId> leaves;
  std::atomic<int64_t> pending = 1;  // leaves being built, and the owner's part
};

struct ImageBuilder::LeafJob {
  std::shared_ptr<Level1Job> level1;
  int64_t leaf = 0;
  BlobId parents_tree;  // null where there is none
  // The parent's until a slot is done; null where it has none. A slot has one writer.
  std::vector<BlobId> chunks;
  int64_t parents_zero_chunks = 0;
  std::atomic<int64_t> pending = 1;  // chunks being read, and the owner's part
};

ImageBuilder::ImageBuilder(const VolumeLayout& layout, const VolumeRecord* parent,
                           TreeFetcher* fetcher, ChunkReader& reader,
                           repository::BlobWriter& writer)
    : layout_(layout),
      parent_(parent),
      fetcher_(fetcher),
      reader_(reader),
      writer_(writer),
      zero_chunk_(repository::ZeroChunkId(layout.chunk_bytes())),
      level1_trees_(static_cast<std::size_t>(layout.level1_count()),
                    repository::ZeroLevel1TreeId(layout.chunk_bytes())),
      planned_(level1_trees_.size(), false) {
  CSIDELTA_CHECK((parent == nullptr) == (fetcher == nullptr));
  if (parent_ != nullptr) {
    CSIDELTA_CHECK(parent_->layout.chunk_bytes() == layout_.chunk_bytes());
    std::copy_n(parent_->level1_trees.begin(),
                std::min(parent_->level1_trees.size(), level1_trees_.size()),
                level1_trees_.begin());
    zero_chunks_ = parent_->manifest.zero_chunks;
  }
}

bool ImageBuilder::IsWholeZero(const BlobId& id) const { return id == zero_chunk_; }

absl::StatusOr<ImageBuilder::ParentLeaves> ImageBuilder::LoadParentLeaves(int64_t level1) {
  ParentLeaves leaves;
  if (parent_ == nullptr || level1 >= parent_->layout.level1_count()) {
    return leaves;
  }
  absl::StatusOr<std::vector<BlobId>> trees =
      LoadLeafIds(reader_.context(), *parent_, *fetcher_, level1);
  if (!trees.ok()) {
    parent_failed_ = absl::IsDataLoss(trees.status()) || absl::IsNotFound(trees.status());
    return Annotate(trees.status(), "parent");
  }
  leaves.trees = *std::move(trees);
  return leaves;
}

absl::StatusOr<std::vector<int64_t>> ImageBuilder::SortLeaves(const Level1Plan& plan,
                                                              const ParentLeaves& parent,
                                                              Level1Job& job) {
  std::vector<int64_t> dirty;
  for (int64_t index = 0; index < layout_.LeavesInLevel1(plan.level1); ++index) {
    const int64_t leaf = plan.level1 * kFanout + index;
    const auto first = plan.states.begin() + index * kLeafChunks;
    const auto last = first + layout_.ChunksInLeaf(leaf);
    const bool named =
        std::any_of(first, last, [](ChunkState state) { return state != ChunkState::kUnlisted; });
    const auto at = static_cast<std::size_t>(index);
    if (!named && at < parent.trees.size() &&
        parent_->layout.LeafBytes(leaf) == layout_.LeafBytes(leaf)) {
      job.leaves[at] = parent.trees[at];
      continue;
    }
    const bool read = std::find(first, last, ChunkState::kRead) != last;
    if (!read && at >= parent.trees.size() &&
        layout_.LeafBytes(leaf) == kLeafChunks * layout_.chunk_bytes()) {
      job.leaves[at] = repository::ZeroLeafTreeId(layout_.chunk_bytes());
      zero_chunks_ += kLeafChunks;
      RETURN_IF_ERROR(EnsureZeroLeaf());
      continue;
    }
    dirty.push_back(leaf);
  }
  return dirty;
}

absl::StatusOr<std::vector<std::shared_ptr<ImageBuilder::LeafJob>>> ImageBuilder::MakeLeafJobs(
    const std::vector<int64_t>& dirty, const ParentLeaves& parent,
    const std::shared_ptr<Level1Job>& level1) {
  std::vector<std::shared_ptr<LeafJob>> jobs;
  std::vector<int64_t> known;
  std::vector<BlobId> trees;
  for (const int64_t leaf : dirty) {
    auto job = std::make_shared<LeafJob>();
    job->level1 = level1;
    job->leaf = leaf;
    const auto index = static_cast<std::size_t>(repository::IndexOfLeaf(leaf));
    if (index < parent.trees.size()) {
      job->parents_tree = parent.trees[index];
      known.push_back(leaf);
      trees.push_back(job->parents_tree);
    }
    jobs.push_back(std::move(job));
  }
  std::vector<std::vector<BlobId>> chunks;
  if (!known.empty()) {
    absl::StatusOr<std::vector<std::vector<BlobId>>> loaded =
        LoadChunkIds(reader_.context(), *parent_, *fetcher_, known, trees);
    if (!loaded.ok()) {
      parent_failed_ = absl::IsDataLoss(loaded.status()) || absl::IsNotFound(loaded.status());
      return Annotate(loaded.status(), "parent");
    }
    chunks = *std::move(loaded);
  }
  std::size_t next = 0;
  for (const std::shared_ptr<LeafJob>& job : jobs) {
    if (!job->parents_tree.IsNull()) {
      job->chunks = std::move(chunks[next++]);
      job->parents_zero_chunks = std::count(job->chunks.begin(), job->chunks.end(), zero_chunk_);
    }
    job->chunks.resize(static_cast<std::size_t>(layout_.ChunksInLeaf(job->leaf)));
  }
  return jobs;
}

absl::Status ImageBuilder::AddLevel1(const Level1Plan& plan) {
  CSIDELTA_CHECK(static_cast<int64_t>(plan.states.size()) ==
                 std::min(kLevel1Chunks, layout_.chunk_count() - plan.level1 * kLevel1Chunks));
  const auto at = static_cast<std::size_t>(plan.level1);
  planned_[at] = true;
  for (std::size_t i = 0; i < plan.states.size(); ++i) {
    if (plan.states[i] != ChunkState::kUnlisted) {
      listed_bytes_ += layout_.ChunkLength(plan.level1 * kLevel1Chunks + static_cast<int64_t>(i));
    }
  }
  ASSIGN_OR_RETURN(const ParentLeaves parent, LoadParentLeaves(plan.level1));
  auto job = std::make_shared<Level1Job>();
  job->level1 = plan.level1;
  job->leaves.resize(static_cast<std::size_t>(layout_.LeavesInLevel1(plan.level1)));
  if (!parent.trees.empty()) {
    job->parents_tree = parent_->level1_trees[at];
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> dirty, SortLeaves(plan, parent, *job));
  ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<LeafJob>> leaves,
                   MakeLeafJobs(dirty, parent, job));
  job->pending += static_cast<int64_t>(leaves.size());
  for (const std::shared_ptr<LeafJob>& leaf : leaves) {
    RETURN_IF_ERROR(StartLeaf(plan, leaf));
  }
  return Release(job);
}

absl::Status ImageBuilder::StartLeaf(const Level1Plan& plan, const std::shared_ptr<LeafJob>& job) {
  ++leaves_touched_;
  const int64_t first_chunk = job->leaf * kLeafChunks;
  const auto states = plan.states.begin() + (first_chunk - plan.level1 * kLevel1Chunks);
  const auto chunks = static_cast<int64_t>(job->chunks.size());
  // What needs no reading first: from the first read on, workers own the job's slots.
  int64_t reads = 0;
  for (int64_t slot = 0; slot < chunks; ++slot) {
    BlobId& id = job->chunks[static_cast<std::size_t>(slot)];
    const ChunkState state = states[slot];
    reads += state == ChunkState::kRead ? 1 : 0;
    if (state == ChunkState::kZero || (state == ChunkState::kUnlisted && id.IsNull())) {
      if (!IsWholeZero(id)) {
        RETURN_IF_ERROR(EnsureZeroChunk());
      }
      id = zero_chunk_;
    }
  }
  job->pending += reads;
  for (int64_t slot = 0; slot < chunks; ++slot) {
    if (states[slot] != ChunkState::kRead) {
      continue;
    }
    const int64_t chunk = first_chunk + slot;
    RETURN_IF_ERROR(reader_.Read(
        {layout_.ChunkOffset(chunk), layout_.ChunkLength(chunk)},
        [this, job, slot](absl::string_view bytes) { return TakeChunk(job, slot, bytes); }));
  }
  return Release(job);
}

absl::Status ImageBuilder::TakeChunk(const std::shared_ptr<LeafJob>& job, int64_t slot,
                                     absl::string_view bytes) {
  BlobId& id = job->chunks[static_cast<std::size_t>(slot)];
  if (static_cast<int64_t>(bytes.size()) == layout_.chunk_bytes() && IsZero(bytes)) {
    if (!IsWholeZero(id)) {
      RETURN_IF_ERROR(EnsureZeroChunk());
      id = zero_chunk_;
    }
    return Release(job);
  }
  const BlobId now = BlobId::Of(bytes);
  if (now != id) {
    RETURN_IF_ERROR(writer_.AddBlob(BlobType::kData, now, bytes).status());
    id = now;
  }
  return Release(job);
}

absl::Status ImageBuilder::Release(const std::shared_ptr<LeafJob>& job) {
  if (--job->pending > 0) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(FinishLeaf(*job));
  return Release(job->level1);
}

absl::Status ImageBuilder::FinishLeaf(LeafJob& job) {
  const std::string text = repository::EncodeLeafTree(job.chunks, layout_.LeafBytes(job.leaf));
  const BlobId id = BlobId::Of(text);
  RETURN_IF_ERROR(WriteTree(id, job.parents_tree, text));
  job.level1->leaves[static_cast<std::size_t>(repository::IndexOfLeaf(job.leaf))] = id;
  zero_chunks_ +=
      std::count(job.chunks.begin(), job.chunks.end(), zero_chunk_) - job.parents_zero_chunks;
  return absl::OkStatus();
}

absl::Status ImageBuilder::Release(const std::shared_ptr<Level1Job>& job) {
  if (--job->pending > 0) {
    return absl::OkStatus();
  }
  ++level1_touched_;
  const std::string text = repository::EncodeLevel1Tree(job->leaves);
  const BlobId id = BlobId::Of(text);
  RETURN_IF_ERROR(WriteTree(id, job->parents_tree, text));
  level1_trees_[static_cast<std::size_t>(job->level1)] = id;
  return absl::OkStatus();
}

absl::Status ImageBuilder::WriteTree(const BlobId& id, const BlobId& parents,
                                     absl::string_view text) {
  if (id == parents) {
    return absl::OkStatus();
  }
  if (!parents.IsNull()) {
    std::scoped_lock lock(mutex_);
    replaced_.insert(parents);
  }
  return writer_.AddBlob(BlobType::kTree, id, text).status();
}

absl::Status ImageBuilder::EnsureZeroChunk() {
  // Twice is harmless: the writer remembers what it wrote.
  if (zero_chunk_written_) {
    return absl::OkStatus();
  }
  const std::string zeros(static_cast<std::size_t>(layout_.chunk_bytes()), '\0');
  RETURN_IF_ERROR(writer_.AddBlob(BlobType::kData, zero_chunk_, zeros).status());
  zero_chunk_written_ = true;
  return absl::OkStatus();
}

absl::Status ImageBuilder::EnsureZeroLeaf() {
  RETURN_IF_ERROR(EnsureZeroChunk());
  const BlobId& id = repository::ZeroLeafTreeId(layout_.chunk_bytes());
  if (zero_leaf_written_) {
    return absl::OkStatus();
  }
  const std::vector<BlobId> chunks(static_cast<std::size_t>(kLeafChunks), zero_chunk_);
  const std::string text = repository::EncodeLeafTree(chunks, kLeafChunks * layout_.chunk_bytes());
  zero_leaf_written_ = true;
  return writer_.AddBlob(BlobType::kTree, id, text).status();
}

absl::Status ImageBuilder::EnsureZeroLevel1() {
  RETURN_IF_ERROR(EnsureZeroLeaf());
  const std::vector<BlobId> leaves(static_cast<std::size_t>(kFanout),
                                   repository::ZeroLeafTreeId(layout_.chunk_bytes()));
  return writer_
      .AddBlob(BlobType::kTree, repository::ZeroLevel1TreeId(layout_.chunk_bytes()),
               repository::EncodeLevel1Tree(leaves))
      .status();
}

absl::StatusOr<BlobId> ImageBuilder::Finish() {
  RETURN_IF_ERROR(reader_.Finish());
  if (parent_ == nullptr) {
    const int64_t zero_trees = std::count(planned_.begin(), planned_.end(), false);
    zero_chunks_ += zero_trees * kLevel1Chunks;
    if (zero_trees > 0) {
      RETURN_IF_ERROR(EnsureZeroLevel1());
    }
  }
  const std::string text = repository::EncodeImageTree(level1_trees_);
  const BlobId id = BlobId::Of(text);
  RETURN_IF_ERROR(WriteTree(id, parent_ == nullptr ? BlobId() : parent_->root.image_tree, text));
  return id;
}

ImageCounts ImageBuilder::counts() const {
  return {.listed_bytes = listed_bytes_,
          .zero_chunks = std::clamp<int64_t>(zero_chunks_, 0, layout_.chunk_count()),
          .leaves_touched = leaves_touched_,
          .level1_touched = level1_touched_};
}

}  // namespace csidelta::incremental
