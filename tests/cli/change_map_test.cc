#include "cli/repository/change_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace csidelta::cli::change_map_test {
namespace {

using absl::StrCat;
using incremental::ExtentKind;
using incremental::ListedExtent;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kCell = 1 << 20;
constexpr int64_t kVolume = ChangeMap::kCells * kCell;

constexpr char kLegend[] = "              ░ less than a tenth  ▒ less than half  ▓ more  █ all\n";

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
            "         0 B [" + Spaces(64) + "]\n     8.0 TiB [█" + Spaces(63) + "]\n" + kLegend);
}

TEST(ChangeMapTest, LinesWithoutChangeThatFollowEachOtherAreCounted) {
  ChangeMap map(16 * kCell, 8, 2);
  map.Add({{7 * kCell, kCell / 20}});
  map.Add({{10 * kCell, kCell / 5 + 1}});
  map.Add({{11 * kCell, kCell / 2 + 1}});
  EXPECT_EQ(map.PictureLines(), StrCat("              … 3 rows without change\n",
                                       "     6.0 MiB [ ░]\n     8.0 MiB [  ]\n    10.0 MiB [▒▓]\n",
                                       "              … 2 rows without change\n", kLegend));
  EXPECT_EQ(ChangeMap(kVolume, 16).PictureLines(),
            StrCat("              … 16 rows without change\n", kLegend));
}

TEST(ChangeMapTest, APictureFitsTheTerminal) {
  for (const std::size_t columns : {60U, 80U, 120U, 1000U}) {
    const ChangeMap map(kVolume, 1, ChangeMap::CellsOf(static_cast<int>(columns)));
    EXPECT_EQ(map.PictureLines().find('\n'), columns - 1);
  }
}

TEST(ChangeMapTest, AFileHasACellForEachPartAndALegend) {
  ChangeMap map(4, 2, 2);
  map.Add({{2, 1}});
  const std::string svg = map.Svg("before to after");
  EXPECT_THAT(svg,
              AllOf(testing::StartsWith("<svg "), testing::EndsWith("</svg>\n"),
                    HasSubstr(">before to after<"), HasSubstr(">2 B<"), HasSubstr("viewBox"),
                    HasSubstr("x=\"100\" y=\"42\" width=\"10\" height=\"15\" fill=\"#00524a\""),
                    HasSubstr("less than a tenth")));
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '\n'), 2 + 1 + 2 + 4 + 2);
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
