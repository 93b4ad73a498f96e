#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

// The audit's arithmetic: of chunks that a run did not read, which are read again to see whether
// what was said of them is true. Pure functions.
namespace csidelta::incremental {

// Above kAuditSmallChunks chunks 0.25 % of them, at least kAuditChunksMin; below, an eighth, at
// least kAuditSmallChunksMin.
inline constexpr int64_t kAuditSmallChunks = 2048;
inline constexpr int64_t kAuditChunksMin = 256;
inline constexpr int64_t kAuditOneIn = 400;
inline constexpr int64_t kAuditSmallChunksMin = 16;
inline constexpr int64_t kAuditSmallOneIn = 8;
// Chunks of one leaf cost one tree to look at; chunks of many leaves see clustered lies.
inline constexpr int64_t kAuditLeafChunksMax = 16;
inline constexpr int64_t kAuditLeavesMin = 16;

// A first backup has no parent that could contradict a list, and a list that calls nearly all of a
// volume zero saves nearly all of the reading: there a wrong one costs most, and what it leaves out
// may be small. From this share of the volume on, in percent, so many chunks are drawn, each by
// itself: one wrong chunk in a thousand, however they lie, is then met with a probability of
// 0.99999 (0.999 takes 6,905), and in a volume of fewer chunks all are read.
inline constexpr int64_t kAuditFirstPercent = 90;
inline constexpr int64_t kAuditFirstChunks = 11'508;

// How many of `candidates` chunks are read again; one in `one_in` where there are many. Never more
// than there are.
int64_t AuditChunkCount(int64_t candidates, int64_t one_in = kAuditOneIn);

// Some candidates of one leaf, by their ordinals among that leaf's candidates, ascending.
struct AuditLeaf {
  int64_t leaf = 0;
  std::vector<int64_t> ordinals;

  friend bool operator==(const AuditLeaf&, const AuditLeaf&) = default;
};

struct AuditDraw {
  std::vector<AuditLeaf> leaves;  // ascending
  int64_t chunks = 0;             // in all of them
  int64_t candidates = 0;
  int64_t candidate_leaves = 0;  // leaves with a candidate
};

// Draws AuditChunkCount() chunks: leaves uniformly among those with a candidate, up to
// kAuditLeafChunksMax chunks of each, fewer where that would leave less than kAuditLeavesMin
// leaves. Only where the leaves are too few for that, more of each. `candidates_in_leaf` is asked
// once for each leaf from 0 to leaf_count-1. The same seed draws the same.
AuditDraw DrawAudit(int64_t leaf_count, absl::FunctionRef<int64_t(int64_t leaf)> candidates_in_leaf,
                    uint64_t seed, int64_t one_in = kAuditOneIn);

// Draws `chunks` of all candidates, or all of them, evenly and each by itself, so that neighbours
// are met no less than what is scattered. The same seed draws the same.
AuditDraw DrawSingly(int64_t leaf_count,
                     absl::FunctionRef<int64_t(int64_t leaf)> candidates_in_leaf, uint64_t seed,
                     int64_t chunks);

// The probability that a sample of `drawn` out of `total` things meets at least one of `lying`.
// With chunks: of lies scattered evenly. With leaves: of lies that fill whole leaves.
double DetectionProbability(int64_t total, int64_t drawn, int64_t lying);

// What the draw promises where one in a hundred lies, at least one.
struct AuditPromise {
  double scattered = 0;  // lies spread over all chunks
  double clustered = 0;  // lies that fill leaves
};
AuditPromise PromiseOf(const AuditDraw& draw);

}  // namespace csidelta::incremental
