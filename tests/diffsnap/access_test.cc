#include "diffsnap/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/diffsnap/fake_reviews.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace csidelta::diffsnap::access_test {
namespace {

using support::FakeClock;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    ctx_.clock = &clock_;
    api_.bearers["good"] = {.user = "mover", .audience = "diffsnap"};
    api_.bearers["other"] = {.user = "mover", .audience = "api"};
    api_.Allow("mover differentialsnapshots ns/a");
    api_.Allow("mover volumesnapshots ns");
  }

  absl::Status Check(const std::string& token, const std::string& name = "a") {
    return access_.Check(ctx_, Secret(token), "ns", name);
  }

  FakeClock clock_;
  CallContext ctx_;
  FakeReviews api_;
  AccessReviewer access_{
      api_, "diffsnap", {.reviews_per_second = 0, .unknown_tokens_per_second = 0}};
};

TEST_F(AccessTest, WhoMayReadBothIsLetIn) { EXPECT_THAT(Check("good"), IsOk()); }

TEST_F(AccessTest, AnUnknownTokenOrOneForOthersIsNot) {
  EXPECT_THAT(Check("guess"), StatusIs(absl::StatusCode::kUnauthenticated,
                                       AllOf(HasSubstr("diffsnap"), Not(HasSubstr("guess")))));
  EXPECT_THAT(Check("other"), StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(AccessTest, BothRightsAreNeeded) {
  EXPECT_THAT(Check("good", "b"), StatusIs(absl::StatusCode::kPermissionDenied,
                                           AllOf(HasSubstr("mover may not get"),
                                                 HasSubstr("differentialsnapshots.diffsnap"))));
  api_.Revoke();
  api_.Allow("mover differentialsnapshots ns/c");
  EXPECT_THAT(Check("good", "c"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("volumesnapshots.snapshot.storage.k8s.io in namespace ns")));
}

TEST_F(AccessTest, ADecisionCountsForTenSeconds) {
  EXPECT_THAT(Check("good"), IsOk());
  const int asked = api_.reviews();
  api_.Revoke();
  clock_.Advance(absl::Seconds(9));
  EXPECT_THAT(Check("good"), IsOk());
  EXPECT_EQ(api_.reviews(), asked);
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Check("good"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_GT(api_.reviews(), asked);
}

TEST_F(AccessTest, ADecisionIsOfOneTokenAndObject) {
  EXPECT_THAT(Check("good"), IsOk());
  EXPECT_THAT(Check("guess"), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Check("good", "b"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(access_.Check(ctx_, Secret("good"), "ns2", "a"),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(AccessTest, ManyGuessesAreNotRememberedForEver) {
  for (int64_t i = 0; i <= kDecisionsMax; ++i) {
    EXPECT_THAT(Check(absl::StrCat("guess", i)), StatusIs(absl::StatusCode::kUnauthenticated));
  }
  const int asked = api_.reviews();
  EXPECT_THAT(Check("guess0"), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(api_.reviews(), asked + 1);  // The oldest was dropped.
  EXPECT_THAT(Check(absl::StrCat("guess", kDecisionsMax)),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(api_.reviews(), asked + 1);
}

TEST_F(AccessTest, ATokenThatIsNotValidIsAskedAboutOnceForAllObjects) {
  EXPECT_THAT(Check("guess", "a"), StatusIs(absl::StatusCode::kUnauthenticated));
  const int asked = api_.reviews();
  EXPECT_THAT(Check("guess", "b"), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(api_.reviews(), asked);
  clock_.Advance(kDecisionAgeMax);
  EXPECT_THAT(Check("guess", "b"), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(api_.reviews(), asked + 1);
}

// The clock advances by itself while the reviewer waits.
class AccessLimitsTest : public AccessTest {
 protected:
  AccessLimitsTest() { clock_.SetAutoAdvance(true); }

  absl::Status CheckLimited(const std::string& token) {
    return limited_.Check(ctx_, Secret(token), "ns", "a");
  }

  AccessReviewer limited_{api_, "diffsnap"};
};

TEST_F(AccessLimitsTest, UnknownTokensAreNotAskedAboutFasterThanTheirLimit) {
  const absl::Time begun = clock_.Now();
  for (int i = 0; i < 1000; ++i) {
    CheckLimited(absl::StrCat("guess", i)).IgnoreError();
  }
  const double seconds = absl::ToDoubleSeconds(clock_.Now() - begun);
  EXPECT_LE(api_.reviews(), ReviewLimits().unknown_tokens_per_second * (seconds + 1) + 1);
}

TEST_F(AccessLimitsTest, AKnownReaderDoesNotWaitForUnknownTokens) {
  EXPECT_THAT(CheckLimited("good"), IsOk());
  clock_.Advance(kDecisionAgeMax);
  for (int i = 0; i < 100; ++i) {
    CheckLimited(absl::StrCat("guess", i)).IgnoreError();
  }
  const absl::Time asked = clock_.Now();
  EXPECT_THAT(CheckLimited("good"), IsOk());
  EXPECT_EQ(clock_.Now(), asked);
}

TEST_F(AccessTest, AnApiServerThatFailsDecidesNothing) {
  api_.failure = absl::PermissionDeniedError("create tokenreviews: forbidden");
  EXPECT_THAT(Check("good"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("forbidden")));
  api_.failure = absl::OkStatus();
  EXPECT_THAT(Check("good"), IsOk());  // The failure was not remembered.
}

}  // namespace
}  // namespace csidelta::diffsnap::access_test
