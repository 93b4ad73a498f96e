#include "tests/support/await.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::support::await_test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAreArray;

constexpr std::chrono::milliseconds kShort(20);

TEST(AwaitDeathTest, ATimeoutNamesWhatWasAwaited) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Await(
                   "the moon", [] { return false; }, kShort),
               "waited 20 ms for the moon");
  EXPECT_DEATH(
      {
        std::mutex mutex;
        std::condition_variable never;
        std::unique_lock lock(mutex);
        AwaitOn(
            never, lock, "the sun", [] { return false; }, kShort);
      },
      "for the sun, which did not come");
  EXPECT_DEATH(
      {
        const AwaitEnd end("an end", kShort);
        Await("nothing", [] { return false; });
      },
      "for an end, which did not come");
}

TEST(AwaitTest, ReturnsWhenTheConditionHolds) {
  std::atomic<int> asked = 0;
  Await("the third time", [&] { return ++asked == 3; });
  EXPECT_EQ(asked, 3);
  const AwaitEnd end("the end of this test");
}

TEST(SweepSampleTest, ASeedDrawsTheSameAndAnotherSeedOthers) {
  const std::vector<int64_t> first = SweepSample("7").Below(1000, 20);
  EXPECT_THAT(first, SizeIs(20));
  EXPECT_EQ(SweepSample("7").Below(1000, 20), first);
  EXPECT_NE(SweepSample("8").Below(1000, 20), first);
  EXPECT_THAT(SweepSample("8").Below(3, 20), UnorderedElementsAreArray({0, 1, 2}));
}

TEST(SweepSampleTest, AllIsAll) {
  const SweepSample sample("all");
  EXPECT_TRUE(sample.is_everything());
  EXPECT_THAT(sample.Below(1000, 20), SizeIs(1000));
  EXPECT_FALSE(SweepSample("7").is_everything());
}

TEST(SweepSampleTest, WithoutTheVariableItIsTheDay) {
  const uint64_t today = SweepSample(nullptr).seed();
  EXPECT_GT(today, 20'260'000u);
  EXPECT_LT(today, 21'000'000u);
  EXPECT_GE(today % 10'000, 101u);
  EXPECT_LE(today % 10'000, 1231u);
}

TEST(SweepSampleTest, ReplayNamesTheTest) {
  EXPECT_THAT(SweepSample("7").Replay(),
              AllOf(HasSubstr("CSI_DELTA_SWEEP=7 "),
                    HasSubstr(" --gtest_filter=SweepSampleTest.ReplayNamesTheTest")));
}

TEST(MemoryGrowthTest, SeesAPeakThatIsOverButNoEarlierOne) {
  const auto hold = [](std::size_t bytes) {
    std::vector<char> held(bytes, 'x');
    EXPECT_EQ(held[bytes / 2], 'x');
  };
  hold(std::size_t{64} << 20);
  const MemoryGrowth growth;
  hold(std::size_t{16} << 20);
  if (AssertsUnsanitized("a peak of 16 MiB is seen")) {
    EXPECT_GE(growth.bytes(), int64_t{15} << 20);
    EXPECT_LT(growth.bytes(), int64_t{24} << 20);
  }
}

}  // namespace
}  // namespace csidelta::support::await_test
