#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace csidelta::memory_budget_test {
namespace {

using support::IsOk;
using support::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kProgram = MemoryBudget::kProgramBytes;

TEST(MemoryBudgetTest, HoldsUntilAShareIsGone) {
  MemoryBudget budget(kProgram + 100 * kMiB);
  {
    absl::StatusOr<MemoryBudget::Share> one = budget.Take(60 * kMiB, "one");
    ASSERT_THAT(one, IsOk());
    const MemoryBudget::Share moved = *std::move(one);
    EXPECT_EQ(moved.bytes(), 60 * kMiB);
    EXPECT_EQ(budget.free_bytes(), 40 * kMiB);
  }
  EXPECT_EQ(budget.held_bytes(), 0);
  EXPECT_EQ(budget.peak_bytes(), 60 * kMiB);
}

TEST(MemoryBudgetTest, RefusalSaysHowMuchWouldDo) {
  MemoryBudget budget(kProgram + 100 * kMiB);
  const absl::StatusOr<MemoryBudget::Share> one = budget.Take(60 * kMiB, "one");
  ASSERT_THAT(one, IsOk());
  const absl::StatusOr<MemoryBudget::Share> two = budget.Take(40 * kMiB + 1, "tree 12345678");
  EXPECT_THAT(two, StatusIs(absl::StatusCode::kResourceExhausted,
                            AllOf(HasSubstr("tree 12345678 needs 40.0 MiB of memory"),
                                  HasSubstr("at least 141 MiB"))));
  MemoryBudget enough(141 * kMiB);
  const absl::StatusOr<MemoryBudget::Share> first = enough.Take(60 * kMiB, "one");
  EXPECT_THAT(enough.Take(40 * kMiB + 1, "two"), IsOk());
}

TEST(MemoryBudgetTest, WaitGoesOnWhenOthersGiveBack) {
  MemoryBudget budget(kProgram + 100 * kMiB);
  absl::StatusOr<MemoryBudget::Share> one = budget.Take(60 * kMiB, "one");
  ASSERT_THAT(one, IsOk());
  bool waited = false;
  std::jthread other([&] {
    const absl::StatusOr<MemoryBudget::Share> two = budget.Wait({}, 50 * kMiB, "two");
    waited = two.ok();
  });
  one->Reset();
  other.join();
  EXPECT_TRUE(waited);
}

TEST(MemoryBudgetTest, WaitRefusesWhatNeverFitsAndEndsWithItsContext) {
  MemoryBudget budget(kProgram + 100 * kMiB);
  EXPECT_THAT(budget.Wait({}, 101 * kMiB, "pack"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at least 141 MiB")));
  const absl::StatusOr<MemoryBudget::Share> one = budget.Take(60 * kMiB, "one");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(budget.Wait({.stop = stop.get_token()}, 50 * kMiB, "two"),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(MemoryBudgetTest, WaitDoesNotWaitForWhatIsKept) {
  MemoryBudget budget(kProgram + 100 * kMiB);
  absl::StatusOr<MemoryBudget::Share> kept = budget.Keep(60 * kMiB, "table");
  ASSERT_THAT(kept, IsOk());
  EXPECT_THAT(budget.Wait({}, 50 * kMiB, "pack"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at least 150 MiB")));
  kept->Shrink(40 * kMiB);
  EXPECT_THAT(budget.Wait({}, 50 * kMiB, "pack"), IsOk());
}

TEST(MemoryBudgetTest, ListsThatGrowAreCounted) {
  MemoryBudget budget(kProgram + 100 * kMiB);
  MemoryBudget::Share share;
  std::vector<int64_t> one;
  std::vector<int64_t> two;
  absl::Status status;
  while (status.ok()) {
    status = budget.Append(share, one, int64_t{1}, "a list");
    status.Update(budget.Append(share, two, int64_t{2}, "a list"));
    ASSERT_EQ(share.bytes(), budget.held_bytes());
    ASSERT_GE(static_cast<std::size_t>(share.bytes()),
              (one.capacity() + two.capacity()) * sizeof(int64_t));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a list needs ")));
  EXPECT_GT(share.bytes(), 30 * kMiB);
  EXPECT_THAT(budget.Wait({}, 101 * kMiB - share.bytes(), "pack"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  share.Reset();
  EXPECT_EQ(budget.held_bytes(), 0);
}

TEST(MemoryBudgetTest, TablesGrowWithTheBudgetToTheirLimit) {
  EXPECT_EQ(MemoryBudget(90 * kMiB).table_bytes(), 10 * kMiB);
  EXPECT_EQ(MemoryBudget(kMiB).table_bytes(), kMiB);
  EXPECT_EQ(MemoryBudget::Unlimited().table_bytes(), MemoryBudget::kTableBytesMax);
}

}  // namespace
}  // namespace csidelta::memory_budget_test
