#include "datamover/worker/worker_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace csidelta::datamover::worker_queue_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

TEST(WorkerQueueTest, ThoseThatHaveWaitedTheLongestAreFirst) {
  WorkerQueue queue;
  queue.Wait("a", kNow - absl::Seconds(1));
  queue.Wait("b", kNow - absl::Seconds(3));
  queue.Wait("c", kNow - absl::Seconds(2));
  queue.Wait("later", kNow + absl::Seconds(1));
  EXPECT_THAT(queue.First(2, kNow), ElementsAre("b", "c"));
  EXPECT_THAT(queue.First(9, kNow), ElementsAre("b", "c", "a"));
  EXPECT_THAT(queue.First(0, kNow), IsEmpty());
  queue.Wait("b", kNow);
  EXPECT_THAT(queue.First(9, kNow), ElementsAre("c", "a", "b"));
}

TEST(WorkerQueueTest, OneWaitsOrHasAWorkerOrNeither) {
  WorkerQueue queue;
  EXPECT_FALSE(queue.Leave("a"));
  queue.Wait("a", kNow);
  queue.Run("a");
  queue.Run("a");
  EXPECT_TRUE(queue.Runs("a"));
  EXPECT_EQ(queue.running(), 1U);
  EXPECT_THAT(queue.First(9, kNow), IsEmpty());
  queue.Wait("a", kNow);
  EXPECT_EQ(queue.running(), 0U);
  EXPECT_TRUE(queue.Leave("a"));
  EXPECT_FALSE(queue.Leave("a"));
  EXPECT_THAT(queue.First(9, kNow), IsEmpty());
}

}  // namespace
}  // namespace csidelta::datamover::worker_queue_test
