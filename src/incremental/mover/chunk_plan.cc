#include "incremental/mover/chunk_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

using repository::kLeafChunks;
using repository::kLevel1Chunks;
using repository::VolumeLayout;

constexpr int64_t kChunksPerByte = 4;

int64_t ChunksInLevel1(const VolumeLayout& layout, int64_t level1) {
  return std::min(kLevel1Chunks, layout.chunk_count() - level1 * kLevel1Chunks);
}

// The first chunk that a parent does not have in the same length; the end where all are the same.
int64_t ForcedFrom(const VolumeLayout& layout, const std::optional<VolumeLayout>& parent) {
  if (parent.has_value() && parent->size_bytes() != layout.size_bytes()) {
    return std::min(parent->size_bytes(), layout.size_bytes()) / layout.chunk_bytes();
  }
  const bool short_tail = layout.size_bytes() % layout.chunk_bytes() != 0;
  return layout.chunk_count() - (!parent.has_value() && short_tail ? 1 : 0);
}

}  // namespace

ChunkPlanner::ChunkPlanner(const VolumeLayout& layout, const std::optional<VolumeLayout>& parent,
                           Sink sink)
    : layout_(layout),
      has_parent_(parent.has_value()),
      size_changed_(parent.has_value() && parent->size_bytes() != layout.size_bytes()),
      forced_from_chunk_(ForcedFrom(layout, parent)),
      sink_(sink) {
  CSIDELTA_CHECK(!parent.has_value() || parent->chunk_bytes() == layout.chunk_bytes());
}

bool ChunkPlanner::IsForced(int64_t level1) const {
  if (forced_from_chunk_ < layout_.chunk_count() &&
      (level1 + 1) * kLevel1Chunks > forced_from_chunk_) {
    return true;
  }
  // The last one may have another number of leaves than the parent's, or than one of zeros.
  return level1 + 1 == layout_.level1_count() && (!has_parent_ || size_changed_);
}

void ChunkPlanner::Begin(int64_t level1) {
  const int64_t chunks = ChunksInLevel1(layout_, level1);
  current_ = Level1Plan{
      .level1 = level1,
      .states = std::vector<ChunkState>(static_cast<std::size_t>(chunks), ChunkState::kUnlisted)};
}

absl::Status ChunkPlanner::EmitCurrent() {
  if (!current_.has_value()) {
    return absl::OkStatus();
  }
  const int64_t first_chunk = current_->level1 * kLevel1Chunks;
  auto& states = current_->states;
  for (int64_t chunk = std::max(first_chunk, forced_from_chunk_);
       chunk < first_chunk + static_cast<int64_t>(states.size()); ++chunk) {
    ChunkState& state = states[static_cast<std::size_t>(chunk - first_chunk)];
    state = state == ChunkState::kUnlisted ? ChunkState::kRead : state;
  }
  const absl::Status status = sink_(*current_);
  current_.reset();
  return status;
}

absl::Status ChunkPlanner::AdvanceTo(int64_t level1) {
  CSIDELTA_CHECK(level1 >= next_level1_ - 1);  // What was emitted is not planned again.
  if (current_.has_value() && current_->level1 == level1) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(EmitCurrent());
  for (; next_level1_ < level1; ++next_level1_) {
    if (IsForced(next_level1_)) {
      Begin(next_level1_);
      RETURN_IF_ERROR(EmitCurrent());
    }
  }
  if (level1 < layout_.level1_count()) {
    Begin(level1);
    next_level1_ = level1 + 1;
  }
  return absl::OkStatus();
}

void ChunkPlanner::Mark(int64_t first_chunk, int64_t last_chunk, ChunkState state) {
  const int64_t base = current_->level1 * kLevel1Chunks;
  for (int64_t chunk = first_chunk; chunk <= last_chunk; ++chunk) {
    ChunkState& old = current_->states[static_cast<std::size_t>(chunk - base)];
    old = std::max(old, state);
  }
}

absl::Status ChunkPlanner::Add(const ListedExtent& listed) {
  // Sources are checked before: ListChecked() refuses what a driver lists beyond the volume.
  CSIDELTA_CHECK(listed.extent.length_bytes > 0 &&
                 listed.extent.end_bytes() <= layout_.size_bytes());
  const int64_t chunk_bytes = layout_.chunk_bytes();
  const Extent& extent = listed.extent;
  const int64_t last = (extent.end_bytes() - 1) / chunk_bytes;
  for (int64_t chunk = extent.offset_bytes / chunk_bytes; chunk <= last;) {
    const int64_t level1 = chunk / kLevel1Chunks;
    RETURN_IF_ERROR(AdvanceTo(level1));
    const int64_t end = std::min(last + 1, (level1 + 1) * kLevel1Chunks);
    if (listed.kind != ExtentKind::kZero) {
      Mark(chunk, end - 1, ChunkState::kRead);
    } else {
      // Whole chunks are zero, those at the rims are read.
      const bool trimmed_head = chunk * chunk_bytes < extent.offset_bytes;
      const bool trimmed_tail = end * chunk_bytes > extent.end_bytes();
      Mark(chunk, end - 1, ChunkState::kZero);
      if (trimmed_head) {
        Mark(chunk, chunk, ChunkState::kRead);
      }
      if (trimmed_tail) {
        Mark(end - 1, end - 1, ChunkState::kRead);
      }
    }
    chunk = end;
  }
  return absl::OkStatus();
}

ChunkLedger::ChunkLedger(const VolumeLayout& layout)
    : layout_(layout), level1_(static_cast<std::size_t>(layout.level1_count())) {}

void ChunkLedger::Record(const Level1Plan& plan) {
  Level1& level1 = level1_[static_cast<std::size_t>(plan.level1)];
  level1.common = plan.states.front();
  level1.packed.clear();
  if (std::all_of(plan.states.begin(), plan.states.end(),
                  [&](ChunkState state) { return state == level1.common; })) {
    return;
  }
  level1.packed.resize(plan.states.size() / kChunksPerByte + 1);
  for (std::size_t i = 0; i < plan.states.size(); ++i) {
    const auto bits = static_cast<unsigned>(plan.states[i]) << (2 * (i % kChunksPerByte));
    level1.packed[i / kChunksPerByte] =
        static_cast<uint8_t>(level1.packed[i / kChunksPerByte] | bits);
  }
}

ChunkState ChunkLedger::StateOf(int64_t chunk) const {
  CSIDELTA_CHECK(chunk >= 0 && chunk < layout_.chunk_count());
  const Level1& level1 = level1_[static_cast<std::size_t>(chunk / kLevel1Chunks)];
  if (level1.packed.empty()) {
    return level1.common;
  }
  const auto at = static_cast<std::size_t>(chunk % kLevel1Chunks);
  return static_cast<ChunkState>(
      (level1.packed[at / kChunksPerByte] >> (2 * (at % kChunksPerByte))) & 3);
}

int64_t ChunkLedger::CountInLeaf(int64_t leaf, ChunkState state) const {
  CSIDELTA_CHECK(leaf >= 0);
  const int64_t chunks = layout_.ChunksInLeaf(leaf);
  const Level1& level1 = level1_[static_cast<std::size_t>(leaf / repository::kFanout)];
  if (level1.packed.empty()) {
    return level1.common == state ? chunks : 0;
  }
  int64_t count = 0;
  for (int64_t slot = 0; slot < chunks; ++slot) {
    count += StateOf(leaf * kLeafChunks + slot) == state ? 1 : 0;
  }
  return count;
}

int64_t ChunkLedger::ChunkAt(int64_t leaf, ChunkState state, int64_t ordinal) const {
  const int64_t first = leaf * kLeafChunks;
  for (int64_t chunk = first; chunk < first + layout_.ChunksInLeaf(leaf); ++chunk) {
    if (StateOf(chunk) == state && ordinal-- == 0) {
      return chunk;
    }
  }
  CSIDELTA_CHECK(false);
  return -1;
}

}  // namespace csidelta::incremental
