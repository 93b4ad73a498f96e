#include "snapshots/promotion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "objects/keys.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::promotion_test {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const k8s::ResourceType kEvents{"", "v1", "events", "Event", true};

class PromotionTest : public testing::Test {
 protected:
  PromotionTest() {
    bed_.clock.SetAutoAdvance(true);
    support::SeedStorageClass(bed_.api, "fast", support::kDriver);
    Json source = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data",
                                      {{"app", "db"}, {"tier", "one"}});
    source["spec"] = {{"storageClassName", "fast"},
                      {"accessModes", {"ReadWriteOnce"}},
                      {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
    bed_.api.Seed(PersistentVolumeClaimType(), source);
    AddSnapshot("monday");
  }

  void AddSnapshot(const std::string& name, const support::Strings& labels = {}) {
    Json snapshot = support::MakeSnapshotObject("shop", name, "content-of-" + name, labels);
    snapshot["status"]["readyToUse"] = true;
    snapshot["status"]["restoreSize"] = "1Gi";
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    bed_.api.Seed(VolumeSnapshotContentType(),
                  support::MakeContentObject("content-of-" + name, "shop", name, "h-" + name));
  }

  VolumeSnapshot Snapshot(const std::string& name) {
    return *VolumeSnapshot::Of(*bed_.api.Find(VolumeSnapshotKey("shop", name)));
  }
  std::optional<Json> FindClaim(const std::string& name) {
    return bed_.api.Find(ClaimKey("shop", name));
  }

  PromotionRequest Request(const std::vector<std::pair<std::string, std::string>>& pvc_of) {
    PromotionRequest request;
    for (const auto& [snapshot, pvc] : pvc_of) {
      request.targets.push_back(
          {.snapshot = Snapshot(snapshot), .options = {.namespace_name = "shop", .name = pvc}});
    }
    return request;
  }
  absl::StatusOr<PromotionPlan> Plan(const PromotionRequest& request) {
    return PlanPromotions(bed_.ctx, bed_.api, request);
  }
  // A plan that nothing is against.
  PromotionPlan GoodPlan(const std::vector<std::pair<std::string, std::string>>& pvc_of) {
    absl::StatusOr<PromotionPlan> plan = Plan(Request(pvc_of));
    EXPECT_THAT(plan, IsOk());
    for (const Promotion& one : plan->promotions) {
      EXPECT_THAT(one.refusals, IsEmpty());
    }
    return *std::move(plan);
  }

  PersistentVolumeClaim Made(const std::string& pvc) {
    absl::StatusOr<std::vector<PersistentVolumeClaim>> made =
        MakePvcs(bed_.ctx, bed_.api, GoodPlan({{"monday", pvc}}));
    EXPECT_THAT(made, IsOk());
    return made->front();
  }

  // As the provisioner and the binder do.
  void Bind(const std::string& pvc) {
    const std::string uid = k8s::Uid(*FindClaim(pvc));
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pvc-" + uid);
    volume["spec"] = {{"csi", {{"driver", support::kDriver}}}, {"claimRef", {{"uid", uid}}}};
    bed_.api.Seed(PersistentVolumeType(), volume);
    bed_.api.Mutate(ClaimKey("shop", pvc), [&](Json& claim) {
      claim["spec"]["volumeName"] = "pvc-" + uid;
      claim["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}};
    });
  }

  void AddEvent(const std::string& uid, const std::string& reason, const std::string& message,
                const std::string& time = "2023-11-14T22:13:20Z") {
    Json event = support::MakeObject("v1", "Event", "shop", absl::StrCat("event-", ++events_));
    event["involvedObject"] = {{"uid", uid}};
    event["reason"] = reason;
    event["message"] = message;
    event["lastTimestamp"] = time;
    bed_.api.Seed(kEvents, event);
  }

  // Runs before the `n`th time that events are listed.
  void BeforeLook(int n, std::function<void()> act) {
    looks_ = 0;
    bed_.api.SetInterceptor(
        [this, n, act = std::move(act)](const support::ApiCall& call, const Json*) -> absl::Status {
          if (call.verb == "list" && call.plural == "events" && ++looks_ == n) {
            act();
          }
          return absl::OkStatus();
        });
  }

  absl::StatusOr<AwaitedPvc> Await(const PersistentVolumeClaim& pvc,
                                   bool waits_for_first_consumer = false) {
    const VolumeSnapshot source = *VolumeSnapshot::Of(
        {{"metadata", {{"name", "monday"}, {"namespace", "shop"}, {"uid", "monday-uid"}}}});
    return AwaitPvc(bed_.ctx.WithTimeout(absl::Minutes(1)), bed_.api, pvc,
                    {.source = source,
                     .driver = support::kDriver,
                     .waits_for_first_consumer = waits_for_first_consumer},
                    notes_);
  }

  support::ActionBed bed_;
  std::vector<std::string> notes_;
  int events_ = 0;
  int looks_ = 0;  // times that events were listed
};

// --- Planning

TEST_F(PromotionTest, APlanReadsAndChangesNothing) {
  PromotionRequest request = Request({{"monday", "copy"}});
  request.labels_of = "data";
  const absl::StatusOr<PromotionPlan> plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  const Promotion& one = plan->promotions.front();
  EXPECT_THAT(one.refusals, IsEmpty());
  EXPECT_THAT(plan->not_checked, IsEmpty());
  EXPECT_EQ(one.pvc.name, "copy");
  EXPECT_EQ(one.pvc.storage_class, "fast");
  EXPECT_EQ(one.labels.at("tier"), "one");
  EXPECT_FALSE(one.waits_for_first_consumer);
  for (const support::ApiCall& call : bed_.api.calls()) {
    EXPECT_THAT(call.verb, testing::AnyOf("get", "list")) << call;
  }
}

TEST_F(PromotionTest, ManyCostOneListOfClassesAndNoListOfContents) {
  AddSnapshot("tuesday");
  AddSnapshot("wednesday");
  GoodPlan({{"monday", "a"}, {"tuesday", "b"}, {"wednesday", "c"}});
  EXPECT_EQ(bed_.api.CallCount("list", "*"), 1);
}

TEST_F(PromotionTest, WhatMayNotBeReadIsNamedOnceForASetAndNotChecked) {
  AddSnapshot("tuesday");
  bed_.api.Forbid("get", "volumesnapshotcontents");
  bed_.api.Forbid("list", "storageclasses");
  const absl::StatusOr<PromotionPlan> plan = Plan(Request({{"monday", "a"}, {"tuesday", "b"}}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->promotions.front().refusals, IsEmpty());
  EXPECT_EQ(plan->promotions.front().pvc.storage_class, "fast");
  EXPECT_THAT(plan->not_checked, ElementsAre(HasSubstr("StorageClass not checked: "),
                                             HasSubstr("binding not checked: ")));
}

TEST_F(PromotionTest, ThePvcsMayBeSecretToo) {
  bed_.api.Forbid("get", "persistentvolumeclaims");
  const absl::StatusOr<PromotionPlan> plan = Plan(Request({{"monday", "copy"}}));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->promotions.front().pvc.storage_class, "fast");  // The driver's only one.
  EXPECT_THAT(plan->not_checked, ElementsAre(HasSubstr("defaults of the source PVC not read"),
                                             HasSubstr("whether the name is free not checked")));
}

TEST_F(PromotionTest, WhereAllMustBeCheckedWhatMayNotBeReadIsAnError) {
  const std::vector<std::pair<std::string, std::string>> rights = {
      {"get", "volumesnapshotcontents"}, {"list", "storageclasses"}};
  for (const auto& [verb, plural] : rights) {
    bed_.api.Forbid(verb, plural);
    PromotionRequest request = Request({{"monday", "copy"}});
    request.must_check_all = true;
    EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kPermissionDenied)) << plural;
    bed_.api.ClearFaults();
  }
}

TEST_F(PromotionTest, AForgedContentIsRefused) {
  bed_.api.Mutate(VolumeSnapshotContentKey("content-of-monday"), [](Json& content) {
    content["spec"]["volumeSnapshotRef"] = {
        {"namespace", "team"}, {"name", "theirs"}, {"uid", "u"}};
  });
  const absl::StatusOr<PromotionPlan> plan = Plan(Request({{"monday", "copy"}}));
  ASSERT_EQ(plan->promotions.front().refusals.size(), 1U);
  EXPECT_EQ(plan->promotions.front().refusals.front().code, "NotMutual");
}

TEST_F(PromotionTest, TwoOfOneNameAreRefused) {
  AddSnapshot("tuesday");
  const absl::StatusOr<PromotionPlan> plan =
      Plan(Request({{"monday", "copy"}, {"tuesday", "copy"}}));
  EXPECT_THAT(plan->promotions[0].refusals, IsEmpty());
  ASSERT_EQ(plan->promotions[1].refusals.size(), 1U);
  EXPECT_THAT(plan->promotions[1].refusals.front().message, HasSubstr("VolumeSnapshot monday"));
}

TEST_F(PromotionTest, LabelsOfAPvcThatDoesNotExistAreAnError) {
  PromotionRequest request = Request({{"monday", "copy"}});
  request.labels_of = "nothing";
  EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("shop/nothing")));
}

TEST_F(PromotionTest, ASetIsAllThatCarryItsName) {
  AddSnapshot("b", {{objects::kSnapshotSetLabel, "nightly"}});
  AddSnapshot("a", {{objects::kSnapshotSetLabel, "nightly"}});
  const auto members = SnapshotsOfSet(bed_.ctx, bed_.api, "shop", "nightly");
  ASSERT_THAT(members, IsOk());
  ASSERT_EQ(members->size(), 2U);
  EXPECT_EQ(members->front().name(), "a");
  EXPECT_THAT(SnapshotsOfSet(bed_.ctx, bed_.api, "shop", "weekly"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("weekly")));
}

// --- Making

TEST_F(PromotionTest, ThePvcIsMadeAsPlanned) {
  PromotionRequest request = Request({{"monday", "copy"}});
  request.labels_of = "data";
  const absl::StatusOr<std::vector<PersistentVolumeClaim>> made =
      MakePvcs(bed_.ctx, bed_.api, *Plan(request));
  ASSERT_THAT(made, IsOk());
  const Json claim = *FindClaim("copy");
  EXPECT_EQ(claim["spec"], (Json{{"accessModes", Json::array({"ReadWriteOnce"})},
                                 {"storageClassName", "fast"},
                                 {"volumeMode", "Filesystem"},
                                 {"resources", {{"requests", {{"storage", "1Gi"}}}}},
                                 {"dataSource",
                                  {{"apiGroup", "snapshot.storage.k8s.io"},
                                   {"kind", "VolumeSnapshot"},
                                   {"name", "monday"}}}}));
  EXPECT_EQ(k8s::Label(claim, "app"), "db");
  EXPECT_EQ(made->front().source_snapshot(), "monday");
}

TEST_F(PromotionTest, ANameThatIsTakenMeanwhileLeavesNothingOfTheSet) {
  AddSnapshot("tuesday");
  const PromotionPlan plan = GoodPlan({{"monday", "a"}, {"tuesday", "b"}});
  bed_.api.OnCreate("persistentvolumeclaims", [](support::FakeApiClient& api, const Json&) {
    api.Seed(PersistentVolumeClaimType(),
             support::MakeObject("v1", "PersistentVolumeClaim", "shop", "b"));
  });
  EXPECT_THAT(MakePvcs(bed_.ctx, bed_.api, plan),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("shop/b was made by another"), HasSubstr("removed again"))));
  EXPECT_FALSE(FindClaim("a").has_value());
  EXPECT_TRUE(FindClaim("b").has_value());  // Of the other client.
}

TEST_F(PromotionTest, WhatCannotBeUndoneIsNamed) {
  AddSnapshot("tuesday");
  const PromotionPlan plan = GoodPlan({{"monday", "a"}, {"tuesday", "b"}});
  bed_.api.OnCreate("persistentvolumeclaims", [](support::FakeApiClient& api, const Json&) {
    api.FailNext("create", "persistentvolumeclaims",
                 absl::PermissionDeniedError("exceeded quota: pvcs"));
    api.Forbid("delete", "persistentvolumeclaims");
  });
  EXPECT_THAT(MakePvcs(bed_.ctx, bed_.api, plan),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("exceeded quota"), HasSubstr("left behind: PVC shop/a"))));
}

TEST_F(PromotionTest, AVolumeSnapshotThatGoesMeanwhileTakesThePvcAlong) {
  for (const bool is_replaced : {false, true}) {
    const PromotionPlan plan = GoodPlan({{"monday", "copy"}});
    bed_.api.OnCreate("persistentvolumeclaims",
                      [is_replaced](support::FakeApiClient& api, const Json&) {
                        api.Remove(VolumeSnapshotKey("shop", "monday"));
                        if (is_replaced) {
                          Json other = support::MakeSnapshotObject("shop", "monday", "");
                          other["metadata"]["uid"] = "another";
                          api.Seed(VolumeSnapshotType(), other);
                        }
                      });
    EXPECT_THAT(MakePvcs(bed_.ctx, bed_.api, plan),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("shop/monday was deleted in the meantime")));
    EXPECT_FALSE(FindClaim("copy").has_value());
    AddSnapshot("monday");
  }
}

TEST_F(PromotionTest, ALostAnswerIsNotTakenForEither) {
  const PromotionPlan plan = GoodPlan({{"monday", "copy"}});
  bed_.api.FailNext("create", "persistentvolumeclaims", absl::UnavailableError("gone"), 1,
                    support::Fault::kAnswerLost);
  EXPECT_THAT(MakePvcs(bed_.ctx, bed_.api, plan),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("whether PVC shop/copy was made is not known")));
}

// --- Removing

TEST_F(PromotionTest, APvcThatIsBoundOrAnotherIsNotRemoved) {
  const PersistentVolumeClaim pvc = Made("copy");
  Bind("copy");
  EXPECT_THAT(RemovePvc(bed_.ctx, bed_.api, pvc), StatusIs(absl::StatusCode::kFailedPrecondition));
  bed_.api.Remove(ClaimKey("shop", "copy"));
  EXPECT_THAT(RemovePvc(bed_.ctx, bed_.api, pvc), IsOk());
  bed_.api.Seed(PersistentVolumeClaimType(),
                support::MakeObject("v1", "PersistentVolumeClaim", "shop", "copy"));
  EXPECT_THAT(RemovePvc(bed_.ctx, bed_.api, pvc), IsOk());
  EXPECT_TRUE(FindClaim("copy").has_value());
}

// --- Waiting

TEST_F(PromotionTest, WaitsUntilThePvcIsBound) {
  const PersistentVolumeClaim pvc = Made("copy");
  BeforeLook(3, [&] { Bind("copy"); });
  const absl::StatusOr<AwaitedPvc> awaited = Await(pvc);
  ASSERT_THAT(awaited, IsOk());
  EXPECT_EQ(awaited->state, PvcState::kBound);
  EXPECT_EQ(awaited->pvc.capacity_bytes(), int64_t{1} << 30);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(PromotionTest, ADefiniteRefusalEndsTheWaitWithItsSentence) {
  const PersistentVolumeClaim pvc = Made("copy");
  AddEvent("another", "ProvisioningFailed", "rpc error: code = NotFound desc = of another PVC");
  BeforeLook(2, [&] {
    AddEvent(pvc.uid(), "ProvisioningFailed", "rpc error: code = Unavailable desc = busy");
  });
  const absl::Time begin = bed_.clock.Now();
  EXPECT_THAT(Await(pvc), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                   AllOf(HasSubstr("desc = busy"), HasSubstr("it stays"))));
  EXPECT_EQ(bed_.clock.Now() - begin, absl::Minutes(1));
  BeforeLook(2, [&] {
    AddEvent(pvc.uid(), "ProvisioningFailed",
             "failed: rpc error: code = NotFound desc = snapshot \x1b[31mh\x1b[0m",
             "2024-01-01T00:00:00Z");
  });
  EXPECT_THAT(Await(pvc),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("PVC shop/copy is refused: failed: rpc error: code = "
                                       "NotFound"),
                             HasSubstr("kubectl delete pvc -n shop copy"))));
  EXPECT_TRUE(FindClaim("copy").has_value());
}

TEST_F(PromotionTest, OneThatWaitsForItsFirstConsumerIsNotWaitedFor) {
  const PersistentVolumeClaim pvc = Made("copy");
  const absl::Time begin = bed_.clock.Now();
  EXPECT_EQ(Await(pvc, true)->state, PvcState::kWaitsForFirstConsumer);
  EXPECT_EQ(bed_.clock.Now(), begin);
  // Where the class could not be read, the event says so.
  AddEvent(pvc.uid(), "WaitForFirstConsumer", "waiting for first consumer");
  EXPECT_EQ(Await(pvc)->state, PvcState::kWaitsForFirstConsumer);
  EXPECT_EQ(bed_.clock.Now() - begin, kProvisioningLookIntervalMin);
}

TEST_F(PromotionTest, OneWhoseNodeIsChosenIsWaitedFor) {
  Made("copy");
  bed_.api.Mutate(ClaimKey("shop", "copy"), [](Json& claim) {
    claim["metadata"]["annotations"] = {{objects::kSelectedNodeAnnotation, "node-1"}};
  });
  BeforeLook(2, [&] { Bind("copy"); });
  const PersistentVolumeClaim seen = *PersistentVolumeClaim::Of(*FindClaim("copy"));
  EXPECT_EQ(Await(seen, true)->state, PvcState::kBound);
}

TEST_F(PromotionTest, APvcThatIsDeletedEndsTheWait) {
  const PersistentVolumeClaim pvc = Made("copy");
  BeforeLook(1, [&] { bed_.api.Remove(ClaimKey("shop", "copy")); });
  EXPECT_THAT(Await(pvc),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("shop/copy was deleted")));
}

TEST_F(PromotionTest, AVolumeSnapshotThatGoesEndsTheWait) {
  const PersistentVolumeClaim pvc = Made("copy");
  BeforeLook(2, [&] {
    bed_.api.Mutate(VolumeSnapshotKey("shop", "monday"), [](Json& snapshot) {
      snapshot["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z";
      snapshot["metadata"]["finalizers"] = Json::array({"a/b"});
    });
  });
  EXPECT_THAT(Await(pvc), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("shop/monday is being deleted"),
                                         HasSubstr("shop/copy is not filled yet"))));
}

TEST_F(PromotionTest, AProvisionerThatHasBegunFinishesThoughTheVolumeSnapshotIsDeleted) {
  const PersistentVolumeClaim pvc = Made("copy");
  bed_.api.Mutate(VolumeSnapshotKey("shop", "monday"), [](Json& snapshot) {
    snapshot["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z";
    snapshot["metadata"]["finalizers"] =
        Json::array({objects::kProvisionerSourceProtectionFinalizer});
  });
  BeforeLook(3, [&] { Bind("copy"); });
  EXPECT_EQ(Await(pvc)->state, PvcState::kBound);
}

TEST_F(PromotionTest, EventsThatMayNotBeReadAreNamedOnce) {
  const PersistentVolumeClaim pvc = Made("copy");
  bed_.api.Forbid("list", "events");
  EXPECT_THAT(Await(pvc), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("what the provisioner says not read")));
}

TEST_F(PromotionTest, AnApiServerThatIsAwayForAMomentDoesNotEndTheWait) {
  const PersistentVolumeClaim pvc = Made("copy");
  bed_.api.FailNext("list", "events", absl::UnavailableError("away"), 2);
  BeforeLook(4, [&] { Bind("copy"); });
  EXPECT_EQ(Await(pvc)->state, PvcState::kBound);
}

TEST_F(PromotionTest, AVolumeThatWasThereBeforeDoesNotHoldTheVolumeSnapshot) {
  const PersistentVolumeClaim pvc = Made("copy");
  BeforeLook(1, [&] {
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "old");
    volume["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z";
    volume["spec"] = {{"claimRef", {{"uid", pvc.uid()}}}};
    bed_.api.Seed(PersistentVolumeType(), volume);
    bed_.api.Mutate(ClaimKey("shop", "copy"), [](Json& claim) {
      claim["spec"]["volumeName"] = "old";
      claim["status"]["phase"] = "Bound";
    });
  });
  EXPECT_THAT(Await(pvc), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("does not hold the VolumeSnapshot"),
                                         HasSubstr("volume old"), Not(HasSubstr("kubectl")))));
}

TEST_F(PromotionTest, VolumesThatMayNotBeReadAreNamed) {
  const PersistentVolumeClaim pvc = Made("copy");
  bed_.api.Forbid("get", "persistentvolumes");
  BeforeLook(1, [&] { Bind("copy"); });
  EXPECT_EQ(Await(pvc)->state, PvcState::kBound);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("whether its volume was made for it not checked")));
}

TEST_F(PromotionTest, AStopEndsTheWaitAndSaysWhatStays) {
  const PersistentVolumeClaim pvc = Made("copy");
  std::stop_source stop;
  CallContext ctx = bed_.ctx.WithTimeout(absl::Minutes(1));
  ctx.stop = stop.get_token();
  BeforeLook(2, [&] { stop.request_stop(); });
  const VolumeSnapshot source = Snapshot("monday");
  EXPECT_THAT(AwaitPvc(ctx, bed_.api, pvc, {.source = source}, notes_),
              StatusIs(absl::StatusCode::kCancelled,
                       AllOf(HasSubstr("interrupted: PVC shop/copy is not bound yet"),
                             HasSubstr("it stays"))));
}

// --- The VolumeSnapshot

TEST_F(PromotionTest, WaitsUntilTheVolumeSnapshotIsReadyOrNeverWillBe) {
  const k8s::ObjectKey key = VolumeSnapshotKey("shop", "monday");
  const CallContext ctx = bed_.ctx.WithTimeout(absl::Minutes(1));
  int looks = 0;
  const WaitObserver on_look = [&](absl::string_view state, absl::string_view waits_for) {
    EXPECT_EQ(state, "Error");
    EXPECT_THAT(std::string(waits_for), HasSubstr("desc = busy"));
    ++looks;
  };
  const auto await = [&] { return AwaitUsableSnapshot(ctx, bed_.api, "shop", "monday", on_look); };
  EXPECT_TRUE(await()->is_ready());
  bed_.api.Mutate(key, [](Json& snapshot) {
    snapshot["status"]["readyToUse"] = false;
    snapshot["status"]["error"] = {{"message", "rpc error: code = InvalidArgument desc = no"}};
  });
  EXPECT_FALSE(await()->is_ready());
  bed_.api.Mutate(key, [](Json& snapshot) {
    snapshot["status"]["error"] = {{"message", "rpc error: code = Unavailable desc = busy"}};
  });
  EXPECT_THAT(await(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("VolumeSnapshot shop/monday is not ready yet: Error: "
                                          "rpc error: code = Unavailable")));
  EXPECT_GE(looks, 60 / absl::ToInt64Seconds(kProvisioningLookIntervalMax) - 1)
      << "an observer sees that time goes on while nothing changes";
  EXPECT_THAT(AwaitUsableSnapshot(bed_.ctx, bed_.api, "shop", "none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("shop/none does not exist")));
}

}  // namespace
}  // namespace csidelta::snapshots::promotion_test
