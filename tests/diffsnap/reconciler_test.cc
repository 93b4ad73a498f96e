#include "diffsnap/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diffsnap/pair_table.h"
#include "k8s/object.h"
#include "tests/diffsnap/dsnap_bed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::diffsnap::reconciler_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::StartsWith;

const k8s::ResourceType kEvents{"", "v1", "events", "Event", true};

ReconcilerOptions Options() {
  return {.driver = support::kDriver,
          .url = "https://diffsnap.csi.svc:8443",
          .audience = "diffsnap",
          .read_ca = []() -> absl::StatusOr<std::string> { return "PEM"; }};
}

Json Pair() {
  return {{"baseVolumeSnapshotName", "monday"}, {"targetVolumeSnapshotName", "tuesday"}};
}

Json Condition(const Json& object, const std::string& type) {
  const Json* conditions = FindJson(object, {"status", "conditions"});
  for (const Json& condition : conditions == nullptr ? Json::array() : *conditions) {
    if (GetString(condition, {"type"}) == type) {
      return condition;
    }
  }
  return Json();
}

class ReconcilerTest : public testing::Test {
 protected:
  absl::Time Step() {
    const auto next = reconciler_.Reconcile(bed_.ctx, bed_.Now());
    EXPECT_THAT(next, IsOk());
    return next.value_or(absl::InfinitePast());
  }

  DsnapBed bed_;
  Reconciler reconciler_{bed_.api, bed_.contents, Options()};
};

TEST_F(ReconcilerTest, ASuccessSaysWhereAndHowToRead) {
  const Json object = bed_.Ask(Pair());
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Hours(24));
  const Json now = bed_.Now();
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
  EXPECT_EQ(GetString(now, {"status", "url"}), "https://diffsnap.csi.svc:8443/app/diff");
  EXPECT_EQ(GetString(now, {"status", "audience"}), "diffsnap");
  EXPECT_EQ(GetString(now, {"status", "caBundle"}), "UEVN");
  EXPECT_EQ(bed_.Asked().resolved().base_handle, "snap-monday");
  EXPECT_EQ(GetString(Condition(now, "Accepted"), {"status"}), "True");
  EXPECT_EQ(GetString(Condition(now, "Ready"), {"status"}), "True");
  ASSERT_EQ(bed_.api.All(kEvents).size(), 1U);
  EXPECT_EQ(GetString(bed_.api.All(kEvents)[0], {"source", "component"}), "csi-delta-diffsnap");

  const ResolvedPair pair = PairOf(bed_.Asked());
  EXPECT_EQ(pair.scope.uid, k8s::Uid(object));
  EXPECT_EQ(pair.scope.target_handle, "snap-tuesday");
  EXPECT_EQ(pair.volume_handle, "volume-1");
  EXPECT_EQ(pair.volume_size_bytes, int64_t{1} << 30);
}

TEST_F(ReconcilerTest, ALastStateIsNotLookedAtAgain) {
  bed_.Ask(Pair());
  Step();
  bed_.api.ClearCalls();
  bed_.api.Remove(VolumeSnapshotKey("app", "monday"));
  Step();
  EXPECT_TRUE(bed_.api.calls().empty());
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
}

TEST_F(ReconcilerTest, WhatIsNotReadyIsPendingUntilItIs) {
  bed_.SetReady("tuesday", false);
  bed_.Ask(Pair());
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Seconds(1));
  const Json pending = bed_.Now();
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kPending);
  EXPECT_THAT(GetString(pending, {"status", "error"}), StartsWith("NotReady: "));
  EXPECT_EQ(GetString(Condition(pending, "Accepted"), {"status"}), "True");
  EXPECT_EQ(GetString(Condition(pending, "Ready"), {"reason"}), "NotReady");
  EXPECT_EQ(bed_.Asked().resolved(), (objects::ResolvedNames{.driver = support::kDriver}));

  // Nothing new, nothing written.
  bed_.clock.Advance(absl::Seconds(20));
  bed_.api.ClearCalls();
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Seconds(5));
  EXPECT_EQ(bed_.api.CallCount("patch", "*"), 0);

  bed_.SetReady("tuesday", true);
  Step();
  const Json ready = bed_.Now();
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
  EXPECT_EQ(FindJson(ready, {"status", "error"}), nullptr);
  EXPECT_EQ(GetString(Condition(ready, "Accepted"), {"lastTransitionTime"}),
            GetString(Condition(pending, "Accepted"), {"lastTransitionTime"}));
  EXPECT_NE(GetString(Condition(ready, "Ready"), {"lastTransitionTime"}),
            GetString(Condition(pending, "Ready"), {"lastTransitionTime"}));
}

TEST_F(ReconcilerTest, AfterTenMinutesWhatIsNotReadyHasFailed) {
  bed_.SetReady("tuesday", false);
  bed_.Ask(Pair());
  Step();
  bed_.clock.Advance(absl::Minutes(10) - absl::Seconds(3));
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Seconds(3));
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kPending);
  bed_.clock.Advance(absl::Seconds(3));
  Step();
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kFailure);
  EXPECT_THAT(GetString(bed_.Now(), {"status", "error"}), StartsWith("NotReady: "));
  EXPECT_THAT(GetString(bed_.Now(), {"status", "error"}), HasSubstr("waited for until"));
}

TEST_F(ReconcilerTest, AFailureHasItsCode) {
  bed_.Ask({{"baseVolumeSnapshotName", "none"}, {"targetVolumeSnapshotName", "tuesday"}});
  Step();
  const Json now = bed_.Now();
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kFailure);
  EXPECT_THAT(GetString(now, {"status", "error"}), StartsWith("BaseSnapshotNotFound: "));
  EXPECT_EQ(GetString(Condition(now, "Ready"), {"reason"}), "BaseSnapshotNotFound");
  EXPECT_EQ(GetString(now, {"status", "url"}), "");
  ASSERT_EQ(bed_.api.All(kEvents).size(), 1U);
  EXPECT_EQ(GetString(bed_.api.All(kEvents)[0], {"reason"}), "BaseSnapshotNotFound");
}

TEST_F(ReconcilerTest, OtherDriversObjectsAreNotTouched) {
  bed_.AddSnapshot("theirs", "snap-1", "other.csi.k8s.io");
  const Json before = bed_.Ask({{"targetVolumeSnapshotName", "theirs"}});
  EXPECT_EQ(Step(), bed_.clock.Now() + kForeignAgeMax);
  EXPECT_EQ(bed_.Now(), before);
  // Nor one that another controller brought to its end, however old.
  Json done = before;
  SetJson(done, {"status", "state"}, "Success");
  SetJson(done, {"status", "resolved", "driver"}, "other.csi.k8s.io");
  bed_.api.Seed(objects::DifferentialSnapshot::Type(), done);
  bed_.clock.Advance(absl::Hours(100));
  EXPECT_EQ(Step(), absl::InfiniteFuture());
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
}

TEST_F(ReconcilerTest, WhoseTargetIsNotKnownIsLookedAtForTenMinutesAndDeletedWithTheOldOnes) {
  const Json before = bed_.Ask({{"targetVolumeSnapshotName", "later"}});
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Seconds(1));
  EXPECT_EQ(bed_.Now(), before);
  bed_.clock.Advance(absl::Minutes(11));
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Hours(24) - absl::Minutes(11));
  EXPECT_EQ(bed_.Now(), before);
  bed_.clock.Advance(absl::Hours(24) - absl::Minutes(11));
  Step();
  EXPECT_TRUE(bed_.Now().is_null());
}

// What is not known yet has the time to become known, and of a driver without a controller a day.
TEST_F(ReconcilerTest, AShortAgeIsThatOfTheObjectsOfThisDriverAlone) {
  ReconcilerOptions options = Options();
  options.object_age_max = absl::Seconds(30);
  Reconciler reconciler(bed_.api, bed_.contents, options);
  bed_.AddSnapshot("theirs", "snap-1", "other.csi.k8s.io");
  for (const auto& [target, age_max] :
       {std::pair("later", absl::Minutes(10)), std::pair("theirs", kForeignAgeMax)}) {
    bed_.Ask({{"targetVolumeSnapshotName", target}});
    bed_.clock.Advance(age_max - absl::Seconds(1));
    EXPECT_THAT(reconciler.Reconcile(bed_.ctx, bed_.Now()), IsOk());
    EXPECT_FALSE(bed_.Now().is_null()) << target;
    bed_.clock.Advance(absl::Seconds(1));
    EXPECT_THAT(reconciler.Reconcile(bed_.ctx, bed_.Now()), IsOk());
    EXPECT_TRUE(bed_.Now().is_null()) << target;
  }
}

TEST_F(ReconcilerTest, WhatIsKeptOfAnObjectIsSmall) {
  Json spec = Pair();
  for (int i = 0; i < 4; ++i) {
    spec["parameters"][absl::StrCat("p", i)] = std::string(1000, 'x');
  }
  Json object = bed_.Ask(spec);
  SetJson(object, {"metadata", "annotations", "note"}, std::string(100'000, 'x'));
  bed_.api.Seed(objects::DifferentialSnapshot::Type(), object);
  Json kept = bed_.Now();
  reconciler_.Reduce(kept);
  EXPECT_LT(DumpJson(kept).size(), 1000U);
  EXPECT_THAT(reconciler_.Reconcile(bed_.ctx, kept), IsOk());
  ASSERT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
  EXPECT_EQ(PairOf(bed_.Asked()).parameters.size(), 4U) << "they are served all the same";
  kept = bed_.Now();
  reconciler_.Reduce(kept);
  EXPECT_LT(DumpJson(kept).size(), 500U);
  EXPECT_TRUE(reconciler_.Concerns(kept));
  bed_.clock.Advance(absl::Hours(24));
  EXPECT_THAT(reconciler_.Reconcile(bed_.ctx, kept), IsOk());
  EXPECT_TRUE(bed_.Now().is_null());
}

TEST_F(ReconcilerTest, WrongParametersAreRefusedThoughTheyAreNotKeptOtherwise) {
  Json spec = Pair();
  spec["parameters"]["csi.storage.k8s.io/x"] = "y";
  Json kept = bed_.Ask(spec);
  reconciler_.Reduce(kept);
  EXPECT_THAT(reconciler_.Reconcile(bed_.ctx, kept), IsOk());
  EXPECT_THAT(bed_.Asked().error(), StartsWith("InvalidArgument: "));
}

TEST_F(ReconcilerTest, WhatAnotherControllerEndedIsNotKept) {
  Json object = bed_.Ask(Pair());
  EXPECT_TRUE(reconciler_.Concerns(object));
  SetJson(object, {"status"}, {{"state", "Failure"}, {"resolved", {{"driver", "other"}}}});
  EXPECT_FALSE(reconciler_.Concerns(object));
}

TEST_F(ReconcilerTest, OldOnesAreDeleted) {
  const Json object = bed_.Ask(Pair());
  Step();
  bed_.clock.Advance(absl::Hours(24) - absl::Seconds(1));
  EXPECT_EQ(Step(), bed_.clock.Now() + absl::Seconds(1));
  EXPECT_FALSE(bed_.Now().is_null());
  bed_.clock.Advance(absl::Seconds(1));
  const Json seen = bed_.Now();
  Step();
  EXPECT_TRUE(bed_.Now().is_null());
  // Another of that name is another.
  bed_.Ask(Pair());
  EXPECT_FALSE(reconciler_.Reconcile(bed_.ctx, seen).ok());
  EXPECT_FALSE(bed_.Now().is_null());
}

TEST_F(ReconcilerTest, WhatIsBeingDeletedIsLeftAlone) {
  Json object = bed_.Ask(Pair());
  SetJson(object, {"metadata", "deletionTimestamp"}, "2023-11-14T22:13:20Z");
  SetJson(object, {"metadata", "finalizers"}, Json::array({"another/client"}));
  const Json before = bed_.api.Seed(objects::DifferentialSnapshot::Type(), object);
  EXPECT_EQ(Step(), absl::InfiniteFuture());
  EXPECT_EQ(bed_.Now(), before);
}

TEST_F(ReconcilerTest, AnObjectThatIsNotWhatWasLookedAtIsNotWritten) {
  const Json stale = bed_.Ask(Pair());
  bed_.api.SetField({objects::DifferentialSnapshot::Type(), "app", "diff"}, {"metadata", "labels"},
                    {{"seen", "later"}});
  EXPECT_THAT(reconciler_.Reconcile(bed_.ctx, stale), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kNone);
}

TEST_F(ReconcilerTest, WithoutItsCertificatesNothingIsASuccess) {
  bed_.Ask(Pair());
  ReconcilerOptions options = Options();
  options.read_ca = []() -> absl::StatusOr<std::string> {
    return absl::NotFoundError("no ca.crt");
  };
  EXPECT_FALSE(Reconciler(bed_.api, bed_.contents, options).Reconcile(bed_.ctx, bed_.Now()).ok());
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kNone);
}

TEST_F(ReconcilerTest, AnEventThatIsRefusedIsNoFailure) {
  bed_.Ask(Pair());
  bed_.api.Forbid("create", "events");
  Step();
  EXPECT_EQ(bed_.Asked().state(), objects::RequestState::kSuccess);
}

// The life of an object: not ready, ready, old. Each step by a process that knows nothing of those
// before it; it dies at the n-th call, with that call done or not.
class CrashedLife {
 public:
  // Returns whether the process came to its n-th call.
  bool Live(int n, Fault fault) {
    bed_.SetReady("tuesday", false);
    bed_.Ask(Pair());
    bed_.api.FailCall(n, absl::UnavailableError("dead"), fault);
    ToTheEnd();
    states_.push_back(bed_.Asked().state());
    bed_.SetReady("tuesday", true);
    ToTheEnd();
    states_.push_back(bed_.Asked().state());
    resolved_ = bed_.Asked().resolved();
    bed_.clock.Advance(absl::Hours(24));
    ToTheEnd();
    return bed_.api.sweep_hit();
  }

  void ExpectWhole() const {
    EXPECT_EQ(states_,
              (std::vector{objects::RequestState::kPending, objects::RequestState::kSuccess}));
    EXPECT_EQ(resolved_.target_handle, "snap-tuesday");
    EXPECT_TRUE(bed_.Now().is_null());
    EXPECT_LE(bed_.api.All(kEvents).size(), 1U);
  }

 private:
  // Starts a process after the other until one lives through its step.
  void ToTheEnd() {
    for (int tries = 0; tries < 3; ++tries) {
      Reconciler reconciler(bed_.api, bed_.contents, Options());
      const Json seen = bed_.Now();
      if (seen.is_null() || reconciler.Reconcile(bed_.ctx, seen).ok()) {
        return;
      }
    }
    ADD_FAILURE() << "it does not finish";
  }

  DsnapBed bed_;
  std::vector<objects::RequestState> states_;
  objects::ResolvedNames resolved_;
};

TEST(ReconcilerCrashTest, TheNextProcessContinues) {
  for (const Fault fault : {Fault::kRefused, Fault::kAnswerLost}) {
    int n = 1;
    for (bool hit = true; hit; ++n) {
      SCOPED_TRACE(absl::StrCat("call ", n));
      CrashedLife life;
      hit = life.Live(n, fault);
      life.ExpectWhole();
    }
    EXPECT_GT(n, 8);
  }
}

}  // namespace
}  // namespace csidelta::diffsnap::reconciler_test
