#include "incremental/block_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace csidelta::incremental::block_difference_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kBlock = kDifferenceBytes;

TEST(BlockDifferenceTest, EqualBytesDifferNowhere) {
  EXPECT_THAT(DifferingRanges("", ""), IsEmpty());
  EXPECT_THAT(DifferingRanges(std::string(10'000, 'x'), std::string(10'000, 'x')), IsEmpty());
}

TEST(BlockDifferenceTest, AByteThatDiffersMakesItsBlockARange) {
  const std::string held(10 * kBlock, 'x');
  for (const int64_t at : {int64_t{0}, kBlock - 1, kBlock, 9 * kBlock, 10 * kBlock - 1}) {
    std::string wanted = held;
    wanted[static_cast<std::size_t>(at)] = 'y';
    EXPECT_THAT(DifferingRanges(wanted, held), ElementsAre(Extent{at / kBlock * kBlock, kBlock}))
        << at;
  }
}

TEST(BlockDifferenceTest, NeighboursAreJoinedAndOthersAreNot) {
  const std::string held(10 * kBlock, 'x');
  std::string wanted = held;
  for (const int64_t block : {1, 2, 4}) {
    wanted[static_cast<std::size_t>(block * kBlock)] = 'y';
  }
  EXPECT_THAT(DifferingRanges(wanted, held),
              ElementsAre(Extent{kBlock, 2 * kBlock}, Extent{4 * kBlock, kBlock}));
}

TEST(BlockDifferenceTest, TheLastBlockIsAsLongAsItIs) {
  std::string wanted(kBlock + 100, 'x');
  const std::string held = wanted;
  wanted.back() = 'y';
  EXPECT_THAT(DifferingRanges(wanted, held), ElementsAre(Extent{kBlock, 100}));
}

TEST(BlockDifferenceTest, ZerosAreAPartOfTheirOwnFromTheirLeastLengthOn) {
  std::string wanted(20 * kBlock, 'x');
  std::fill_n(wanted.begin() + 2 * kBlock, 3 * kBlock, '\0');
  std::fill_n(wanted.begin() + 10 * kBlock, 4 * kBlock, '\0');
  EXPECT_THAT(DivideZeros(wanted, {kBlock, 15 * kBlock}, 4 * kBlock),
              ElementsAre(RangePart{.extent = {kBlock, 9 * kBlock}},
                          RangePart{.extent = {10 * kBlock, 4 * kBlock}, .is_zero = true},
                          RangePart{.extent = {14 * kBlock, 2 * kBlock}}));
}

TEST(BlockDifferenceTest, ZerosOutsideOfTheRangeDoNotCount) {
  const std::string wanted(8 * kBlock, '\0');
  EXPECT_THAT(DivideZeros(wanted, {kBlock, 3 * kBlock}, 4 * kBlock),
              ElementsAre(RangePart{.extent = {kBlock, 3 * kBlock}}));
  EXPECT_THAT(DivideZeros(wanted, {kBlock, 3 * kBlock}, 3 * kBlock),
              ElementsAre(RangePart{.extent = {kBlock, 3 * kBlock}, .is_zero = true}));
}

}  // namespace
}  // namespace csidelta::incremental::block_difference_test
