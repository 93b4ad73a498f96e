#include "csi/group/group_lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/drop.h"
#include "csi/static_content.h"
#include "csi/volume_lease.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::group_lifecycle_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::SizeIs;

constexpr int kClaims = 3;

class GroupLifecycleTest : public BackupFixture {
 protected:
  GroupLifecycleTest() {
    for (int i = 0; i < kClaims; ++i) {
      SeedClaim(i);
    }
  }

  GroupRequest Request(int claims = kClaims) const {
    return RequestOfGroup(claims, cluster_.group_version);
  }

  absl::StatusOr<TakenGroup> Take() { return TakeGroup(ctx_, env_, Request()); }

  k8s::ObjectKey Key() const {
    return {VolumeGroupSnapshotType(cluster_.group_version), "app", GroupName(Request())};
  }

  // The content of each member says what it takes to delete the group.
  void ExpectNotes(const TakenGroup& taken) {
    for (const auto& [claim_uid, member] : taken.members) {
      const auto noted = objects::VolumeGroupSnapshotContent::RecordedIn(member.content);
      ASSERT_TRUE(noted.has_value());
      EXPECT_EQ(noted->archived_handle(), taken.content.handle_or_source());
      EXPECT_THAT(noted->archived_members(), SizeIs(kClaims));
      EXPECT_EQ(noted->snapshot_name(), taken.group.name());
      EXPECT_EQ(noted->Label(objects::kBackupNameLabel), "nightly");
    }
  }

  void ExpectNoMarks() {
    for (const Json& claim : api_.All(PersistentVolumeClaimType())) {
      EXPECT_EQ(k8s::Label(claim, objects::kGroupMarkLabel), "") << k8s::Name(claim);
      EXPECT_EQ(k8s::Label(claim, "app"), "db");
    }
  }

  void ExpectNothingLeft() {
    ExpectNoMarks();
    EXPECT_THAT(support::SnapshotObjects(api_), IsEmpty());
    EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
    EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  }
};

TEST_F(GroupLifecycleTest, AllMembersAreSnapshottedByOneCall) {
  const auto taken = Take();
  ASSERT_THAT(taken, IsOk());
  ASSERT_THAT(taken->members, SizeIs(kClaims));
  ASSERT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().groups().begin()->second, SizeIs(kClaims));
  for (int i = 0; i < kClaims; ++i) {
    const TakenSnapshot& member = taken->members.at(Claim(i).pvc_uid);
    EXPECT_EQ(support::SourceClaimName(member.snapshot.json()), Claim(i).pvc);
    EXPECT_EQ(support::SnapshotHandle(member.content.json()),
              cluster_.MemberHandle(k8s::Uid(taken->group.json()), Claim(i).volume_handle));
    EXPECT_TRUE(IsManaged(member.snapshot, backup_));
    EXPECT_EQ(MemberGroupName(member.snapshot), k8s::Name(taken->group.json()));
    EXPECT_EQ(k8s::Label(member.snapshot.json(), objects::kPvcUidLabel), Claim(i).pvc_uid);
    EXPECT_EQ(k8s::Label(member.snapshot.json(), objects::kGroupMarkLabel), "");
    EXPECT_EQ(k8s::Label(member.content.json(), objects::kGroupNameLabel),
              k8s::Name(taken->group.json()));
  }
  ExpectNotes(*taken);
  EXPECT_TRUE(IsManaged(support::As<objects::VolumeGroupSnapshot>(*api_.Find(Key())), backup_));
  EXPECT_EQ(PlannedMembers(objects::Object(*api_.Find(Key()))), Request().members);
  EXPECT_EQ(k8s::Annotation(*api_.Find(Key()), objects::kAskedAtAnnotation),
            "2023-11-14T22:13:20Z");
  ExpectNoMarks();
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
  EXPECT_THAT(api_.calls(), SizeIs(Le(4 * kClaims + 8)));
}

TEST_F(GroupLifecycleTest, NamesAreLabelsAndDependOnBackupAndGroup) {
  GroupRequest request = Request();
  request.label_value = "A.long_Name-" + std::string(51, 'x');
  const std::string name = GroupName(request);
  EXPECT_THAT(name, SizeIs(Le(63)));
  EXPECT_THAT(name, testing::MatchesRegex("[a-z0-9]([a-z0-9-]*[a-z0-9])?"));
  EXPECT_THAT(GroupMark(request), SizeIs(Le(63)));
  EXPECT_EQ(GroupName(request), name);
  GroupRequest other = request;
  other.label_key = "team/group";
  EXPECT_NE(GroupName(other), name);
  EXPECT_NE(GroupMark(other), GroupMark(request));
}

TEST_F(GroupLifecycleTest, TheSelectorIsALabelOfThisBackupAlone) {
  std::string selected;
  api_.OnCreate("volumegroupsnapshots", [&](support::FakeApiClient& api, const Json& group) {
    const auto labels = GetStringMap(group, {"spec", "source", "selector", "matchLabels"});
    ASSERT_THAT(labels, SizeIs(1));
    selected = labels.at(objects::kGroupMarkLabel);
    for (const Json& claim : api.All(PersistentVolumeClaimType())) {
      EXPECT_EQ(k8s::Label(claim, objects::kGroupMarkLabel), selected);
    }
  });
  ASSERT_THAT(Take(), IsOk());
  EXPECT_THAT(selected, testing::MatchesRegex("backup-uid\\.[0-9a-f]{8}"));
}

TEST_F(GroupLifecycleTest, TakesUpWhatAnInterruptedCallLeft) {
  ASSERT_THAT(Take(), IsOk());
  const auto again = Take();
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->members, SizeIs(kClaims));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), SizeIs(1));
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  ExpectNoMarks();
}

// From the request to the driver's answer, whenever the members were seen, and once for all.
TEST_F(GroupLifecycleTest, TheFreezeWindowIsRecordedOnTheGroup) {
  cluster_.driver().Hold("CreateVolumeGroupSnapshot");
  clock_.SetAutoAdvance(false);
  absl::StatusOr<TakenGroup> taken;
  std::jthread call([&] { taken = Take(); });
  api_.AwaitWatches(1);
  EXPECT_EQ(FreezeWindow(support::As<objects::VolumeGroupSnapshot>(*api_.Find(Key()))),
            std::nullopt);
  clock_.Advance(absl::Milliseconds(2500));
  cluster_.LetDriverWork();
  call.join();
  ASSERT_THAT(taken, IsOk());
  EXPECT_EQ(FreezeWindow(taken->group), absl::Milliseconds(2500));
  EXPECT_EQ(k8s::Annotation(*api_.Find(Key()), objects::kAnsweredAtAnnotation),
            "2023-11-14T22:13:22.5Z");
  clock_.Advance(absl::Hours(1));
  ASSERT_THAT(Take(), IsOk());
  EXPECT_EQ(FreezeWindow(support::As<objects::VolumeGroupSnapshot>(*api_.Find(Key()))),
            absl::Milliseconds(2500));
}

TEST_F(GroupLifecycleTest, MissingOrWrongAnnotationsGiveNoFreezeWindow) {
  const auto group = [](const char* asked_at, const char* answered_at) -> Json {
    return {{"metadata",
             {{"annotations",
               {{objects::kAskedAtAnnotation, asked_at},
                {objects::kAnsweredAtAnnotation, answered_at}}}}}};
  };
  EXPECT_EQ(FreezeWindow(support::As<objects::VolumeGroupSnapshot>(
                group("2023-11-14T22:13:20Z", "2023-11-14T22:13:20.084Z"))),
            absl::Milliseconds(84));
  EXPECT_EQ(FreezeWindow(support::As<objects::VolumeGroupSnapshot>(
                group("2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"))),
            absl::ZeroDuration());
  for (const Json& odd :
       {Json::object(), Json{{"metadata", {{"annotations", 7}}}}, group("", "2023-11-14T22:13:20Z"),
        group("2023-11-14T22:13:20Z", ""), group("yesterday", "today"),
        group("2023-11-14T22:13:21Z", "2023-11-14T22:13:20Z")}) {
    EXPECT_EQ(FreezeWindow(support::As<objects::VolumeGroupSnapshot>(odd)), std::nullopt) << odd;
  }
}

// Ten minutes of waiting are watches, begun again when the Lease is renewed. A watch begins
// with one read, or with what was just written, and there are no other reads.
TEST_F(GroupLifecycleTest, NothingPollsWhileTheDriverTakesItsTime) {
  cluster_.driver().Hold("CreateVolumeGroupSnapshot");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  const std::vector<support::ApiCall> calls = api_.calls();
  const auto is_made = [](const support::ApiCall& call) {
    return call.verb == "create" && call.plural == "volumegroupsnapshots";
  };
  const auto is_watch = [](const support::ApiCall& call) { return call.verb == "watch"; };
  const auto made = std::find_if(calls.begin(), calls.end(), is_made);
  ASSERT_NE(made, calls.end());
  const auto watches = std::count_if(made, calls.end(), is_watch);
  ASSERT_THAT(watches,
              AllOf(Ge(2), Le(backup_.csi_snapshot_timeout() / kVolumeLeaseRenewAfter + 1)));
  const auto last = std::find_if(calls.rbegin(), calls.rend(), is_watch).base();
  int reads = 0;
  for (auto call = made; call != last; ++call) {
    reads += call->verb == "get" || call->verb == "list" ? 1 : 0;
  }
  EXPECT_LE(reads, watches);
}

TEST_F(GroupLifecycleTest, AClaimThatGainsTheLabelMeanwhileIsNoMember) {
  ASSERT_THAT(TakeGroup(ctx_, env_, Request(2)), IsOk());
  const auto again = Take();
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->members, SizeIs(2));
  EXPECT_FALSE(again->members.contains(Claim(2).pvc_uid));
  ExpectNoMarks();
}

TEST_F(GroupLifecycleTest, AHundredClaimsCostFourRequestsEach) {
  for (int i = kClaims; i < static_cast<int>(kGroupMembersMax); ++i) {
    SeedClaim(i);
  }
  const auto taken = TakeGroup(ctx_, env_, Request(kGroupMembersMax));
  ASSERT_THAT(taken, IsOk());
  EXPECT_THAT(taken->members, SizeIs(kGroupMembersMax));
  EXPECT_THAT(api_.calls(), SizeIs(Le(4 * kGroupMembersMax + 8)));
}

TEST_F(GroupLifecycleTest, OlderVersionsOfTheKindsAreSupported) {
  for (const char* version : {"v1beta2", "v1beta1"}) {
    cluster_.group_version = version;
    cluster_.group_list = "volumeSnapshotHandlePairList";
    cluster_.controller_version = version;
    const auto taken = Take();
    ASSERT_THAT(taken, IsOk());
    EXPECT_THAT(taken->members, SizeIs(kClaims));
    EXPECT_EQ(taken->group.version(), version);
    EXPECT_THAT(DropSnapshot(ctx_, api_, taken->group, Data::kDelete), IsOk());
    ExpectNothingLeft();
  }
}

// A controller of today, seen through v1beta1: the field in which it lists members is not there.
TEST_F(GroupLifecycleTest, MembersThatTheVersionHidesAreRecorded) {
  cluster_.group_version = "v1beta1";
  cluster_.group_list = "fieldThatTheVersionLacks";
  const auto taken = Take();
  ASSERT_THAT(taken, IsOk());
  ASSERT_THAT(taken->members, SizeIs(kClaims));
  const std::vector<objects::PlannedGroupMember> noted = PlannedMembers(taken->group);
  ASSERT_THAT(noted, SizeIs(kClaims));
  for (const objects::PlannedGroupMember& member : noted) {
    EXPECT_EQ(member.snapshot_handle,
              support::SnapshotHandle(taken->members.at(member.pvc_uid).content.json()));
    EXPECT_NE(member.snapshot_handle, "");
  }
  ExpectNotes(*taken);
}

TEST_F(GroupLifecycleTest, MembersUnknownToTheControllerKeepNoFinalizer) {
  cluster_.names_groups = false;
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeft();
}

TEST_F(GroupLifecycleTest, AFailingMemberIsNamed) {
  cluster_.member_error = "rpc error: code = Internal desc = disk 2 is gone";
  cluster_.names_groups = false;
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("claim app/data-1"), HasSubstr("disk 2 is gone"),
                                     Not(HasSubstr("data-0")))));
  ExpectNothingLeft();
}

TEST_F(GroupLifecycleTest, AnErrorThatNamesAVolumeNamesItsClaim) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "InvalidArgument", "volume-1 is offline");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("claim app/data-1"), Not(HasSubstr("data-2")))));
  ExpectNothingLeft();
}

TEST_F(GroupLifecycleTest, AVolumeThatTheDriverLeftOutFailsTheGroup) {
  cluster_.driver().AddFault({.method = "CreateVolumeGroupSnapshot", .leaves_out = "volume-1"});
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("left claim app/data-1 out")));
  ExpectNothingLeft();
}

TEST_F(GroupLifecycleTest, TwoProcessesAtOnceMakeOneGroup) {
  clock_.SetAutoAdvance(false);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto taken = Take();
      ASSERT_THAT(taken, IsOk());
      EXPECT_THAT(taken->members, SizeIs(kClaims));
    });
  }
  threads.clear();
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
  ExpectNoMarks();
}

TEST_F(GroupLifecycleTest, TwentyGroupsAtOnce) {
  clock_.SetAutoAdvance(false);
  constexpr int kGroups = 20;
  for (int i = kClaims; i < kGroups * kClaims; ++i) {
    SeedClaim(i);
  }
  std::vector<std::jthread> threads;
  for (int g = 0; g < kGroups; ++g) {
    threads.emplace_back([this, g] {
      GroupRequest request = Request(0);
      request.label_value = absl::StrCat("db-", g);
      for (int i = 0; i < kClaims; ++i) {
        request.members.push_back(Claim(g * kClaims + i));
      }
      const auto taken = TakeGroup(ctx_, env_, request);
      ASSERT_THAT(taken, IsOk());
      EXPECT_THAT(taken->members, SizeIs(kClaims));
    });
  }
  threads.clear();
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(kGroups));
  ExpectNoMarks();
}

TEST_F(GroupLifecycleTest, ACopyOfAManagedObjectIsNotManaged) {
  const auto taken = Take();
  ASSERT_THAT(taken, IsOk());
  Json group = *api_.Find(Key());
  EXPECT_TRUE(IsMadeByUs(support::As<objects::VolumeGroupSnapshot>(group)));
  SetJson(group, {"metadata", "name"}, "my-copy");
  EXPECT_FALSE(IsMadeByUs(support::As<objects::VolumeGroupSnapshot>(group)));
  Json member = taken->members.begin()->second.snapshot.json();
  EXPECT_TRUE(IsMadeByUs(support::As<objects::VolumeSnapshot>(member)));
  EraseJson(member, {"metadata", "ownerReferences"});
  EXPECT_EQ(MemberGroupName(support::As<objects::VolumeSnapshot>(member)), "");
  EXPECT_FALSE(IsMadeByUs(support::As<objects::VolumeSnapshot>(member)));
  for (const Json& odd : {Json::object(), Json{{"metadata", "x"}}}) {
    EXPECT_FALSE(IsMadeByUs(support::As<objects::VolumeGroupSnapshot>(odd)));
    EXPECT_THAT(PlannedMembers(objects::Object(odd)), IsEmpty());
  }
}

}  // namespace
}  // namespace csidelta::csi::group_lifecycle_test
