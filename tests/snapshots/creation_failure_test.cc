#include "snapshots/creation_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::creation_failure_test {
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

TEST(CreationFailureTest, AQuotaIsNoMissingRight) {
  const absl::Status refused = AsQuotaRefusal(absl::PermissionDeniedError(kRefusal));
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(OutOfRoom(refused), RoomLimit::kQuota);
  EXPECT_EQ(OutOfRoom(WithMore(refused, "; other")), RoomLimit::kQuota);
  const absl::Status right = absl::PermissionDeniedError("user may not");
  EXPECT_EQ(AsQuotaRefusal(right), right);
  // A server that is busy is not full.
  EXPECT_EQ(OutOfRoom(absl::ResourceExhaustedError(kRefusal)), std::nullopt);
  EXPECT_EQ(OutOfRoom(OutOfRoomError(RoomLimit::kDriver, "full")), RoomLimit::kDriver);
}

TEST(CreationFailureTest, ReadsTheUseOfAQuota) {
  const auto use = ParseQuotaRefusal(kRefusal);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->name, "snaps");
  EXPECT_EQ(use->used, 10);
  EXPECT_EQ(use->limit, 9);
}

TEST(CreationFailureTest, ReadsTheUseAmongOthers) {
  const auto use = ParseQuotaRefusal(
      "exceeded quota: q, requested: count/volumesnapshots.snapshot.storage.k8s.io=1,pods=1, "
      "used: pods=3,count/volumesnapshots.snapshot.storage.k8s.io=2,secrets=4, "
      "limited: pods=8,count/volumesnapshots.snapshot.storage.k8s.io=2");
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->used, 2);
  EXPECT_EQ(use->limit, 2);
}

TEST(CreationFailureTest, OtherTextsSayNothingOfAQuota) {
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

TEST(CreationFailureTest, KnowsADriverWithoutRoom) {
  EXPECT_TRUE(ReportsNoRoom("rpc error: code = ResourceExhausted desc = 250 of 250"));
  EXPECT_FALSE(ReportsNoRoom("rpc error: code = Unavailable desc = ResourceExhausted"));
}

TEST(CreationFailureTest, ATimeoutTellsWhatTheDriverReported) {
  const absl::Status late = absl::DeadlineExceededError("late");
  EXPECT_THAT(ExplainTimeout(late, "PVC shop/data", absl::Minutes(5), "no pool"),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "no snapshot of PVC shop/data was taken within 5m: the driver reports: "
                       "no pool"));
  EXPECT_THAT(ExplainTimeout(late, "PVC shop/data", absl::Minutes(5), ""),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("reported no error")));
  const absl::Status other = absl::NotFoundError("gone");
  EXPECT_EQ(ExplainTimeout(other, "", absl::Minutes(5), ""), other);
}

}  // namespace
}  // namespace csidelta::snapshots::creation_failure_test
