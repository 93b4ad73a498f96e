#include "base/extent.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/sweep_sample.h"

namespace csidelta::extent_test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct FormCase {
  const char* name;
  Extent extent;
  bool want;
};
class ExtentFormTest : public testing::TestWithParam<FormCase> {};

TEST_P(ExtentFormTest, IsWellFormedOnlyWhenTheEndFits) {
  EXPECT_EQ(IsWellFormed(GetParam().extent), GetParam().want);
}

const FormCase kFormCases[] = {
    {"FirstByte", {0, 1}, true},
    {"UpToTheLastNumber", {kMax - 1, 1}, true},
    {"Everything", {0, kMax}, true},
    {"Empty", {0, 0}, false},
    {"NegativeLength", {4096, -1}, false},
    {"NegativeOffset", {-1, 2}, false},
    {"EndOverflows", {kMax, 1}, false},
    {"BothHuge", {kMax, kMax}, false},
    {"LowestNumber", {std::numeric_limits<int64_t>::min(), kMax}, false},
};
INSTANTIATE_TEST_SUITE_P(Table, ExtentFormTest, testing::ValuesIn(kFormCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ClipExtentTest, CutsAtTheVolumesEnd) {
  EXPECT_EQ(ClipExtent({0, 10}, 20), (Extent{0, 10}));
  EXPECT_EQ(ClipExtent({15, 10}, 20), (Extent{15, 5}));
  EXPECT_EQ(ClipExtent({20, 1}, 20), std::nullopt);
  EXPECT_EQ(ClipExtent({0, 1}, 0), std::nullopt);
  EXPECT_EQ(ClipExtent({1, kMax - 1}, 2), (Extent{1, 1}));
}

TEST(AppendExtentTest, JoinsWhatBeginsInsideOfTheLastOrAtItsEnd) {
  std::vector<Extent> extents;
  for (const Extent& extent : {Extent{10, 5}, {15, 5}, {12, 2}, {21, 1}, {5, 10}}) {
    AppendExtent(extents, extent);
  }
  EXPECT_EQ(extents, (std::vector<Extent>{{10, 10}, {21, 1}, {5, 10}}));
}

// Random lists against one bit per byte.
class ExtentModel {
 public:
  static constexpr int kBytes = 300;

  static std::vector<Extent> RandomList(std::mt19937& random) {
    std::vector<Extent> list(random() % 12);
    for (Extent& extent : list) {
      extent.offset_bytes = static_cast<int64_t>(random() % (kBytes - 1));
      extent.length_bytes =
          1 + static_cast<int64_t>(random() % static_cast<unsigned>(kBytes - extent.offset_bytes));
      extent.length_bytes = std::min<int64_t>(extent.length_bytes, 1 + random() % 40);
    }
    return list;
  }

  static std::vector<bool> Bits(const std::vector<Extent>& list) {
    std::vector<bool> bits(kBytes);
    for (const Extent& extent : list) {
      for (int64_t at = extent.offset_bytes; at < extent.end_bytes(); ++at) {
        bits[static_cast<std::size_t>(at)] = true;
      }
    }
    return bits;
  }

  // Whether the extents are well-formed, ascend, and neither overlap nor touch.
  static bool IsNormal(const std::vector<Extent>& extents) {
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (!IsWellFormed(extents[i]) ||
          (i > 0 && extents[i].offset_bytes <= extents[i - 1].end_bytes())) {
        return false;
      }
    }
    return true;
  }
};

TEST(ExtentPropertyTest, MergeAndSubtractAgreeWithSetsOfBytes) {
  const support::SweepSample sample;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(static_cast<unsigned>(sample.seed()) * 2000 + seed);
    const std::vector<Extent> some = ExtentModel::RandomList(random);
    const std::vector<Extent> others = ExtentModel::RandomList(random);
    const std::vector<Extent> merged = MergeExtents(some);
    const std::vector<Extent> removed = MergeExtents(others);
    ASSERT_TRUE(ExtentModel::IsNormal(merged)) << "seed " << seed;
    ASSERT_EQ(ExtentModel::Bits(merged), ExtentModel::Bits(some)) << "seed " << seed;
    const std::vector<Extent> left = SubtractExtents(merged, removed);
    ASSERT_TRUE(ExtentModel::IsNormal(left)) << "seed " << seed;
    std::vector<bool> want = ExtentModel::Bits(some);
    const std::vector<bool> minus = ExtentModel::Bits(others);
    int64_t count = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] = want[i] && !minus[i];
      count += want[i] ? 1 : 0;
    }
    ASSERT_EQ(ExtentModel::Bits(left), want) << "seed " << seed;
    ASSERT_EQ(TotalBytes(left), count) << "seed " << seed;
  }
}

}  // namespace
}  // namespace csidelta::extent_test
