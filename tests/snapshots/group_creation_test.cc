#include "snapshots/group_creation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "snapshots/quota.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "snapshots/snapshot_room.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/group_objects.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::group_creation_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class GroupCreationTest : public support::ClusterFixture {
 protected:
  GroupCreationTest() {
    for (const char* const name : {"data-0", "data-1", "data-2"}) {
      SeedPvc(name);
    }
    api_.Seed(VolumeGroupSnapshotClassType("v1"),
              support::MakeGroupClassObject("groups", "d.example.com"));
  }

  void SeedPvc(const std::string& name) {
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-" + name);
    SetJson(volume, {"spec", "csi"},
            Json{{"driver", "d.example.com"}, {"volumeHandle", "volume-" + name}});
    api_.Seed(PersistentVolumeType(), volume);
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", name, {{"app", "db"}});
    SetJson(pvc, {"metadata", "uid"}, name + "-uid");
    SetJson(pvc, {"spec", "volumeName"}, "pv-" + name);
    sources_.push_back(
        {.pvc = *objects::PersistentVolumeClaim::Of(api_.Seed(PersistentVolumeClaimType(), pvc)),
         .driver = "d.example.com",
         .class_name = "fast"});
  }

  void SeedRetainClass() {
    Json retain = support::MakeGroupClassObject("groups", "d.example.com");
    SetJson(retain, {"deletionPolicy"}, "Retain");
    api_.Seed(VolumeGroupSnapshotClassType("v1"), retain);
  }

  GroupCreationRequest Request() const {
    return {.choice = {.version = "v1", .class_name = "groups"},
            .sources = sources_,
            .name = "week",
            .workload = "StatefulSet/db",
            .note = "before the upgrade",
            .timeout = absl::Minutes(5)};
  }
  absl::StatusOr<std::vector<csi::TakenSnapshot>> Create(const GroupCreationRequest& request) {
    return CreateGroup(ctx_, api_, Random::Real(), request);
  }

  // Neither group nor Lease nor label is left.
  void ExpectNothingLeft() {
    cluster_.LetDriverWork();
    EXPECT_THAT(support::SnapshotObjects(api_), IsEmpty());
    EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
    ExpectNoMarks();
  }
  void ExpectNoMarks() {
    EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
    for (const Json& pvc : api_.All(PersistentVolumeClaimType())) {
      EXPECT_EQ(k8s::Label(pvc, objects::kPersonsGroupLabel), "") << k8s::Name(pvc);
      EXPECT_EQ(k8s::Label(pvc, "app"), "db");
    }
  }

  std::vector<SnapshotSource> sources_;
};

TEST_F(GroupCreationTest, TakesAllAtOneInstant) {
  int taken = 0;
  GroupCreationRequest request = Request();
  request.on_taken = [&] { ++taken; };
  const auto creations = Create(request);
  ASSERT_THAT(creations, IsOk());
  ASSERT_THAT(*creations, SizeIs(3));
  EXPECT_EQ(taken, 1);
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_EQ(cluster_.driver().CallCount("CreateSnapshot"), 0);
  for (std::size_t i = 0; i < creations->size(); ++i) {
    const csi::TakenSnapshot& one = (*creations)[i];
    EXPECT_EQ(one.snapshot.source_pvc(), absl::StrCat("data-", i));
    EXPECT_EQ(
        csi::StatusOf(one.snapshot, csi::ReadingOf(one)).taken_at,
        csi::StatusOf(creations->front().snapshot, csi::ReadingOf(creations->front())).taken_at);
    EXPECT_TRUE(one.is_content_read);
    EXPECT_EQ(one.snapshot.Label(objects::kSnapshotSetLabel), "week");
    EXPECT_EQ(one.snapshot.Label(objects::kMadeByLabel), objects::kMadeByVerbs);
    EXPECT_EQ(one.snapshot.Annotation(objects::kSnapshotWorkloadAnnotation), "StatefulSet/db");
    EXPECT_EQ(one.snapshot.Annotation(objects::kSnapshotNoteAnnotation), "before the upgrade");
  }
  ExpectNoMarks();
}

TEST_F(GroupCreationTest, TheApplicationGoesOnBeforeTheMembersAreThere) {
  GroupCreationRequest request = Request();
  request.on_taken = [&] {
    EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
    EXPECT_THAT(api_.All(LeaseType()), SizeIs(3)) << "the volumes are still guarded";
  };
  EXPECT_THAT(Create(request), IsOk());
}

TEST_F(GroupCreationTest, AMemberThatIsBeingTakenMakesItBusy) {
  Json other = support::MakeSnapshotObject("shop", "nightly", "");
  SetJson(other, {"metadata", "creationTimestamp"}, FormatRfc3339(clock_.Now()));
  SetJson(other, {"spec", "source", "persistentVolumeClaimName"}, "data-1");
  api_.Seed(VolumeSnapshotType(), other);
  const auto creations = Create(Request());
  EXPECT_TRUE(csi::IsVolumeBusy(creations.status())) << creations.status();
  EXPECT_THAT(creations.status().message(), AllOf(HasSubstr("shop/data-1"), HasSubstr("nightly")));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
  ExpectNoMarks();
}

TEST_F(GroupCreationTest, WhatCannotBeAGroupHereMayBeTakenSingly) {
  api_.Forbid("patch", "persistentvolumeclaims");
  EXPECT_THAT(Create(Request()),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("data-0 cannot be labelled")));
  api_.ClearFaults();
  api_.Forbid("create", "volumegroupsnapshots");
  EXPECT_THAT(Create(Request()), StatusIs(absl::StatusCode::kUnimplemented));
  ExpectNothingLeft();
}

TEST_F(GroupCreationTest, ARefusalEndsItAndNothingStays) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "InvalidArgument", "volumes of two pools");
  EXPECT_THAT(Create(Request()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("volumes of two pools"),
                                                HasSubstr("week was deleted again"))));
  ExpectNothingLeft();
}

TEST_F(GroupCreationTest, WhatWasTakenGoesAgainAlsoWhereTheClassRetains) {
  SeedRetainClass();
  api_.FailNext("patch", "volumesnapshots", absl::InternalError("no label"));
  EXPECT_THAT(Create(Request()),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("week was deleted again"), Not(HasSubstr("Retain")))));
  ExpectNothingLeft();
}

class RetainedGroupTest : public GroupCreationTest,
                          public testing::WithParamInterface<const char*> {};

TEST_P(RetainedGroupTest, IsNamedWithItsHandleWhereItsContentsMayNotBePatched) {
  SeedRetainClass();
  api_.Forbid("patch", GetParam());
  api_.FailNext("patch", "volumesnapshots", absl::InternalError("no label"));
  const absl::Status status = Create(Request()).status();
  ASSERT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("week was deleted again"), HasSubstr("says Retain, and stays"),
                    HasSubstr(cluster_.driver().groups().begin()->first)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RetainedGroupTest,
                         testing::Values("volumesnapshotcontents", "volumegroupsnapshotcontents"),
                         [](const auto& param) { return std::string(param.param); });

TEST_F(GroupCreationTest, AQuotaWithoutRoomForAllEndsItBeforeTheGroupIsMade) {
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 2);
  const absl::Status refused = Create(Request()).status();
  EXPECT_EQ(csi::OutOfRoom(refused), csi::RoomLimit::kQuota) << refused;
  const auto use = ParseQuotaRefusal(refused.message());
  ASSERT_TRUE(use.has_value()) << refused;
  EXPECT_EQ(use->name, "snaps");
  EXPECT_EQ(use->used, 0);
  EXPECT_EQ(use->limit, 2);
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 0);
  ExpectNothingLeft();
}

TEST_F(GroupCreationTest, AQuotaWithRoomForAllAllowsIt) {
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 3);
  api_.SetQuota("elsewhere", VolumeSnapshotType(), "other", 0);
  const auto creations = Create(Request());
  ASSERT_THAT(creations, IsOk());
  EXPECT_THAT(creations->front().not_checked, IsEmpty());
}

TEST_F(GroupCreationTest, QuotasThatMayNotBeReadAreNamed) {
  api_.Forbid("list", "resourcequotas");
  const auto creations = Create(Request());
  ASSERT_THAT(creations, IsOk());
  EXPECT_THAT(creations->front().not_checked, ElementsAre(HasSubstr("quotas not checked: ")));
}

TEST_F(GroupCreationTest, ADriverWithoutRoomIsAskedAgainOnceItHasSome) {
  for (const char* const name : {"readable", "forbidden"}) {
    cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "ResourceExhausted", "9 of 9 snapshots");
    GroupCreationRequest request = Request();
    request.name = name;
    int calls = 0;
    request.on_full = [&](const absl::Status& refused) {
      ++calls;
      EXPECT_EQ(csi::OutOfRoom(refused), csi::RoomLimit::kDriver);
      EXPECT_THAT(refused.message(), HasSubstr("9 of 9 snapshots"));
      cluster_.LetDriverWork();
      return absl::OkStatus();
    };
    EXPECT_THAT(Create(request), IsOk()) << name;
    EXPECT_EQ(calls, 1);
    api_.Forbid("get", "volumegroupsnapshotcontents");
    api_.Forbid("get", "volumesnapshotcontents");
  }
}

TEST_F(GroupCreationTest, WithoutBeingAskedToADriverIsWaitedFor) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "ResourceExhausted", "9 of 9 snapshots");
  EXPECT_THAT(Create(Request()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("9 of 9 snapshots"), HasSubstr("; --make-room deletes"))));
  ExpectNothingLeft();
}

TEST_F(GroupCreationTest, WhereNothingMayGoNothingStays) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "ResourceExhausted", "9 of 9 snapshots");
  GroupCreationRequest request = Request();
  request.on_full = [](const absl::Status&) {
    return absl::ResourceExhaustedError("all are kept");
  };
  EXPECT_THAT(Create(request),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("all are kept"), HasSubstr("week was deleted again"))));
  ExpectNothingLeft();
}

TEST_F(GroupCreationTest, MembersThatAreNotMadeAreCounted) {
  GroupCreationRequest request = Request();
  request.on_taken = [&] {
    api_.Remove(VolumeSnapshotKey("shop", k8s::Name(api_.All(VolumeSnapshotType()).front())));
  };
  EXPECT_THAT(Create(request),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("is taken, but 1 of its 3 VolumeSnapshots were not made"),
                             Not(HasSubstr("quota")), HasSubstr("week was deleted again"))));
  api_.Forbid("list", "resourcequotas");
  EXPECT_THAT(Create(request).status().message(), HasSubstr("a quota may have no room for them"));
}

TEST_F(GroupCreationTest, WithoutTheRightToReadContentsTheTimeCounts) {
  api_.Forbid("get", "volumegroupsnapshotcontents");
  api_.Forbid("get", "volumesnapshotcontents");
  const auto creations = Create(Request());
  ASSERT_THAT(creations, IsOk());
  EXPECT_FALSE(creations->front().is_content_read);
  EXPECT_TRUE(creations->front().seen_taken_at.has_value());
}

TEST_F(GroupCreationTest, AGroupIsOfOneDriverWithAClass) {
  const auto choice = ChooseGroup(ctx_, api_, sources_);
  ASSERT_THAT(choice, IsOk());
  EXPECT_EQ(choice->version, "v1");
  EXPECT_EQ(choice->class_name, "groups");
  sources_.back().driver = "other.example.com";
  EXPECT_THAT(ChooseGroup(ctx_, api_, sources_),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("several drivers")));
  sources_.back().driver = "";
  EXPECT_THAT(ChooseGroup(ctx_, api_, sources_),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("may not be read")));
  for (SnapshotSource& source : sources_) {
    source.driver = "classless.example.com";
  }
  EXPECT_THAT(ChooseGroup(ctx_, api_, sources_), StatusIs(absl::StatusCode::kUnimplemented));
}

// --- Deleted again: snapshots/snapshot_removal.h

class GroupRemovalTest : public GroupCreationTest {
 protected:
  // The members of the group "week".
  std::vector<SnapshotEntry> CreateWeek() {
    CreateNamed("week");
    return Unit("week");
  }
  void CreateNamed(const std::string& name, const std::string& schedule = "") {
    GroupCreationRequest request = Request();
    request.name = name;
    request.schedule = schedule;
    ASSERT_THAT(Create(request), IsOk());
    clock_.Advance(absl::Hours(1));
  }
  Inventory Read() {
    const absl::StatusOr<Inventory> inventory = ReadInventory(ctx_, api_,
                                                              {.namespace_name = "shop",
                                                               .label_selector = "",
                                                               .requires_all = true,
                                                               .reads_groups = true,
                                                               .mover_namespace = "csi-delta",
                                                               .now = clock_.Now()});
    EXPECT_THAT(inventory, IsOk());
    return inventory.value_or(Inventory());
  }
  std::vector<SnapshotEntry> Unit(const std::string& group) {
    std::vector<SnapshotEntry> unit = Read().entries;
    std::erase_if(unit, [&](const SnapshotEntry& one) { return one.group.name != group; });
    return unit;
  }
  absl::StatusOr<Removal> Remove(const std::vector<SnapshotEntry>& unit, bool with_data = false) {
    return RemoveAsRead(ctx_, api_, unit,
                        {.requester = csi::Requester::kPrune,
                         .with_data = with_data,
                         .mover_namespace = "csi-delta"});
  }
  std::vector<std::string> Groups() const { return api_.Names(VolumeGroupSnapshotType("v1")); }
  void LabelGroup(const char* key, const char* value) {
    ASSERT_TRUE(api_.Mutate({VolumeGroupSnapshotType("v1"), "shop", "week"}, [&](Json& group) {
      SetJson(group, {"metadata", "labels", key}, value);
    }));
  }
  void SetPolicies(const k8s::ResourceType& type, const char* policy) {
    for (const Json& one : api_.All(type)) {
      ASSERT_TRUE(api_.Mutate({type, "", k8s::Name(one)}, [&](Json& content) {
        SetJson(content, {"spec", "deletionPolicy"}, policy);
      }));
    }
  }
};

TEST_F(GroupRemovalTest, AllMembersGoByOneCallOfTheDriver) {
  const std::vector<SnapshotEntry> unit = CreateWeek();
  ASSERT_THAT(unit, SizeIs(3));
  EXPECT_EQ(ShownName(unit), "VolumeGroupSnapshot week of PVC data-0, data-1, data-2");
  const auto removal = Remove(unit);
  ASSERT_THAT(removal, IsOk());
  EXPECT_EQ(removal->end, Removal::End::kRequested);
  EXPECT_THAT(AwaitRemoval(ctx_.WithTimeout(absl::Seconds(1)), api_, unit.front(), true), IsOk());
  EXPECT_EQ(cluster_.driver().CallCount("DeleteVolumeGroupSnapshot"), 1);
  ExpectNothingLeft();
  EXPECT_EQ(Remove(unit)->end, Removal::End::kGone);
}

TEST_F(GroupRemovalTest, WhatProtectsAMemberOrTheGroupSinceItWasReadWins) {
  const std::vector<SnapshotEntry> unit = CreateWeek();
  const auto expect_kept = [&](const char* message) {
    const auto removal = Remove(unit);
    ASSERT_THAT(removal, IsOk());
    EXPECT_EQ(removal->end, Removal::End::kKept);
    ASSERT_THAT(removal->kept_for, Not(IsEmpty()));
    EXPECT_THAT(removal->kept_for.front().message, HasSubstr(message));
  };
  const auto label_member = [&](const char* value) {
    api_.SetField(VolumeSnapshotKey("shop", unit[1].name),
                  {"metadata", "labels", objects::kKeepLabel}, value);
  };
  label_member("true");
  expect_kept("that of PVC data-1: labelled");
  label_member("");
  LabelGroup(objects::kKeepLabel, "true");
  expect_kept("its VolumeGroupSnapshot is labelled");
  LabelGroup(objects::kKeepLabel, "");
  LabelGroup(objects::kBackupNameLabel, "nightly");
  expect_kept("a backup made its VolumeGroupSnapshot");
  EXPECT_THAT(Groups(), ElementsAre("week"));
}

TEST_F(GroupRemovalTest, AGroupThatChangedIsReadAgainAndALaterOneIsLeftAlone) {
  std::vector<SnapshotEntry> unit = CreateWeek();
  LabelGroup("team", "db");  // Another resourceVersion.
  EXPECT_EQ(Remove(unit)->end, Removal::End::kRequested);
  CreateNamed("week");
  EXPECT_EQ(Remove(unit)->end, Removal::End::kGone);
  unit = Unit("week");
  api_.SetField({VolumeGroupSnapshotType("v1"), "shop", "week"}, {"metadata", "uid"}, "another");
  EXPECT_THAT(Remove(unit), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("is not there any more, or ")));
  EXPECT_THAT(Groups(), ElementsAre("week"));
}

TEST_F(GroupRemovalTest, WhatTheStorageKeepsLeavesNoContents) {
  SeedRetainClass();
  const std::vector<SnapshotEntry> unit = CreateWeek();
  ASSERT_THAT(Remove(unit), IsOk());
  for (const SnapshotEntry& member : unit) {
    EXPECT_THAT(RemoveKeptContent(ctx_, api_, member), IsOk());
  }
  EXPECT_THAT(support::SnapshotObjects(api_), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
}

TEST_F(GroupRemovalTest, WithDataTheStorageKeepsNothing) {
  SeedRetainClass();
  CreateNamed("week");
  ASSERT_THAT(Remove(Unit("week"), /*with_data=*/true), IsOk());
  ExpectNothingLeft();
}

// A user has patched the contents of the members, so that the storage keeps their data. The driver
// deletes a group by the policy of its own content.
TEST_F(GroupRemovalTest, AGroupWhoseMembersAreRetainedIsKeptForItsOwnPolicyDeletesThem) {
  CreateNamed("week");
  SetPolicies(VolumeSnapshotContentType(), "Retain");
  for (const PlannedRemoval& one : PlanRemoval(Read(), {0, 1, 2}, {.last_too = true})) {
    EXPECT_EQ(one.verdict, RemovalVerdict::kProtected);
    ASSERT_THAT(one.kept_for, SizeIs(1));
    EXPECT_THAT(one.kept_for.front().message, HasSubstr("VolumeGroupSnapshotContent says Delete"));
  }
  EXPECT_EQ(Remove(Unit("week"))->end, Removal::End::kKept);
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_EQ(Remove(Unit("week"), /*with_data=*/true)->end, Removal::End::kRequested);
  ExpectNothingLeft();
}

TEST_F(GroupRemovalTest, AGroupThatIsRetainedItselfLeavesItsDataToTheStorage) {
  CreateNamed("week");
  SetPolicies(VolumeGroupSnapshotContentType("v1"), "Retain");
  const std::vector<SnapshotEntry> unit = Unit("week");
  EXPECT_EQ(ActionOf(unit, /*with_data=*/false), DataAction::kKept);
  EXPECT_EQ(ActionOf(unit, /*with_data=*/true), DataAction::kDeleted);
  ASSERT_THAT(Remove(unit), IsOk());
  EXPECT_THAT(RemoveKeptContents(ctx_, api_, unit), IsEmpty());
  EXPECT_THAT(support::SnapshotObjects(api_), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
}

TEST_F(GroupRemovalTest, AMemberBeingDeletedThatIsNeededKeepsTheOthers) {
  CreateNamed("week");
  cluster_.provisioner_runs = false;
  const std::string needed = Unit("week")[1].name;
  Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "restored");
  SetJson(pvc, {"spec", "dataSource"}, {{"kind", "VolumeSnapshot"}, {"name", needed}});
  api_.Seed(PersistentVolumeClaimType(), pvc);
  ASSERT_THAT(api_.Delete(ctx_, VolumeSnapshotKey("shop", needed), {}), IsOk());
  for (const PlannedRemoval& one : PlanRemoval(Read(), {0, 2}, {.last_too = true})) {
    EXPECT_EQ(one.verdict, RemovalVerdict::kProtected);
    ASSERT_THAT(one.kept_for, Not(IsEmpty()));
    EXPECT_THAT(one.kept_for.front().message, HasSubstr("that of PVC data-1 stays"));
  }
}

TEST_F(GroupRemovalTest, AMemberThatMayNotBeDeletedDoesNotBringPoliciesBack) {
  SeedRetainClass();
  CreateNamed("week");
  cluster_.controller_version = "v1beta1";
  api_.Forbid("delete", "volumesnapshots");
  EXPECT_THAT(Remove(Unit("week"), /*with_data=*/true),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("VolumeGroupSnapshot week is deleted, but not its member")));
  for (const Json& content : api_.All(VolumeSnapshotContentType())) {
    EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Delete");
  }
}

// A schedule's Pod was killed between the group and its members.
TEST_F(GroupRemovalTest, MembersThatWereNotLabelledInTimeGoWithTheirGroup) {
  CreateNamed("first", "nightly");
  CreateNamed("second", "nightly");
  CreateNamed("third", "nightly");
  for (const std::string& name : {Unit("first")[1].name, Unit("second")[0].name,
                                  Unit("second")[1].name, Unit("second")[2].name}) {
    api_.Mutate(VolumeSnapshotKey("shop", name), [](Json& member) {
      EraseJson(member, {"metadata", "labels"});
    });
  }
  const auto retention =
      ApplyRules(ctx_, api_,
                 {.namespace_name = "shop",
                  .all_pvcs = true,
                  .label_selector = absl::StrCat(objects::kSnapshotScheduleLabel, "=nightly"),
                  .rules = {.last = 1},
                  .mover_namespace = "csi-delta"});
  ASSERT_THAT(retention, IsOk());
  EXPECT_THAT(retention->deleted, SizeIs(2));
  EXPECT_THAT(Groups(), ElementsAre("third"));
}

TEST_F(GroupRemovalTest, MembersThatTheControllerDoesNotTakeAlongGoToo) {
  CreateNamed("week");
  cluster_.controller_version = "v1beta1";
  ASSERT_THAT(Remove(Unit("week")), IsOk());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
}

TEST_F(GroupRemovalTest, AMemberKnownByItsOwnerAloneIsNotDeletedAlone) {
  cluster_.names_groups = false;
  CreateNamed("week");
  EXPECT_THAT(Unit("week"), SizeIs(3));
  const std::vector<PlannedRemoval> plan = PlanRemoval(Read(), {0}, {.last_too = true});
  ASSERT_THAT(plan, SizeIs(1));
  EXPECT_EQ(plan.front().verdict, RemovalVerdict::kProtected);
}

TEST_F(GroupRemovalTest, RoomIsMadeByWholeGroups) {
  CreateNamed("first");
  CreateNamed("second");
  CreateNamed("third");
  api_.SetQuota("snaps", VolumeSnapshotType(), "shop", 9);
  RetentionRequest request{.namespace_name = "shop", .pvcs = {"data-0"}};
  const CreationRequest one{.source = sources_[0], .name = "new", .timeout = absl::Minutes(1)};
  EXPECT_THAT(RoomMaker(ctx_, api_, request, absl::Minutes(1)).MakeInQuota(one, 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("first/data-0: a member of VolumeGroupSnapshot first")));
  request.pvcs = {"data-0", "data-1", "data-2"};
  const absl::Status refused = csi::AsQuotaRefusal(
      absl::PermissionDeniedError("exceeded quota: snaps, requested: count/volumesnapshots=1"));
  EXPECT_THAT(ExplainRoom(ctx_, api_, request, refused, 1),
              HasSubstr("removes the oldest 3 that rules allow (VolumeGroupSnapshot first of PVC"));
  RoomMaker room(ctx_, api_, request, absl::Minutes(1));
  ASSERT_THAT(room.MakeInQuota(one, 1), IsOk());
  EXPECT_THAT(Groups(), ElementsAre("second", "third"));
  EXPECT_THAT(room.TakeReport().deleted, ElementsAre(SizeIs(3)));
  ASSERT_THAT(room.MakeInDriver(csi::OutOfRoomError(csi::RoomLimit::kDriver, "full")), IsOk());
  EXPECT_THAT(Groups(), ElementsAre("third"));
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1)) << "it is waited for";
}

}  // namespace
}  // namespace csidelta::snapshots::group_creation_test
