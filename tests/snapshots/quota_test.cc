#include "snapshots/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "csi/driver_error.h"
#include "csi/retry.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::quota_test {
namespace {

using support::StatusIs;
using testing::HasSubstr;

// As kube-apiserver 1.32 writes it.
constexpr char kRefusal[] =
    "create volumesnapshots.snapshot.storage.k8s.io shop/monday: "
    "volumesnapshots.snapshot.storage.k8s.io \"monday\" is forbidden: exceeded quota: snaps, "
    "requested: count/volumesnapshots.snapshot.storage.k8s.io=1, "
    "used: count/volumesnapshots.snapshot.storage.k8s.io=10, "
    "limited: count/volumesnapshots.snapshot.storage.k8s.io=9";

TEST(QuotaTest, AQuotaIsNoMissingRight) {
  const absl::Status refused = csi::AsQuotaRefusal(absl::PermissionDeniedError(kRefusal));
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(csi::OutOfRoom(refused), csi::RoomLimit::kQuota);
  EXPECT_EQ(csi::OutOfRoom(csi::WithMore(refused, "; other")), csi::RoomLimit::kQuota);
  const absl::Status right = absl::PermissionDeniedError("user may not");
  EXPECT_EQ(csi::AsQuotaRefusal(right), right);
  // A server that is busy is not full.
  EXPECT_EQ(csi::OutOfRoom(absl::ResourceExhaustedError(kRefusal)), std::nullopt);
  EXPECT_EQ(csi::OutOfRoom(csi::OutOfRoomError(csi::RoomLimit::kDriver, "full")),
            csi::RoomLimit::kDriver);
}

TEST(QuotaTest, ReadsTheUseOfAQuotaAloneAndAmongOthers) {
  auto use = ParseQuotaRefusal(kRefusal);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->name, "snaps");
  EXPECT_EQ(use->used, 10);
  EXPECT_EQ(use->limit, 9);
  use = ParseQuotaRefusal(
      "exceeded quota: q, requested: count/volumesnapshots.snapshot.storage.k8s.io=1,pods=1, "
      "used: pods=3,count/volumesnapshots.snapshot.storage.k8s.io=2,secrets=4, "
      "limited: pods=8,count/volumesnapshots.snapshot.storage.k8s.io=2");
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->used, 2);
  EXPECT_EQ(use->limit, 2);
}

TEST(QuotaTest, OtherTextsSayNothingOfAQuota) {
  for (const char* const text :
       {"",
        "exceeded quota: ", "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
        "exceeded quota: q, used: count/volumesnapshots.snapshot.storage.k8s.io=, limited: "
        "count/volumesnapshots.snapshot.storage.k8s.io=",
        "exceeded quota: q, used: "
        "count/volumesnapshots.snapshot.storage.k8s.io=99999999999999999999"
        ", limited: count/volumesnapshots.snapshot.storage.k8s.io=1",
        "exceeded quota: q, used: pods=1, limited: "
        "count/volumesnapshots.snapshot.storage.k8s.io=1"}) {
    EXPECT_FALSE(ParseQuotaRefusal(text).has_value()) << text;
  }
}

TEST(QuotaTest, KnowsADriverWithoutRoom) {
  EXPECT_TRUE(csi::ReportsNoRoom("rpc error: code = ResourceExhausted desc = 250 of 250"));
  EXPECT_FALSE(csi::ReportsNoRoom("rpc error: code = Unavailable desc = ResourceExhausted"));
  for (const char* rate :
       {"this operation is rate-limited - one request per 10m0s", "Rate Limit Exceeded",
        "SnapshotCreationPerVolumeRateExceeded: The maximum ...", "429 Too Many Requests"}) {
    EXPECT_FALSE(
        csi::ReportsNoRoom(absl::StrCat("rpc error: code = ResourceExhausted desc = ", rate)))
        << rate;
  }
}

TEST(QuotaTest, ATimeoutQuotesTheDriver) {
  csi::DriverErrors errors(Clock::Real(), "PVC shop/data", absl::Minutes(5));
  const absl::Status late = absl::DeadlineExceededError("late");
  EXPECT_THAT(errors.Explain(late),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("reported no error")));
  EXPECT_THAT(errors.Check("no pool"), support::IsOk());
  EXPECT_THAT(errors.Explain(late),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "no snapshot of PVC shop/data was taken within 5m: the driver reports: "
                       "no pool"));
  const absl::Status other = absl::NotFoundError("gone");
  EXPECT_EQ(errors.Explain(other), other);
}

}  // namespace
}  // namespace csidelta::snapshots::quota_test
