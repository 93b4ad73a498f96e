#include "csi/volume_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "k8s/object.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::volume_lease_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::SizeIs;

class VolumeLeaseTest : public testing::Test {
 protected:
  VolumeLeaseTest() : api_(clock_) { ctx_.clock = &clock_; }

  static VolumeLeaseRequest By(const std::string& who) {
    return {.lease_namespace = "velero",
            .claim_namespace = "app",
            .claim_name = "data",
            .claim_uid = "claim-uid",
            .backup_name = who,
            .backup_uid = who + "-uid",
            .holder = who};
  }

  std::string holder() const {
    const auto leases = api_.All(LeaseType());
    return leases.empty() ? "" : GetString(leases.front(), {"spec", "holderIdentity"});
  }

  support::FakeClock clock_;
  support::FakeApiClient api_;
  CallContext ctx_;
};

TEST_F(VolumeLeaseTest, AFreeLeaseCostsTwoRequests) {
  auto turn = VolumeLease::Take(ctx_, api_, By("a"));
  ASSERT_THAT(turn, IsOk());
  EXPECT_FALSE(turn->taken_over());
  const Json lease = api_.All(LeaseType()).front();
  EXPECT_EQ(k8s::Namespace(lease), "velero");
  EXPECT_EQ(GetString(lease["metadata"]["ownerReferences"][0], {"name"}), "a");
  EXPECT_EQ(GetString(lease, {"spec", "renewTime"}), "2023-11-14T22:13:20.000000Z");
  ASSERT_THAT(turn->Release(ctx_, api_), IsOk());
  EXPECT_THAT(api_.calls(), SizeIs(2));
  EXPECT_EQ(api_.object_count(), 0);
}

TEST_F(VolumeLeaseTest, TheNextTakesAReleasedLease) {
  auto first = VolumeLease::Take(ctx_, api_, By("a"));
  ASSERT_THAT(first, IsOk());
  std::jthread second([&] {
    auto turn = VolumeLease::Take(ctx_, api_, By("b"));
    ASSERT_THAT(turn, IsOk());
    EXPECT_FALSE(turn->taken_over());
    EXPECT_EQ(holder(), "b");
    EXPECT_THAT(turn->Release(ctx_, api_), IsOk());
  });
  api_.AwaitWatches(1);
  EXPECT_EQ(holder(), "a");
  EXPECT_THAT(first->Release(ctx_, api_), IsOk());
  second.join();
  EXPECT_EQ(api_.object_count(), 0);
}

TEST_F(VolumeLeaseTest, ADeadHoldersLeaseExpires) {
  ASSERT_THAT(VolumeLease::Take(ctx_, api_, By("dead")), IsOk());
  clock_.SetAutoAdvance(true);
  const absl::Time before = clock_.Now();
  auto turn = VolumeLease::Take(ctx_, api_, By("next"));
  ASSERT_THAT(turn, IsOk());
  EXPECT_TRUE(turn->taken_over());
  EXPECT_EQ(clock_.Now() - before, kVolumeLeaseDuration);
  EXPECT_EQ(holder(), "next");
  EXPECT_THAT(turn->Release(ctx_, api_), IsOk());
  EXPECT_EQ(api_.object_count(), 0);
}

TEST_F(VolumeLeaseTest, ALivingHolderKeepsItsLease) {
  auto first = VolumeLease::Take(ctx_, api_, By("a"));
  ASSERT_THAT(first, IsOk());
  std::jthread second([&] {
    EXPECT_THAT(VolumeLease::Take(ctx_.WithTimeout(absl::Minutes(1)), api_, By("b")),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("backup a is still taking a snapshot of claim app/data")));
  });
  api_.AwaitWatches(1);
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(kVolumeLeaseRenewAfter);
    ASSERT_THAT(first->Renew(ctx_, api_), IsOk());
    EXPECT_EQ(holder(), "a");
  }
  second.join();
}

TEST_F(VolumeLeaseTest, ATimeoutBetweenTwoTriesNamesTheHolder) {
  ASSERT_THAT(VolumeLease::Take(ctx_, api_, By("a")), IsOk());
  clock_.SetAutoAdvance(true);
  api_.SetInterceptor([this](const support::ApiCall& call, const Json*) {
    if (call.verb != "update") {
      return absl::OkStatus();
    }
    clock_.Advance(absl::Minutes(1));
    return absl::AbortedError("the holder was quicker");
  });
  EXPECT_THAT(VolumeLease::Take(ctx_.WithTimeout(absl::Minutes(1)), api_, By("b")),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("backup a is still taking a snapshot of claim app/data")));
}

TEST_F(VolumeLeaseTest, RenewingALostLeaseIsAborted) {
  auto first = VolumeLease::Take(ctx_, api_, By("a"));
  ASSERT_THAT(first, IsOk());
  clock_.SetAutoAdvance(true);
  auto second = VolumeLease::Take(ctx_, api_, By("b"));
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(first->Renew(ctx_, api_), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(first->Release(ctx_, api_), IsOk());
  EXPECT_EQ(holder(), "b");
}

TEST_F(VolumeLeaseTest, ALostAnswerOfTheCreationIsNoOtherHolder) {
  clock_.SetAutoAdvance(true);
  api_.FailNext("create", "leases", absl::UnavailableError("reset"), 1, Fault::kAnswerLost);
  const absl::Time before = clock_.Now();
  auto turn = VolumeLease::Take(ctx_, api_, By("a"));
  ASSERT_THAT(turn, IsOk());
  EXPECT_FALSE(turn->taken_over());
  EXPECT_LT(clock_.Now() - before, absl::Seconds(1));
  EXPECT_THAT(turn->Release(ctx_, api_), IsOk());
  EXPECT_EQ(api_.object_count(), 0);
}

TEST_F(VolumeLeaseTest, RefusedAccessIsNamed) {
  api_.Forbid("create", "leases");
  EXPECT_THAT(VolumeLease::Take(ctx_, api_, By("a")),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("leases")));
}

TEST_F(VolumeLeaseTest, StopEndsTheWait) {
  ASSERT_THAT(VolumeLease::Take(ctx_, api_, By("a")), IsOk());
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  std::jthread second([&] {
    EXPECT_THAT(VolumeLease::Take(ctx_, api_, By("b")), StatusIs(absl::StatusCode::kCancelled));
  });
  api_.AwaitWatches(1);
  stop.request_stop();
}

TEST_F(VolumeLeaseTest, RemovesOnlyStaleLeases) {
  ASSERT_THAT(VolumeLease::Take(ctx_, api_, By("dead")), IsOk());
  clock_.Advance(absl::Minutes(11));
  VolumeLeaseRequest other = By("alive");
  other.claim_uid = "other-uid";
  ASSERT_THAT(VolumeLease::Take(ctx_, api_, other), IsOk());
  Json foreign = {{"metadata", {{"name", "foreign"}, {"namespace", "velero"}}}};
  api_.Seed(LeaseType(), foreign);
  EXPECT_THAT(RemoveStaleVolumeLeases(ctx_, api_, "velero"), IsOk());
  EXPECT_EQ(api_.object_count(), 2);
  EXPECT_FALSE(api_.Find({LeaseType(), "velero", "csi-delta-claim-uid"}).has_value());
}

}  // namespace
}  // namespace csidelta::csi::volume_lease_test
