#include "incremental/mover/audit_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace csidelta::incremental::audit_plan_test {
namespace {

struct CountCase {
  const char* name;
  int64_t candidates, want;
};
class AuditChunkCountTest : public testing::TestWithParam<CountCase> {};

TEST_P(AuditChunkCountTest, FollowsTheRule) {
  EXPECT_EQ(AuditChunkCount(GetParam().candidates), GetParam().want);
}

const CountCase kCountCases[] = {
    {"Nothing", 0, 0},
    {"One", 1, 1},
    {"AllOfFew", 15, 15},
    {"AtLeastSixteen", 100, 16},
    {"AnEighth", 1000, 125},
    {"AnEighthRoundsUp", 1001, 126},
    {"LastSmall", 2047, 256},
    {"FirstLarge", 2048, 256},
    {"AtLeast256", 102'400, 256},
    {"AQuarterPercent", 1'000'000, 2500},
    {"Huge", int64_t{1} << 28, 671'089},
};
INSTANTIATE_TEST_SUITE_P(Table, AuditChunkCountTest, testing::ValuesIn(kCountCases),
                         [](const auto& test) { return std::string(test.param.name); });

AuditDraw DrawEven(int64_t leaves, int64_t each, uint64_t seed) {
  return DrawAudit(
      leaves, [each](int64_t) { return each; }, seed);
}

TEST(DrawAuditTest, NothingToDrawDrawsNothing) {
  EXPECT_EQ(DrawEven(0, 0, 1).chunks, 0);
  EXPECT_EQ(DrawEven(100, 0, 1).chunks, 0);
  EXPECT_EQ(PromiseOf(DrawEven(100, 0, 1)).scattered, 1);
}

TEST(DrawAuditTest, DrawsTheCountFromEnoughLeavesEachChunkOnce) {
  std::mt19937 random(5);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto leaves = static_cast<int64_t>(1 + random() % 400);
    std::vector<int64_t> counts(static_cast<std::size_t>(leaves));
    for (int64_t& count : counts) {
      count = random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 257);
    }
    const auto count_of = [&](int64_t leaf) { return counts[static_cast<std::size_t>(leaf)]; };
    const AuditDraw draw = DrawAudit(leaves, count_of, seed);
    ASSERT_EQ(draw.chunks, AuditChunkCount(draw.candidates)) << "seed " << seed;
    int64_t total = 0;
    int64_t before = -1;
    for (const AuditLeaf& leaf : draw.leaves) {
      ASSERT_GT(leaf.leaf, before);
      before = leaf.leaf;
      const std::set<int64_t> different(leaf.ordinals.begin(), leaf.ordinals.end());
      ASSERT_EQ(different.size(), leaf.ordinals.size());
      ASSERT_LT(*different.rbegin(), count_of(leaf.leaf));
      ASSERT_GE(*different.begin(), 0);
      total += static_cast<int64_t>(leaf.ordinals.size());
    }
    ASSERT_EQ(total, draw.chunks);
    ASSERT_GE(static_cast<int64_t>(draw.leaves.size()),
              std::min({kAuditLeavesMin, draw.candidate_leaves, draw.chunks}));
  }
}

TEST(DrawAuditTest, TakesAtMostSixteenOfALeafWhereLeavesAreMany) {
  const AuditDraw draw = DrawEven(10'000, 256, 3);
  ASSERT_FALSE(draw.leaves.empty());
  for (const AuditLeaf& leaf : draw.leaves) {
    EXPECT_LE(static_cast<int64_t>(leaf.ordinals.size()), kAuditLeafChunksMax);
  }
}

TEST(DrawAuditTest, TheSeedDecides) {
  EXPECT_EQ(DrawEven(1000, 256, 9).leaves, DrawEven(1000, 256, 9).leaves);
  EXPECT_NE(DrawEven(1000, 256, 9).leaves, DrawEven(1000, 256, 10).leaves);
}

TEST(DrawSinglyTest, DrawsEachChunkOnceAndNoMoreThanThereAre) {
  std::mt19937 random(6);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<int64_t> counts(1 + random() % 200);
    for (int64_t& count : counts) {
      count = random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 129);
    }
    const int64_t wanted = static_cast<int64_t>(random() % 4000);
    const AuditDraw draw = DrawSingly(
        std::ssize(counts), [&](int64_t leaf) { return counts[static_cast<std::size_t>(leaf)]; },
        seed, wanted);
    ASSERT_EQ(draw.chunks, std::min(wanted, draw.candidates));
    int64_t total = 0;
    int64_t before = -1;
    for (const AuditLeaf& leaf : draw.leaves) {
      ASSERT_GT(leaf.leaf, before);
      before = leaf.leaf;
      ASSERT_EQ(std::set<int64_t>(leaf.ordinals.begin(), leaf.ordinals.end()).size(),
                leaf.ordinals.size());
      ASSERT_TRUE(std::is_sorted(leaf.ordinals.begin(), leaf.ordinals.end()));
      ASSERT_LT(leaf.ordinals.back(), counts[static_cast<std::size_t>(leaf.leaf)]);
      total += std::ssize(leaf.ordinals);
    }
    ASSERT_EQ(total, draw.chunks);
  }
}

TEST(DrawSinglyTest, AFaultInAThousandChunksIsFound) {
  EXPECT_GE(kAuditFirstChunks, 6'905);
  for (const int64_t total : {int64_t{100'000}, int64_t{1} << 27}) {
    EXPECT_GE(DetectionProbability(total, kAuditFirstChunks, total / 1000), 0.99999);
  }
}

// 64 MiB of data in a row that a list of 64 GiB leaves out: four leaves of a thousand, or a
// thousandth of all chunks.
TEST(DrawSinglyTest, NeighboursAreMetFiftyTimesOutOfFifty) {
  constexpr int64_t kLeaves = 1024;
  constexpr int64_t kLeafChunks = 128;
  constexpr int64_t kLeftOut = 128;
  std::mt19937_64 random(7);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto first = static_cast<int64_t>(random() % (kLeaves * kLeafChunks - kLeftOut));
    const AuditDraw draw = DrawSingly(
        kLeaves, [](int64_t) { return kLeafChunks; }, random(), kAuditFirstChunks);
    bool met = false;
    for (const AuditLeaf& leaf : draw.leaves) {
      for (const int64_t ordinal : leaf.ordinals) {
        const int64_t chunk = leaf.leaf * kLeafChunks + ordinal;
        met = met || (chunk >= first && chunk < first + kLeftOut);
      }
    }
    EXPECT_TRUE(met) << "seed " << seed;
  }
}

TEST(DetectionProbabilityTest, IsThatOfDrawingWithoutPuttingBack) {
  EXPECT_EQ(DetectionProbability(10, 0, 5), 0);
  EXPECT_EQ(DetectionProbability(10, 5, 0), 0);
  EXPECT_EQ(DetectionProbability(10, 6, 5), 1);
  EXPECT_NEAR(DetectionProbability(10, 1, 3), 0.3, 1e-12);
  EXPECT_NEAR(DetectionProbability(10, 2, 3), 1 - 7.0 / 10 * 6 / 9, 1e-12);
  EXPECT_NEAR(DetectionProbability(10, 3, 2), DetectionProbability(10, 2, 3), 1e-12);
  EXPECT_NEAR(DetectionProbability(1'000'000, 2500, 10'000), 1, 1e-9);
}

// How often draws with different seeds meet a lie.
template <typename IsLie>
double MeasuredDetection(int64_t leaves, int64_t each, int runs, IsLie is_lie) {
  int met = 0;
  for (int run = 0; run < runs; ++run) {
    const AuditDraw draw = DrawEven(leaves, each, static_cast<uint64_t>(run));
    bool found = false;
    for (const AuditLeaf& leaf : draw.leaves) {
      for (const int64_t ordinal : leaf.ordinals) {
        found = found || is_lie(leaf.leaf, ordinal);
      }
    }
    met += found ? 1 : 0;
  }
  return static_cast<double>(met) / runs;
}

struct LieCase {
  const char* name;
  int64_t leaves, each;
  int64_t lying;  // chunks when scattered, leaves when clustered
};
constexpr int kRuns = 1500;
constexpr double kTolerance = 0.04;  // More than three standard deviations of kRuns draws.

class ScatteredLiesTest : public testing::TestWithParam<LieCase> {};

TEST_P(ScatteredLiesTest, AreMetAsOftenAsPromised) {
  const LieCase& c = GetParam();
  const int64_t total = c.leaves * c.each;
  std::mt19937_64 random(17);
  std::set<int64_t> lies;
  while (static_cast<int64_t>(lies.size()) < c.lying) {
    lies.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(total)));
  }
  const double measured = MeasuredDetection(c.leaves, c.each, kRuns, [&](int64_t leaf, int64_t at) {
    return lies.count(leaf * c.each + at) > 0;
  });
  EXPECT_NEAR(measured, DetectionProbability(total, AuditChunkCount(total), c.lying), kTolerance);
}

const LieCase kScattered[] = {
    {"OneSmall", 4, 256, 1},           {"FewSmall", 4, 256, 10},     {"OneInAHundred", 32, 256, 82},
    {"OneInAThousand", 400, 256, 102}, {"FewInMany", 400, 256, 400}, {"Alone", 1, 256, 8},
};
INSTANTIATE_TEST_SUITE_P(Table, ScatteredLiesTest, testing::ValuesIn(kScattered),
                         [](const auto& test) { return std::string(test.param.name); });

class ClusteredLiesTest : public testing::TestWithParam<LieCase> {};

TEST_P(ClusteredLiesTest, AreMetAsOftenAsPromised) {
  const LieCase& c = GetParam();
  const double measured = MeasuredDetection(c.leaves, c.each, kRuns,
                                            [&](int64_t leaf, int64_t) { return leaf < c.lying; });
  const AuditDraw draw = DrawEven(c.leaves, c.each, 0);
  EXPECT_NEAR(measured,
              DetectionProbability(draw.candidate_leaves, static_cast<int64_t>(draw.leaves.size()),
                                   c.lying),
              kTolerance);
}

const LieCase kClustered[] = {
    {"OneOfFew", 8, 256, 1},    {"OneOfThirty", 30, 256, 1}, {"TenOfAHundred", 100, 256, 10},
    {"OneOfMany", 400, 256, 1}, {"ATenth", 400, 256, 40},
};
INSTANTIATE_TEST_SUITE_P(Table, ClusteredLiesTest, testing::ValuesIn(kClustered),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::incremental::audit_plan_test
