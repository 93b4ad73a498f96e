#include "snapshots/borrowed_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::borrowed_snapshot_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kDriverName[] = "d.example.com";

// A VolumeSnapshot of namespace shop that is ready, and namespace team, which wants a PVC of it.
class BorrowedSnapshotTest : public testing::Test {
 protected:
  BorrowedSnapshotTest() {
    bed_.clock.SetAutoAdvance(true);
    cluster_.strict = true;
    cluster_.driver().takes_any_handle = false;
    cluster_.driver().AddSnapshot("h");
    SeedClass("Immediate");
    Json snapshot = support::MakeSnapshotObject("shop", "monday", "c");
    snapshot["status"]["readyToUse"] = true;
    snapshot["status"]["restoreSize"] = "64Mi";
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    Json content = support::MakeContentObject("c", "shop", "monday", "h");
    content["spec"]["driver"] = kDriverName;
    content["spec"]["sourceVolumeMode"] = "Block";
    content["metadata"]["annotations"] = {{objects::kDeletionSecretNameAnnotation, "key"},
                                          {objects::kDeletionSecretNamespaceAnnotation, "storage"}};
    bed_.api.Seed(VolumeSnapshotContentType(), content);
    object_count_ = bed_.api.object_count();
  }

  void SeedClass(const std::string& mode) {
    support::SeedStorageClass(bed_.api, "fast", kDriverName, mode);
  }

  static BorrowRequest Request() {
    return {.source_namespace = "shop",
            .snapshot_name = "monday",
            .options = {.namespace_name = "team", .name = "copy"}};
  }
  absl::StatusOr<BorrowPlan> Plan() {
    return PlanBorrowing(bed_.ctx.WithTimeout(absl::Minutes(1)), bed_.api, Request());
  }
  absl::StatusOr<Borrowed> Borrow() {
    absl::StatusOr<BorrowPlan> plan = Plan();
    if (!plan.ok()) {
      return plan.status();
    }
    for (const Finding& refusal : plan->plan.promotions.front().refusals) {
      return absl::FailedPreconditionError(refusal.message);
    }
    pair_ = plan->pair;
    return CarryOutBorrowing(bed_.ctx.WithTimeout(absl::Minutes(1)), bed_.api, *plan, notes_);
  }

  // As after a PVC that was deleted before it was bound: the provisioner's finalizer stays.
  void SeedLingering(const std::string& name) {
    Json snapshot =
        support::MakeSnapshotObject("team", name, "", {{objects::kMadeByLabel, "csi-delta"}});
    snapshot["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z";
    snapshot["metadata"]["finalizers"] = Json::array({"provisioner.storage.kubernetes.io/held"});
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
  }

  std::optional<Json> Claim() { return bed_.api.Find(ClaimKey("team", "copy")); }
  bool HasPair() {
    return bed_.api.Find(VolumeSnapshotContentKey(pair_.name)).has_value() ||
           bed_.api.Find(VolumeSnapshotKey("team", pair_.snapshot_name)).has_value();
  }
  void ExpectNothingLeft() {
    EXPECT_FALSE(Claim().has_value());
    EXPECT_FALSE(HasPair());
    EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  }
  void ExpectNothingMade() {
    EXPECT_EQ(bed_.api.object_count(), object_count_);
    for (const char* plural :
         {"volumesnapshotcontents", "volumesnapshots", "persistentvolumeclaims"}) {
      EXPECT_EQ(bed_.api.CallCount("create", plural), 0) << plural;
    }
  }

  support::ActionBed bed_;
  support::FakeSnapshotCluster cluster_{bed_.api};
  int object_count_ = 0;
  csi::StaticContent pair_;
  std::vector<std::string> notes_;
};

TEST_F(BorrowedSnapshotTest, ThePvcIsBoundAndThePairIsGone) {
  Json content;
  bed_.api.OnCreate("volumesnapshotcontents",
                    [&](support::FakeApiClient&, const Json& made) { content = made; });
  const absl::StatusOr<Borrowed> borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_THAT(borrowed->removed, IsOk());
  EXPECT_EQ(borrowed->pvc.state, PvcState::kBound);
  EXPECT_EQ(GetString(*Claim(), {"status", "phase"}), "Bound");
  EXPECT_EQ(GetString(*Claim(), {"spec", "volumeMode"}), "Block");
  EXPECT_EQ(GetString(*Claim(), {"spec", "resources", "requests", "storage"}), "64Mi");
  EXPECT_FALSE(HasPair());
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(content, {"spec", "sourceVolumeMode"}), "Block");
  EXPECT_EQ(k8s::Label(content, objects::kMadeByLabel), "csi-delta");
  EXPECT_EQ(k8s::Annotation(content, objects::kDeletionSecretNameAnnotation), "key");
  // The source is as it was.
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotKey("shop", "monday")).has_value());
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey("c")).has_value());
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(cluster_.driver().snapshots(), Contains("h"));
}

TEST_F(BorrowedSnapshotTest, WithoutARightOnEitherEndNothingIsMadeOrRead) {
  struct Right {
    const char* verb;
    const char* plural;
    const char* space;
  };
  for (const Right& right :
       {Right{"get", "volumesnapshots", "shop"}, Right{"get", "persistentvolumeclaims", "team"},
        Right{"create", "persistentvolumeclaims", "team"},
        Right{"delete", "persistentvolumeclaims", "team"}, Right{"get", "volumesnapshots", "team"},
        Right{"create", "volumesnapshots", "team"}, Right{"delete", "volumesnapshots", "team"},
        Right{"list", "storageclasses", ""}, Right{"get", "volumesnapshotcontents", ""},
        Right{"create", "volumesnapshotcontents", ""}, Right{"patch", "volumesnapshotcontents", ""},
        Right{"delete", "volumesnapshotcontents", ""}}) {
    bed_.api.ClearCalls();
    bed_.api.Forbid(right.verb, right.plural, right.space);
    EXPECT_THAT(
        Borrow(),
        StatusIs(absl::StatusCode::kPermissionDenied,
                 AllOf(HasSubstr(absl::StrCat("you may not ", right.verb, " ", right.plural)),
                       HasSubstr(*right.space == '\0' ? "csi-delta-snapshot-" : right.space))));
    ExpectNothingMade();
    EXPECT_EQ(bed_.api.CallCount("get", "*") + bed_.api.CallCount("list", "*"), 0);
    bed_.api.ClearFaults();
  }
}

TEST_F(BorrowedSnapshotTest, AForgedContentIsRefusedAndNothingIsMade) {
  // A VolumeSnapshot that says that it is bound to the content of another one.
  Json forged = support::MakeSnapshotObject("shop", "forged", "c");
  forged["status"]["readyToUse"] = true;
  bed_.api.Seed(VolumeSnapshotType(), forged);
  ++object_count_;
  BorrowRequest request = Request();
  request.snapshot_name = "forged";
  absl::StatusOr<BorrowPlan> plan = PlanBorrowing(bed_.ctx, bed_.api, request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->plan.promotions.front().refusals.front().message,
              HasSubstr("names VolumeSnapshotContent c, which belongs to shop/monday"));
  // One whose content names it, but not its uid: made by hand, and never bound.
  bed_.api.Mutate(VolumeSnapshotContentKey("c"),
                  [](Json& content) { content["spec"]["volumeSnapshotRef"].erase("uid"); });
  EXPECT_THAT(Borrow(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("without its uid")));
  // One whose content is gone.
  bed_.api.Remove(VolumeSnapshotContentKey("c"));
  --object_count_;
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is Lost")));
  ExpectNothingMade();
}

TEST_F(BorrowedSnapshotTest, WhatIsAgainstAPvcIsAgainstThisOneToo) {
  bed_.api.Seed(PersistentVolumeClaimType(),
                support::MakeObject("v1", "PersistentVolumeClaim", "team", "copy"));
  ++object_count_;
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("team/copy exists already")));
  BorrowRequest request = Request();
  request.options.namespace_name = "shop";
  EXPECT_THAT(PlanBorrowing(bed_.ctx, bed_.api, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--from-namespace")));
}

TEST_F(BorrowedSnapshotTest, ARefusalOfTheDriverLeavesNothing) {
  cluster_.driver().Refuse("CreateVolume", "NotFound", "snapshot h does not exist");
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("code = NotFound"),
                                       HasSubstr("what was made is deleted again"))));
  ExpectNothingLeft();
}

TEST_F(BorrowedSnapshotTest, ATimeoutLeavesNothing) {
  cluster_.driver().Hold("CreateVolume");
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 AllOf(HasSubstr("is not bound yet"),
                                       HasSubstr("what was made is deleted again"))));
  ExpectNothingLeft();
}

TEST_F(BorrowedSnapshotTest, ASourceThatIsDeletedMeanwhileLeavesNothing) {
  bed_.api.OnCreate("volumesnapshotcontents", [](support::FakeApiClient& api, const Json&) {
    api.Remove(VolumeSnapshotKey("shop", "monday"));
  });
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("shop/monday was deleted in the meantime")));
  ExpectNothingLeft();
}

TEST_F(BorrowedSnapshotTest, AnApiServerThatRefusesThePvcLeavesNothing) {
  bed_.api.FailNext("create", "persistentvolumeclaims",
                    absl::PermissionDeniedError("exceeded quota"));
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("exceeded quota")));
  ExpectNothingLeft();
  // Also where the answer is lost, and the PVC is there.
  cluster_.driver().Hold("CreateVolume");
  bed_.api.FailNext("create", "persistentvolumeclaims", absl::UnavailableError("gone"), 1,
                    support::Fault::kAnswerLost);
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kUnavailable));
  ExpectNothingLeft();
}

TEST_F(BorrowedSnapshotTest, OneThatWaitsForAPodKeepsItsPairUntilTheNextRun) {
  SeedClass("WaitForFirstConsumer");
  absl::StatusOr<Borrowed> borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_EQ(borrowed->pvc.state, PvcState::kWaitsForFirstConsumer);
  EXPECT_TRUE(HasPair());
  const std::string uid = k8s::Uid(*Claim());
  EXPECT_EQ(Borrow()->pvc.state, PvcState::kWaitsForFirstConsumer);
  SeedClass("Immediate");  // As when a Pod has come: the provisioner goes on.
  cluster_.Resync();
  borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_EQ(borrowed->pvc.state, PvcState::kBound);
  EXPECT_EQ(k8s::Uid(*Claim()), uid);
  EXPECT_FALSE(HasPair());
}

TEST_F(BorrowedSnapshotTest, ARunThatWasKilledIsTakenUp) {
  // Killed with the PVC made: nothing was cleaned up.
  cluster_.driver().Hold("CreateVolume");
  bed_.api.SetInterceptor([](const support::ApiCall& call, const Json*) -> absl::Status {
    return call.verb == "delete" ? absl::PermissionDeniedError("killed") : absl::OkStatus();
  });
  EXPECT_THAT(Borrow(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 HasSubstr("left behind: PVC team/copy, VolumeSnapshotContent")));
  EXPECT_TRUE(HasPair());
  bed_.api.ClearFaults();
  const std::string uid = k8s::Uid(*Claim());
  // While it is not bound, another run that ends early leaves it as it was.
  EXPECT_THAT(Borrow(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("it stays as it was")));
  EXPECT_TRUE(HasPair());
  cluster_.LetDriverWork();
  const absl::StatusOr<Borrowed> borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_EQ(k8s::Uid(*Claim()), uid);
  EXPECT_FALSE(HasPair());
}

TEST_F(BorrowedSnapshotTest, AVolumeSnapshotThatIsStillBeingDeletedIsNotInTheWay) {
  const csi::StaticContent first = Plan()->pair;
  SeedLingering(first.snapshot_name);
  const absl::StatusOr<Borrowed> borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_EQ(borrowed->pvc.state, PvcState::kBound);
  EXPECT_NE(pair_.snapshot_name, first.snapshot_name);
  EXPECT_FALSE(HasPair());
}

TEST_F(BorrowedSnapshotTest, TheSecondAttemptIsTakenUpThoughTheFirstIsGoneMeanwhile) {
  const csi::StaticContent first = Plan()->pair;
  SeedLingering(first.snapshot_name);
  SeedClass("WaitForFirstConsumer");
  EXPECT_EQ(Borrow()->pvc.state, PvcState::kWaitsForFirstConsumer);
  bed_.api.Remove(VolumeSnapshotKey("team", first.snapshot_name));
  SeedClass("Immediate");
  cluster_.Resync();
  const absl::StatusOr<Borrowed> borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_EQ(borrowed->pvc.state, PvcState::kBound);
  EXPECT_FALSE(HasPair());
}

TEST_F(BorrowedSnapshotTest, AStopLeavesNothing) {
  std::stop_source stop;
  cluster_.driver().Hold("CreateVolume");
  bed_.api.OnCreate("persistentvolumeclaims",
                    [&](support::FakeApiClient&, const Json&) { stop.request_stop(); });
  const absl::StatusOr<BorrowPlan> plan = Plan();
  ASSERT_THAT(plan, IsOk());
  pair_ = plan->pair;
  CallContext ctx = bed_.ctx.WithTimeout(absl::Minutes(1));
  ctx.stop = stop.get_token();
  EXPECT_THAT(CarryOutBorrowing(ctx, bed_.api, *plan, notes_),
              StatusIs(absl::StatusCode::kCancelled));
  ExpectNothingLeft();
}

TEST_F(BorrowedSnapshotTest, APairThatCannotBeRemovedIsReported) {
  bed_.api.OnEvent(
      "persistentvolumeclaims", [](support::FakeApiClient& api, const k8s::WatchEvent& event) {
        if (event.kind == k8s::WatchEvent::Kind::kAdded) {
          api.FailNext("patch", "volumesnapshotcontents", absl::PermissionDeniedError("no more"));
        }
      });
  const absl::StatusOr<Borrowed> borrowed = Borrow();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_EQ(borrowed->pvc.state, PvcState::kBound);
  EXPECT_THAT(borrowed->removed, StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(HasPair());
  bed_.api.ClearFaults();
  EXPECT_THAT(Borrow()->removed, IsOk());  // The next run does it.
  EXPECT_FALSE(HasPair());
}

TEST_F(BorrowedSnapshotTest, TheSourcePvcGivesDefaultsWhereItMayBeRead) {
  Json source = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
  source["spec"] = {{"accessModes", {"ReadWriteMany"}},
                    {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
  source["status"] = {{"phase", "Bound"}};
  bed_.api.Seed(PersistentVolumeClaimType(), source);
  EXPECT_EQ(Plan()->plan.promotions.front().pvc.size_bytes, int64_t{1} << 30);
  bed_.api.Forbid("get", "persistentvolumeclaims", "shop");
  const absl::StatusOr<BorrowPlan> plan = Plan();
  EXPECT_EQ(plan->plan.promotions.front().pvc.size_bytes, int64_t{64} << 20);
  EXPECT_THAT(plan->plan.not_checked,
              ElementsAre(HasSubstr("defaults of the source PVC not read")));
  bed_.api.ClearFaults();
  // All else is needed.
  bed_.api.Forbid("list", "storageclasses");
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace csidelta::snapshots::borrowed_snapshot_test
