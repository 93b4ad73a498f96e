#include "inplace/in_place_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "objects/keys.h"
#include "snapshots/volume_guard.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::inplace::in_place_copy_test {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kDriverName[] = "d.example.com";
constexpr char kResult[] =
    R"({"message_type":"result","logical_bytes":100,"written_bytes":8,"kept_bytes":92})";

class InPlaceCopyTest : public testing::Test {
 protected:
  InPlaceCopyTest() {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
    support::SeedBlockPvc(api_, kDriverName);
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", kDriverName));
    Json snapshot = support::MakeSnapshotObject("shop", "monday", "content-of-monday");
    snapshot["status"]["readyToUse"] = true;
    snapshot["status"]["restoreSize"] = "1Gi";
    api_.Seed(VolumeSnapshotType(), snapshot);
    Json content = support::MakeContentObject("content-of-monday", "shop", "monday", "h-monday");
    content["spec"]["driver"] = kDriverName;
    content["spec"]["sourceVolumeMode"] = "Block";
    content["spec"]["volumeSnapshotRef"]["uid"] = "monday-uid";
    api_.Seed(VolumeSnapshotContentType(), content);
    options_.pod.image = "csi-delta:1";
    options_.on_step = [this](const std::string& sentence) { steps_.push_back(sentence); };
  }

  // As a kubelet that is quick.
  void RunPods(const std::string& message = kResult, int ends_at_look = 1) {
    looks_ = 0;
    api_.SetInterceptor(
        [this, message, ends_at_look](const support::ApiCall& call, const Json*) -> absl::Status {
          if (call.verb == "get" && call.plural == "pods" && call.subresource.empty() &&
              ++looks_ >= ends_at_look) {
            api_.Mutate({PodType(), "shop", call.name}, [&](Json& pod) {
              pod["status"] = {
                  {"phase", "Succeeded"},
                  {"containerStatuses", {{{"state", {{"terminated", {{"message", message}}}}}}}}};
            });
          }
          return absl::OkStatus();
        });
  }
  void AddPod(const std::string& name, const support::Strings& labels = {}) {
    Json pod = support::MakeObject("v1", "Pod", "shop", name, labels);
    pod["spec"]["volumes"] =
        Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
    pod["status"]["phase"] = "Running";
    api_.Seed(PodType(), pod);
  }
  void AddOwnPod() { AddPod(CopyName(Pvc(), Monday()), {{objects::kCopiesIntoLabel, "data-uid"}}); }

  PersistentVolumeClaim Pvc() {
    return *PersistentVolumeClaim::Of(*api_.Find(ClaimKey("shop", "data")));
  }
  VolumeSnapshot Monday() {
    return *VolumeSnapshot::Of(*api_.Find(VolumeSnapshotKey("shop", "monday")));
  }
  absl::StatusOr<CopyPlan> Plan() {
    const auto around = ReadRestoreSurroundings(ctx_, api_, "shop");
    EXPECT_THAT(around, IsOk());
    return PlanCopy(ctx_, api_, *around, Monday(), "data");
  }
  absl::StatusOr<CopyRestoreResult> Restore() {
    const auto plan = Plan();
    EXPECT_THAT(plan, IsOk());
    EXPECT_THAT(plan->refusals, IsEmpty());
    EXPECT_THAT(plan->refused_by_copy, IsEmpty());
    return RestoreByCopy(ctx_, api_, Random::Real(), *plan, options_, notes_);
  }
  absl::StatusOr<RepositoryPlan> PlanFromRepository(const std::string& secret = "repository",
                                                    const std::string& pvc = "data") {
    const auto around = ReadRestoreSurroundings(ctx_, api_, "shop");
    EXPECT_THAT(around, IsOk());
    return PlanRepositoryRestore(ctx_, api_, *around, {.secret = secret, .words = {"latest"}}, pvc);
  }
  std::vector<std::string> Snapshots() const {
    std::vector<std::string> names;
    for (const Json& one : api_.All(VolumeSnapshotType())) {
      names.push_back(k8s::Name(one));
    }
    return names;
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  support::FakeSnapshotCluster cluster_{api_};
  CallContext ctx_;
  CopyRestoreOptions options_;
  int looks_ = 0;  // at Pods
  std::vector<std::string> steps_;
  std::vector<std::string> notes_;
};

TEST_F(InPlaceCopyTest, ASafetySnapshotIsTakenBeforeAPodCopies) {
  RunPods();
  std::vector<std::string> snapshots_of_pod;
  api_.OnCreate("pods",
                [&](support::FakeApiClient&, const Json&) { snapshots_of_pod = Snapshots(); });
  const auto restored = Restore();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->copy.written_bytes, 8);
  EXPECT_THAT(restored->safety_snapshot, HasSubstr("data-before-restore"));
  EXPECT_THAT(snapshots_of_pod, Contains(restored->safety_snapshot));
  EXPECT_THAT(Snapshots(), Contains(restored->safety_snapshot));
  EXPECT_THAT(steps_, ElementsAre(HasSubstr("for safety")));
  EXPECT_THAT(api_.All(PodType()), IsEmpty());
  EXPECT_EQ(Pvc().uid(), "data-uid");
  EXPECT_EQ(Pvc().volume_name(), "pv-1");
}

TEST_F(InPlaceCopyTest, WithoutSafetyNoneIsTaken) {
  RunPods();
  options_.takes_safety_snapshot = false;
  const auto restored = Restore();
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->safety_snapshot, "");
  EXPECT_THAT(Snapshots(), ElementsAre("monday"));
}

TEST_F(InPlaceCopyTest, WithoutSafetyTheLeaseIsHeldWhileItIsCopied) {
  RunPods();
  options_.takes_safety_snapshot = false;
  int leases = 0;
  api_.OnCreate("pods", [&](support::FakeApiClient& api, const Json&) {
    leases += static_cast<int>(api.All(LeaseType()).size());
  });
  ASSERT_THAT(Restore(), IsOk());
  EXPECT_EQ(leases, 1);
  EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
}

TEST_F(InPlaceCopyTest, WithoutSafetyAVolumeThatIsBusyIsNotCopiedInto) {
  options_.takes_safety_snapshot = false;
  api_.SetInterceptor([this](const support::ApiCall& call, const Json*) {
    if (call.verb == "create" && call.plural == "leases") {
      Json lease = support::MakeObject("coordination.k8s.io/v1", "Lease", "shop", call.name);
      SetJson(lease, {"metadata", "name"}, "csi-delta-data-uid");
      SetJson(lease, {"spec", "renewTime"}, FormatRfc3339Micros(clock_.Now()));
      api_.Seed(LeaseType(), lease);
    }
    return absl::OkStatus();
  });
  const absl::Status restored = Restore().status();
  EXPECT_TRUE(snapshots::IsVolumeBusy(restored)) << restored;
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
}

TEST_F(InPlaceCopyTest, NoPodIsMadeWhereTheSafetySnapshotFails) {
  cluster_.driver().Refuse("CreateSnapshot", "INVALID_ARGUMENT", "no room");
  EXPECT_THAT(Restore().status(), Not(IsOk()));
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
}

TEST_F(InPlaceCopyTest, APodThatStartedMeanwhileIsSeen) {
  api_.OnCreate("volumesnapshots",
                [this](support::FakeApiClient&, const Json&) { AddPod("app-0"); });
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("app-0")));
  EXPECT_EQ(api_.CallCount("create", "pods"), 0);
}

TEST_F(InPlaceCopyTest, AFailureNamesWhereTheOldDataIs) {
  RunPods(R"({"message_type":"exit_error","code":1,"message":"the device is partly old"})");
  api_.SetInterceptor([this](const support::ApiCall& call, const Json*) -> absl::Status {
    if (call.verb == "get" && call.plural == "pods") {
      api_.Mutate({PodType(), "shop", call.name},
                  [](Json& pod) { pod["status"]["phase"] = "Failed"; });
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("VolumeSnapshot data-before-restore")));
}

// A second safety snapshot would hold half of the one state and half of the other.
TEST_F(InPlaceCopyTest, TheRunOfAnEarlierProgramIsGoneOnWithWithoutASecondSnapshot) {
  AddOwnPod();
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->goes_on);
  RunPods();
  ASSERT_THAT(Restore(), IsOk());
  EXPECT_THAT(Snapshots(), ElementsAre("monday"));
  EXPECT_THAT(steps_, ElementsAre(HasSubstr("earlier run")));
}

// What it wrote is what a safety snapshot holds now.
TEST_F(InPlaceCopyTest, ARunThatHasEndedIsNotGoneOnWith) {
  AddOwnPod();
  api_.Mutate({PodType(), "shop", CopyName(Pvc(), Monday())},
              [](Json& pod) { pod["status"]["phase"] = "Failed"; });
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->goes_on);
  EXPECT_THAT(plan->refusals, IsEmpty());
}

TEST_F(InPlaceCopyTest, APodOfAnotherRestoreIsAUser) {
  AddPod("csi-delta-copy-of-another", {{objects::kCopiesIntoLabel, "data-uid"}});
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->goes_on);
  ASSERT_THAT(plan->refusals, SizeIs(1));
  EXPECT_EQ(plan->refusals.front().reason, RestoreRefusalReason::kInUse);
}

TEST_F(InPlaceCopyTest, ARepositoryNeedsNoVolumeSnapshot) {
  const auto plan = PlanFromRepository();
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->goes_on);
  EXPECT_THAT(plan->refusals, IsEmpty());
  EXPECT_THAT(plan->refused_by_copy, IsEmpty());
  std::string secret;
  api_.OnCreate("pods", [&](support::FakeApiClient&, const Json& pod) {
    secret = GetString(pod["spec"]["containers"][0]["envFrom"][0], {"secretRef", "name"});
  });
  RunPods();
  const auto restored = RestoreFromRepository(ctx_, api_, Random::Real(), *plan, options_, notes_);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(secret, "repository");
  EXPECT_THAT(Snapshots(), Contains(restored->safety_snapshot));
  EXPECT_THAT(api_.All(PodType()), IsEmpty());
}

// Between the plan and the Pod that writes, a Pod may start, or no one may look any more.
TEST_F(InPlaceCopyTest, ThePodsAreLookedAtOnceMoreBeforeARepositoryIsRestored) {
  for (const bool may_look : {true, false}) {
    SCOPED_TRACE(may_look);
    clock_.Advance(absl::Seconds(1));
    const auto plan = PlanFromRepository();
    ASSERT_THAT(plan, IsOk());
    if (may_look) {
      AddPod("app-0");
    } else {
      api_.Forbid("list", "pods");
    }
    EXPECT_THAT(RestoreFromRepository(ctx_, api_, Random::Real(), *plan, options_, notes_),
                StatusIs(may_look ? absl::StatusCode::kFailedPrecondition
                                  : absl::StatusCode::kPermissionDenied,
                         HasSubstr(may_look ? "app-0" : "pods")));
    EXPECT_EQ(api_.CallCount("create", "pods"), 0);
    api_.Remove({PodType(), "shop", "app-0"});
  }
}

// The driver lists what differs from a snapshot that is ready.
TEST_F(InPlaceCopyTest, WithAnAccountTheSafetySnapshotIsReady) {
  RunPods();
  cluster_.driver().AddFault({.method = "*", .not_ready = true});
  ASSERT_THAT(Restore(), IsOk());
  clock_.Advance(absl::Seconds(1));
  options_.pod.service_account = "lister";
  EXPECT_THAT(Restore(), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("not ready")));
}

TEST_F(InPlaceCopyTest, WhatIsAgainstThePvcIsAgainstARepositoryToo) {
  AddPod("app-0");
  const auto plan = PlanFromRepository();
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(plan->refusals, SizeIs(1));
  EXPECT_EQ(plan->refusals.front().reason, RestoreRefusalReason::kInUse);
  EXPECT_THAT(PlanFromRepository("repository", "none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("shop/none")));
}

TEST_F(InPlaceCopyTest, ARestoreFromARepositoryThatWasKilledIsGoneOnWith) {
  const std::string name =
      CopyName(Pvc(), RepositorySource{.secret = "repository", .words = {"latest"}});
  AddPod(name, {{objects::kCopiesIntoLabel, "data-uid"}});
  const auto plan = PlanFromRepository();
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->goes_on);
  EXPECT_THAT(plan->refusals, IsEmpty());
  int made = 0;
  api_.OnCreate("pods", [&made](support::FakeApiClient&, const Json&) { ++made; });
  RunPods(kResult, 3);
  const auto restored = RestoreFromRepository(ctx_, api_, Random::Real(), *plan, options_, notes_);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->copy.written_bytes, 8);
  EXPECT_EQ(restored->safety_snapshot, "");
  EXPECT_THAT(Snapshots(), ElementsAre("monday"));
  EXPECT_THAT(steps_, ElementsAre(HasSubstr("earlier run")));
  EXPECT_EQ(made, 0);
}

// Two that write different data into one volume would leave neither.
TEST_F(InPlaceCopyTest, ThePodOfAnotherRestoreFromARepositoryIsAUser) {
  const std::string name =
      CopyName(Pvc(), RepositorySource{.secret = "repository", .words = {"latest"}});
  AddPod(name, {{objects::kCopiesIntoLabel, "data-uid"}});
  const auto plan = PlanFromRepository("another");
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->goes_on);
  ASSERT_THAT(plan->refusals, SizeIs(1));
  EXPECT_EQ(plan->refusals.front().reason, RestoreRefusalReason::kInUse);
  EXPECT_THAT(plan->refusals.front().message, HasSubstr(name));
}

// One that has the name by chance, or to deceive, is not of this restore.
TEST_F(InPlaceCopyTest, APodWithTheNameAloneIsAUser) {
  AddPod(CopyName(Pvc(), RepositorySource{.secret = "repository", .words = {"latest"}}));
  const auto plan = PlanFromRepository();
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->goes_on);
  EXPECT_THAT(plan->refusals, SizeIs(1));
}

TEST_F(InPlaceCopyTest, OnlyBlocksAreCopied) {
  api_.Mutate(ClaimKey("shop", "data"),
              [](Json& pvc) { pvc["spec"]["volumeMode"] = "Filesystem"; });
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->refused_by_copy, ElementsAre(HasSubstr("Filesystem")));
  EXPECT_THAT(PlanFromRepository()->refused_by_copy, ElementsAre(HasSubstr("Filesystem")));
}

TEST_F(InPlaceCopyTest, APvcThatDoesNotExistIsNotFound) {
  api_.Remove(ClaimKey("shop", "data"));
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kNotFound,
                               AllOf(HasSubstr("shop/data"), HasSubstr("promote"))));
}

}  // namespace
}  // namespace csidelta::inplace::in_place_copy_test
