#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stop_token>

namespace csidelta::clock_test {
namespace {

TEST(RealClockTest, EndlessSleepEndsOnlyByStop) {
  std::stop_source stop;
  auto reached = std::async(std::launch::async, [&] {
    return Clock::Real().SleepUntil(absl::InfiniteFuture(), stop.get_token());
  });
  EXPECT_EQ(reached.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_FALSE(reached.get());
}

TEST(RealClockTest, SleepsUntilTheTime) {
  const absl::Time wake_at = Clock::Real().Now() + absl::Milliseconds(5);
  EXPECT_TRUE(Clock::Real().SleepUntil(wake_at, std::stop_token()));
  EXPECT_GE(Clock::Real().Now(), wake_at);
}

}  // namespace
}  // namespace csidelta::clock_test
