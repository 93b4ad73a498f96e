#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "incremental/sources/changed_block_source.h"
#include "repository/volume_layout.h"

namespace csidelta::incremental {

// What a run does with a chunk.
enum class ChunkState : uint8_t {
  kUnlisted,  // not named: as in the parent, or zero where none exists
  kZero,      // said to read as zeros, the whole of it
  kRead,      // read it
};

// A chunk and the id of what it holds; null: zeros.
struct ChunkId {
  int64_t chunk = 0;
  repository::BlobId id = {};
};

// One level-1 tree that a run has to build again, or look into: a state for each of its chunks.
struct Level1Plan {
  int64_t level1 = 0;
  std::vector<ChunkState> states;
};

// Turns a listing into states of chunks, one level-1 tree at a time, so that memory does not follow
// the volume. Level-1 trees that were not named and whose shape did not change are left out: their
// chunks are all kUnlisted.
//
// Chunks are rounded outwards: one that is only partly zero is read. A chunk whose length differs
// from the parent's, or that the parent does not have, is read unless it is said to be zero. A
// short last chunk is never zero by word alone: it has an id of its own. Not thread-safe.
class ChunkPlanner {
 public:
  using Sink = absl::FunctionRef<absl::Status(const Level1Plan&)>;

  // `parent`: the layout that the listing is relative to, with the same chunk size; absent where
  // none exists. `sink` outlives the planner; its error is returned unchanged.
  ChunkPlanner(const repository::VolumeLayout& layout,
               const std::optional<repository::VolumeLayout>& parent, Sink sink);

  // REQUIRES extents as a source promises them: ascending, disjoint, inside.
  absl::Status Add(const ListedExtent& listed);
  absl::Status Finish() { return AdvanceTo(layout_.level1_count()); }

 private:
  // Emits every level-1 tree that must be before `level1`, and begins that one.
  absl::Status AdvanceTo(int64_t level1);
  absl::Status EmitCurrent();
  // Whether a level-1 tree is needed though it was not named.
  bool IsForced(int64_t level1) const;
  void Begin(int64_t level1);
  void Mark(int64_t first_chunk, int64_t last_chunk, ChunkState state);

  const repository::VolumeLayout layout_;
  const bool has_parent_;
  const bool size_changed_;
  // Chunks from here on are not the parent's.
  int64_t forced_from_chunk_;
  Sink sink_;
  std::optional<Level1Plan> current_;
  int64_t next_level1_ = 0;
};

// What became of every chunk, in two bits each at most: where the audit draws from. Not
// thread-safe.
class ChunkLedger {
 public:
  explicit ChunkLedger(const repository::VolumeLayout& layout);

  void Record(const Level1Plan& plan);

  int64_t CountInLeaf(int64_t leaf, ChunkState state) const;
  // The chunk that is number `ordinal` of those with `state` in the leaf. REQUIRES that there is.
  int64_t ChunkAt(int64_t leaf, ChunkState state, int64_t ordinal) const;

 private:
  struct Level1 {
    ChunkState common = ChunkState::kUnlisted;  // of all, where `packed` is empty
    std::vector<uint8_t> packed;                // four chunks to a byte
  };

  ChunkState StateOf(int64_t chunk) const;

  const repository::VolumeLayout layout_;
  std::vector<Level1> level1_;
};

}  // namespace csidelta::incremental
