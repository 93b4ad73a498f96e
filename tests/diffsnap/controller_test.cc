#include "diffsnap/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "k8s/object.h"
#include "k8s/wait.h"
#include "tests/diffsnap/dsnap_bed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::diffsnap::controller_test {
namespace {

using support::StatusIs;

Json Pair() {
  return {{"baseVolumeSnapshotName", "monday"}, {"targetVolumeSnapshotName", "tuesday"}};
}

// One replica: its table, and its controller.
struct Replica {
  Replica(DsnapBed& bed, bool is_leader)
      : leads(is_leader),
        reconciler(bed.api, bed.contents,
                   {.driver = support::kDriver,
                    .url = "https://diffsnap:8443",
                    .audience = "diffsnap",
                    .read_ca = []() -> absl::StatusOr<std::string> { return "PEM"; }}),
        controller(
            support::kDriver, pairs, reconciler, [this] { return leads.load(); }, bed.clock) {}

  std::atomic<bool> leads;
  PairTable pairs;
  Reconciler reconciler;
  Controller controller;
};

class ControllerTest : public testing::Test {
 protected:
  // What the API server holds, told at once.
  void TellAll(Replica& replica) {
    replica.controller.informer().OnAll(bed_.api.All(objects::DifferentialSnapshot::Type()));
  }

  DsnapBed bed_;
};

TEST_F(ControllerTest, TheLeaderWritesAndEveryReplicaServes) {
  Replica leader(bed_, true);
  Replica other(bed_, false);
  bed_.Ask(Pair());
  for (Replica* replica : {&leader, &other}) {
    EXPECT_FALSE(replica->pairs.is_synced());
    TellAll(*replica);
    EXPECT_TRUE(replica->pairs.is_synced());
  }
  other.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kNone);
  leader.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
  for (Replica* replica : {&leader, &other}) {
    EXPECT_EQ(replica->pairs.Find("app", "diff"), nullptr);
    TellAll(*replica);
    ASSERT_NE(replica->pairs.Find("app", "diff"), nullptr);
    EXPECT_EQ(replica->pairs.Find("app", "diff")->scope.base_handle, "snap-monday");
  }
}

TEST_F(ControllerTest, WhoBecomesTheLeaderFindsWhatWasLeftUndone) {
  Replica next(bed_, false);
  bed_.Ask(Pair());
  TellAll(next);
  next.controller.WorkOnce(bed_.ctx);
  next.leads = true;
  next.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
}

TEST_F(ControllerTest, WhatIsGoneIsServedNoMore) {
  Replica replica(bed_, true);
  bed_.Ask(Pair(), "one");
  bed_.Ask(Pair(), "two");
  bed_.Ask(Pair(), "three");
  TellAll(replica);
  replica.controller.WorkOnce(bed_.ctx);
  TellAll(replica);
  // By an event, by a list without it, by a deletion that a foreign finalizer holds up.
  replica.controller.informer().OnEvent(
      {.kind = k8s::WatchEvent::Kind::kDeleted, .object = bed_.Now("one")});
  EXPECT_EQ(replica.pairs.Find("app", "one"), nullptr);
  EXPECT_NE(replica.pairs.Find("app", "two"), nullptr);
  Json three = bed_.Now("three");
  SetJson(three, {"metadata", "deletionTimestamp"}, "2023-11-14T22:13:20Z");
  SetJson(three, {"metadata", "resourceVersion"}, "900");
  replica.controller.informer().OnEvent(
      {.kind = k8s::WatchEvent::Kind::kModified, .object = three});
  EXPECT_EQ(replica.pairs.Find("app", "three"), nullptr);
  EXPECT_NE(replica.pairs.Find("app", "two"), nullptr);
  replica.controller.informer().OnAll({});
  EXPECT_EQ(replica.pairs.Find("app", "two"), nullptr);
}

TEST_F(ControllerTest, ANamespaceThatAsksForManyDelaysItsOwnAlone) {
  Replica replica(bed_, true);
  Json flood = bed_.Ask(Pair(), "flood");
  std::vector<Json> all;
  for (int i = 0; i < 1000; ++i) {
    Json one = flood;
    SetJson(one, {"metadata", "namespace"}, "a-tenant");
    SetJson(one, {"metadata", "name"}, absl::StrCat("flood-", i));
    all.push_back(std::move(one));
  }
  replica.controller.informer().OnAll(all);
  replica.controller.informer().OnEvent({.kind = k8s::WatchEvent::Kind::kAdded, .object = flood});
  bed_.api.ClearCalls();
  std::size_t calls = 0;  // Up to the answer.
  bed_.api.OnEvent("differentialsnapshots",
                   [&](support::FakeApiClient& api, const k8s::WatchEvent& event) {
                     if (k8s::Name(event.object) == "flood" && calls == 0) {
                       calls = api.calls().size();
                     }
                   });
  replica.controller.WorkOnce(bed_.ctx);
  EXPECT_GT(calls, 0U);
  EXPECT_LT(calls, 20U) << "the request of the other namespace waited for one object, or two";
}

TEST_F(ControllerTest, AFullTableServesWhatItHas) {
  PairTable pairs(1);
  EXPECT_TRUE(pairs.Put("app", "one", {}));
  EXPECT_FALSE(pairs.Put("app", "two", {}));
  EXPECT_TRUE(pairs.Put("app", "one", {}));
  EXPECT_EQ(pairs.Find("app", "two"), nullptr);
}

TEST_F(ControllerTest, AnotherDriversSuccessIsNotServed) {
  Replica replica(bed_, true);
  Json object = bed_.Ask(Pair());
  SetJson(object, {"status"},
          {{"state", "Success"}, {"resolved", {{"driver", "other"}, {"targetHandle", "h"}}}});
  replica.controller.informer().OnAll({object});
  EXPECT_EQ(replica.pairs.Find("app", "diff"), nullptr);
}

TEST_F(ControllerTest, WhatIsNotReadyIsLookedAtAgainInTime) {
  Replica replica(bed_, true);
  bed_.SetReady("tuesday", false);
  bed_.Ask(Pair());
  TellAll(replica);
  replica.controller.WorkOnce(bed_.ctx);
  TellAll(replica);
  replica.controller.WorkOnce(bed_.ctx);
  bed_.SetReady("tuesday", true);
  replica.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kPending);
  bed_.clock.Advance(absl::Seconds(1));
  replica.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
}

TEST_F(ControllerTest, AnApiServerThatIsAwayIsAskedAgain) {
  Replica replica(bed_, true);
  bed_.Ask(Pair());
  TellAll(replica);
  bed_.api.FailNext("patch", "differentialsnapshots", absl::UnavailableError("away"));
  replica.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kNone);
  bed_.clock.Advance(absl::Seconds(2));
  replica.controller.WorkOnce(bed_.ctx);
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
}

TEST_F(ControllerTest, FollowsAndWorksUntilItIsStopped) {
  Replica replica(bed_, true);
  std::stop_source stop;
  CallContext ctx = bed_.ctx;
  ctx.stop = stop.get_token();
  bed_.clock.SetAutoAdvance(true);
  absl::Status ended;
  std::jthread following([&] { ended = replica.controller.informer().Run(ctx, bed_.api); });
  std::jthread working([&] { replica.controller.Work(ctx); });
  bed_.api.AwaitWatches(1);
  bed_.api
      .Create(bed_.ctx, objects::DifferentialSnapshot::Type(), "app",
              {{"apiVersion", "diffsnap.csi-delta.io/v1alpha1"},
               {"kind", "DifferentialSnapshot"},
               {"metadata", {{"name", "diff"}, {"namespace", "app"}}},
               {"spec", Pair()}})
      .IgnoreError();
  EXPECT_THAT(
      k8s::WaitFor(bed_.ctx, bed_.api, {objects::DifferentialSnapshot::Type(), "app", "diff"},
                   [](const Json* object) -> absl::StatusOr<bool> {
                     return object != nullptr &&
                            support::As<objects::DifferentialSnapshot>(*object).state() ==
                                objects::RequestState::kSuccess;
                   }),
      support::IsOk());
  stop.request_stop();
  following.join();
  working.join();
  EXPECT_THAT(ended, StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace csidelta::diffsnap::controller_test
