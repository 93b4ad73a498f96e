#include "cli/repository/change_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace csidelta::cli::change_map_test {
namespace {

using incremental::ExtentKind;
using incremental::ListedExtent;

constexpr int64_t kCell = 1 << 20;
constexpr int64_t kVolume = ChangeMap::kCells * kCell;

std::string Spaces(int count) { return std::string(static_cast<std::size_t>(count), ' '); }

TEST(ChangeMapTest, ThePictureShowsWhereAndHowMuch) {
  ChangeMap map(kVolume);
  EXPECT_EQ(map.Picture(), Spaces(64));
  for (const ListedExtent& listed :
       {ListedExtent{{0, 1}}, ListedExtent{{2 * kCell, kCell / 5}},
        ListedExtent{{3 * kCell, kCell / 2}}, ListedExtent{{4 * kCell + kCell / 2, 2 * kCell}},
        ListedExtent{{kVolume - 1, 1}}}) {
    map.Add(listed);
  }
  EXPECT_EQ(map.Picture(), ". :++#+" + Spaces(56) + ".");
  EXPECT_EQ(map.extents(), 5);
}

TEST(ChangeMapTest, APictureOfSeveralLinesSaysWhereEachBegins) {
  constexpr int64_t kTebi = int64_t{1} << 40;
  ChangeMap map(16 * kTebi, 2);
  map.Add({{8 * kTebi, kTebi / 8}});
  EXPECT_EQ(map.Picture(), Spaces(64) + "#" + Spaces(63));
  EXPECT_EQ(map.PictureLines(),
            "         0 B [" + Spaces(64) + "]\n     8.0 TiB [#" + Spaces(63) + "]\n");
}

TEST(ChangeMapTest, OnlyTheLargestExtentsAreKept) {
  ChangeMap map(kVolume);
  for (int64_t i = 0; i < 10; ++i) {
    map.Add({{i * kCell, 1 + i % 7}});
  }
  std::vector<int64_t> lengths;
  for (const Extent& extent : map.largest()) {
    lengths.push_back(extent.length_bytes);
  }
  EXPECT_THAT(lengths, testing::ElementsAre(7, 6, 5, 4, 3));
}

TEST(ChangeMapTest, SizesAreCountedByPowersOfTwo) {
  ChangeMap map(kVolume);
  map.Add({{0, 4096}});
  map.Add({{8192, 8191}, ExtentKind::kZero});
  map.Add({{kCell, 8192}});
  EXPECT_EQ(map.Histogram(), (Json{{{"from_bytes", 4096}, {"extents", 2}, {"bytes", 12287}},
                                   {{"from_bytes", 8192}, {"extents", 1}, {"bytes", 8192}}}));
  EXPECT_EQ(map.zero_bytes(), 8191);
  EXPECT_EQ(map.bytes(), 20479);
}

TEST(ChangeMapTest, VolumesOfAnySizeHaveAPicture) {
  ChangeMap tiny(3);
  tiny.Add({{1, 1}});
  EXPECT_THAT(tiny.Picture(), testing::AllOf(testing::SizeIs(64), testing::HasSubstr("#")));
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  ChangeMap huge(kHuge);
  huge.Add({{0, kHuge}});
  EXPECT_EQ(huge.Picture(), std::string(64, '#'));
}

}  // namespace
}  // namespace csidelta::cli::change_map_test
