#include "incremental/mover/image_builder.h"

#include <algorithm>
#include <numeric>
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
  BlobId parents_tree;  // null where none exists
  std::vector<BlobId> leaves;
  std::atomic<int64_t> pending = 1;  // leaves being built, and the owner's part
};

struct ImageBuilder::LeafJob {
  std::shared_ptr<Level1Job> level1;
  int64_t leaf = 0;
  BlobId parents_tree;  // null where none exists
  // The parent's until a slot is done; null where it has none. A slot has one writer.
  std::vector<BlobId> chunks;
  int64_t parents_zero_chunks = 0;
  std::atomic<int64_t> pending = 1;  // chunks being read, and the owner's part
};

ImageBuilder::ImageBuilder(const VolumeLayout& layout, const VolumeRecord* parent,
                           bool trusts_parent, ChunkReader& reader, repository::BlobWriter& writer,
                           ChunkJournal* journal, std::function<void(bool resumed)> on_chunk)
    : layout_(layout),
      parent_(parent),
      trusts_parent_(trusts_parent),
      reader_(reader),
      writer_(writer),
      journal_(journal),
      on_chunk_(std::move(on_chunk)),
      ctx_(reader.context()),
      zero_chunk_(repository::ZeroChunkId(layout.chunk_bytes())),
      level1_trees_(static_cast<std::size_t>(layout.level1_count()),
                    repository::ZeroLevel1TreeId(layout.chunk_bytes())),
      planned_(level1_trees_.size(), false) {
  if (parent_ != nullptr) {
    CSIDELTA_CHECK(parent_->layout.chunk_bytes() == layout_.chunk_bytes());
    std::copy_n(parent_->level1_trees.begin(),
                std::min(parent_->level1_trees.size(), level1_trees_.size()),
                level1_trees_.begin());
    zero_chunks_ = parent_->manifest.zero_chunks;
  }
}

template <typename T>
absl::StatusOr<T> ImageBuilder::OfParent(absl::StatusOr<T> loaded) {
  if (absl::IsDataLoss(loaded.status()) || absl::IsNotFound(loaded.status())) {
    parent_failed_ = true;
  }
  return Annotate(std::move(loaded), "parent");
}

absl::StatusOr<std::vector<BlobId>> ImageBuilder::LoadParentLeaves(int64_t level1) {
  if (parent_ == nullptr || level1 >= parent_->layout.level1_count()) {
    return std::vector<BlobId>();
  }
  return OfParent(LoadLeafIds(ctx_, *parent_, level1));
}

absl::StatusOr<std::vector<int64_t>> ImageBuilder::SortLeaves(const Level1Plan& plan,
                                                              const std::vector<BlobId>& parent,
                                                              Level1Job& job) {
  std::vector<int64_t> dirty;
  for (int64_t index = 0; index < layout_.LeavesInLevel1(plan.level1); ++index) {
    const int64_t leaf = plan.level1 * kFanout + index;
    const auto first = plan.states.begin() + index * kLeafChunks;
    const auto last = first + layout_.ChunksInLeaf(leaf);
    const bool named =
        std::any_of(first, last, [](ChunkState state) { return state != ChunkState::kUnlisted; });
    const auto at = static_cast<std::size_t>(index);
    if (!named && at < parent.size() &&
        parent_->layout.LeafBytes(leaf) == layout_.LeafBytes(leaf)) {
      job.leaves[at] = parent[at];
      continue;
    }
    const bool read = std::find(first, last, ChunkState::kRead) != last;
    if (!read && at >= parent.size() &&
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
    const std::vector<int64_t>& dirty, const std::vector<BlobId>& parent,
    const std::shared_ptr<Level1Job>& level1) {
  std::vector<std::shared_ptr<LeafJob>> jobs;
  std::vector<int64_t> known;
  std::vector<BlobId> trees;
  for (const int64_t leaf : dirty) {
    auto job = std::make_shared<LeafJob>();
    job->level1 = level1;
    job->leaf = leaf;
    const auto index = static_cast<std::size_t>(repository::IndexOfLeaf(leaf));
    if (index < parent.size()) {
      job->parents_tree = parent[index];
      known.push_back(leaf);
      trees.push_back(job->parents_tree);
    }
    jobs.push_back(std::move(job));
  }
  std::vector<std::vector<BlobId>> chunks;
  if (!known.empty()) {
    ASSIGN_OR_RETURN(chunks, OfParent(LoadChunkIds(ctx_, *parent_, known, trees)));
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
  planned_[static_cast<std::size_t>(plan.level1)] = true;
  for (std::size_t i = 0; i < plan.states.size(); ++i) {
    if (plan.states[i] != ChunkState::kUnlisted) {
      built_.listed_bytes +=
          layout_.ChunkLength(plan.level1 * kLevel1Chunks + static_cast<int64_t>(i));
    }
  }
  // Without a parent there is nothing to wait for.
  prepared_.push_back(
      std::async(parent_ == nullptr ? std::launch::deferred : std::launch::async,
                 [this, copy = plan]() mutable { return Prepare(std::move(copy)); }));
  return prepared_.size() > kPreparedMax || parent_ == nullptr ? StartFirst() : absl::OkStatus();
}

absl::StatusOr<ImageBuilder::Prepared> ImageBuilder::Prepare(Level1Plan plan) {
  ASSIGN_OR_RETURN(const std::vector<BlobId> parent, LoadParentLeaves(plan.level1));
  auto job = std::make_shared<Level1Job>();
  job->level1 = plan.level1;
  job->leaves.resize(static_cast<std::size_t>(layout_.LeavesInLevel1(plan.level1)));
  if (!parent.empty()) {
    job->parents_tree = parent_->level1_trees[static_cast<std::size_t>(plan.level1)];
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> dirty, SortLeaves(plan, parent, *job));
  ASSIGN_OR_RETURN(std::vector<std::shared_ptr<LeafJob>> leaves, MakeLeafJobs(dirty, parent, job));
  job->pending += static_cast<int64_t>(leaves.size());
  return Prepared{.plan = std::move(plan), .job = std::move(job), .leaves = std::move(leaves)};
}

absl::Status ImageBuilder::StartFirst() {
  absl::StatusOr<Prepared> prepared = prepared_.front().get();
  prepared_.pop_front();
  RETURN_IF_ERROR(prepared.status());
  for (const std::shared_ptr<LeafJob>& leaf : prepared->leaves) {
    RETURN_IF_ERROR(StartLeaf(prepared->plan, leaf));
  }
  return Release(prepared->job);
}

absl::StatusOr<const BlobId*> ImageBuilder::FindInJournal(int64_t chunk) {
  const BlobId* id = journal_ == nullptr ? nullptr : journal_->Find(chunk);
  if (id != nullptr && *id == zero_chunk_) {
    RETURN_IF_ERROR(EnsureZeroChunk());  // The earlier run may have died before it stored them.
    return id;
  }
  return id != nullptr && writer_.IsKnown({BlobType::kData, *id}) ? id : nullptr;
}

absl::Status ImageBuilder::StartLeaf(const Level1Plan& plan, const std::shared_ptr<LeafJob>& job) {
  ++leaves_touched_;
  const int64_t first_chunk = job->leaf * kLeafChunks;
  const auto states = plan.states.begin() + (first_chunk - plan.level1 * kLevel1Chunks);
  const auto chunks = static_cast<int64_t>(job->chunks.size());
  // What needs no reading first: from the first read on, workers own the job's slots.
  std::vector<int64_t> reads;
  for (int64_t slot = 0; slot < chunks; ++slot) {
    BlobId& id = job->chunks[static_cast<std::size_t>(slot)];
    const ChunkState state = states[slot];
    if (state == ChunkState::kRead) {
      ASSIGN_OR_RETURN(const BlobId* known, FindInJournal(first_chunk + slot));
      if (known != nullptr) {
        id = *known;
        built_.resumed_bytes += layout_.ChunkLength(first_chunk + slot);
        built_.resumed.push_back(static_cast<uint32_t>(first_chunk + slot));
        on_chunk_(/*resumed=*/true);
      } else {
        reads.push_back(first_chunk + slot);
      }
    }
    if (state == ChunkState::kZero || (state == ChunkState::kUnlisted && id.IsNull())) {
      if (id != zero_chunk_ || !trusts_parent_) {
        RETURN_IF_ERROR(EnsureZeroChunk());
      }
      id = zero_chunk_;
    }
  }
  job->pending += static_cast<int64_t>(reads.size());
  for (const int64_t chunk : reads) {
    RETURN_IF_ERROR(
        reader_.Read({layout_.ChunkOffset(chunk), layout_.ChunkLength(chunk)},
                     [this, job, slot = repository::SlotOfChunk(chunk)](absl::string_view bytes) {
                       return TakeChunk(job, slot, bytes);
                     }));
  }
  return Release(job);
}

absl::Status ImageBuilder::TakeChunk(const std::shared_ptr<LeafJob>& job, int64_t slot,
                                     absl::string_view bytes) {
  BlobId& id = job->chunks[static_cast<std::size_t>(slot)];
  BlobId now = zero_chunk_;
  bool is_new = false;
  if (static_cast<int64_t>(bytes.size()) == layout_.chunk_bytes() && IsZero(bytes)) {
    if (id != zero_chunk_ || !trusts_parent_) {
      RETURN_IF_ERROR(EnsureZeroChunk());
    }
  } else {
    now = BlobId::Of(bytes);
    is_new = now != id;
    if (is_new || !trusts_parent_) {
      ASSIGN_OR_RETURN(const bool written, writer_.AddBlob(BlobType::kData, now, bytes));
      is_new |= written;
    }
  }
  id = now;
  const int64_t chunk = job->leaf * kLeafChunks + slot;
  if (sample_stride_ > 0 && chunk % sample_stride_ == sample_offset_) {
    const MutexLock lock(mutex_);
    sample_.push_back({.chunk = chunk, .id = now});
  }
  if (journal_ != nullptr) {
    journal_->Note(ctx_, chunk, now, is_new);
  }
  on_chunk_(/*resumed=*/false);
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
  RETURN_IF_ERROR(WriteTree({.is_leaf = true, .number = job.leaf}, id, job.parents_tree, text));
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
  RETURN_IF_ERROR(
      WriteTree({.is_leaf = false, .number = job->level1}, id, job->parents_tree, text));
  level1_trees_[static_cast<std::size_t>(job->level1)] = id;
  return absl::OkStatus();
}

absl::Status ImageBuilder::WriteTree(const repository::TreePosition& position, const BlobId& id,
                                     const BlobId& parents, absl::string_view text) {
  if (id == parents && trusts_parent_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool written, writer_.AddBlob(BlobType::kTree, id, text));
  if (id != parents || written) {
    const MutexLock lock(mutex_);
    moved_.push_back({id, position});
  }
  return absl::OkStatus();
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

absl::Status ImageBuilder::UncountLostZeros() {
  const VolumeLayout& before = parent_->layout;
  for (int64_t leaf = layout_.leaf_count(); leaf < before.leaf_count();) {
    const int64_t level1 = repository::Level1OfLeaf(leaf);
    ASSIGN_OR_RETURN(const std::vector<BlobId> parent, LoadParentLeaves(level1));
    const auto from = static_cast<std::size_t>(repository::IndexOfLeaf(leaf));
    const absl::Span<const BlobId> trees = absl::MakeConstSpan(parent).subspan(from);
    std::vector<int64_t> leaves(trees.size());
    std::iota(leaves.begin(), leaves.end(), leaf);
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> chunks,
                     OfParent(LoadChunkIds(ctx_, *parent_, leaves, trees)));
    for (const std::vector<BlobId>& ids : chunks) {
      zero_chunks_ -= std::count(ids.begin(), ids.end(), zero_chunk_);
    }
    leaf += static_cast<int64_t>(trees.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<BuiltImage> ImageBuilder::Finish() {
  while (!prepared_.empty()) {
    RETURN_IF_ERROR(StartFirst());
  }
  RETURN_IF_ERROR(reader_.Finish());
  if (parent_ != nullptr) {
    RETURN_IF_ERROR(UncountLostZeros());
  }
  if (parent_ == nullptr) {
    const int64_t zero_trees = std::count(planned_.begin(), planned_.end(), false);
    zero_chunks_ += zero_trees * kLevel1Chunks;
    if (zero_trees > 0) {
      RETURN_IF_ERROR(EnsureZeroLevel1());
    }
  }
  const std::string text = repository::EncodeImageTree(level1_trees_);
  built_.tree = BlobId::Of(text);
  if (parent_ == nullptr || !trusts_parent_ || built_.tree != parent_->root.image_tree) {
    RETURN_IF_ERROR(writer_.AddBlob(BlobType::kTree, built_.tree, text).status());
  }
  built_.zero_chunks = std::clamp<int64_t>(zero_chunks_, 0, layout_.chunk_count());
  built_.leaves_touched = leaves_touched_;
  built_.level1_touched = level1_touched_;
  const MutexLock lock(mutex_);
  built_.moved_trees = std::move(moved_);
  built_.sample = std::move(sample_);
  std::sort(built_.sample.begin(), built_.sample.end(),
            [](const ChunkId& a, const ChunkId& b) { return a.chunk < b.chunk; });
  return std::move(built_);
}

}  // namespace csidelta::incremental
