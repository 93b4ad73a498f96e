// snapshots/snapshot_import.h and, below it, snapshots/static_pair.h: on the fake programs that
// bind a VolumeSnapshot to its content and ask the driver.
#include "snapshots/snapshot_import.h"
#include "snapshots/static_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "k8s/object.h"
#include "objects/keys.h"
#include "snapshots/promotion.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_import_test {
namespace {

using objects::VolumeMode;
using objects::VolumeSnapshot;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr char kDriverName[] = "d.example.com";

class SnapshotImportTest : public testing::Test {
 protected:
  SnapshotImportTest() {
    bed_.clock.SetAutoAdvance(true);
    cluster_.strict = true;
    cluster_.driver().takes_any_handle = false;
    cluster_.driver().AddSnapshot("h");
    Json one = support::MakeClassObject("fast", kDriverName);
    one["parameters"] = {{objects::kSnapshotterSecretName, "key-of-${volumesnapshot.name}"},
                         {objects::kSnapshotterSecretNamespace, "${volumesnapshot.namespace}"}};
    bed_.api.Seed(VolumeSnapshotClassType(), one);
    bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("other", "e.example.com"));
  }

  static csi::StaticContent Request() {
    return {.driver = kDriverName,
            .handle = "h",
            .snapshot_namespace = "shop",
            .snapshot_name = "orders"};
  }
  absl::StatusOr<ImportPlan> Plan(const csi::StaticContent& request) {
    return PlanImport(bed_.ctx, bed_.api, request);
  }
  absl::StatusOr<VolumeSnapshot> Import(const csi::StaticContent& request) {
    absl::StatusOr<ImportPlan> plan = Plan(request);
    if (!plan.ok()) {
      return plan.status();
    }
    return CarryOutImport(bed_.ctx, bed_.api, *plan);
  }
  static std::string ContentName() { return ImportContentName(kDriverName, "h"); }
  std::optional<Json> Content() { return bed_.api.Find(VolumeSnapshotContentKey(ContentName())); }
  std::optional<Json> Snapshot() { return bed_.api.Find(VolumeSnapshotKey("shop", "orders")); }

  void ExpectNothingMade() {
    EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
    EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshots"), 0);
    for (const char* verb : {"update", "patch", "delete"}) {
      EXPECT_EQ(bed_.api.CallCount(verb, "*"), 0) << verb;
    }
  }
  void ExpectImported(const char* policy) {
    ASSERT_TRUE(Content().has_value());
    ASSERT_TRUE(Snapshot().has_value());
    EXPECT_EQ(GetString(*Content(), {"spec", "deletionPolicy"}), policy);
    EXPECT_EQ(GetString(*Content(), {"spec", "volumeSnapshotRef", "uid"}), k8s::Uid(*Snapshot()));
    EXPECT_TRUE(GetBool(*Snapshot(), {"status", "readyToUse"}));
    EXPECT_THAT(cluster_.driver().snapshots(), Contains("h"));
  }

  support::ActionBed bed_;
  support::FakeSnapshotCluster cluster_{bed_.api};
};

TEST_F(SnapshotImportTest, MakesAContentAndAVolumeSnapshotThatNameEachOther) {
  csi::StaticContent request = Request();
  request.mode = VolumeMode::kBlock;
  ASSERT_THAT(Import(request), IsOk());
  ExpectImported("Retain");
  EXPECT_EQ(GetString(*Content(), {"spec", "driver"}), kDriverName);
  EXPECT_EQ(GetString(*Content(), {"spec", "source", "snapshotHandle"}), "h");
  EXPECT_EQ(GetString(*Content(), {"spec", "sourceVolumeMode"}), "Block");
  EXPECT_EQ(k8s::Label(*Content(), objects::kMadeByLabel), "csi-delta");
  EXPECT_EQ(k8s::Label(*Snapshot(), objects::kMadeByLabel), "csi-delta");
  EXPECT_EQ(k8s::Label(*Snapshot(), objects::kCsiDeltaLabel), "");
  EXPECT_EQ(GetString(*Snapshot(), {"spec", "source", "volumeSnapshotContentName"}), ContentName());
  const absl::StatusOr<VolumeSnapshot> ready =
      AwaitUsableSnapshot(bed_.ctx, bed_.api, "shop", "orders");
  EXPECT_EQ(ready->restore_size_bytes(), 64 << 20);
}

TEST_F(SnapshotImportTest, TheNamesFollowFromDriverAndHandle) {
  csi::StaticContent request = Request();
  request.snapshot_name = "";
  EXPECT_EQ(Plan(request)->pair.snapshot_name, ImportName(kDriverName, "h"));
  EXPECT_TRUE(k8s::IsObjectName(ContentName()));
  EXPECT_NE(ImportName("a", "bc"), ImportName("ab", "c"));
  EXPECT_EQ(ImportName("a", "b"), ImportName("a", "b"));
}

TEST_F(SnapshotImportTest, DeleteIsWrittenOnlyOnceTheVolumeSnapshotIsThere) {
  std::string policy;
  bed_.api.OnCreate("volumesnapshots", [&](support::FakeApiClient& api, const Json&) {
    policy =
        GetString(*api.Find(VolumeSnapshotContentKey(ContentName())), {"spec", "deletionPolicy"});
  });
  csi::StaticContent request = Request();
  request.deletion_policy = "Delete";
  ASSERT_THAT(Import(request), IsOk());
  EXPECT_EQ(policy, "Retain");
  ExpectImported("Delete");
}

TEST_F(SnapshotImportTest, TheSecretOfTheClassIsNamedForTheDeletion) {
  csi::StaticContent request = Request();
  request.class_name = "fast";
  ASSERT_THAT(Import(request), IsOk());
  EXPECT_EQ(k8s::Annotation(*Content(), objects::kDeletionSecretNameAnnotation), "key-of-orders");
  EXPECT_EQ(k8s::Annotation(*Content(), objects::kDeletionSecretNamespaceAnnotation), "shop");
  EXPECT_EQ(GetString(*Snapshot(), {"spec", "volumeSnapshotClassName"}), "fast");
}

TEST_F(SnapshotImportTest, ADriverThatListsNothingLeavesItUnverified) {
  cluster_.driver().lists_snapshots = false;
  ASSERT_THAT(Import(Request()), IsOk());
  const absl::StatusOr<VolumeSnapshot> made =
      AwaitUsableSnapshot(bed_.ctx, bed_.api, "shop", "orders");
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(csi::StatusOf(*made, {}).state, csi::SnapshotState::kUnverified);
}

TEST_F(SnapshotImportTest, AHandleThatTheDriverDoesNotKnowIsSaidInItsWords) {
  csi::StaticContent request = Request();
  request.handle = "unknown";
  ASSERT_THAT(Import(request), IsOk());
  EXPECT_THAT(
      AwaitUsableSnapshot(bed_.ctx.WithTimeout(absl::Minutes(1)), bed_.api, "shop", "orders"),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr("can not find snapshot for snapshotID unknown")));
}

// --- Refusals, each of which makes nothing

TEST_F(SnapshotImportTest, ArgumentsThatCannotBeAreRefused) {
  const std::vector<std::function<void(csi::StaticContent&)>> changes = {
      [](csi::StaticContent& r) { r.handle = ""; },
      [](csi::StaticContent& r) { r.handle = "a\xff"; },
      [](csi::StaticContent& r) { r.driver = ""; },
      [](csi::StaticContent& r) { r.driver = "My Driver"; },
      [](csi::StaticContent& r) { r.snapshot_name = "Orders"; },
      [](csi::StaticContent& r) { r.snapshot_name = "../orders"; }};
  for (const auto& change : changes) {
    csi::StaticContent request = Request();
    change(request);
    EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  ExpectNothingMade();
}

TEST_F(SnapshotImportTest, EachRightIsNeededAndNamed) {
  struct Right {
    const char* verb;
    const char* plural;
    const char* text;
  };
  csi::StaticContent request = Request();
  request.deletion_policy = "Delete";
  for (const Right& right :
       {Right{"list", "volumesnapshotcontents", "you may not list volumesnapshotcontents"},
        Right{"create", "volumesnapshotcontents", "you may not create volumesnapshotcontents"},
        Right{"create", "volumesnapshots", "you may not create volumesnapshots in namespace shop"},
        Right{"patch", "volumesnapshotcontents", "you may not patch volumesnapshotcontents"}}) {
    bed_.api.Forbid(right.verb, right.plural);
    EXPECT_THAT(Plan(request),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr(right.text), HasSubstr("csi-delta-snapshot-admin"))));
    bed_.api.ClearFaults();
  }
  for (const char* plural : {"volumesnapshots", "volumesnapshotclasses"}) {
    bed_.api.Forbid("get", plural);
    request.class_name = "fast";
    EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kPermissionDenied)) << plural;
    bed_.api.ClearFaults();
  }
  ExpectNothingMade();
}

TEST_F(SnapshotImportTest, AHandleThatHasAContentIsRefusedByName) {
  Json content = support::MakeContentObject("snapcontent-7", "team", "theirs", "h");
  content["spec"]["driver"] = kDriverName;
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(Plan(Request()),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("handle h of driver d.example.com"),
                             HasSubstr("VolumeSnapshotContent snapcontent-7, of VolumeSnapshot "
                                       "team/theirs; use that one"))));
  // A static one, of which the sidecar has said nothing yet, counts as well.
  content.erase("status");
  content["spec"]["source"] = {{"snapshotHandle", "h"}};
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(Plan(Request()), StatusIs(absl::StatusCode::kAlreadyExists));
  // Another driver may call its own so.
  content["spec"]["driver"] = "e.example.com";
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  const absl::StatusOr<ImportPlan> plan = Plan(Request());
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->was_begun);
  ExpectNothingMade();
}

TEST_F(SnapshotImportTest, AContentThatNothingUsesSaysHowItGoes) {
  Json content = support::MakeContentObject("left", "shop", "deleted", "h");
  content["spec"]["driver"] = kDriverName;
  content["spec"]["deletionPolicy"] = "Retain";
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(Plan(Request()), StatusIs(absl::StatusCode::kAlreadyExists,
                                        HasSubstr("kubectl delete volumesnapshotcontent left")));
  // One of the data mover's is not to be deleted by hand, nor one that would take the data along.
  content["metadata"]["labels"] = {{objects::kBaseLabel, "true"}};
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(Plan(Request()), StatusIs(absl::StatusCode::kAlreadyExists,
                                        testing::Not(HasSubstr("kubectl delete"))));
  content["metadata"].erase("labels");
  content["spec"]["deletionPolicy"] = "Delete";
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(Plan(Request()), StatusIs(absl::StatusCode::kAlreadyExists,
                                        testing::Not(HasSubstr("kubectl delete"))));
}

TEST_F(SnapshotImportTest, ANameThatIsTakenIsRefused) {
  bed_.api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("shop", "orders", "c"));
  EXPECT_THAT(Plan(Request()),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("shop/orders exists already")));
  ExpectNothingMade();
}

TEST_F(SnapshotImportTest, AClassThatIsAnothersOrDoesNotExistIsRefused) {
  csi::StaticContent request = Request();
  request.class_name = "other";
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("other is of driver e.example.com")));
  request.class_name = "none";
  EXPECT_THAT(Plan(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("none does not exist")));
  ExpectNothingMade();
}

// --- What happens between the checks and the end

TEST_F(SnapshotImportTest, WithoutItsVolumeSnapshotTheContentGoesAndTheSnapshotStays) {
  bed_.api.FailNext("create", "volumesnapshots", absl::PermissionDeniedError("exceeded quota"));
  csi::StaticContent request = Request();
  request.deletion_policy = "Delete";
  EXPECT_THAT(Import(request), StatusIs(absl::StatusCode::kPermissionDenied,
                                        AllOf(HasSubstr("exceeded quota"),
                                              HasSubstr("what was made is deleted again"))));
  EXPECT_FALSE(Content().has_value());
  EXPECT_FALSE(Snapshot().has_value());
  EXPECT_THAT(cluster_.driver().snapshots(), Contains("h"));
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
}

TEST_F(SnapshotImportTest, ANameThatIsTakenMeanwhileLeavesNoContent) {
  bed_.api.OnCreate("volumesnapshotcontents", [](support::FakeApiClient& api, const Json&) {
    api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("shop", "orders", ""));
  });
  EXPECT_THAT(Import(Request()),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("shop/orders exists already")));
  EXPECT_FALSE(Content().has_value());
  EXPECT_EQ(support::SourceClaimName(*Snapshot()), "data");  // That of the other one.
}

TEST_F(SnapshotImportTest, AContentThatTakesTheNameMeanwhileIsNotUsed) {
  const absl::StatusOr<ImportPlan> plan = Plan(Request());
  Json forged = support::MakeContentObject(ContentName(), "shop", "orders", "",
                                           {{objects::kMadeByLabel, "csi-delta"}});
  forged["spec"]["source"] = {{"snapshotHandle", "another"}};
  bed_.api.Seed(VolumeSnapshotContentType(), forged);
  EXPECT_THAT(CarryOutImport(bed_.ctx, bed_.api, *plan),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("handle another")));
  EXPECT_EQ(GetString(*Content(), {"spec", "source", "snapshotHandle"}), "another");
  EXPECT_FALSE(Snapshot().has_value());
}

TEST_F(SnapshotImportTest, AnInterruptedRunIsTakenUp) {
  // Killed after the content: the sidecar may look at it meanwhile.
  bed_.api.SetInterceptor([](const support::ApiCall& call, const Json*) -> absl::Status {
    return call.plural == "volumesnapshots" && call.verb != "get" ? absl::CancelledError("killed")
                                                                  : absl::OkStatus();
  });
  bed_.api.Forbid("delete", "volumesnapshotcontents");
  EXPECT_THAT(
      Import(Request()),
      StatusIs(absl::StatusCode::kCancelled,
               AllOf(HasSubstr(ContentName()), HasSubstr("run it again with the same arguments"))));
  bed_.api.ClearFaults();
  ASSERT_TRUE(Content().has_value());
  // Other arguments would make another thing of it.
  csi::StaticContent other = Request();
  other.snapshot_name = "invoices";
  EXPECT_THAT(Plan(other), StatusIs(absl::StatusCode::kAlreadyExists,
                                    HasSubstr("of VolumeSnapshot shop/orders")));
  const absl::StatusOr<ImportPlan> plan = Plan(Request());
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->was_begun);
}

TEST_F(SnapshotImportTest, ARunThatWasDoneIsDoneAgain) {
  csi::StaticContent request = Request();
  request.deletion_policy = "Delete";
  ASSERT_THAT(Import(request), IsOk());
  const std::string uid = k8s::Uid(*Snapshot());
  ASSERT_THAT(Import(request), IsOk());
  EXPECT_EQ(k8s::Uid(*Snapshot()), uid);
  ExpectImported("Delete");
  // Retain is another thing to ask for, and the other way round.
  EXPECT_THAT(Plan(Request()), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(RemovePair(bed_.ctx, bed_.api, Plan(request)->pair), IsOk());
  ASSERT_THAT(Import(Request()), IsOk());
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kAlreadyExists));
  ExpectImported("Retain");
}

// Whatever request fails, with or without its work done: the snapshot is never deleted, and the
// next run comes to the same end.
TEST_F(SnapshotImportTest, EveryFailedRequestIsSurvived) {
  csi::StaticContent request = Request();
  request.deletion_policy = "Delete";
  int points = 0;
  for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
    for (const absl::StatusCode code :
         {absl::StatusCode::kUnavailable, absl::StatusCode::kPermissionDenied,
          absl::StatusCode::kCancelled}) {
      for (int n = 1;; ++n) {
        bed_.api.FailCall(n, absl::Status(code, "away"), fault);
        const absl::Status first = Import(request).status();
        const bool was_hit = bed_.api.sweep_hit();
        bed_.api.ClearFaults();
        EXPECT_THAT(cluster_.driver().snapshots(), Contains("h")) << n;
        ASSERT_THAT(Import(request), IsOk()) << n << " after " << first;
        ExpectImported("Delete");
        bed_.api.Remove(VolumeSnapshotKey("shop", "orders"));
        bed_.api.Remove(VolumeSnapshotContentKey(ContentName()));
        if (!was_hit) {
          break;
        }
        ++points;
      }
    }
  }
  EXPECT_GT(points, 30);
}

// --- snapshots/static_pair.h

TEST_F(SnapshotImportTest, APairGoesAndTheSnapshotStays) {
  csi::StaticContent request = Request();
  request.deletion_policy = "Delete";  // RemovePair() retains it first.
  const absl::StatusOr<ImportPlan> plan = Plan(request);
  ASSERT_THAT(CarryOutImport(bed_.ctx, bed_.api, *plan), IsOk());
  EXPECT_THAT(RemovePair(bed_.ctx, bed_.api, plan->pair), IsOk());
  EXPECT_FALSE(Content().has_value());
  EXPECT_FALSE(Snapshot().has_value());
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(RemovePair(bed_.ctx, bed_.api, plan->pair), IsOk());
}

TEST_F(SnapshotImportTest, WhatIsNotThePairsIsLeftAlone) {
  const absl::StatusOr<ImportPlan> plan = Plan(Request());
  bed_.api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("shop", "orders", ""));
  Json content = support::MakeContentObject(ContentName(), "team", "theirs", "h");
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  EXPECT_THAT(RemovePair(bed_.ctx, bed_.api, plan->pair), IsOk());
  EXPECT_TRUE(Content().has_value());
  EXPECT_TRUE(Snapshot().has_value());
  EXPECT_EQ(bed_.api.CallCount("delete", "*"), 0);
  EXPECT_EQ(bed_.api.CallCount("patch", "*"), 0);
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_import_test
