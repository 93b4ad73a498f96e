#include "inplace/volume_swap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "csi/lock.h"
#include "inplace/restore_guard.h"
#include "k8s/object.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "objects/swap_record.h"
#include "snapshots/snapshot_creation.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::inplace::volume_swap_test {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::SwapSide;
using objects::VolumeSnapshot;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kFakeDriver[] = "d.example.com";
constexpr char kSafetyPrefix[] = "data-before-monday-";
constexpr int kWritesMax = 60;  // More than any of these verbs makes.
const k8s::ResourceType kNodes{"", "v1", "nodes", "Node", false};
const k8s::ResourceType kCsiNodes{"storage.k8s.io", "v1", "csinodes", "CSINode", false};

bool IsWrite(const support::ApiCall& call) {
  return call.verb == "create" || call.verb == "update" || call.verb == "patch" ||
         call.verb == "delete";
}

// A cluster with the PVC shop/data, whose volume holds "new", and its VolumeSnapshot monday of when
// that was "old".
class World {
 public:
  explicit World(const std::string& binding_mode = "Immediate",
                 const std::string& reclaim_policy = "Delete") {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
    cluster.strict = true;
    cluster.reclaim_policy = reclaim_policy;
    AddClass("Immediate");
    Json snapshot_class = support::MakeClassObject("snaps", kFakeDriver);
    SetJson(snapshot_class,
            {"metadata", "annotations", "snapshot.storage.kubernetes.io/is-default-class"}, "true");
    api.Seed(VolumeSnapshotClassType(), snapshot_class);
    AddPvc("data");
    TakeSnapshot("monday", "data");
    AddClass(binding_mode);
  }

  void AddClass(const std::string& binding_mode) {
    support::SeedStorageClass(api, "fast", kFakeDriver, binding_mode);
  }

  void AddPvc(const std::string& name) {
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", name, {{"app", "db"}},
                                   {{"team", "one"}});
    pvc["metadata"]["ownerReferences"] = Json::array(
        {{{"apiVersion", "apps/v1"}, {"kind", "StatefulSet"}, {"name", "db"}, {"uid", "set-uid"}}});
    pvc["spec"] = {{"storageClassName", "fast"},
                   {"accessModes", {"ReadWriteOnce"}},
                   {"volumeMode", "Filesystem"},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
    EXPECT_THAT(api.Create(ctx_, PersistentVolumeClaimType(), "shop", pvc), IsOk());
    cluster.driver().Write(HandleOf(name), "old");
  }

  void TakeSnapshot(const std::string& name, const std::string& pvc) {
    Json snapshot = support::MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "shop",
                                        name, {{objects::kSnapshotSetLabel, "week"}});
    snapshot["spec"] = {{"source", {{"persistentVolumeClaimName", pvc}}},
                        {"volumeSnapshotClassName", "snaps"}};
    EXPECT_THAT(api.Create(ctx_, VolumeSnapshotType(), "shop", snapshot), IsOk());
    cluster.driver().Write(HandleOf(pvc), "new");
  }

  // --- What is there

  std::optional<PersistentVolumeClaim> Pvc(const std::string& name = "data") const {
    const std::optional<Json> found = api.Find(ClaimKey("shop", name));
    return found.has_value() ? std::optional(*PersistentVolumeClaim::Of(*found)) : std::nullopt;
  }
  PersistentVolume Volume(const std::string& name) const {
    const std::optional<Json> found = api.Find(VolumeKey(name));
    EXPECT_TRUE(found.has_value()) << name;
    return *PersistentVolume::Of(found.value_or(Json::object()));
  }
  std::string HandleOf(const std::string& pvc) const {
    return Volume(Pvc(pvc)->volume_name()).handle();
  }
  // What the volume of the PVC holds.
  std::string Data(const std::string& pvc = "data") const { return DataOf(HandleOf(pvc)); }
  std::string DataOf(const std::string& handle) const {
    const auto volumes = cluster.driver().volumes();
    const auto found = volumes.find(handle);
    return found == volumes.end() ? "(no volume)" : found->second;
  }
  std::vector<std::string> Pvcs() const { return api.Names(PersistentVolumeClaimType()); }
  std::vector<std::string> Volumes() const { return api.Names(PersistentVolumeType()); }
  // The volumes beside that of the PVC.
  std::vector<std::string> OtherVolumes() const {
    std::vector<std::string> names = Volumes();
    names.erase(std::remove(names.begin(), names.end(), Pvc()->volume_name()), names.end());
    return names;
  }

  // --- What is done. A run is another program each time.

  SwapTarget Target(bool takes_safety = true, const std::string& snapshot = "monday",
                    const std::string& pvc = "data") const {
    const std::optional<Json> found = api.Find(VolumeSnapshotKey("shop", snapshot));
    return {
        .namespace_name = "shop",
        .pvc_name = pvc,
        .snapshot_name = snapshot,
        .snapshot = found.has_value() ? std::optional(*VolumeSnapshot::Of(*found)) : std::nullopt,
        .takes_safety_snapshot = takes_safety};
  }
  absl::StatusOr<SwapPlan> Plan(const SwapTarget& target) {
    absl::StatusOr<RestoreSurroundings> around = ReadRestoreSurroundings(Ctx(), api, "shop");
    return around.ok() ? PlanSwap(Ctx(), api, *around, target) : around.status();
  }
  absl::StatusOr<SwapResult> Restore(const SwapTarget& target) {
    absl::StatusOr<SwapPlan> plan = Plan(target);
    if (!plan.ok()) {
      return plan.status();
    }
    if (!plan->refusals.empty()) {
      return RefusalStatus("shop", target.pvc_name, plan->refusals);
    }
    if (!plan->refused_by_swap.empty()) {
      return absl::FailedPreconditionError(plan->refused_by_swap.front());
    }
    const CallContext ctx = Ctx();
    VolumeSwap swap(ctx, api, Random::Real(), target, Sink());
    const absl::Status prepared = swap.Prepare(*plan);
    return prepared.ok() ? swap.Exchange() : prepared;
  }
  absl::StatusOr<SwapResult> Restore() { return Restore(Target()); }
  absl::StatusOr<SwapResult> Undo() {
    const CallContext ctx = Ctx();
    return VolumeSwap(ctx, api, Random::Real(), EndTarget(), Sink()).Undo();
  }
  absl::StatusOr<SwapResult> Finish() {
    const CallContext ctx = Ctx();
    return VolumeSwap(ctx, api, Random::Real(), EndTarget(), Sink()).Finish();
  }

  // The program is killed once it has made so many writes: no call of its reaches the API server.
  void KillAfter(int writes) {
    writes_left_ = writes;
    was_killed_ = false;
    api.SetInterceptor([this](const support::ApiCall& call, const Json*) -> absl::Status {
      if (writes_left_ == 0) {
        was_killed_ = true;
        return absl::CancelledError("killed");
      }
      writes_left_ -= IsWrite(call) ? 1 : 0;
      return absl::OkStatus();
    });
  }
  // Whether it was killed; from now on calls pass.
  bool WasKilled() {
    api.SetInterceptor([](const support::ApiCall&, const Json*) { return absl::OkStatus(); });
    return was_killed_;
  }
  // Before the write after so many.
  void BeforeWrite(int writes, std::function<void()> act) {
    writes_left_ = writes;
    was_killed_ = false;
    api.SetInterceptor(
        [this, act = std::move(act)](const support::ApiCall& call, const Json*) -> absl::Status {
          if (IsWrite(call) && writes_left_-- == 0) {
            was_killed_ = true;
            act();
          }
          return absl::OkStatus();
        });
  }
  // Before the next call of this kind; of any name for "".
  void Before(const std::string& verb, const std::string& plural, const std::string& name,
              std::function<void()> act) {
    api.SetInterceptor([this, verb, plural, name, act = std::move(act)](
                           const support::ApiCall& call, const Json*) -> absl::Status {
      if (call.verb == verb && call.plural == plural && (name.empty() || call.name == name)) {
        const std::function<void()> once = act;
        api.SetInterceptor([](const support::ApiCall&, const Json*) { return absl::OkStatus(); });
        once();
      }
      return absl::OkStatus();
    });
  }

  // Changes the volume made of the VolumeSnapshot before it is read.
  void BeforeRestoredIsRead(std::function<void(Json& volume)> change) {
    api.SetInterceptor([this, original = Pvc()->volume_name(), change = std::move(change)](
                           const support::ApiCall& call, const Json*) -> absl::Status {
      if (call.verb == "get" && call.plural == "persistentvolumes" && call.name != original) {
        api.Mutate(VolumeKey(call.name), change);
      }
      return absl::OkStatus();
    });
  }

  CallContext Ctx() const { return ctx_.WithTimeout(absl::Minutes(5)); }
  const std::vector<std::string>& steps() const { return steps_; }

  // --- What must hold

  void ExpectPvcAsItWas() const {
    const std::optional<PersistentVolumeClaim> pvc = Pvc();
    ASSERT_TRUE(pvc.has_value());
    EXPECT_TRUE(pvc->is_bound());
    EXPECT_EQ(Volume(pvc->volume_name()).pvc_uid(), pvc->uid());
    EXPECT_EQ(pvc->Label("app"), "db");
    EXPECT_EQ(pvc->Label(objects::kInPlaceLabel), "");
    EXPECT_EQ(pvc->Annotation("team"), "one");
    EXPECT_EQ(GetString(pvc->json()["metadata"]["ownerReferences"][0], {"uid"}), "set-uid");
    EXPECT_EQ(pvc->storage_class(), "fast");
    EXPECT_THAT(Pvcs(), ElementsAre("data")) << "no temporary PVC";
  }
  void ExpectRestored(const std::string& policy = "Delete") const {
    ExpectPvcAsItWas();
    EXPECT_EQ(Data(), "old");
    EXPECT_EQ(Volume(Pvc()->volume_name()).reclaim_policy(), policy);
    const std::vector<std::string> others = OtherVolumes();
    ASSERT_THAT(others, SizeIs(1));
    EXPECT_TRUE(Volume(others.front()).is_retained());
    EXPECT_EQ(DataOf(Volume(others.front()).handle()), "new");
    EXPECT_THAT(cluster.driver().volumes(), SizeIs(2));
  }
  // `kept`: how many volumes beside that of the PVC.
  void ExpectUndone(std::size_t kept, const std::string& policy = "Delete") const {
    ExpectPvcAsItWas();
    EXPECT_EQ(Data(), "new");
    EXPECT_EQ(Volume(Pvc()->volume_name()).reclaim_policy(), policy);
    EXPECT_THAT(OtherVolumes(), SizeIs(kept));
    for (const std::string& name : OtherVolumes()) {
      EXPECT_TRUE(Volume(name).is_retained());
      EXPECT_EQ(DataOf(Volume(name).handle()), "old");
    }
    EXPECT_THAT(cluster.driver().volumes(), SizeIs(kept + 1));
  }
  void ExpectFinished(const std::string& data) const {
    ExpectPvcAsItWas();
    EXPECT_EQ(Data(), data);
    EXPECT_THAT(OtherVolumes(), IsEmpty());
    EXPECT_THAT(cluster.driver().volumes(), SizeIs(1));
    EXPECT_EQ(Pvc()->Annotation(objects::kInPlaceRecordAnnotation), "");
    const PersistentVolume volume = Volume(Pvc()->volume_name());
    EXPECT_FALSE(HasSwapRecord(volume));
    EXPECT_EQ(volume.Label(objects::kInPlaceLabel), "");
  }

 private:
  SwapTarget EndTarget() const { return {.namespace_name = "shop", .pvc_name = "data"}; }
  SwapSink Sink() {
    return [this](const SwapProgress& news) {
      EXPECT_THAT(news.text, Not(IsEmpty()));
      steps_.emplace_back(VolumeSwap::NameOf(news.step));
    };
  }

  support::FakeClock clock_;
  CallContext ctx_;
  int writes_left_ = 0;
  bool was_killed_ = false;
  std::vector<std::string> steps_;

 public:
  support::FakeApiClient api{clock_};
  support::FakeSnapshotCluster cluster{api};
};

class VolumeSwapTest : public testing::Test {
 protected:
  World world;
};

// --- A whole restore, undo and finish

TEST_F(VolumeSwapTest, ThePvcHasTheDataOfTheVolumeSnapshotAndTheOldVolumeStays) {
  const std::string before = world.Pvc()->uid();
  const std::string original = world.Pvc()->volume_name();
  const auto result = world.Restore();
  ASSERT_THAT(result, IsOk());
  world.ExpectRestored();
  EXPECT_NE(world.Pvc()->uid(), before);
  EXPECT_EQ(result->original_volume, original);
  EXPECT_EQ(result->restored_volume, world.Pvc()->volume_name());
  EXPECT_EQ(result->in_use, SwapSide::kRestored);
  EXPECT_THAT(result->safety_snapshot, HasSubstr(kSafetyPrefix));
  EXPECT_THAT(world.steps(),
              ElementsAre("TakeSafetySnapshot", "MakeTemporary", "RecordRestored", "RecordOriginal",
                          "RemoveTemporary", "RemovePvc", "Reserve", "MakePvc", "ReturnPolicy"));
}

TEST_F(VolumeSwapTest, TheSafetySnapshotHoldsWhatWasThereAndIsNoBackups) {
  const std::string name = world.Restore()->safety_snapshot;
  const auto snapshot =
      support::As<VolumeSnapshot>(*world.api.Find(VolumeSnapshotKey("shop", name)));
  EXPECT_EQ(snapshot.Label(objects::kMadeByLabel), "csi-delta");
  const auto content = support::As<objects::VolumeSnapshotContent>(
      *world.api.Find(VolumeSnapshotContentKey(snapshot.bound_content())));
  EXPECT_THAT(world.cluster.driver().snapshots(), testing::Contains(content.handle()));
}

TEST_F(VolumeSwapTest, WithoutASafetySnapshotNoneIsTaken) {
  const auto result = world.Restore(world.Target(/*takes_safety=*/false));
  ASSERT_THAT(result, IsOk());
  world.ExpectRestored();
  EXPECT_EQ(result->safety_snapshot, "");
  EXPECT_THAT(world.api.Names(VolumeSnapshotType()), ElementsAre("monday"));
}

// What `act` finds while the restore without a safety snapshot prepares its exchange.
void WhilePreparing(World& world, const std::function<void()>& act) {
  world.api.OnCreate("persistentvolumeclaims", [act](support::FakeApiClient&, const Json& pvc) {
    if (k8s::Name(pvc) != "data") {
      act();
    }
  });
}

TEST_F(VolumeSwapTest, WithoutASafetySnapshotTheLeaseKeepsOthersAway) {
  int looks = 0;
  WhilePreparing(world, [&] {
    ++looks;
    const CallContext ctx = world.Ctx();
    const absl::StatusOr<csi::TakenSnapshot> other = snapshots::CreateSnapshot(
        ctx, world.api, Random::Real(),
        {.source = {.pvc = *world.Pvc(), .driver = kFakeDriver, .class_name = "snaps"},
         .name = "other",
         .timeout = absl::Minutes(1)});
    EXPECT_TRUE(csi::IsVolumeBusy(other.status())) << other.status();
    EXPECT_THAT(other.status().message(), HasSubstr("a restore into its volume"));
  });
  ASSERT_THAT(world.Restore(world.Target(/*takes_safety=*/false)), IsOk());
  EXPECT_EQ(looks, 1);
  EXPECT_THAT(world.api.Names(LeaseType()), IsEmpty());
}

TEST_F(VolumeSwapTest, WithoutASafetySnapshotAHeldLeaseEndsItBeforeAnyChange) {
  world.TakeSnapshot("tuesday", "data");
  const SwapTarget target = world.Target(/*takes_safety=*/false);
  const absl::StatusOr<SwapPlan> plan = world.Plan(target);
  ASSERT_THAT(plan, IsOk());
  const CallContext ctx = world.Ctx();
  std::vector<std::string> notes;
  const auto held =
      snapshots::GuardRestore(ctx, world.api, Random::Real(), *world.Pvc(), "another", notes);
  ASSERT_THAT(held, IsOk());
  const absl::Status prepared =
      VolumeSwap(ctx, world.api, Random::Real(), target, [](const SwapProgress&) {}).Prepare(*plan);
  EXPECT_TRUE(csi::IsVolumeBusy(prepared)) << prepared;
  EXPECT_THAT(prepared.message(), HasSubstr("nothing is changed"));
  EXPECT_THAT(world.Pvcs(), ElementsAre("data"));
  EXPECT_THAT(world.Plan(world.Target(false, "tuesday"))->refusals, SizeIs(1));
}

TEST_F(VolumeSwapTest, ARunThatWasKilledWithTheLeaseIsGoneOnWith) {
  const SwapTarget target = world.Target(/*takes_safety=*/false);
  const CallContext ctx = world.Ctx();
  std::vector<std::string> notes;
  const auto killed =
      snapshots::GuardRestore(ctx, world.api, Random::Real(), *world.Pvc(),
                              SafetySnapshotName(*world.Pvc(), *target.snapshot), notes);
  ASSERT_THAT(killed, IsOk());
  EXPECT_THAT(world.Restore(target), IsOk());
}

TEST_F(VolumeSwapTest, UndoBringsTheOldVolumeBackAndKeepsTheOther) {
  const std::string original = world.Pvc()->volume_name();
  ASSERT_THAT(world.Restore(), IsOk());
  world.cluster.driver().Write(world.HandleOf("data"), "old");
  world.api.SetField(ClaimKey("shop", "data"), {"metadata", "labels", "since"}, "then");
  const auto result = world.Undo();
  ASSERT_THAT(result, IsOk());
  world.ExpectUndone(1);
  EXPECT_EQ(world.Pvc()->Label("since"), "then");
  EXPECT_EQ(world.Pvc()->volume_name(), original);
  EXPECT_EQ(result->in_use, SwapSide::kOriginal);
  EXPECT_THAT(world.Undo(), IsOk()) << "once more changes nothing";
  world.ExpectUndone(1);
}

TEST_F(VolumeSwapTest, FinishDeletesTheVolumeThatIsNotInUse) {
  ASSERT_THAT(world.Restore(), IsOk());
  const auto result = world.Finish();
  ASSERT_THAT(result, IsOk());
  world.ExpectFinished("old");
  EXPECT_EQ(result->in_use, SwapSide::kRestored);
  EXPECT_THAT(result->kept_handles, IsEmpty());
  EXPECT_FALSE(world.Finish()->did_anything);

  World undone;
  ASSERT_THAT(undone.Restore(), IsOk());
  ASSERT_THAT(undone.Undo(), IsOk());
  ASSERT_THAT(undone.Finish(), IsOk());
  undone.ExpectFinished("new");
}

TEST_F(VolumeSwapTest, AnotherRestoreIsPossibleAfterFinish) {
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_THAT(world.Restore(), IsOk()) << "the same again changes nothing";
  world.ExpectRestored();
  world.TakeSnapshot("tuesday", "data");
  EXPECT_THAT(world.Restore(world.Target(true, "tuesday")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("VolumeSnapshot monday"), HasSubstr("--finish"))));
  ASSERT_THAT(world.Finish(), IsOk());
  ASSERT_THAT(world.Restore(world.Target(true, "tuesday")), IsOk());
  EXPECT_EQ(world.Data(), "old");
}

// Seen by LateCopiesSweepTest: it made a second volume, and would have taken the first one's place.
TEST_F(VolumeSwapTest, WhatAnotherClientEndedIsNotBegunAgain) {
  const auto plan = world.Plan(world.Target());
  ASSERT_THAT(plan, IsOk());
  const CallContext ctx = world.Ctx();
  VolumeSwap swap(ctx, world.api, Random::Real(), world.Target(), [](const SwapProgress&) {});
  ASSERT_THAT(swap.Prepare(*plan), IsOk());
  ASSERT_THAT(swap.Exchange(), IsOk());
  ASSERT_THAT(world.Finish(), IsOk());
  EXPECT_THAT(swap.Exchange(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("was ended by another client")));
  world.ExpectFinished("old");
}

TEST_F(VolumeSwapTest, AClassThatRetainsGetsItsPolicyBackAsWell) {
  World retaining("Immediate", "Retain");
  ASSERT_THAT(retaining.Restore(), IsOk());
  retaining.ExpectRestored("Retain");
  ASSERT_THAT(retaining.Finish(), IsOk());
  retaining.ExpectFinished("old");
  EXPECT_TRUE(retaining.Volume(retaining.Pvc()->volume_name()).is_retained());
}

TEST_F(VolumeSwapTest, AVolumeThatNoProvisionerMadeIsKeptByItsDriver) {
  world.api.Mutate(VolumeKey(world.Pvc()->volume_name()), [](Json& volume) {
    EraseJson(volume, {"metadata", "annotations", objects::kProvisionedByAnnotation});
  });
  const std::string handle = world.HandleOf("data");
  ASSERT_THAT(world.Restore(), IsOk());
  const auto result = world.Finish();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->kept_handles, ElementsAre(handle));
  EXPECT_EQ(world.DataOf(handle), "new");
  EXPECT_THAT(world.OtherVolumes(), IsEmpty());
}

// --- Killed after each write

// Runs `verb` so that it is killed after 0, 1, 2, ... writes, each in a new world that `begin`
// made, and hands what is left to `go_on`, until it was not killed. Returns how often it was.
int SweepKills(const std::function<void(World&)>& begin, const std::function<void(World&)>& verb,
               const std::function<void(World&)>& go_on) {
  for (int writes = 0; writes < kWritesMax; ++writes) {
    SCOPED_TRACE(absl::StrCat("killed after ", writes, " writes"));
    World world;
    begin(world);
    world.KillAfter(writes);
    verb(world);
    const bool was_killed = world.WasKilled();
    go_on(world);
    if (!was_killed) {
      return writes;
    }
    if (testing::Test::HasFailure()) {
      return writes;
    }
  }
  ADD_FAILURE() << "never ends";
  return kWritesMax;
}

void Nothing(World&) {}
void RestoreWhole(World& world) { ASSERT_THAT(world.Restore(), IsOk()); }
void RestoreMaybe(World& world) { world.Restore().IgnoreError(); }
void UndoMaybe(World& world) { world.Undo().IgnoreError(); }
void FinishMaybe(World& world) { world.Finish().IgnoreError(); }

TEST(VolumeSwapSweepTest, ARestoreThatWasKilledIsGoneOnWith) {
  const int kills = SweepKills(Nothing, RestoreMaybe, [](World& world) {
    ASSERT_THAT(world.Restore(), IsOk());
    world.ExpectRestored();
    EXPECT_THAT(world.api.Names(VolumeSnapshotType()), SizeIs(2)) << "one safety snapshot";
  });
  EXPECT_GE(kills, 9);
}

TEST(VolumeSwapSweepTest, ARestoreThatWasKilledIsUndone) {
  SweepKills(Nothing, RestoreMaybe, [](World& world) {
    const bool has_record = world.api.Any(PersistentVolumeType(), [](const Json& volume) {
      return GetString(volume, {"metadata", "annotations", objects::kInPlaceRecordAnnotation})
                 .find("\"original\"") != std::string::npos;
    });
    ASSERT_THAT(world.Undo(), IsOk());
    world.ExpectUndone(has_record ? 1 : 0);
    ASSERT_THAT(world.Finish(), IsOk());
    world.ExpectFinished("new");
  });
}

TEST(VolumeSwapSweepTest, AnUndoThatWasKilledIsGoneOnWith) {
  const int kills = SweepKills(RestoreWhole, UndoMaybe, [](World& world) {
    ASSERT_THAT(world.Undo(), IsOk());
    world.ExpectUndone(1);
    ASSERT_THAT(world.Finish(), IsOk());
    world.ExpectFinished("new");
  });
  EXPECT_GE(kills, 6);
}

TEST(VolumeSwapSweepTest, TakingBackWhatWasMadeIsGoneOnWith) {
  // Killed just before the original has its record: all that can be taken back without a trace.
  for (int first = 0; first < kWritesMax; ++first) {
    World probe;
    probe.KillAfter(first);
    RestoreMaybe(probe);
    if (!probe.WasKilled()) {
      break;
    }
    SweepKills(
        [&](World& world) {
          world.KillAfter(first);
          RestoreMaybe(world);
          world.WasKilled();
        },
        UndoMaybe,
        [](World& world) {
          ASSERT_THAT(world.Undo(), IsOk());
          ASSERT_THAT(world.Finish(), IsOk());
          world.ExpectFinished("new");
        });
  }
}

TEST(VolumeSwapSweepTest, AFinishThatWasKilledIsGoneOnWith) {
  const int kills = SweepKills(RestoreWhole, FinishMaybe, [](World& world) {
    ASSERT_THAT(world.Finish(), IsOk());
    world.ExpectFinished("old");
  });
  EXPECT_GE(kills, 3);
}

TEST(VolumeSwapSweepTest, ACallThatFailsOrWhoseAnswerIsLostEndsNothing) {
  for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
    for (int call = 1; call < 400; ++call) {
      SCOPED_TRACE(absl::StrCat("call ", call, fault == support::Fault::kRefused ? "" : " lost"));
      World world;
      world.api.FailCall(call, absl::UnavailableError("away"), fault);
      world.Restore().IgnoreError();
      const bool was_hit = world.api.sweep_hit();
      world.api.ClearFaults();
      ASSERT_THAT(world.Restore(), IsOk());
      world.ExpectRestored();
      if (!was_hit) {
        break;
      }
      ASSERT_FALSE(HasFailure());
    }
  }
}

// --- Others meanwhile

// A second run does all of `other` just before the n-th write of the first one, for each n.
void SweepAnotherRun(const std::function<void(World&)>& begin,
                     const std::function<void(World&)>& verb,
                     const std::function<void(World&)>& other,
                     const std::function<void(World&)>& check) {
  for (int writes = 0; writes < kWritesMax; ++writes) {
    SCOPED_TRACE(absl::StrCat("another run after ", writes, " writes"));
    World world;
    begin(world);
    world.BeforeWrite(writes, [&] { other(world); });
    verb(world);
    const bool was_met = world.WasKilled();
    check(world);
    if (!was_met || testing::Test::HasFailure()) {
      return;
    }
  }
  ADD_FAILURE() << "never ends";
}

TEST(VolumeSwapSweepTest, TwoRunsOfTheSameRestoreDoItOnce) {
  SweepAnotherRun(Nothing, RestoreMaybe, RestoreMaybe, [](World& world) {
    ASSERT_THAT(world.Restore(), IsOk());
    world.ExpectRestored();
  });
}

TEST(VolumeSwapSweepTest, AnUndoInTheMiddleOfARestoreLosesNothing) {
  SweepAnotherRun(Nothing, RestoreMaybe, UndoMaybe, [](World& world) {
    ASSERT_THAT(world.Undo(), IsOk());
    ASSERT_THAT(world.Finish(), IsOk());
    world.ExpectFinished("new");
  });
}

TEST(VolumeSwapSweepTest, AnUndoInTheMiddleOfAFinishAndTheOtherWayRoundLosesNothing) {
  const auto check = [](World& world) {
    const std::string data = world.Pvc().has_value() ? world.Data() : "none";
    ASSERT_THAT(world.Finish(), IsOk());
    EXPECT_THAT(data, testing::AnyOf("old", "new"));
    world.ExpectFinished(data);
  };
  SweepAnotherRun(RestoreWhole, FinishMaybe, UndoMaybe, check);
  SweepAnotherRun(RestoreWhole, UndoMaybe, FinishMaybe, check);
}

Json PodThatUses(const std::string& pvc) {
  Json pod = support::MakeObject("v1", "Pod", "shop", "db-0");
  pod["spec"]["volumes"] = Json::array({{{"persistentVolumeClaim", {{"claimName", pvc}}}}});
  pod["status"]["phase"] = "Pending";
  return pod;
}

TEST_F(VolumeSwapTest, APodThatStartsBeforeTheLastLookStopsIt) {
  const std::string uid = world.Pvc()->uid();
  world.Before("create", "persistentvolumeclaims", "",
               [&] { world.api.Seed(PodType(), PodThatUses("data")); });
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("nothing was exchanged"), HasSubstr("Pod db-0"))));
  EXPECT_EQ(world.Pvc()->uid(), uid);
  EXPECT_EQ(world.Data(), "new");
  world.api.Remove({PodType(), "shop", "db-0"});
  ASSERT_THAT(world.Restore(), IsOk());
  world.ExpectRestored();
}

// The data mover has begun after the checks: the PVC, and with it what keeps others away, stays.
TEST_F(VolumeSwapTest, ThePvcStaysWhileTheMoverWritesIntoItsVolume) {
  world.api.Seed(DataDownloadType(),
                 {{"metadata", {{"name", "x"}, {"namespace", "velero"}, {"uid", "download-uid"}}},
                  {"status", {{"phase", "InProgress"}}}});
  world.Before("delete", "persistentvolumeclaims", "", [&] {
    world.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
              objects::FormatCopyRecord({.from = "velero/x", .id = "download-uid"}));
    });
  });
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("DataDownload velero/x")));
  EXPECT_TRUE(world.Pvc().has_value());
  EXPECT_EQ(world.Data(), "new");
}

TEST_F(VolumeSwapTest, APodThatStartsAfterTheLastLookHoldsThePvcAndNothingIsLost) {
  world.Before("delete", "persistentvolumeclaims", "data", [&] {
    world.api.Seed(PodType(), PodThatUses("data"));
    world.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
      pvc["metadata"]["finalizers"] = Json::array({"kubernetes.io/pvc-protection"});
    });
  });
  // The PVC is deleted as it was read, so that the change of it alone would have it read again.
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nothing was exchanged")));
  EXPECT_FALSE(world.Pvc()->is_being_deleted());

  world.api.Remove({PodType(), "shop", "db-0"});
  world.Before("delete", "persistentvolumeclaims", "data",
               [&] { world.api.Seed(PodType(), PodThatUses("data")); });
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("nothing is lost"), HasSubstr("kubectl delete pod/db-0"))));
  EXPECT_TRUE(world.Pvc()->is_being_deleted());
  EXPECT_EQ(world.Data(), "new");

  world.api.Remove({PodType(), "shop", "db-0"});
  world.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    EraseJson(pvc, {"metadata", "finalizers"});
  });
  ASSERT_THAT(world.Restore(), IsOk());
  world.ExpectRestored();
}

// As the programs that set them.
void RemoveFinalizers(support::FakeApiClient& api) {
  const Json patch = {{"metadata", {{"finalizers", nullptr}}}};
  ASSERT_THAT(api.Patch({}, ClaimKey("shop", "data"), k8s::PatchKind::kMerge, patch, ""), IsOk());
}

// One of another program, and two as Kubernetes sets them.
void AddFinalizers(World& world) {
  world.api.Mutate(ClaimKey("shop", "data"), [](Json& pvc) {
    SetJson(pvc, {"metadata", "finalizers"},
            Json::array({"kubernetes.io/pvc-protection", "example.com/ledger",
                         "snapshot.storage.kubernetes.io/pvc-as-source-protection"}));
  });
}

TEST_F(VolumeSwapTest, AFinalizerOfAnotherProgramIsAskedAndIsThereAgain) {
  AddFinalizers(world);
  const absl::StatusOr<SwapPlan> plan = world.Plan(world.Target());
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->finalizers, ElementsAre("example.com/ledger"));
  const std::string uid = world.Pvc()->uid();
  int asked = 0;
  world.api.OnEvent(
      "persistentvolumeclaims", [&](support::FakeApiClient& api, const k8s::WatchEvent& event) {
        if (event.kind == k8s::WatchEvent::Kind::kModified && k8s::Uid(event.object) == uid &&
            k8s::BeingDeleted(event.object) && asked++ == 0) {
          RemoveFinalizers(api);
        }
      });
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(world.Data(), "old");
  EXPECT_THAT(ForeignFinalizers(*world.Pvc()), ElementsAre("example.com/ledger"));
}

TEST_F(VolumeSwapTest, AFinalizerThatStaysIsNamedAndNothingIsLost) {
  AddFinalizers(world);
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("example.com/ledger"), HasSubstr("its volume is kept"),
                             Not(HasSubstr("pvc-protection")))));
  const absl::StatusOr<SwapPlan> plan = world.Plan(world.Target());
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->finalizers, ElementsAre("example.com/ledger"));
  RemoveFinalizers(world.api);
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_EQ(world.Data(), "old");
  EXPECT_THAT(ForeignFinalizers(*world.Pvc()), ElementsAre("example.com/ledger"));
}

TEST_F(VolumeSwapTest, AnotherPvcUnderTheNameIsNotTouched) {
  world.Before("create", "persistentvolumeclaims", "", [&] {
    world.Before("create", "persistentvolumeclaims", "data", [&] {
      Json other = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
      SetJson(other, {"metadata", "uid"}, "other-uid");
      world.api.Seed(PersistentVolumeClaimType(), other);
    });
  });
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("uid other-uid"), HasSubstr("made by another program"),
                             HasSubstr("kubectl delete pvc data -n shop"))));
  EXPECT_EQ(world.Pvc()->uid(), "other-uid");
  EXPECT_THAT(world.Undo(), StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  EXPECT_THAT(world.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  EXPECT_EQ(world.Pvc()->uid(), "other-uid");
  for (const std::string& name : world.Volumes()) {
    EXPECT_TRUE(world.Volume(name).is_retained()) << name;
  }
  EXPECT_THAT(world.cluster.driver().volumes(), SizeIs(2));
}

TEST_F(VolumeSwapTest, ItGoesOnThoughTheVolumeSnapshotIsGone) {
  const SwapTarget before = world.Target();
  world.Before("delete", "persistentvolumeclaims", "data", [&] { world.KillAfter(0); });
  world.Restore().IgnoreError();
  world.WasKilled();
  ASSERT_THAT(world.api.Delete(world.Ctx(), VolumeSnapshotKey("shop", "monday"), {}), IsOk());
  ASSERT_FALSE(world.Target().snapshot.has_value());
  EXPECT_THAT(world.Restore(world.Target(true, "tuesday")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("monday")));
  ASSERT_THAT(world.Restore(), IsOk());
  world.ExpectRestored();
}

TEST_F(VolumeSwapTest, ADriverThatRefusesLeavesThePvcAsItIs) {
  const std::string uid = world.Pvc()->uid();
  world.cluster.driver().Refuse("CreateVolume", "InvalidArgument", "no such pool");
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("no such pool"), HasSubstr("--undo removes"))));
  EXPECT_EQ(world.Pvc()->uid(), uid);
  world.cluster.driver().ClearFaults();
  ASSERT_THAT(world.Undo(), IsOk());
  world.ExpectUndone(0);
}

TEST_F(VolumeSwapTest, AVolumeThatIsSmallerThanThePvcRequestsIsNotThePvcs) {
  world.BeforeRestoredIsRead([](Json& volume) { volume["spec"]["capacity"]["storage"] = "1Mi"; });
  EXPECT_THAT(world.Restore(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("smaller than PVC shop/data requests"),
                                              HasSubstr("--undo removes"))));
  ASSERT_THAT(world.Undo(), IsOk());
  world.ExpectUndone(0);
}

TEST_F(VolumeSwapTest, AVolumeThatBecameAnothersIsNeitherTakenNorDeleted) {
  std::string taken;
  world.BeforeRestoredIsRead([&](Json& volume) {
    taken = k8s::Name(volume);
    volume["spec"]["claimRef"]["uid"] = "another";
  });
  EXPECT_THAT(world.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is another's")));
  ASSERT_THAT(world.Undo(), IsOk());
  world.ExpectPvcAsItWas();
  EXPECT_EQ(world.Data(), "new");
  EXPECT_THAT(world.OtherVolumes(), ElementsAre(taken));
  EXPECT_FALSE(world.Volume(taken).is_being_deleted());
  EXPECT_EQ(world.Volume(taken).pvc_uid(), "another");
}

TEST_F(VolumeSwapTest, AnOriginalThatBecameAnothersEndsItBeforeTheExchange) {
  const std::string original = world.Pvc()->volume_name();
  const std::string uid = world.Pvc()->uid();
  // The first change of a volume is the record on the restored one.
  world.Before("patch", "persistentvolumes", "", [&] {
    world.api.SetField(VolumeKey(original), {"spec", "claimRef", "uid"}, "another");
  });
  EXPECT_THAT(world.Restore(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr(original), HasSubstr("is another's"))));
  EXPECT_EQ(world.Pvc()->uid(), uid);
  EXPECT_FALSE(HasSwapRecord(world.Volume(original)));
}

TEST_F(VolumeSwapTest, ASafetySnapshotThatCannotBeTakenEndsItBeforeAnyChange) {
  world.cluster.driver().Refuse("CreateSnapshot", "InvalidArgument", "no snapshots today");
  EXPECT_THAT(world.Restore(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("no snapshots today"),
                                              HasSubstr("nothing is changed; --safety no"))));
  EXPECT_THAT(world.Pvcs(), ElementsAre("data"));
}

TEST_F(VolumeSwapTest, AnOldVolumeThatIsUsedElsewhereNowIsNotDeleted) {
  ASSERT_THAT(world.Restore(), IsOk());
  const std::string original = world.OtherVolumes().front();
  world.api.Mutate(VolumeKey(original), [](Json& volume) {
    volume["spec"]["claimRef"] = {{"namespace", "shop"}, {"name", "rescue"}, {"uid", "r"}};
    volume["status"]["phase"] = "Bound";
  });
  EXPECT_THAT(world.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("used by PVC shop/rescue now")));
  EXPECT_TRUE(world.Volume(original).is_retained());
}

TEST_F(VolumeSwapTest, AVolumeThatFinishHasGivenUpIsNotBroughtBack) {
  ASSERT_THAT(world.Restore(), IsOk());
  world.cluster.provisioner_runs = false;
  world.Before("get", "persistentvolumes", world.OtherVolumes().front(),
               [&] { world.KillAfter(0); });
  world.Finish().IgnoreError();
  world.WasKilled();
  EXPECT_THAT(world.Undo(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr("being deleted"), HasSubstr("--finish"))));
  EXPECT_EQ(world.Data(), "old");
  world.cluster.provisioner_runs = true;
  ASSERT_THAT(
      world.api.Patch(world.Ctx(), VolumeKey(world.OtherVolumes().front()), k8s::PatchKind::kMerge,
                      {{"metadata", {{"labels", {{"seen", "again"}}}}}}, ""),
      IsOk());
  ASSERT_THAT(world.Finish(), IsOk());
  world.ExpectFinished("old");
}

// --- Planning

TEST_F(VolumeSwapTest, APlanChangesNothingAndSaysWhatWillBe) {
  world.api.ClearCalls();
  const auto plan = world.Plan(world.Target());
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->refusals, IsEmpty());
  EXPECT_THAT(plan->refused_by_swap, IsEmpty());
  EXPECT_EQ(plan->original_volume, world.Pvc()->volume_name());
  EXPECT_EQ(plan->storage_class, "fast");
  EXPECT_EQ(plan->size_bytes, int64_t{1} << 30);
  EXPECT_FALSE(plan->was_begun);
  for (const support::ApiCall& call : world.api.calls()) {
    EXPECT_FALSE(IsWrite(call)) << call;
  }
}

TEST_F(VolumeSwapTest, AClassThatWaitsForAPodGetsANodeOfTheOldVolume) {
  World waiting("WaitForFirstConsumer");
  EXPECT_THAT(waiting.Restore(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no node can be chosen")));
  for (const char* name : {"a", "b", "c"}) {
    waiting.api.Seed(kNodes, support::MakeObject("v1", "Node", "", name, {{"zone", name}}));
    Json csi_node = support::MakeObject("storage.k8s.io/v1", "CSINode", "", name);
    csi_node["spec"]["drivers"] = Json::array({{{"name", kFakeDriver}}});
    waiting.api.Seed(kCsiNodes, csi_node);
  }
  EXPECT_EQ(waiting.Plan(waiting.Target())->node, "a");
  waiting.api.Mutate(VolumeKey(waiting.Pvc()->volume_name()), [](Json& volume) {
    SetJson(volume, {"spec", "nodeAffinity", "required", "nodeSelectorTerms"},
            Json::array({{{"matchExpressions", Json::array({{{"key", "zone"},
                                                             {"operator", "In"},
                                                             {"values", Json::array({"b"})}}})}}}));
  });
  EXPECT_EQ(waiting.Plan(waiting.Target())->node, "b");
  ASSERT_THAT(waiting.Restore(), IsOk());
  waiting.ExpectRestored();
}

TEST_F(VolumeSwapTest, TheVolumeIsMadeWithTheAttributesOfThePvc) {
  world.api.Seed(VolumeAttributesClassType(), {{"metadata", {{"name", "gold"}}}});
  world.api.SetField(ClaimKey("shop", "data"), {"spec", "volumeAttributesClassName"}, "gold");
  std::vector<std::string> classes;
  world.api.OnCreate("persistentvolumeclaims", [&](support::FakeApiClient&, const Json& pvc) {
    classes.push_back(GetString(pvc, {"spec", "volumeAttributesClassName"}));
  });
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_THAT(classes, ElementsAre("gold", "gold")) << "the temporary PVC and the PVC";
}

TEST_F(VolumeSwapTest, AClassThatIsGoneOrOfAnotherDriverIsRefused) {
  world.api.SetField({StorageClassType(), "", "fast"}, {"provisioner"}, "ebs.csi.aws.com");
  EXPECT_THAT(world.Plan(world.Target())->refused_by_swap,
              ElementsAre(HasSubstr("is of driver ebs.csi.aws.com")));
  world.api.Remove({StorageClassType(), "", "fast"});
  EXPECT_THAT(world.Plan(world.Target())->refused_by_swap,
              ElementsAre(HasSubstr("does not exist")));
}

TEST_F(VolumeSwapTest, RightsAreNamedBeforeAnythingIsDone) {
  EXPECT_THAT(CheckSwapRights(world.Ctx(), world.api, "shop"), IsOk());
  world.api.Forbid("patch", "persistentvolumes");
  EXPECT_THAT(CheckSwapRights(world.Ctx(), world.api, "shop"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("ask for the ClusterRole csi-delta-snapshot-admin")));
}

TEST_F(VolumeSwapTest, KeptVolumesAreListedByAge) {
  EXPECT_THAT(*ListKeptVolumes(world.Ctx(), world.api, ""), IsEmpty());
  const std::string original = world.Pvc()->volume_name();
  ASSERT_THAT(world.Restore(), IsOk());
  const auto kept = *ListKeptVolumes(world.Ctx(), world.api, "shop");
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_EQ(kept.front().volume, original);
  EXPECT_EQ(kept.front().pvc_name, "data");
  EXPECT_EQ(kept.front().snapshot, "monday");
  EXPECT_TRUE(kept.front().since.has_value());
  EXPECT_THAT(*ListKeptVolumes(world.Ctx(), world.api, "team"), IsEmpty());
  ASSERT_THAT(world.Undo(), IsOk());
  EXPECT_NE(ListKeptVolumes(world.Ctx(), world.api, "")->front().volume, original);
  ASSERT_THAT(world.Finish(), IsOk());
  EXPECT_THAT(*ListKeptVolumes(world.Ctx(), world.api, ""), IsEmpty());
}

}  // namespace
}  // namespace csidelta::inplace::volume_swap_test
