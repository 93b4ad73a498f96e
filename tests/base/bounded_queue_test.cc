#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>
#include <thread>

#include "base/worker_pool.h"
#include "tests/support/status_matchers.h"

namespace csidelta::bounded_queue_test {
namespace {

using support::IsOk;
using support::StatusIs;

TEST(BoundedQueueTest, GivesItemsInOrderAndEndsWhenClosed) {
  BoundedQueue<int> queue(100);
  EXPECT_TRUE(queue.Push(1, 40, {}));
  EXPECT_TRUE(queue.Push(2, 60, {}));
  EXPECT_EQ(queue.bytes(), 100);
  queue.Close();
  EXPECT_FALSE(queue.Push(3, 1, {}));
  EXPECT_EQ(queue.Pop({}), 1);
  EXPECT_EQ(queue.Pop({}), 2);
  EXPECT_EQ(queue.Pop({}), std::nullopt);
  EXPECT_EQ(queue.bytes(), 0);
}

TEST(BoundedQueueTest, AnItemHeavierThanTheBoundPassesAlone) {
  BoundedQueue<int> queue(10);
  EXPECT_TRUE(queue.Push(1, 1000, {}));
  EXPECT_EQ(queue.Pop({}), 1);
}

TEST(BoundedQueueTest, AStopEndsBothWaits) {
  BoundedQueue<int> queue(10);
  std::stop_source stop;
  EXPECT_TRUE(queue.Push(1, 10, stop.get_token()));
  std::jthread pusher([&] { EXPECT_FALSE(queue.Push(2, 1, stop.get_token())); });
  stop.request_stop();
  pusher.join();
  EXPECT_EQ(queue.Pop(stop.get_token()), std::nullopt);
}

TEST(BoundedQueueTest, NeverHoldsMoreThanItsBound) {
  BoundedQueue<int> queue(64);
  constexpr int kItems = 2000;
  std::atomic<int> sum = 0;
  WorkerPool pool({});
  pool.Start(3, [&](const CallContext& ctx, int) {
    while (const std::optional<int> item = queue.Pop(ctx.stop)) {
      EXPECT_LE(queue.bytes(), 64);
      sum += *item;
    }
    return absl::OkStatus();
  });
  for (int i = 0; i < kItems; ++i) {
    EXPECT_TRUE(queue.Push(1, 1 + i % 30, pool.context().stop));
  }
  queue.Close();
  EXPECT_THAT(pool.Join(), IsOk());
  EXPECT_EQ(sum, kItems);
}

TEST(WorkerPoolTest, TheFirstErrorStopsTheOthersAndIsReturned) {
  BoundedQueue<int> never(1);
  WorkerPool pool({});
  pool.Start(3, [&](const CallContext& ctx, int worker) -> absl::Status {
    if (worker == 1) {
      return absl::DataLossError("one");
    }
    EXPECT_EQ(never.Pop(ctx.stop), std::nullopt);
    return ctx.Check();
  });
  EXPECT_THAT(pool.Join(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(WorkerPoolTest, TheCallersStopReachesTheWorkers) {
  BoundedQueue<int> never(1);
  std::stop_source stop;
  CallContext ctx;
  ctx.stop = stop.get_token();
  WorkerPool pool(ctx);
  pool.Start(2, [&](const CallContext& worker_ctx, int) {
    never.Pop(worker_ctx.stop);
    return worker_ctx.Check();
  });
  stop.request_stop();
  EXPECT_THAT(pool.Join(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::bounded_queue_test
