#include "incremental/mover/audit.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::kFanout;
using repository::kLeafChunks;

// Leaves whose trees are in memory at a time: 2 MiB of ids, 5 MiB of text.
constexpr std::size_t kLeavesAtOnce = 256;

// Chunks of which one thing was said.
enum class Claim { kUnlisted, kZero, kResumed };

ChunkState StateOf(Claim claim) {
  return claim == Claim::kZero ? ChunkState::kZero : ChunkState::kUnlisted;
}

absl::Span<const uint32_t> ResumedInLeaf(const AuditInput& input, int64_t leaf) {
  const auto first =
      std::lower_bound(input.resumed.begin(), input.resumed.end(), leaf * kLeafChunks);
  const auto last = std::lower_bound(first, input.resumed.end(), (leaf + 1) * kLeafChunks);
  return input.resumed.subspan(static_cast<std::size_t>(first - input.resumed.begin()),
                               static_cast<std::size_t>(last - first));
}

int64_t CountInLeaf(const AuditInput& input, Claim claim, int64_t leaf) {
  return claim == Claim::kResumed ? std::ssize(ResumedInLeaf(input, leaf))
                                  : input.ledger.CountInLeaf(leaf, StateOf(claim));
}

// The chunks of some drawn leaves.
std::vector<ChunkId> ChunksOf(const AuditInput& input, Claim claim,
                              absl::Span<const AuditLeaf> leaves) {
  std::vector<ChunkId> chunks;
  for (const AuditLeaf& leaf : leaves) {
    for (const int64_t ordinal : leaf.ordinals) {
      if (claim == Claim::kResumed) {
        const int64_t chunk = ResumedInLeaf(input, leaf.leaf)[static_cast<std::size_t>(ordinal)];
        chunks.push_back({.chunk = chunk, .id = *input.journal->Find(chunk)});
      } else {
        chunks.push_back({.chunk = input.ledger.ChunkAt(leaf.leaf, StateOf(claim), ordinal)});
      }
    }
  }
  return chunks;
}

// Sets the parent's ids of `chunks`, which lie in `leaves`, both ascending.
absl::Status FindParent(const CallContext& ctx, const AuditInput& input,
                        absl::Span<const AuditLeaf> leaves, std::vector<ChunkId>& chunks) {
  std::vector<int64_t> numbers;
  std::vector<BlobId> trees;
  std::vector<BlobId> level1;
  int64_t loaded_level1 = -1;
  for (const AuditLeaf& leaf : leaves) {
    if (leaf.leaf / kFanout != loaded_level1) {
      loaded_level1 = leaf.leaf / kFanout;
      ASSIGN_OR_RETURN(level1, LoadLeafIds(ctx, *input.parent, loaded_level1));
    }
    numbers.push_back(leaf.leaf);
    trees.push_back(level1[static_cast<std::size_t>(leaf.leaf % kFanout)]);
  }
  ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> ids,
                   LoadChunkIds(ctx, *input.parent, numbers, trees));
  std::size_t at = 0;
  for (ChunkId& expected : chunks) {
    while (numbers[at] != expected.chunk / kLeafChunks) {
      ++at;
    }
    expected.id = ids[at][static_cast<std::size_t>(expected.chunk % kLeafChunks)];
  }
  return absl::OkStatus();
}

bool Differs(const ChunkId& expected, absl::string_view bytes, const BlobId& zero_chunk) {
  if (expected.id.IsNull() || expected.id == zero_chunk) {
    return !IsZero(bytes);
  }
  return BlobId::Of(bytes) != expected.id;
}

// Draws and reads the chunks of one kind. Mismatches are counted in `mismatches`.
absl::Status AuditKind(const AuditInput& input, Claim claim, const AuditDraw& draw,
                       ChunkReader& reader, std::atomic<int64_t>& mismatches, AuditResult& result) {
  const bool by_parent = claim == Claim::kUnlisted && input.parent != nullptr;
  const BlobId zero_chunk = repository::ZeroChunkId(input.layout.chunk_bytes());
  const absl::Span<const AuditLeaf> all(draw.leaves);
  for (std::size_t from = 0; from < all.size() && mismatches == 0; from += kLeavesAtOnce) {
    const absl::Span<const AuditLeaf> leaves = all.subspan(from, kLeavesAtOnce);
    std::vector<ChunkId> chunks = ChunksOf(input, claim, leaves);
    if (by_parent) {
      const absl::Status status = FindParent(reader.context(), input, leaves, chunks);
      result.parent_failed = absl::IsDataLoss(status) || absl::IsNotFound(status);
      RETURN_IF_ERROR(Annotate(status, "parent"));
    }
    for (const ChunkId& expected : chunks) {
      if (mismatches > 0) {
        break;
      }
      RETURN_IF_ERROR(reader.Read(
          {input.layout.ChunkOffset(expected.chunk), input.layout.ChunkLength(expected.chunk)},
          [expected, zero_chunk, &mismatches, &input](absl::string_view bytes) {
            mismatches += Differs(expected, bytes, zero_chunk) ? 1 : 0;
            input.on_chunk();
            return absl::OkStatus();
          }));
    }
  }
  return absl::OkStatus();
}

const char* NameOf(const AuditInput& input, Claim claim) {
  switch (claim) {
    case Claim::kUnlisted:
      return input.parent != nullptr ? "unchanged" : "unlisted";
    case Claim::kZero:
      return "zeroed";
    case Claim::kResumed:
      return "resumed";
  }
  return "";
}

// Whether nearly all of the volume is said to be zero, and no parent says otherwise.
bool IsNearlyAllZero(const AuditInput& input) {
  int64_t claimed = 0;
  for (int64_t leaf = 0; leaf < input.layout.leaf_count(); ++leaf) {
    claimed += CountInLeaf(input, Claim::kZero, leaf);
    claimed += input.parent == nullptr ? CountInLeaf(input, Claim::kUnlisted, leaf) : 0;
  }
  return claimed * 100 >= input.layout.chunk_count() * kAuditFirstPercent;
}

AuditDraw Draw(const AuditInput& input, Claim claim, bool singly) {
  const auto count = [&](int64_t leaf) { return CountInLeaf(input, claim, leaf); };
  const int64_t leaves = input.layout.leaf_count();
  if (!singly || claim == Claim::kResumed) {
    return DrawAudit(leaves, count, input.seed, input.one_in);
  }
  int64_t candidates = 0;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    candidates += count(leaf);
  }
  return DrawSingly(leaves, count, input.seed,
                    std::max(input.first_chunks, AuditChunkCount(candidates, input.one_in)));
}

// Reads the sample again. A device that is not what it was a moment ago is no source.
absl::Status AuditSample(const CallContext& ctx, BlockDevice& device, const AuditInput& input,
                         AuditResult& result) {
  const BlobId zero_chunk = repository::ZeroChunkId(input.layout.chunk_bytes());
  ASSIGN_OR_RETURN(const std::unique_ptr<ChunkReader> reader,
                   ChunkReader::Make(ctx, device, input.reader));
  int64_t leaves = 0;
  int64_t begun = -1;
  for (const ChunkId& expected : input.sample) {
    const int64_t offset = input.layout.ChunkOffset(expected.chunk);
    if (expected.chunk / kLeafChunks != begun) {
      begun = expected.chunk / kLeafChunks;
      ++leaves;
    }
    RETURN_IF_ERROR(reader->Read(
        {offset, input.layout.ChunkLength(expected.chunk)},
        [expected, zero_chunk, offset, &input](absl::string_view bytes) {
          input.on_chunk();
          return Differs(expected, bytes, zero_chunk)
                     ? absl::DataLossError(absl::StrCat(
                           "a second reading of the volume differs, in the chunk at byte ", offset,
                           ": examine its storage, and back up again"))
                     : absl::OkStatus();
        }));
  }
  RETURN_IF_ERROR(reader->Finish());
  result.read_bytes += reader->read_bytes();
  const int64_t chunks = input.layout.chunk_count();
  const int64_t drawn = std::ssize(input.sample);
  result.kinds.push_back(
      {.kind = "reread",
       .candidates = chunks,
       .chunks = drawn,
       .leaves = leaves,
       .detects_scattered = DetectionProbability(chunks, drawn, (chunks + 99) / 100)});
  return absl::OkStatus();
}

}  // namespace

absl::Status RunAudit(const CallContext& ctx, BlockDevice& device, const AuditInput& input,
                      AuditResult& result) {
  const bool singly = input.first_chunks > 0 && IsNearlyAllZero(input);
  std::vector<std::pair<Claim, AuditDraw>> draws;
  int64_t drawn = std::ssize(input.sample);
  for (const Claim claim : {Claim::kUnlisted, Claim::kZero, Claim::kResumed}) {
    draws.emplace_back(claim, Draw(input, claim, singly));
    drawn += draws.back().second.chunks;
  }
  input.on_drawn(drawn);
  for (const auto& [claim, draw] : draws) {
    if (result.mismatch || draw.chunks == 0) {
      continue;
    }
    std::atomic<int64_t> mismatches = 0;
    ASSIGN_OR_RETURN(const std::unique_ptr<ChunkReader> reader,
                     ChunkReader::Make(ctx, device, input.reader));
    RETURN_IF_ERROR(AuditKind(input, claim, draw, *reader, mismatches, result));
    RETURN_IF_ERROR(reader->Finish());
    const AuditPromise promise = PromiseOf(draw);
    result.kinds.push_back({.kind = NameOf(input, claim),
                            .candidates = draw.candidates,
                            .chunks = draw.chunks,
                            .leaves = static_cast<int64_t>(draw.leaves.size()),
                            .mismatches = mismatches,
                            .detects_scattered = promise.scattered,
                            .detects_clustered = promise.clustered});
    result.read_bytes += reader->read_bytes();
    result.mismatch = mismatches > 0;
    result.resumed_differs = result.mismatch && claim == Claim::kResumed;
  }
  return result.mismatch || input.sample.empty() ? absl::OkStatus()
                                                 : AuditSample(ctx, device, input, result);
}

}  // namespace csidelta::incremental
