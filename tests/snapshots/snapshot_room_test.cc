// Which VolumeSnapshots make room for others, and when none is deleted: snapshots/snapshot_room.h.
#include "snapshots/snapshot_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "objects/keys.h"
#include "tests/snapshots/take_suite.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_room_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SnapshotRoomTest : public support::ClusterFixture {
 protected:
  SnapshotRoomTest() {
    request_.namespace_name = "shop";
    request_.pvcs = {"data"};
  }

  static CreationRequest Request(const std::string& name) {
    CreationRequest request = PersonsRequest("shop", name);
    request.may_join = true;
    request.awaited = AwaitedState::kReady;
    return request;
  }
  absl::Status Take(const std::string& name) {
    return CreateSnapshot(ctx_, api_, Random::Real(), Request(name)).status();
  }
  // So many, an hour apart: "s1" is the oldest, and all may go but for the rules. Then a quota.
  void TakeMany(int count, int quota = 0) {
    for (int i = 1; i <= count; ++i) {
      ASSERT_THAT(Take(absl::StrCat("s", i)), IsOk());
      clock_.Advance(absl::Hours(1));
    }
    if (quota > 0) {
      api_.SetQuota("snaps", VolumeSnapshotType(), "shop", quota);
    }
  }
  void DeleteSlowly(const std::string& name) {
    const k8s::ObjectKey key = VolumeSnapshotKey("shop", name);
    api_.SetField(key, {"metadata", "finalizers"}, Json::array({"example.com/slow"}));
    ASSERT_THAT(api_.Delete(ctx_, key, {}), IsOk());
  }
  std::vector<std::string> Left() const { return api_.Names(VolumeSnapshotType()); }
  int DryRuns() const {
    int count = 0;
    for (const support::ApiCall& call : api_.calls()) {
      count += call.dry_run ? 1 : 0;
    }
    return count;
  }
  void RefuseDryRuns(int& refusals) {
    api_.SetInterceptor([&refusals](const support::ApiCall& call, const Json*) {
      return call.dry_run && refusals-- > 0
                 ? absl::PermissionDeniedError("exceeded quota: snaps, requested: pods=1")
                 : absl::OkStatus();
    });
  }
  RoomMaker Maker() { return {ctx_, api_, request_, absl::Minutes(1)}; }
  absl::Status MakeInQuota(int places) { return Maker().MakeInQuota(Request("new"), places); }
  absl::Status MakeInDriver() {
    return Maker().MakeInDriver(csi::OutOfRoomError(csi::RoomLimit::kDriver, "full"));
  }

  RetentionRequest request_;
};

// --- A quota

TEST_F(SnapshotRoomTest, AfterADryRunTheOldestGoesAndThenThereIsRoom) {
  TakeMany(3, 3);
  const absl::Status refused = Take("new");
  EXPECT_EQ(csi::OutOfRoom(refused), csi::RoomLimit::kQuota) << refused;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    EXPECT_TRUE(call.verb != "delete" || call.plural != "volumesnapshots" || DryRuns() > 0);
    return absl::OkStatus();
  });
  RoomMaker maker = Maker();
  ASSERT_THAT(maker.MakeInQuota(Request("new"), 1), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s2", "s3"));
  const Retention report = maker.TakeReport();
  ASSERT_EQ(report.deleted.size(), 1);
  EXPECT_EQ(report.deleted.front().front().name, "s1");
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_THAT(Take("new"), IsOk());
}

TEST_F(SnapshotRoomTest, WhereThereIsRoomNothingGoes) {
  TakeMany(3, 4);
  EXPECT_THAT(MakeInQuota(1), IsOk());
  EXPECT_EQ(Left().size(), 3);
  EXPECT_EQ(DryRuns(), 1);
}

TEST_F(SnapshotRoomTest, WhatElseIsInTheWayEndsItBeforeAnythingGoes) {
  TakeMany(3, 3);
  api_.Forbid("create", "volumesnapshots");
  EXPECT_THAT(MakeInQuota(1), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(Left().size(), 3);
}

TEST_F(SnapshotRoomTest, AsManyGoAsAreNeeded) {
  TakeMany(5, 4);  // lowered since
  ASSERT_THAT(MakeInQuota(2), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s4", "s5"));
}

TEST_F(SnapshotRoomTest, RoomForOneIsNoRoomForAGroup) {
  TakeMany(3, 4);
  ASSERT_THAT(MakeInQuota(3), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s3"));
  EXPECT_THAT(MakeInQuota(3), IsOk());
  EXPECT_EQ(Left().size(), 1) << "there is room";
}

TEST_F(SnapshotRoomTest, WhereQuotasMayNotBeReadTheDryRunDecides) {
  TakeMany(3, 4);
  api_.Forbid("list", "resourcequotas");
  EXPECT_THAT(MakeInQuota(3), IsOk());
  EXPECT_EQ(Left().size(), 3);
}

TEST_F(SnapshotRoomTest, RulesHoldAndNothingGoesWhereTooFewMay) {
  TakeMany(3, 3);
  request_.rules.last = 2;
  EXPECT_THAT(MakeInQuota(2),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("quota snaps: 3 of 3 used"),
                             HasSubstr("nothing was deleted"), HasSubstr("s3: last snapshot"))));
  EXPECT_EQ(Left().size(), 3);
  EXPECT_THAT(MakeInQuota(1), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s2", "s3"));
}

TEST_F(SnapshotRoomTest, WhatIsProtectedStays) {
  TakeMany(2, 3);
  ASSERT_THAT(Take("young"), IsOk());
  api_.SetField(VolumeSnapshotKey("shop", "s1"), {"metadata", "labels", objects::kKeepLabel},
                "true");
  ASSERT_THAT(MakeInQuota(1), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s1", "young"));
  ASSERT_THAT(Take("new"), IsOk());
  EXPECT_THAT(Maker().MakeInQuota(Request("newer"), 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("younger than 5 minutes"), HasSubstr("s1: labelled"))));
}

TEST_F(SnapshotRoomTest, TheOnlyReadyOneStays) {
  TakeMany(1, 1);
  EXPECT_THAT(MakeInQuota(1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the only Ready one")));
}

TEST_F(SnapshotRoomTest, OtherMakersAndOtherPvcsAreLeftAlone) {
  TakeMany(3, 3);
  const auto change = [&](const char* name, const auto& edit) {
    ASSERT_TRUE(api_.Mutate(VolumeSnapshotKey("shop", name), edit));
  };
  change("s1", [](Json& one) { SetJson(one, {"metadata", "labels", objects::kMadeByLabel}, ""); });
  change("s2", [](Json& one) {
    SetJson(one, {"spec", "source", "persistentVolumeClaimName"}, "logs");
  });
  request_.rules.last = 1;
  EXPECT_THAT(MakeInQuota(1), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Left().size(), 3);
  request_.any_maker = true;
  EXPECT_THAT(MakeInQuota(1), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s2", "s3"));
}

TEST_F(SnapshotRoomTest, NothingGoesWhereNotAllMayBeRead) {
  TakeMany(3, 3);
  api_.Forbid("list", "volumesnapshotcontents");
  EXPECT_THAT(MakeInQuota(1),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("nothing was deleted")));
  EXPECT_EQ(Left().size(), 3);
}

TEST_F(SnapshotRoomTest, WhatIsBeingDeletedIsRoomToCome) {
  TakeMany(3, 3);
  DeleteSlowly("s3");
  const absl::Status late = MakeInQuota(1);
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("s3")));
  EXPECT_EQ(Left().size(), 3) << "it is waited for, and no other one goes";
}

TEST_F(SnapshotRoomTest, AQuotaThatCountsLateCostsNoSecondOne) {
  TakeMany(3, 3);
  int refusals = 4;
  RefuseDryRuns(refusals);
  ASSERT_THAT(MakeInQuota(1), IsOk());
  EXPECT_EQ(refusals, -1);
  EXPECT_THAT(Left(), ElementsAre("s2", "s3"));
}

TEST_F(SnapshotRoomTest, AfterADeletionARefusalCountsOnlyWhenItLasts) {
  TakeMany(4, 4);
  RoomMaker maker = Maker();
  ASSERT_THAT(maker.MakeInQuota(Request("new"), 1), IsOk());
  int refusals = 3;
  RefuseDryRuns(refusals);
  ASSERT_THAT(maker.MakeInQuota(Request("new"), 1), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s2", "s3", "s4"));
}

TEST_F(SnapshotRoomTest, AQuotaThatNeverCountsEndsIt) {
  TakeMany(3);
  int refusals = 1'000;
  RefuseDryRuns(refusals);
  RoomMaker maker = Maker();
  EXPECT_THAT(maker.MakeInQuota(Request("new"), 1),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("does not show")));
  EXPECT_THAT(Left(), ElementsAre("s2", "s3"));
}

TEST_F(SnapshotRoomTest, ARunThatWasKilledNeedsNoRoomForWhatItMade) {
  TakeMany(2, 2);
  EXPECT_THAT(Take("s2"), IsOk());
  EXPECT_EQ(Left().size(), 2);
}

TEST_F(SnapshotRoomTest, SaysWhatMakeRoomWouldDelete) {
  TakeMany(3, 3);
  const absl::Status refused = Take("new");
  EXPECT_EQ(ExplainRoom(ctx_, api_, request_, refused, 1),
            "quota snaps: 3 of 3 used; --make-room removes the oldest 1 that rules allow (s1)");
  request_.rules.last = 3;
  EXPECT_THAT(ExplainRoom(ctx_, api_, request_, refused, 1),
              AllOf(HasSubstr("all are kept: s3: last snapshot, s2: last snapshot"),
                    HasSubstr("csi-delta snapshot list -n shop"), Not(HasSubstr("--make-room"))));
  api_.Forbid("list", "volumesnapshots");
  EXPECT_EQ(ExplainRoom(ctx_, api_, request_, refused, 1),
            "quota snaps: 3 of 3 used; csi-delta snapshot list -n shop shows what could be "
            "deleted");
}

// What an API server says of `used` and `limit`.
absl::Status Refused(const std::string& used, const std::string& limit) {
  const std::string counted = "count/volumesnapshots.snapshot.storage.k8s.io=";
  return csi::OutOfRoomError(
      csi::RoomLimit::kQuota,
      absl::StrCat("exceeded quota: snaps, requested: ", counted, "1, used: ", counted, used,
                   ", limited: ", counted, limit));
}

TEST_F(SnapshotRoomTest, NumbersOfAQuotaAreOnlyAHint) {
  TakeMany(2);
  EXPECT_THAT(ExplainRoom(ctx_, api_, request_, Refused("2", "5"), 1),
              HasSubstr("removes the oldest 1 that rules allow (s1)"));
  EXPECT_THAT(ExplainRoom(ctx_, api_, request_, Refused("9223372036854775807", "0"), 1),
              AllOf(HasSubstr("s2: the only Ready one"), Not(HasSubstr("--make-room"))));
}

TEST_F(SnapshotRoomTest, FewAreNamed) {
  TakeMany(7);
  EXPECT_THAT(ExplainRoom(ctx_, api_, request_, Refused("7", "2"), 1),
              HasSubstr("allow (s1, s2, s3, s4, s5, ...)"));
  EXPECT_THAT(ExplainRoom(ctx_, api_, request_, Refused("7", "3"), 1),
              HasSubstr("allow (s1, s2, s3, s4, s5)"));
  request_.rules.last = 7;
  EXPECT_THAT(ExplainRoom(ctx_, api_, request_, Refused("7", "7"), 1), HasSubstr(", and 2 more"));
}

TEST_F(SnapshotRoomTest, WhereNoneCanBeDeletedThatIsSaid) {
  TakeMany(3, 3);
  api_.Forbid("delete", "volumesnapshots");
  RoomMaker maker = Maker();
  EXPECT_THAT(maker.MakeInQuota(Request("new"), 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("none could be deleted")));
  EXPECT_EQ(maker.TakeReport().failures.size(), 1);
}

// --- A driver

TEST_F(SnapshotRoomTest, ADriverWithoutRoomHasItAfterOneIsGone) {
  TakeMany(3);
  cluster_.driver().Refuse("CreateSnapshot", "ResourceExhausted", "3 of 3 snapshots");
  RoomMaker maker = Maker();
  CreationRequest request = Request("new");
  int calls = 0;
  request.on_full = [&](const absl::Status& refused) {
    ++calls;
    EXPECT_EQ(csi::OutOfRoom(refused), csi::RoomLimit::kDriver);
    const absl::Status made = maker.MakeInDriver(refused);
    EXPECT_EQ(cluster_.driver().snapshots().size(), 2) << "the driver's is gone, too";
    cluster_.LetDriverWork();
    return made;
  };
  ASSERT_THAT(CreateSnapshot(ctx_, api_, Random::Real(), request), IsOk());
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(Left(), ElementsAre("new", "s2", "s3"));
  EXPECT_EQ(maker.TakeReport().deleted.front().front().name, "s1");
}

// s1 and s3 of PVC logs, s2 and s4 of data.
class RoomOfTwoPvcsTest : public SnapshotRoomTest {
 protected:
  RoomOfTwoPvcsTest() {
    TakeMany(4);
    for (const char* const name : {"s1", "s3"}) {
      api_.SetField(VolumeSnapshotKey("shop", name),
                    {"spec", "source", "persistentVolumeClaimName"}, "logs");
    }
    request_.pvcs = {"data", "logs"};
  }
};

TEST_F(RoomOfTwoPvcsTest, ForAGroupTheOldestOfEachPvcGoes) {
  ASSERT_THAT(MakeInDriver(), IsOk());
  EXPECT_THAT(Left(), ElementsAre("s3", "s4"));
  EXPECT_THAT(MakeInDriver(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the only Ready one")));
}

TEST_F(RoomOfTwoPvcsTest, WhatIsBeingDeletedIsTheRoomOfItsPvc) {
  DeleteSlowly("s3");
  EXPECT_THAT(MakeInDriver(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("s3")));
  EXPECT_THAT(Left(), ElementsAre("s1", "s3", "s4"));
  request_.pvcs = {"data"};
  EXPECT_THAT(MakeInDriver(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("s4: the only Ready one")));
  EXPECT_THAT(Left(), ElementsAre("s1", "s3", "s4"));
}

TEST_F(RoomOfTwoPvcsTest, OfOnePvcOneThatIsBeingDeletedIsEnough) {
  DeleteSlowly("s1");
  DeleteSlowly("s3");
  request_.pvcs = {"logs"};
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.name == "s3" || call.verb == "watch") {  // It is waited for.
      api_.Remove(VolumeSnapshotKey("shop", "s3"));
      api_.Remove(VolumeSnapshotContentKey(
          support::BoundContentName(api_.Find(VolumeSnapshotKey("shop", "s3")).value_or(Json()))));
    }
    return absl::OkStatus();
  });
  const absl::Status made = MakeInDriver();
  EXPECT_EQ(std::string(made.message()).find("s1"), std::string::npos) << made;
}

TEST_F(SnapshotRoomTest, MoreGoesOnlyWhenTheDriverStillHasNoneAfterAWhile) {
  TakeMany(4);
  cluster_.driver().Refuse("CreateSnapshot", "ResourceExhausted", "4 of 2 snapshots");
  RoomMaker maker = Maker();
  CreationRequest request = Request("new");
  std::vector<absl::Time> calls;
  request.on_full = [&](const absl::Status& refused) {
    calls.push_back(clock_.Now());
    const absl::Status made = maker.MakeInDriver(refused);
    if (calls.size() == 2) {
      cluster_.LetDriverWork();
    }
    return made;
  };
  ASSERT_THAT(CreateSnapshot(ctx_, api_, Random::Real(), request), IsOk());
  ASSERT_EQ(calls.size(), 2);
  EXPECT_GE(calls[1] - calls[0], absl::Minutes(1));
  EXPECT_THAT(Left(), ElementsAre("new", "s3", "s4"));
}

TEST_F(SnapshotRoomTest, WhereRulesKeepAllTheCreationEnds) {
  TakeMany(2);
  cluster_.driver().Refuse("CreateSnapshot", "ResourceExhausted", "2 of 2 snapshots");
  request_.rules.last = 2;
  RoomMaker maker = Maker();
  CreationRequest request = Request("new");
  request.on_full = [&](const absl::Status& refused) { return maker.MakeInDriver(refused); };
  EXPECT_THAT(CreateSnapshot(ctx_, api_, Random::Real(), request),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("2 of 2 snapshots"), HasSubstr("all are kept"),
                             HasSubstr("new was deleted again"))));
  EXPECT_EQ(cluster_.driver().snapshots().size(), 2);
}

TEST_F(SnapshotRoomTest, WhoseDataTheStorageKeepsMakesNoRoomInTheDriver) {
  cluster_.class_policy = "Retain";
  TakeMany(2);
  EXPECT_THAT(MakeInDriver(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would keep its data")));
  EXPECT_EQ(Left().size(), 2);
}

TEST_F(SnapshotRoomTest, WithoutBeingAskedToADriverIsWaitedFor) {
  cluster_.driver().Refuse("CreateSnapshot", "ResourceExhausted", "3 of 3 snapshots");
  EXPECT_THAT(CreateSnapshot(ctx_, api_, Random::Real(), Request("new")),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("3 of 3 snapshots"), HasSubstr("; --make-room deletes"),
                             HasSubstr("csi-delta bases drop --namespace NS"))));
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_room_test
