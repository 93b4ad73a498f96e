#include "incremental/audit.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::kFanout;
using repository::kLeafChunks;

// Leaves whose trees are in memory at a time: 2 MiB of ids, 5 MiB of text.
constexpr std::size_t kLeavesAtOnce = 256;

// 7 MB of either kind.
constexpr std::size_t kReliedOnMax = 100'000;

// What is expected of a chunk: zeros where there is no id.
struct Expected {
  int64_t chunk = 0;
  BlobId id = {};
};

// The chunks of some drawn leaves.
std::vector<Expected> ChunksOf(const AuditInput& input, ChunkState state,
                               absl::Span<const AuditLeaf> leaves) {
  std::vector<Expected> chunks;
  for (const AuditLeaf& leaf : leaves) {
    for (const int64_t ordinal : leaf.ordinals) {
      chunks.push_back({.chunk = input.ledger.ChunkAt(leaf.leaf, state, ordinal)});
    }
  }
  return chunks;
}

// Sets the parent's ids of `chunks`, which lie in `leaves`, both ascending.
absl::Status LookUpParent(const CallContext& ctx, const AuditInput& input,
                          absl::Span<const AuditLeaf> leaves, std::vector<Expected>& chunks,
                          ReliedOn& relied_on) {
  std::vector<int64_t> numbers;
  std::vector<BlobId> trees;
  std::vector<BlobId> level1;
  int64_t loaded_level1 = -1;
  for (const AuditLeaf& leaf : leaves) {
    if (leaf.leaf / kFanout != loaded_level1) {
      loaded_level1 = leaf.leaf / kFanout;
      ASSIGN_OR_RETURN(level1, LoadLeafIds(ctx, *input.parent, *input.fetcher, loaded_level1));
      for (std::size_t i = 0; i < level1.size() && relied_on.leaves.size() < kReliedOnMax; ++i) {
        const int64_t number = loaded_level1 * kFanout + static_cast<int64_t>(i);
        relied_on.leaves.push_back({level1[i], {.is_leaf = true, .number = number}});
      }
    }
    numbers.push_back(leaf.leaf);
    trees.push_back(level1[static_cast<std::size_t>(leaf.leaf % kFanout)]);
  }
  ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> ids,
                   LoadChunkIds(ctx, *input.parent, *input.fetcher, numbers, trees));
  for (const std::vector<BlobId>& of_leaf : ids) {
    if (relied_on.chunks.size() < kReliedOnMax) {
      relied_on.chunks.insert(of_leaf.begin(), of_leaf.end());
    }
  }
  std::size_t at = 0;
  for (Expected& expected : chunks) {
    while (numbers[at] != expected.chunk / kLeafChunks) {
      ++at;
    }
    expected.id = ids[at][static_cast<std::size_t>(expected.chunk % kLeafChunks)];
  }
  return absl::OkStatus();
}

bool Differs(const Expected& expected, absl::string_view bytes, const BlobId& zero_chunk) {
  if (expected.id.IsNull() || expected.id == zero_chunk) {
    return !IsZero(bytes);
  }
  return BlobId::Of(bytes) != expected.id;
}

// Draws and reads the chunks of one kind. Mismatches are counted in `mismatches`.
absl::Status AuditKind(const AuditInput& input, ChunkState state, const AuditDraw& draw,
                       ChunkReader& reader, std::atomic<int64_t>& mismatches, AuditResult& result) {
  const bool by_parent = state == ChunkState::kUnlisted && input.parent != nullptr;
  const BlobId zero_chunk = repository::ZeroChunkId(input.layout.chunk_bytes());
  const absl::Span<const AuditLeaf> all(draw.leaves);
  int64_t begun = -1;
  for (std::size_t from = 0; from < all.size() && mismatches == 0; from += kLeavesAtOnce) {
    const absl::Span<const AuditLeaf> leaves = all.subspan(from, kLeavesAtOnce);
    std::vector<Expected> chunks = ChunksOf(input, state, leaves);
    if (by_parent) {
      const absl::Status status =
          LookUpParent(reader.context(), input, leaves, chunks, result.relied_on);
      result.parent_failed = absl::IsDataLoss(status) || absl::IsNotFound(status);
      RETURN_IF_ERROR(Annotate(status, "parent"));
    }
    for (const Expected& expected : chunks) {
      if (mismatches > 0) {
        break;
      }
      if (input.on_leaf && expected.chunk / kLeafChunks != begun) {
        begun = expected.chunk / kLeafChunks;
        input.on_leaf(begun);
      }
      RETURN_IF_ERROR(reader.Read(
          {input.layout.ChunkOffset(expected.chunk), input.layout.ChunkLength(expected.chunk)},
          [expected, zero_chunk, &mismatches](absl::string_view bytes) {
            mismatches += Differs(expected, bytes, zero_chunk) ? 1 : 0;
            return absl::OkStatus();
          }));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunAudit(const CallContext& ctx, BlockDevice& device, const AuditInput& input,
                      AuditResult& result) {
  for (const ChunkState state : {ChunkState::kUnlisted, ChunkState::kZero}) {
    const AuditDraw draw = DrawAudit(
        input.layout.leaf_count(),
        [&](int64_t leaf) { return input.ledger.CountInLeaf(leaf, state); }, input.seed,
        input.one_in);
    if (draw.chunks == 0 || result.mismatch) {
      continue;
    }
    std::atomic<int64_t> mismatches = 0;
    ASSIGN_OR_RETURN(const std::unique_ptr<ChunkReader> reader,
                     ChunkReader::Make(ctx, device, input.reader));
    RETURN_IF_ERROR(AuditKind(input, state, draw, *reader, mismatches, result));
    RETURN_IF_ERROR(reader->Finish());
    const AuditPromise promise = PromiseOf(draw);
    const char* const kind = state == ChunkState::kZero ? "zeroed"
                             : input.parent != nullptr  ? "unchanged"
                                                        : "unlisted";
    result.kinds.push_back({.kind = kind,
                            .candidates = draw.candidates,
                            .chunks = draw.chunks,
                            .leaves = static_cast<int64_t>(draw.leaves.size()),
                            .mismatches = mismatches,
                            .detects_scattered = promise.scattered,
                            .detects_clustered = promise.clustered});
    result.read_bytes += reader->read_bytes();
    result.mismatch = mismatches > 0;
  }
  return absl::OkStatus();
}

}  // namespace csidelta::incremental
