#include "csi/group/take_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/rfc3339.h"
#include "csi/drop.h"
#include "csi/group/group_lifecycle.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "snapshots/group_creation.h"
#include "tests/snapshots/take_suite.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

// What holds for a group of VolumeSnapshots of a backup and of a person; what only people have is
// in group_creation_test.cc, what only backups have in tests/csi/group_lifecycle_test.cc.
namespace csidelta::snapshots::take_group_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kClaims = 3;

class TakeGroupTest : public TakeSuite, public testing::WithParamInterface<Who> {
 protected:
  TakeGroupTest() : TakeSuite(GetParam(), "CreateVolumeGroupSnapshot") {
    for (int i = 0; i < kClaims; ++i) {
      SeedClaim(i);
      sources_.push_back({.pvc = support::As<objects::PersistentVolumeClaim>(
                              *api_.Find(ClaimKey("app", Claim(i).pvc))),
                          .driver = "d.example.com",
                          .class_name = "fast"});
    }
  }

  bool is_backup() const { return who_ == Who::kBackup; }
  std::string Subject() const { return is_backup() ? "claim" : "PVC"; }
  std::string MarkLabel() const {
    return is_backup() ? objects::kGroupMarkLabel : objects::kPersonsGroupLabel;
  }

  absl::Status TakeIt() override {
    int members = 0;
    absl::Status status;
    if (is_backup()) {
      const auto taken = csi::TakeGroup(ctx_, env_, RequestOfGroup(kClaims));
      status = taken.status();
      members = taken.ok() ? static_cast<int>(taken->members.size()) : 0;
    } else {
      const auto taken = CreateGroup(ctx_, api_, Random::Real(),
                                     {.choice = {.version = "v1", .class_name = "groups"},
                                      .sources = sources_,
                                      .name = "velero-db",
                                      .waits_for_others = true,
                                      .timeout = backup_.csi_snapshot_timeout()});
      status = taken.status();
      members = taken.ok() ? static_cast<int>(taken->size()) : 0;
    }
    EXPECT_EQ(members, status.ok() ? kClaims : 0);
    return status;
  }
  std::string Name() const {
    return is_backup() ? csi::GroupName(RequestOfGroup(kClaims)) : "velero-db";
  }
  k8s::ObjectKey Key() const override { return {VolumeGroupSnapshotType("v1"), "app", Name()}; }
  void DeleteTaken() override {
    EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
    EXPECT_THAT(
        csi::DropSnapshot(ctx_, api_, support::As<objects::VolumeGroupSnapshot>(*api_.Find(Key())),
                          csi::Data::kDelete),
        IsOk());
  }

  void ExpectNoMarks() {
    for (const Json& claim : api_.All(PersistentVolumeClaimType())) {
      EXPECT_EQ(k8s::Label(claim, MarkLabel()), "") << k8s::Name(claim);
      EXPECT_EQ(k8s::Label(claim, "app"), "db");
    }
  }

  void ExpectNothingLeft() override {
    ExpectNoMarks();
    EXPECT_THAT(support::SnapshotObjects(api_), IsEmpty());
    EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
    EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  }

  std::vector<SnapshotSource> sources_;
};
INSTANTIATE_TEST_SUITE_P(Requesters, TakeGroupTest, testing::Values(Who::kBackup, Who::kPerson),
                         RequesterName);

TEST_P(TakeGroupTest, TimeoutReportsTheDriversErrorAndLeavesNothing) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "Internal", "pool is full");
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 AllOf(HasSubstr("pool is full"),
                                       HasSubstr(is_backup() ? "app/db" : "the group velero-db"),
                                       HasSubstr("10m"))));
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, ADriverThatNeverAnswersIsWaitedForSoLong) {
  cluster_.driver().Hold("CreateVolumeGroupSnapshot");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no error")));
  EXPECT_GE(clock_.Now() - before, absl::Minutes(10));
  EXPECT_LT(clock_.Now() - before, absl::Minutes(11));
  ExpectNothingLeftOnceTheDriverAnswers(VolumeGroupSnapshotContentType("v1"));
}

TEST_P(TakeGroupTest, AControllerThatIsNotThereLeavesNothing) {
  cluster_.controller_runs = false;
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, ADriverWithoutGroupsIsToldAtOnce) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "Unimplemented", "no groups");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no groups")));
  EXPECT_EQ(clock_.Now(), before);
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, ARefusedLabelFailsNothing) {
  api_.SetInterceptor([](const support::ApiCall& call, const Json* body) -> absl::Status {
    return call.verb == "patch" && call.name == "data-1" && body->is_object()
               ? absl::PermissionDeniedError("a webhook says no")
               : absl::OkStatus();
  });
  EXPECT_THAT(TakeIt(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr(Subject() + " app/data-1"), HasSubstr("webhook"))));
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 0);
  ExpectNothingLeft();
}

// A user's controller takes foreign labels off again: some of them, or all.
TEST_P(TakeGroupTest, LabelsThatDoNotStayAreNamed) {
  for (const int lost : {1, kClaims}) {
    if (lost == 1 && !is_backup()) {
      continue;  // People may not read the handles of volumes, which tell that one is missing.
    }
    api_.OnEvent("persistentvolumeclaims",
                 [lost, this](support::FakeApiClient& api, const k8s::WatchEvent& event) {
                   if (lost == kClaims || k8s::Name(event.object) == "data-1") {
                     api.Mutate(ClaimKey("app", k8s::Name(event.object)), [this](Json& claim) {
                       EraseJson(claim, {"metadata", "labels", MarkLabel()});
                     });
                   }
                 });
    const absl::Time before = clock_.Now();
    EXPECT_THAT(TakeIt(),
                StatusIs(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr(Subject() + " app/data-1"), HasSubstr(MarkLabel()))));
    EXPECT_LT(clock_.Now() - before, absl::Minutes(1));
    ExpectNothingLeft();
  }
}

TEST_P(TakeGroupTest, KindsThatAreNotServedAnyMoreFailNothing) {
  api_.RemoveType("volumegroupsnapshots");
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kUnimplemented));
  ExpectNoMarks();
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_P(TakeGroupTest, LeavesAloneWhatStandsUnderTheName) {
  api_.Seed(VolumeGroupSnapshotType("v1"),
            {{"metadata", {{"name", Name()}, {"namespace", "app"}}}});
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("app/velero-db")));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), SizeIs(1));
  ExpectNoMarks();
}

TEST_P(TakeGroupTest, ItsDeletionByAnotherClientEndsTheWait) { ExpectDeletionByOthersEndsIt(); }

TEST_P(TakeGroupTest, CancelLeavesNothing) {
  ExpectCancelLeavesNothing(VolumeGroupSnapshotContentType("v1"));
}

TEST_P(TakeGroupTest, WaitsForASnapshotOfAMemberThatIsNotReady) {
  clock_.SetAutoAdvance(false);
  Json other = {{"metadata", {{"name", "by-hand"}, {"namespace", "app"}}},
                {"spec", {{"source", {{"persistentVolumeClaimName", "data-1"}}}}}};
  SetJson(other, {"metadata", "creationTimestamp"}, FormatRfc3339(clock_.Now()));
  api_.Seed(VolumeSnapshotType(), other);
  std::jthread call([&] { EXPECT_THAT(TakeIt(), IsOk()); });
  api_.AwaitWatches(1);
  EXPECT_FALSE(api_.Find(Key()).has_value());
  cluster_.Resync();
  call.join();
  EXPECT_TRUE(api_.Find(Key()).has_value());
}

TEST_P(TakeGroupTest, NoFailingCallLeavesAnythingBehind) {
  SweepFailingCalls(19, 13);
  // What is requested again is found, whichever process left it: here it is not requested again.
  api_.FailNext("create", "volumegroupsnapshots", absl::InternalError("injected"), 1,
                support::Fault::kAnswerLost);
  EXPECT_THAT(TakeIt(), StatusIs(absl::StatusCode::kInternal, HasSubstr("injected")));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace csidelta::snapshots::take_group_test
