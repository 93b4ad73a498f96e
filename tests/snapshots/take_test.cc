#include "csi/take.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/drop.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/snapshot_state.h"
#include "csi/volume_lease.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "snapshots/snapshot_creation.h"
#include "tests/snapshots/take_suite.h"
#include "tests/support/await.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

// What holds for a VolumeSnapshot of a backup and of a person; what only people have is in
// snapshot_creation_test.cc.
namespace csidelta::snapshots::take_test {
namespace {

using csi::IsManaged;
using csi::SnapshotName;
using csi::TakenSnapshot;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

class TakeFixture : public TakeSuite {
 protected:
  explicit TakeFixture(Who who) : TakeSuite(who, "CreateSnapshot") {}

  csi::SnapshotRequest Request() const {
    return {.backup = backup_,
            .claim_namespace = "app",
            .claim_name = "data",
            .claim_uid = "data-uid",
            .class_name = "fast"};
  }
  // One that joins what an earlier run made, and waits for others.
  CreationRequest JoiningRequest() const {
    CreationRequest request = PersonsRequest("app", "monday");
    request.may_join = true;
    request.waits_for_others = true;
    request.timeout = backup_.csi_snapshot_timeout();
    return request;
  }

  absl::StatusOr<TakenSnapshot> Take() {
    return who_ == Who::kBackup ? csi::TakeSnapshot(ctx_, env_, Request())
                                : CreateSnapshot(ctx_, api_, Random::Real(), JoiningRequest());
  }
  std::string Name() const { return who_ == Who::kBackup ? SnapshotName(Request()) : "monday"; }
  std::string LeaseNamespace() const { return who_ == Who::kBackup ? "velero" : "app"; }

  absl::Status TakeIt() override { return Take().status(); }
  k8s::ObjectKey Key() const override { return VolumeSnapshotKey("app", Name()); }

  void DeleteTaken() override {
    EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
    EXPECT_THAT(csi::DeleteSnapshot(ctx_, api_, Key(), k8s::Uid(*api_.Find(Key()))), IsOk());
  }
  void ExpectNothingLeft() override {
    EXPECT_EQ(api_.object_count(), 0);
    EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  }

  // Another client's VolumeSnapshot of the same PVC, not taken yet.
  Json SeedOther(const std::string& name, absl::Duration age = absl::ZeroDuration()) {
    Json other = {{"metadata", {{"name", name}, {"namespace", "app"}}},
                  {"spec", {{"source", {{"persistentVolumeClaimName", "data"}}}}}};
    SetJson(other, {"metadata", "creationTimestamp"}, FormatRfc3339(clock_.Now() - age));
    return api_.Seed(VolumeSnapshotType(), other);
  }
  // Happens when the Lease is renewed for the `n`th time.
  void AtRenewal(int n, const std::function<void()>& happens) {
    api_.OnEvent("leases", [=, this](support::FakeApiClient&, const k8s::WatchEvent& event) {
      if (event.kind == k8s::WatchEvent::Kind::kModified && ++renewals_ == n) {
        happens();
      }
    });
  }

  int renewals_ = 0;
};

class TakeTest : public TakeFixture, public testing::WithParamInterface<Who> {
 protected:
  TakeTest() : TakeFixture(GetParam()) {}
};
class BackupTakeTest : public TakeFixture {
 protected:
  BackupTakeTest() : TakeFixture(Who::kBackup) {}
};

const auto kRequesters = testing::Values(Who::kBackup, Who::kPerson);
INSTANTIATE_TEST_SUITE_P(Requesters, TakeTest, kRequesters, RequesterName);

TEST_P(TakeTest, DoesNotWaitUntilTheSnapshotIsReady) {
  cluster_.driver().AddFault({.method = "CreateSnapshot", .not_ready = true});
  const auto taken = Take();
  ASSERT_THAT(taken, IsOk());
  EXPECT_FALSE(taken->content.is_ready());
}

TEST_P(TakeTest, TakesUpWhatAnInterruptedCallLeft) {
  ASSERT_THAT(Take(), IsOk());
  const auto again = Take();
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_P(TakeTest, LeavesAloneWhatStandsUnderTheName) {
  Json other = SeedOther(Name());
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("app/data")));
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(1));
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_P(TakeTest, TimeoutReportsTheDriversErrorAndLeavesNothing) {
  cluster_.driver().Refuse("CreateSnapshot", "Internal", "pool is full");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                               testing::AllOf(HasSubstr("pool is full"), HasSubstr("app/data"),
                                              HasSubstr("10m"))));
  ExpectNothingLeft();
}

TEST_P(TakeTest, TimeoutWithoutBindingLeavesNothing) {
  cluster_.controller_runs = false;
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeft();
}

TEST_P(TakeTest, AContentThatComesLateGoesToo) {
  cluster_.controller_runs = false;
  // A controller makes it at the very moment of the deletion, unseen by the first look.
  api_.OnEvent("volumesnapshots", [&](support::FakeApiClient&, const k8s::WatchEvent& event) {
    if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
      Json content = support::MakeContentObject(
          absl::StrCat("snapcontent-", k8s::Uid(event.object)), "app", k8s::Name(event.object), "");
      SetJson(content, {"spec", "deletionPolicy"}, "Retain");
      SetJson(content, {"spec", "volumeSnapshotRef", "uid"}, k8s::Uid(event.object));
      api_.Seed(VolumeSnapshotContentType(), content);
      cluster_.Resync();
      EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
    }
  });
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeft();
  EXPECT_EQ(cluster_.driver().CallCount("CreateSnapshot"), 1);
}

TEST_P(TakeTest, RetainingClassesLeaveNothingEither) {
  cluster_.class_policy = "Retain";
  cluster_.driver().Hold("CreateSnapshot");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeftOnceTheDriverAnswers(VolumeSnapshotContentType());
}

TEST_P(TakeTest, CancelLeavesNothing) { ExpectCancelLeavesNothing(VolumeSnapshotContentType()); }

TEST_P(TakeTest, ItsDeletionByAnotherClientEndsTheWait) { ExpectDeletionByOthersEndsIt(); }

TEST_P(TakeTest, RenewsItsLeaseWhileTheDriverIsSlow) {
  cluster_.driver().Hold("CreateSnapshot");
  AtRenewal(5, [&] { cluster_.LetDriverWork(); });
  EXPECT_THAT(Take(), IsOk());
  EXPECT_EQ(renewals_, 5);
}

TEST_P(TakeTest, AnApiServerThatStartsRefusesOnlyForAMoment) {
  for (const absl::Status& status :
       {absl::PermissionDeniedError("starting"), absl::UnauthenticatedError("starting"),
        absl::UnavailableError("starting"), absl::NotFoundError("no such kind yet")}) {
    api_.OnEvent("volumesnapshots", [&](support::FakeApiClient& api, const k8s::WatchEvent&) {
      api.FailNext("list", "volumesnapshotcontents", status, 5);
      api.FailNext("get", "volumesnapshotcontents", status, 5);
    });
    EXPECT_THAT(Take(), IsOk()) << status;
    api_.ClearFaults();
  }
}

TEST_P(TakeTest, WaitsForAPersonsSnapshotOfTheSameVolume) {
  clock_.SetAutoAdvance(false);
  SeedOther("by-hand");
  std::jthread call([&] { EXPECT_THAT(Take(), IsOk()); });
  api_.AwaitWatches(1);
  EXPECT_FALSE(api_.Find(Key()).has_value());
  cluster_.Resync();
  call.join();
  EXPECT_TRUE(api_.Find(Key()).has_value());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(2));
}

TEST_P(TakeTest, AStuckSnapshotOfAPersonIsWaitedForOnlySoLongAndTheLeaseIsRenewed) {
  SeedOther("stuck");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), IsOk());
  EXPECT_EQ(clock_.Now() - before, csi::kOthersAgeMax);
  EXPECT_GE(api_.CallCount("update", "leases"),
            csi::kOthersAgeMax / csi::kVolumeLeaseRenewAfter - 1);
}

TEST_P(TakeTest, ALeaseLostWhileWaitingIsTakenAgain) {
  SeedOther("stuck");
  AtRenewal(3, [&] {
    const std::string lease = api_.Names(LeaseType()).at(0);
    api_.SetField({LeaseType(), LeaseNamespace(), lease}, {"spec", "holderIdentity"}, "quicker");
  });
  EXPECT_THAT(Take(), IsOk());
  EXPECT_EQ(api_.CallCount("create", "leases"), 2);
  EXPECT_EQ(api_.CallCount("create", "volumesnapshots"), 1);
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_P(TakeTest, NoFailingCallLeavesAnythingBehind) { SweepFailingCalls(7, 7); }

struct OtherCase {
  const char* name;
  void (*change)(Json& snapshot);
  absl::Duration age = absl::ZeroDuration();
};
class OthersNotWaitedForTest : public TakeFixture,
                               public testing::WithParamInterface<std::tuple<Who, OtherCase>> {
 protected:
  OthersNotWaitedForTest() : TakeFixture(std::get<0>(GetParam())) {}
};

TEST_P(OthersNotWaitedForTest, GoesOnAtOnce) {
  const OtherCase& other_case = std::get<1>(GetParam());
  const Json other = SeedOther("by-hand", other_case.age);
  api_.Mutate(VolumeSnapshotKey("app", "by-hand"), other_case.change);
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), IsOk());
  EXPECT_EQ(clock_.Now(), before);
  EXPECT_EQ(k8s::Uid(*api_.Find(VolumeSnapshotKey("app", "by-hand"))), k8s::Uid(other));
}

const OtherCase kOtherCases[] = {
    {"Cut",
     [](Json& s) {
       SetJson(s, {"status", "creationTime"}, "2023-11-14T22:13:20Z");
     }},
    {"Ready",
     [](Json& s) {
       SetJson(s, {"status", "readyToUse"}, true);
     }},
    {"Failed",
     [](Json& s) {
       SetJson(s, {"status", "error", "message"}, "no");
     }},
    {"OfAnotherClaim",
     [](Json& s) {
       SetJson(s, {"spec", "source", "persistentVolumeClaimName"}, "other");
     }},
    {"PreProvisioned",
     [](Json& s) {
       s["spec"]["source"] = {{"volumeSnapshotContentName", "c"}};
     }},
    {"TooOld", [](Json&) {}, csi::kOthersAgeMax},
};
INSTANTIATE_TEST_SUITE_P(Table, OthersNotWaitedForTest,
                         testing::Combine(kRequesters, testing::ValuesIn(kOtherCases)),
                         [](const auto& test) {
                           return absl::StrCat(
                               std::get<1>(test.param).name,
                               std::get<0>(test.param) == Who::kBackup ? "Backup" : "Person");
                         });

// --- What only a backup has

TEST_F(BackupTakeTest, ReturnsWhatTheDriverTook) {
  const auto taken = Take();
  ASSERT_THAT(taken, IsOk());
  EXPECT_THAT(cluster_.driver().snapshots(), testing::ElementsAre(taken->content.handle()));
  const Json snapshot = *api_.Find(Key());
  EXPECT_TRUE(IsManaged(support::As<objects::VolumeSnapshot>(snapshot), backup_));
  EXPECT_EQ(k8s::Label(snapshot, objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(k8s::Label(snapshot, objects::kCsiDeltaLabel), "velero");
  EXPECT_EQ(k8s::Annotation(snapshot, objects::kAskedAtAnnotation), "2023-11-14T22:13:20Z");
  EXPECT_EQ(GetString(snapshot, {"spec", "volumeSnapshotClassName"}), "fast");
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
  EXPECT_THAT(api_.calls(), SizeIs(Le(7)));
}

TEST_F(BackupTakeTest, ARefusalThatLastsEndsTheWait) {
  api_.Forbid("watch", "volumesnapshotcontents");
  api_.Forbid("list", "volumesnapshotcontents");
  api_.Forbid("get", "volumesnapshotcontents");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_LT(clock_.Now() - before, absl::Minutes(1));
  api_.ClearFaults();
  ExpectNothingLeft();
}

TEST_F(BackupTakeTest, ADriverThatRefusesForGoodIsNotWaitedForToTheEnd) {
  cluster_.driver().Refuse("CreateSnapshot", "ResourceExhausted", "8 snapshots are the most");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               testing::AllOf(HasSubstr("8 snapshots"), HasSubstr("app/data"))));
  EXPECT_LT(clock_.Now() - before, absl::Minutes(2));
  ExpectNothingLeftOnceTheDriverAnswers(VolumeSnapshotContentType());
}

TEST_F(BackupTakeTest, ARefusalThatPassesIsForgotten) {
  cluster_.driver().Refuse("CreateSnapshot", "ResourceExhausted", "too many calls");
  AtRenewal(3, [&] { cluster_.LetDriverWork(); });
  EXPECT_THAT(Take(), IsOk());
}

TEST_F(BackupTakeTest, WhatEnteredTheArchiveIsNotCleanedUp) {
  ASSERT_THAT(Take(), IsOk());
  api_.SetField(Key(), {"metadata", "annotations", objects::kVolumeSnapshotHandleAnnotation}, "h");
  api_.FailNext("get", "volumesnapshots", absl::InternalError("injected"));
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kInternal));
  EXPECT_TRUE(api_.Find(Key()).has_value());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_F(BackupTakeTest, LeasesOrderSixteenBackupsOfOneVolume) {
  constexpr int kBackups = 16;
  clock_.SetAutoAdvance(false);
  std::atomic<int> being_taken = 0;
  std::atomic<int> waiting = kBackups;
  cluster_.driver().Hold("CreateSnapshot");
  api_.OnEvent("volumesnapshots", [&](support::FakeApiClient&, const k8s::WatchEvent& event) {
    if (event.kind == k8s::WatchEvent::Kind::kAdded) {
      EXPECT_EQ(++being_taken, 1);
      // Not before all the others have come as far as they can.
      const int others = --waiting;
      support::Await("the other backups to wait for their turns",
                     [&] { return being_taken > 1 || api_.watches() >= others; });
      --being_taken;
      cluster_.LetDriverWork();
      cluster_.driver().Hold("CreateSnapshot");
    }
  });
  std::vector<std::jthread> threads;
  for (int i = 0; i < kBackups; ++i) {
    threads.emplace_back([this, i] {
      const objects::Backup backup = BackupWith(absl::StrCat("backup-", i));
      const csi::SnapshotRequest request{.backup = backup,
                                         .claim_namespace = "app",
                                         .claim_name = "data",
                                         .claim_uid = "data-uid",
                                         .class_name = "fast"};
      EXPECT_THAT(csi::TakeSnapshot(ctx_, env_, request), IsOk());
    });
  }
  threads.clear();
  EXPECT_EQ(waiting, 0);
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(kBackups));
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

}  // namespace
}  // namespace csidelta::snapshots::take_test
