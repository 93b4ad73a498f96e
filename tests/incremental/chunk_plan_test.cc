#include "incremental/mover/chunk_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::incremental::chunk_plan_test {
namespace {

using repository::kLevel1Chunks;
using repository::VolumeLayout;
using support::IsOk;
using support::StatusIs;

constexpr int64_t kChunk = 256 << 10;

VolumeLayout Layout(int64_t size_bytes) { return *VolumeLayout::Make(size_bytes, kChunk); }

struct Planned {
  std::vector<Level1Plan> plans;

  // Of a chunk: what its plan says, or unlisted.
  ChunkState Of(int64_t chunk) const {
    for (const Level1Plan& plan : plans) {
      if (plan.level1 == chunk / kLevel1Chunks) {
        return plan.states[static_cast<std::size_t>(chunk % kLevel1Chunks)];
      }
    }
    return ChunkState::kUnlisted;
  }
};

Planned PlanOf(int64_t size_bytes, std::optional<int64_t> parent_bytes,
               const std::vector<ListedExtent>& extents) {
  Planned planned;
  const auto sink = [&](const Level1Plan& plan) {
    EXPECT_TRUE(planned.plans.empty() || planned.plans.back().level1 < plan.level1);
    planned.plans.push_back(plan);
    return absl::OkStatus();
  };
  std::optional<VolumeLayout> parent;
  if (parent_bytes.has_value()) {
    parent = Layout(*parent_bytes);
  }
  ChunkPlanner planner(Layout(size_bytes), parent, sink);
  for (const ListedExtent& extent : extents) {
    EXPECT_THAT(planner.Add(extent), IsOk());
  }
  EXPECT_THAT(planner.Finish(), IsOk());
  return planned;
}

// "u", "z" and "r", one for each chunk.
struct PlanCase {
  const char* name;
  int64_t size_bytes;
  std::optional<int64_t> parent_bytes;
  std::vector<ListedExtent> extents;
  const char* want;
};
class ChunkPlannerTest : public testing::TestWithParam<PlanCase> {};

TEST_P(ChunkPlannerTest, GivesEachChunkAState) {
  const PlanCase& c = GetParam();
  const Planned planned = PlanOf(c.size_bytes, c.parent_bytes, c.extents);
  std::string states;
  for (int64_t chunk = 0; chunk < Layout(c.size_bytes).chunk_count(); ++chunk) {
    states += "uzr"[static_cast<int>(planned.Of(chunk))];
  }
  EXPECT_EQ(states, c.want);
}

ListedExtent Data(int64_t offset, int64_t length) { return {.extent = {offset, length}}; }
ListedExtent Zero(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kZero};
}
ListedExtent Unknown(int64_t offset, int64_t length) {
  return {.extent = {offset, length}, .kind = ExtentKind::kUnknown};
}

constexpr int64_t k4 = 4 * kChunk;
const PlanCase kPlanCases[] = {
    {"NothingChanged", k4, k4, {}, "uuuu"},
    {"NothingAllocated", k4, {}, {}, "uuuu"},
    {"OneByte", k4, k4, {Data(kChunk, 1)}, "uruu"},
    {"OverABorder", k4, k4, {Data(kChunk - 1, 2)}, "rruu"},
    {"UnknownIsRead", k4, k4, {Unknown(kChunk, 1)}, "uruu"},
    {"WholeZero", k4, k4, {Zero(kChunk, 2 * kChunk)}, "uzzu"},
    {"PartlyZeroIsRead", k4, k4, {Zero(kChunk - 1, kChunk + 2)}, "rzru"},
    {"ZeroInsideAChunk", k4, k4, {Zero(kChunk + 1, 10)}, "uruu"},
    {"ZeroNextToData", k4, k4, {Zero(0, kChunk), Data(kChunk, 1)}, "zruu"},
    {"HalfZeroHalfData", k4, k4, {Zero(0, kChunk / 2), Data(kChunk / 2, kChunk / 2)}, "ruuu"},
    {"TwoHalvesOfZeroAreRead", k4, k4, {Zero(0, kChunk / 2), Zero(kChunk / 2, kChunk / 2)}, "ruuu"},
    {"ShortTailUnchanged", k4 - 1, k4 - 1, {}, "uuuu"},
    {"ShortTailOfAFullIsRead", k4 - 1, {}, {}, "uuur"},
    {"ShortTailSaidZeroIsRead", k4 - 1, k4 - 1, {Zero(0, k4 - 1)}, "zzzr"},
    {"OneByteVolume", 1, {}, {}, "r"},
    {"GrownFromAWholeChunk", k4, 2 * kChunk, {}, "uurr"},
    {"GrownFromAShortChunk", k4, 2 * kChunk + 1, {}, "uurr"},
    {"GrownByZeros", k4, 2 * kChunk, {Zero(2 * kChunk, 2 * kChunk)}, "uuzz"},
    {"ShrunkToAWholeChunk", 2 * kChunk, k4, {}, "uu"},
    {"ShrunkToAShortChunk", 2 * kChunk + 1, k4, {}, "uur"},
    {"ShrunkInsideTheTail", k4 - 2, k4 - 1, {}, "uuur"},
};
INSTANTIATE_TEST_SUITE_P(Table, ChunkPlannerTest, testing::ValuesIn(kPlanCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ChunkPlannerTest, LeavesOutLevel1TreesThatWereNotNamed) {
  const int64_t size = 5 * kLevel1Chunks * kChunk + 7;
  EXPECT_TRUE(PlanOf(size, size, {}).plans.empty());
  const Planned one = PlanOf(size, size, {Data(3 * kLevel1Chunks * kChunk, 1)});
  ASSERT_EQ(one.plans.size(), 1u);
  EXPECT_EQ(one.plans[0].level1, 3);
  const Planned two = PlanOf(size, size, {Data(2 * kLevel1Chunks * kChunk - 1, 2)});
  ASSERT_EQ(two.plans.size(), 2u);
  EXPECT_EQ(two.plans[0].level1, 1);
  EXPECT_EQ(two.plans[1].level1, 2);
}

TEST(ChunkPlannerTest, AChangeOfSizeNamesTheLastLevel1Tree) {
  const int64_t level1 = kLevel1Chunks * kChunk;
  const Planned shrunk = PlanOf(2 * level1 - 10 * kChunk, 3 * level1, {});
  ASSERT_EQ(shrunk.plans.size(), 1u);
  EXPECT_EQ(shrunk.plans[0].level1, 1);
  const Planned grown = PlanOf(3 * level1, level1, {});
  ASSERT_EQ(grown.plans.size(), 2u);
  EXPECT_EQ(grown.plans[0].level1, 1);
}

TEST(ChunkPlannerTest, AnErrorOfTheSinkIsReturnedUnchanged) {
  const auto sink = [](const Level1Plan&) { return absl::DataLossError("mine"); };
  ChunkPlanner planner(Layout(k4), std::nullopt, sink);
  EXPECT_THAT(planner.Finish(), StatusIs(absl::StatusCode::kDataLoss, "mine"));
}

// Random lists over a few level-1 trees, against every byte range asked of each chunk.
TEST(ChunkPlannerTest, AgreesWithAModel) {
  const support::SweepSample sample;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(sample.seed() * 30 + seed);
    const auto below = [&](int64_t bound) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
    };
    const int64_t size = 1 + below(2 * kLevel1Chunks * kChunk);
    const int64_t chunks = Layout(size).chunk_count();
    std::vector<ListedExtent> extents;
    std::map<int64_t, ChunkState> want;
    for (int64_t at = below(100 * kChunk); at < size; at += 1 + below(3000 * kChunk)) {
      const int64_t length = std::min(size - at, 1 + below(300 * kChunk));
      const ExtentKind kind = random() % 2 == 0 ? ExtentKind::kData : ExtentKind::kZero;
      extents.push_back({.extent = {at, length}, .kind = kind});
      for (int64_t chunk = at / kChunk; chunk * kChunk < at + length; ++chunk) {
        const bool whole = chunk * kChunk >= at && (chunk + 1) * kChunk <= at + length;
        const ChunkState state =
            kind == ExtentKind::kZero && whole ? ChunkState::kZero : ChunkState::kRead;
        want[chunk] = std::max(want[chunk], state);
      }
      at += length;
    }
    const Planned planned = PlanOf(size, size, extents);
    ChunkLedger ledger(Layout(size));
    for (const Level1Plan& plan : planned.plans) {
      ledger.Record(plan);
    }
    std::map<ChunkState, int64_t> in_plan;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const auto found = want.find(chunk);
      const ChunkState state = found == want.end() ? ChunkState::kUnlisted : found->second;
      ASSERT_EQ(planned.Of(chunk), state) << "seed " << seed << " chunk " << chunk;
      ++in_plan[state];
    }
    for (const ChunkState state : {ChunkState::kUnlisted, ChunkState::kZero, ChunkState::kRead}) {
      int64_t in_ledger = 0;
      for (int64_t leaf = 0; leaf < Layout(size).leaf_count(); ++leaf) {
        const int64_t count = ledger.CountInLeaf(leaf, state);
        in_ledger += count;
        if (count > 0) {
          EXPECT_EQ(planned.Of(ledger.ChunkAt(leaf, state, count - 1)), state);
          EXPECT_EQ(planned.Of(ledger.ChunkAt(leaf, state, 0)), state);
        }
      }
      EXPECT_EQ(in_ledger, in_plan[state]) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace csidelta::incremental::chunk_plan_test
