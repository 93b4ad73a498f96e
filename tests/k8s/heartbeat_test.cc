#include "k8s/heartbeat.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "tests/support/fake_clock.h"

namespace csidelta::k8s::heartbeat_test {
namespace {

TEST(HeartbeatTest, IsAsOldAsTheLastTurn) {
  support::FakeClock clock;
  Heartbeat heartbeat;
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(heartbeat.Age(clock), absl::ZeroDuration()) << "the loop was not started";
  heartbeat.Beat(clock);
  clock.Advance(absl::Minutes(3));
  EXPECT_EQ(heartbeat.Age(clock), absl::Minutes(3));
  heartbeat.Beat(clock);
  EXPECT_EQ(heartbeat.Age(clock), absl::ZeroDuration());
}

TEST(HeartbeatTest, HealthFailsByTheNamesOfLoopsThatStandStill) {
  EXPECT_EQ(HealthOf({}).body, "ok\n");
  EXPECT_EQ(HealthOf({{"the lease", kLoopAgeMax}}).status, 200);
  const net::HttpResponse ill =
      HealthOf({{"the lease", absl::Seconds(2)}, {"a", absl::Minutes(11)}, {"b", absl::Hours(1)}});
  EXPECT_EQ(ill.status, 503);
  EXPECT_EQ(ill.body, "a has stood still for 11m\nb has stood still for 1h\n");
}

}  // namespace
}  // namespace csidelta::k8s::heartbeat_test
