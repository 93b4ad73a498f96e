#include "csi/group/take_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/drop.h"
#include "csi/group/group_lifecycle.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "snapshots/group_creation.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

// What holds for a group of VolumeSnapshots of a backup and of a person; what only people have is
// in group_creation_test.cc, what only backups have in tests/csi/group_lifecycle_test.cc.
namespace csidelta::snapshots::take_group_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kClaims = 3;

enum class Who { kBackup, kPerson };

class TakeGroupTest : public csi::BackupFixture, public testing::WithParamInterface<Who> {
 protected:
  TakeGroupTest() {
    for (int i = 0; i < kClaims; ++i) {
      SeedClaim(i);
    }
  }

  bool is_backup() const { return GetParam() == Who::kBackup; }
  std::string Subject() const { return is_backup() ? "claim" : "PVC"; }
  std::string MarkLabel() const {
    return is_backup() ? objects::kGroupMarkLabel : objects::kPersonsGroupLabel;
  }

  void SeedClaim(int i) {
    const std::string volume = absl::StrCat("pv-", i);
    const std::string name = absl::StrCat("data-", i);
    const std::string uid = absl::StrCat("uid-", i);
    const std::string handle = absl::StrCat("volume-", i);
    api_.Seed(PersistentVolumeType(),
              {{"metadata", {{"name", volume}}},
               {"spec", {{"csi", {{"driver", "d.example.com"}, {"volumeHandle", handle}}}}}});
    const Json pvc = api_.Seed(
        PersistentVolumeClaimType(),
        {{"metadata",
          {{"name", name}, {"namespace", "app"}, {"uid", uid}, {"labels", {{"app", "db"}}}}},
         {"spec", {{"volumeName", volume}}}});
    members_.push_back({.pvc = name, .pvc_uid = uid, .volume_handle = handle});
    sources_.push_back({.pvc = support::As<objects::PersistentVolumeClaim>(pvc),
                        .driver = "d.example.com",
                        .class_name = "fast"});
  }

  csi::GroupRequest Request() const {
    return {.backup = backup_,
            .namespace_name = "app",
            .label_key = "velero.io/volume-group",
            .label_value = "db",
            .class_name = "groups",
            .version = "v1",
            .members = members_};
  }

  // The number of members.
  absl::StatusOr<std::size_t> Take() {
    if (is_backup()) {
      const auto taken = csi::TakeGroup(ctx_, env_, Request());
      return taken.ok() ? absl::StatusOr<std::size_t>(taken->members.size()) : taken.status();
    }
    const auto taken = CreateGroup(ctx_, api_, Random::Real(),
                                   {.choice = {.version = "v1", .class_name = "groups"},
                                    .sources = sources_,
                                    .name = "velero-db",
                                    .waits_for_others = true,
                                    .timeout = backup_.csi_snapshot_timeout()});
    return taken.ok() ? absl::StatusOr<std::size_t>(taken->size()) : taken.status();
  }
  std::string Name() const { return is_backup() ? csi::GroupName(Request()) : "velero-db"; }
  k8s::ObjectKey Key() const { return {VolumeGroupSnapshotType("v1"), "app", Name()}; }
  void Remove() {
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

  void ExpectNothingLeft() {
    ExpectNoMarks();
    EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
    EXPECT_THAT(api_.All(VolumeGroupSnapshotContentType("v1")), IsEmpty());
    EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
    EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
    EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
    EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  }

  // The sidecar keeps the content of a call that is open, and has the driver delete what comes of
  // it.
  void ExpectNothingLeftOnceTheDriverAnswers() {
    for (const Json& content : api_.All(VolumeGroupSnapshotContentType("v1"))) {
      EXPECT_TRUE(k8s::BeingDeleted(content)) << k8s::Name(content);
    }
    cluster_.LetDriverWork();
    ExpectNothingLeft();
  }

  support::FakeSnapshotCluster cluster_{api_};
  std::vector<objects::PlannedGroupMember> members_;
  std::vector<SnapshotSource> sources_;
};
INSTANTIATE_TEST_SUITE_P(Requesters, TakeGroupTest, testing::Values(Who::kBackup, Who::kPerson),
                         [](const auto& test) {
                           return std::string(test.param == Who::kBackup ? "Backup" : "Person");
                         });

TEST_P(TakeGroupTest, TimeoutReportsTheDriversErrorAndLeavesNothing) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "Internal", "pool is full");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("pool is full"),
                                     HasSubstr(is_backup() ? "app/db" : "the group velero-db"),
                                     HasSubstr("10m"))));
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, ADriverThatNeverAnswersIsWaitedForSoLong) {
  cluster_.driver().Hold("CreateVolumeGroupSnapshot");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no error")));
  EXPECT_GE(clock_.Now() - before, absl::Minutes(10));
  EXPECT_LT(clock_.Now() - before, absl::Minutes(11));
  ExpectNothingLeftOnceTheDriverAnswers();
}

TEST_P(TakeGroupTest, AControllerThatIsNotThereLeavesNothing) {
  cluster_.controller_runs = false;
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, ADriverWithoutGroupsIsToldAtOnce) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "Unimplemented", "no groups");
  const absl::Time before = clock_.Now();
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no groups")));
  EXPECT_EQ(clock_.Now(), before);
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, ARefusedLabelFailsNothing) {
  api_.SetInterceptor([](const support::ApiCall& call, const Json* body) -> absl::Status {
    return call.verb == "patch" && call.name == "data-1" && body->is_object()
               ? absl::PermissionDeniedError("a webhook says no")
               : absl::OkStatus();
  });
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kUnimplemented,
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
    EXPECT_THAT(Take(),
                StatusIs(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr(Subject() + " app/data-1"), HasSubstr(MarkLabel()))));
    EXPECT_LT(clock_.Now() - before, absl::Minutes(1));
    ExpectNothingLeft();
  }
}

TEST_P(TakeGroupTest, KindsThatAreNotServedAnyMoreFailNothing) {
  api_.RemoveType("volumegroupsnapshots");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kUnimplemented));
  ExpectNoMarks();
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_P(TakeGroupTest, LeavesAloneWhatStandsUnderTheName) {
  api_.Seed(VolumeGroupSnapshotType("v1"),
            {{"metadata", {{"name", Name()}, {"namespace", "app"}}}});
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("app/velero-db")));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), SizeIs(1));
  ExpectNoMarks();
}

TEST_P(TakeGroupTest, TheGroupIsDeletedMeanwhile) {
  cluster_.controller_runs = false;
  clock_.SetAutoAdvance(false);
  std::jthread call([&] {
    EXPECT_THAT(Take(),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("deleted by another client")));
  });
  api_.AwaitWatches(1);
  EXPECT_THAT(api_.Delete(ctx_, Key(), {}), IsOk());
  call.join();
  ExpectNothingLeft();
}

TEST_P(TakeGroupTest, CancelLeavesNothing) {
  cluster_.driver().Hold("CreateVolumeGroupSnapshot");
  clock_.SetAutoAdvance(false);
  std::stop_source stop;
  ctx_.stop = stop.get_token();
  std::jthread call([&] { EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kCancelled)); });
  api_.AwaitWatches(1);
  stop.request_stop();
  call.join();
  ExpectNothingLeftOnceTheDriverAnswers();
}

TEST_P(TakeGroupTest, WaitsForASnapshotOfAMemberThatIsNotReady) {
  clock_.SetAutoAdvance(false);
  Json other = {{"metadata", {{"name", "by-hand"}, {"namespace", "app"}}},
                {"spec", {{"source", {{"persistentVolumeClaimName", "data-1"}}}}}};
  SetJson(other, {"metadata", "creationTimestamp"}, FormatRfc3339(clock_.Now()));
  api_.Seed(VolumeSnapshotType(), other);
  std::jthread call([&] { EXPECT_THAT(Take(), IsOk()); });
  api_.AwaitWatches(1);
  EXPECT_FALSE(api_.Find(Key()).has_value());
  cluster_.Resync();
  call.join();
  EXPECT_TRUE(api_.Find(Key()).has_value());
}

// Every request fails once, in both ways, with what passes and with what stays: whatever the
// outcome, either the group is there whole or nothing is left.
TEST_P(TakeGroupTest, NoFailingCallLeavesAnythingBehind) {
  backup_ = BackupWith("backup-uid", "20s");
  for (const Fault fault : {Fault::kRefused, Fault::kAnswerLost}) {
    for (const absl::Status& status :
         {absl::UnavailableError("injected"), absl::InternalError("injected")}) {
      for (const bool fails : {false, true}) {
        int n = 1;
        for (bool hit = true; hit; ++n) {
          SCOPED_TRACE(absl::StrCat("call ", n, " ", status.ToString(), " fails ", fails,
                                    fault == Fault::kRefused ? " refused" : " answer lost"));
          if (fails) {
            cluster_.driver().Hold("CreateVolumeGroupSnapshot");
          }
          api_.FailCall(n, status, fault);
          const auto taken = Take();
          hit = api_.sweep_hit();
          api_.ClearFaults();
          cluster_.LetDriverWork();
          if (taken.ok()) {
            EXPECT_FALSE(fails);
            EXPECT_EQ(*taken, kClaims);
            EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
            Remove();
          }
          // A Lease or a label whose removal failed for good goes with the next one.
          clock_.Advance(absl::Minutes(30));
          if (!is_backup() &&
              api_.Find(Key()).has_value()) {  // No run of a person goes on with it.
            EXPECT_THAT(taken.status().message(), HasSubstr("is left, because"));
            Remove();
          }
          if (absl::IsInternal(status)) {
            const auto next = Take();
            ASSERT_THAT(next, IsOk());
            Remove();
          }
          ExpectNothingLeft();
        }
        EXPECT_GE(n, fails ? 14 : 20);
      }
    }
  }
  // What is requested again is found, whichever process left it: here it is not requested again.
  api_.FailNext("create", "volumegroupsnapshots", absl::InternalError("injected"), 1,
                Fault::kAnswerLost);
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kInternal, HasSubstr("injected")));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace csidelta::snapshots::take_group_test
