#include "datamover/records/group_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/group/group_lifecycle.h"
#include "datamover/controller/mover_metrics.h"
#include "objects/keys.h"
#include "tests/support/await.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::group_windows_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using EventKind = k8s::WatchEvent::Kind;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

// As the plugin leaves it when the driver has answered after `window`; zero: it has not yet.
Json Group(const std::string& uid, absl::Duration window, const std::string& value = "db",
           const std::string& velero_namespace = "velero") {
  const auto backup = support::As<objects::Backup>(
      support::MakeBackupObject("nightly", "InProgress", absl::StrCat("backup-of-", uid)));
  const csi::GroupRequest request{.backup = backup,
                                  .namespace_name = "shop",
                                  .label_key = "velero.io/volume-group",
                                  .label_value = value,
                                  .class_name = "groups",
                                  .version = "v1",
                                  .members = {}};
  Json group = {
      {"metadata",
       {{"name", csi::GroupName(request)},
        {"namespace", "shop"},
        {"uid", uid},
        {"labels",
         {{objects::kCsiDeltaLabel, velero_namespace}, {objects::kBackupUidLabel, backup.uid()}}},
        {"annotations",
         {{objects::kGroupOfAnnotation, absl::StrCat("velero.io/volume-group=", value)},
          {objects::kAskedAtAnnotation, FormatRfc3339(kNow)}}}}}};
  if (window > absl::ZeroDuration()) {
    SetJson(group, {"metadata", "annotations", objects::kAnsweredAtAnnotation},
            FormatRfc3339(kNow + window));
  }
  return group;
}

class GroupWindowsTest : public testing::Test {
 protected:
  void See(const Json& group, EventKind kind = EventKind::kModified) {
    informer_.OnEvent({.kind = kind, .object = group});
  }
  std::string Metrics() const { return MoverMetrics().Text(kNow, {.groups = windows_.figures()}); }

  bool leads_ = true;
  GroupWindows windows_{{"velero", "velero-two"}, kNow, [this] { return leads_; }};
  k8s::Informer informer_{{}, {&windows_}};
};

TEST_F(GroupWindowsTest, EachCutCountsOnce) {
  const Json group = Group("one", absl::Milliseconds(1500));
  See(Group("one", absl::ZeroDuration()), EventKind::kAdded);
  EXPECT_EQ(windows_.figures().groups, 0);
  See(group);
  See(group);
  informer_.OnAll({group});
  See(group, EventKind::kDeleted);
  informer_.OnAll({Group("two", absl::Milliseconds(500)),
                   Group("three", absl::Seconds(4), "web", "velero-two")});
  EXPECT_THAT(Metrics(), HasSubstr("csi_delta_mover_groups_total 3\n"));
  EXPECT_THAT(Metrics(), HasSubstr("csi_delta_mover_group_freeze_seconds_total 6\n"));
  EXPECT_THAT(Metrics(), HasSubstr("csi_delta_mover_last_group_freeze_seconds{velero_namespace="
                                   "\"velero\",namespace=\"shop\",group=\"db\"} 0.5\n"));
  EXPECT_THAT(Metrics(), HasSubstr("{velero_namespace=\"velero-two\",namespace=\"shop\",group="
                                   "\"web\"} 4\n"));
}

TEST_F(GroupWindowsTest, OfSeveralReplicasTheOneThatLeadsCounts) {
  leads_ = false;
  See(Group("one", absl::Seconds(2)));
  EXPECT_EQ(windows_.figures().groups, 0);
  EXPECT_THAT(windows_.figures().last, SizeIs(1));
  leads_ = true;
  See(Group("one", absl::Seconds(2)));
  EXPECT_EQ(windows_.figures().groups, 0) << "the other one counted it";
}

TEST_F(GroupWindowsTest, AForeignGroupDoesNotCount) {
  GroupWindows later({"velero"}, kNow + absl::Hours(1), [] { return true; });
  k8s::Informer({}, {&later}).OnAll({Group("one", absl::Seconds(2))});
  EXPECT_EQ(later.figures().groups, 0) << "counted before this process began";
  Json copy = Group("one", absl::Seconds(2));
  SetJson(copy, {"metadata", "name"}, "my-copy");
  informer_.OnAll({copy, Group("two", absl::Seconds(2), "db", "of-others"), Json(), Json(7),
                   Json{{"metadata", "x"}}, Json{{"metadata", {{"annotations", 5}}}}});
  EXPECT_EQ(windows_.figures().groups, 0);
  EXPECT_THAT(windows_.figures().last, IsEmpty());
}

// A group of any maker: a person's, whose run was killed, stays with its error.
TEST_F(GroupWindowsTest, GroupsWithAnErrorOrWithoutAContentAreCounted) {
  const auto group = [](const std::string& uid, absl::Duration age, const Json& status) {
    return Json{{"metadata",
                 {{"name", uid},
                  {"namespace", "shop"},
                  {"uid", uid},
                  {"creationTimestamp", FormatRfc3339(kNow - age)}}},
                {"status", status}};
  };
  const Json bound = {{"boundVolumeGroupSnapshotContentName", "content"}};
  Json refused = bound;
  refused["error"] = {{"message", "VolumeGroupSnapshotContent is missing"}};
  Json going = group("going", absl::Hours(1), refused);
  SetJson(going, {"metadata", "deletionTimestamp"}, FormatRfc3339(kNow));
  informer_.OnAll({group("refused", absl::ZeroDuration(), refused),
                   group("empty", absl::Minutes(11), Json::object()),
                   group("young", absl::Minutes(9), Json::object()),
                   group("good", absl::Hours(1), bound), going});
  EXPECT_THAT(Metrics(), HasSubstr("csi_delta_mover_groups_failing 2\n"));
  EXPECT_THAT(Metrics(), HasSubstr("csi_delta_mover_groups_total 0\n"));
  See(group("refused", absl::ZeroDuration(), bound));
  See(group("empty", absl::Minutes(11), Json::object()), EventKind::kDeleted);
  EXPECT_THAT(Metrics(), HasSubstr("csi_delta_mover_groups_failing 0\n"));
}

class WatchGroupsTest : public GroupWindowsTest {
 protected:
  WatchGroupsTest() {
    ctx_.clock = &clock_;
    ctx_.stop = stop_.get_token();
  }
  void AwaitGroups(int64_t count) {
    support::Await(absl::StrCat(count, " groups to be counted"),
                   [&] { return windows_.figures().groups >= count; });
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  std::stop_source stop_;
  CallContext ctx_;
};

TEST_F(WatchGroupsTest, GroupsAreFollowedInTheVersionThatIsServed) {
  api_.ServeVersion("volumegroupsnapshots", "v1beta2");
  const k8s::ResourceType type = VolumeGroupSnapshotType("v1beta2");
  api_.Seed(type, Group("one", absl::Seconds(1)));
  api_.Seed(type, support::MakeObject("groupsnapshot.storage.k8s.io/v1beta2", "VolumeGroupSnapshot",
                                      "shop", "of-a-person"));
  std::jthread handler([&] { WatchGroups(ctx_, api_, windows_).IgnoreError(); });
  const absl::Cleanup stop = [this] { stop_.request_stop(); };
  AwaitGroups(1);
  support::Await("the person's group to be seen",
                 [&] { return windows_.figures().failing.size() == 2; });
  api_.AwaitWatches(1);
  api_.Seed(type, Group("two", absl::Seconds(1)));
  AwaitGroups(2);
}

TEST_F(WatchGroupsTest, AClusterThatGetsTheKindsIsLookedAtAgain) {
  clock_.SetAutoAdvance(true);
  api_.FailNext("list", "volumegroupsnapshots", absl::NotFoundError("no such kind"), 7);
  api_.Seed(VolumeGroupSnapshotType("v1"), Group("one", absl::Seconds(1)));
  const absl::Time before = clock_.Now();
  std::jthread handler([&] { WatchGroups(ctx_, api_, windows_).IgnoreError(); });
  const absl::Cleanup stop = [this] { stop_.request_stop(); };
  AwaitGroups(1);
  EXPECT_GE(clock_.Now() - before, absl::Minutes(20));
}

}  // namespace
}  // namespace csidelta::datamover::group_windows_test
