#include "incremental/mover/audit_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"

namespace csidelta::incremental {
namespace {

constexpr int64_t kPromiseOneIn = 100;

int64_t DivideUp(int64_t value, int64_t by) { return (value + by - 1) / by; }

struct Candidates {
  int64_t leaf = 0;
  int64_t count = 0;
};

// A number from [0, bound), evenly; of one seed the same with every library.
int64_t Below(std::mt19937_64& engine, int64_t bound) {
  const auto unsigned_bound = static_cast<uint64_t>(bound);
  const uint64_t even_end = engine.max() - engine.max() % unsigned_bound;
  uint64_t number = engine();
  while (number >= even_end) {
    number = engine();
  }
  return static_cast<int64_t>(number % unsigned_bound);
}

// `count` different numbers below `bound`, ascending, in memory for `count` alone.
std::vector<int64_t> Choose(int64_t bound, int64_t count, std::mt19937_64& engine) {
  absl::flat_hash_set<int64_t> chosen;
  for (int64_t last = bound - count; last < bound; ++last) {
    if (!chosen.insert(Below(engine, last + 1)).second) {
      chosen.insert(last);
    }
  }
  std::vector<int64_t> all(chosen.begin(), chosen.end());
  std::sort(all.begin(), all.end());
  return all;
}

// Leaves with a candidate, ascending.
std::vector<Candidates> Eligible(int64_t leaf_count,
                                 absl::FunctionRef<int64_t(int64_t leaf)> candidates_in_leaf,
                                 AuditDraw& draw) {
  std::vector<Candidates> eligible;
  for (int64_t leaf = 0; leaf < leaf_count; ++leaf) {
    const int64_t count = candidates_in_leaf(leaf);
    if (count > 0) {
      eligible.push_back({.leaf = leaf, .count = count});
      draw.candidates += count;
    }
  }
  draw.candidate_leaves = static_cast<int64_t>(eligible.size());
  return eligible;
}

// How many chunks each of `eligible`, in the order of the draw, gives; leaves not reached give
// none.
std::vector<int64_t> Shares(const std::vector<Candidates>& eligible, int64_t wanted) {
  const int64_t each = std::clamp<int64_t>(wanted / kAuditLeavesMin, 1, kAuditLeafChunksMax);
  std::vector<int64_t> shares(eligible.size(), 0);
  int64_t left = wanted;
  for (std::size_t i = 0; i < eligible.size() && left > 0; ++i) {
    shares[i] = std::min({each, eligible[i].count, left});
    left -= shares[i];
  }
  // Too few leaves for that: evenly more of each, until there is enough.
  while (left > 0) {
    for (std::size_t i = 0; i < eligible.size() && left > 0; ++i) {
      if (shares[i] < eligible[i].count) {
        ++shares[i];
        --left;
      }
    }
  }
  return shares;
}

}  // namespace

int64_t AuditChunkCount(int64_t candidates, int64_t one_in) {
  const int64_t wanted =
      candidates < kAuditSmallChunks
          ? std::max(kAuditSmallChunksMin, DivideUp(candidates, kAuditSmallOneIn))
          : std::max(kAuditChunksMin, DivideUp(candidates, one_in));
  return std::min(wanted, candidates);
}

AuditDraw DrawAudit(int64_t leaf_count, absl::FunctionRef<int64_t(int64_t leaf)> candidates_in_leaf,
                    uint64_t seed, int64_t one_in) {
  AuditDraw draw;
  std::vector<Candidates> eligible = Eligible(leaf_count, candidates_in_leaf, draw);
  std::mt19937_64 engine(seed);
  for (std::size_t i = 0; i + 1 < eligible.size(); ++i) {
    const auto left = static_cast<int64_t>(eligible.size() - i);
    std::swap(eligible[i], eligible[i + static_cast<std::size_t>(Below(engine, left))]);
  }
  const std::vector<int64_t> shares = Shares(eligible, AuditChunkCount(draw.candidates, one_in));
  for (std::size_t i = 0; i < eligible.size() && shares[i] > 0; ++i) {
    draw.leaves.push_back(
        {.leaf = eligible[i].leaf, .ordinals = Choose(eligible[i].count, shares[i], engine)});
    draw.chunks += shares[i];
  }
  std::sort(draw.leaves.begin(), draw.leaves.end(),
            [](const AuditLeaf& left, const AuditLeaf& right) { return left.leaf < right.leaf; });
  return draw;
}

AuditDraw DrawSingly(int64_t leaf_count,
                     absl::FunctionRef<int64_t(int64_t leaf)> candidates_in_leaf, uint64_t seed,
                     int64_t chunks) {
  AuditDraw draw;
  const std::vector<Candidates> eligible = Eligible(leaf_count, candidates_in_leaf, draw);
  draw.chunks = std::min(chunks, draw.candidates);
  std::mt19937_64 engine(seed);
  int64_t before = 0;  // candidates in the leaves before
  auto leaf = eligible.begin();
  for (const int64_t number : Choose(draw.candidates, draw.chunks, engine)) {
    for (; number >= before + leaf->count; ++leaf) {
      before += leaf->count;
    }
    if (draw.leaves.empty() || draw.leaves.back().leaf != leaf->leaf) {
      draw.leaves.push_back({.leaf = leaf->leaf, .ordinals = {}});
    }
    draw.leaves.back().ordinals.push_back(number - before);
  }
  return draw;
}

double DetectionProbability(int64_t total, int64_t drawn, int64_t lying) {
  CSIDELTA_CHECK(drawn >= 0 && drawn <= total && lying >= 0 && lying <= total);
  if (drawn > total - lying) {
    return 1;
  }
  // The chance that none of `lying` is drawn, one after the other.
  double log_missed = 0;
  const int64_t steps = std::min(drawn, lying);
  const int64_t others = std::max(drawn, lying);
  for (int64_t i = 0; i < steps; ++i) {
    log_missed += std::log1p(-static_cast<double>(others) / static_cast<double>(total - i));
  }
  return -std::expm1(log_missed);
}

AuditPromise PromiseOf(const AuditDraw& draw) {
  if (draw.candidates == 0) {
    return {.scattered = 1, .clustered = 1};
  }
  return {.scattered = DetectionProbability(draw.candidates, draw.chunks,
                                            DivideUp(draw.candidates, kPromiseOneIn)),
          .clustered =
              DetectionProbability(draw.candidate_leaves, static_cast<int64_t>(draw.leaves.size()),
                                   DivideUp(draw.candidate_leaves, kPromiseOneIn))};
}

}  // namespace csidelta::incremental
