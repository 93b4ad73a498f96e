#include "base/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "absl/status/statusor.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::retry_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;

constexpr BackoffOptions kBackoff = {
    .delay_first = absl::Seconds(1), .delay_max = absl::Seconds(4), .attempts_max = 4, .jitter = 0};

class RetryTest : public testing::Test {
 protected:
  RetryTest() { clock_.SetAutoAdvance(true); }

  // Fails so often, then succeeds.
  absl::StatusOr<int> Try(int failures, absl::Status error = absl::UnavailableError("away")) {
    begun_ = clock_.Now();
    return Retry(ctx_, kBackoff, Random::Real(), IsRetryable, [&]() -> absl::StatusOr<int> {
      if (++attempts_ <= failures) {
        return error;
      }
      return 7;
    });
  }

  support::FakeClock clock_;
  CallContext ctx_{.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_};
  absl::Time begun_;
  int attempts_ = 0;
};

TEST_F(RetryTest, TriesAgainWithGrowingDelays) {
  EXPECT_THAT(Try(3), IsOkAndHolds(7));
  EXPECT_EQ(attempts_, 4);
  EXPECT_EQ(clock_.Now() - begun_, absl::Seconds(1 + 2 + 4));
}

TEST_F(RetryTest, GivesUpAfterItsAttempts) {
  EXPECT_THAT(Try(9), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(attempts_, 4);
}

TEST_F(RetryTest, AnErrorThatIsNotTransientIsFinal) {
  EXPECT_THAT(Try(9, absl::NotFoundError("gone")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(attempts_, 1);
}

TEST_F(RetryTest, NoAttemptBeginsAfterTheDeadline) {
  ctx_ = ctx_.WithTimeout(absl::Seconds(2));
  EXPECT_THAT(Try(9), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(attempts_, 2);
  EXPECT_LT(clock_.Uptime(), ctx_.deadline);
}

TEST_F(RetryTest, NoneBeginsOnceItIsStopped) {
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  const auto step = [&]() -> absl::Status {
    ++attempts_;
    stop.request_stop();
    return absl::UnavailableError("away");
  };
  EXPECT_THAT(Retry(ctx_, kBackoff, Random::Real(), IsRetryable, step),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(attempts_, 1);
}

TEST_F(RetryTest, EachFailureThatIsFollowedByAnotherAttemptIsTold) {
  static int told = 0;
  told = 0;
  const auto step = [&] {
    return ++attempts_ < 3 ? absl::UnavailableError("away") : absl::OkStatus();
  };
  EXPECT_THAT(Retry(ctx_, kBackoff, Random::Real(), IsRetryable, step,
                    [](const absl::Status& status) { told += status.message() == "away" ? 1 : 0; }),
              IsOk());
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace csidelta::retry_test
