#include "csi/once_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::once_map_test {
namespace {

TEST(OnceMapTest, SixteenThreadsLoadOnce) {
  OnceMap<int> map(4);
  std::atomic<int> loads = 0;
  std::latch start(16);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const auto value = map.Get({}, "key", [&]() -> absl::StatusOr<int> { return ++loads; });
      ASSERT_THAT(value, support::IsOk());
      EXPECT_EQ(**value, 1);
    });
  }
  threads.clear();
  EXPECT_EQ(loads, 1);
}

TEST(OnceMapTest, AnErrorIsNotKept) {
  OnceMap<int> map(4);
  EXPECT_THAT(
      map.Get({}, "key", []() -> absl::StatusOr<int> { return absl::UnavailableError("down"); }),
      support::StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(map.Get({}, "key", []() -> absl::StatusOr<int> { return 7; }), support::IsOk());
}

TEST(OnceMapTest, ForgetsTheOldest) {
  OnceMap<int> map(2);
  int loads = 0;
  const auto load = [&]() -> absl::StatusOr<int> { return ++loads; };
  for (const char* key : {"a", "b", "c", "c", "b"}) {
    ASSERT_THAT(map.Get({}, key, load), support::IsOk());
  }
  EXPECT_EQ(loads, 3);
  ASSERT_THAT(map.Get({}, "a", load), support::IsOk());
  EXPECT_EQ(loads, 4);
}

TEST(OnceMapTest, StopEndsTheWaitForAnotherLoader) {
  OnceMap<int> map(2);
  std::latch loading(1);
  std::latch finish(1);
  std::jthread loader([&] {
    const auto value = map.Get({}, "key", [&]() -> absl::StatusOr<int> {
      loading.count_down();
      support::Await("the load to be released", [&] { return finish.try_wait(); });
      return 1;
    });
    EXPECT_THAT(value, support::IsOk());
  });
  support::Await("the other's load", [&] { return loading.try_wait(); });
  std::stop_source stop;
  stop.request_stop();
  CallContext ctx;
  ctx.stop = stop.get_token();
  EXPECT_THAT(map.Get(ctx, "key", []() -> absl::StatusOr<int> { return 2; }),
              support::StatusIs(absl::StatusCode::kCancelled));
  finish.count_down();
}

}  // namespace
}  // namespace csidelta::csi::once_map_test
