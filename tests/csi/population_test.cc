#include "csi/population.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/content_deletion.h"
#include "csi/promotion.h"
#include "csi/restore_guard.h"
#include "csi/snapshot_inventory.h"
#include "csi/snapshot_removal.h"
#include "csi/volume_swap.h"
#include "longhorn/types.h"
#include "objects/keys.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/late_copies.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"
#include "velero/backup.h"

namespace csidelta::csi::population_test {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using support::IsOk;
using support::LateCopies;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kLonghorn[] = "driver.longhorn.io";
constexpr char kUnknownDriver[] = "late.example.com";
const k8s::ResourceType kPods{"", "v1", "pods", "Pod", true};
const k8s::ResourceType kCsiDrivers{"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false};

// The PVC shop/data holds "new" and its VolumeSnapshot monday "old", on a driver that binds before
// it copies. Each look at a Volume of Longhorn brings its copy one of `stages` further.
class World {
 public:
  explicit World(std::vector<std::string> stages = {"", "initiated", "completed"},
                 int looks_per_stage = 1)
      : stages_(std::move(stages)), looks_per_stage_(looks_per_stage) {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
    cluster.strict = true;
    Json one = support::MakeObject("storage.k8s.io/v1", "StorageClass", "", "fast");
    one["provisioner"] = kLonghorn;
    one["volumeBindingMode"] = "Immediate";
    api.Seed(StorageClassType(), one);
    api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("snaps", kLonghorn));
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
    pvc["spec"] = {{"storageClassName", "fast"},
                   {"accessModes", {"ReadWriteOnce"}},
                   {"volumeMode", "Filesystem"},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}}};
    EXPECT_THAT(api.Create(ctx_, PersistentVolumeClaimType(), "shop", pvc), IsOk());
    original_ = HandleOf("data");
    cluster.driver().Write(original_, "old");
    Json snapshot =
        support::MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "shop", "monday");
    snapshot["spec"] = {{"source", {{"persistentVolumeClaimName", "data"}}},
                        {"volumeSnapshotClassName", "snaps"}};
    EXPECT_THAT(api.Create(ctx_, VolumeSnapshotType(), "shop", snapshot), IsOk());
    cluster.driver().Write(original_, "new");
    api.SetInterceptor([this](const support::ApiCall& call, const Json*) { return See(call); });
  }

  // --- The verbs, as their programs run them

  absl::Status Promote() {
    const CallContext ctx = Ctx();
    PromotionRequest request;
    request.targets.push_back(
        {.snapshot = Monday(), .wish = {.namespace_name = "shop", .name = "copy"}});
    absl::StatusOr<PromotionPlan> plan = PlanPromotions(ctx, api, request);
    if (!plan.ok() || !plan->promotions.front().refusals.empty()) {
      return plan.ok() ? absl::FailedPreconditionError("refused") : plan.status();
    }
    absl::StatusOr<std::vector<PersistentVolumeClaim>> made = MakePvcs(ctx, api, *plan);
    if (!made.ok()) {
      return made.status();
    }
    return AwaitPvc(ctx, api, made->front(),
                    {.source = plan->promotions.front().snapshot, .driver = kLonghorn}, not_checked)
        .status();
  }
  absl::Status Restore() {
    const CallContext ctx = Ctx();
    const SwapTarget target = {.namespace_name = "shop",
                               .pvc_name = "data",
                               .snapshot_name = "monday",
                               .snapshot = Monday(),
                               .takes_safety_snapshot = false};
    const absl::StatusOr<RestoreSurroundings> around = ReadRestoreSurroundings(ctx, api, "shop");
    if (!around.ok()) {
      return around.status();
    }
    absl::StatusOr<SwapPlan> plan = PlanSwap(ctx, api, *around, target);
    if (!plan.ok() || !plan->refusals.empty()) {
      return plan.ok() ? RefusalStatus("shop", "data", plan->refusals) : plan.status();
    }
    VolumeSwap swap(ctx, api, Random::Real(), target, [](const SwapNews&) {});
    const absl::Status prepared = swap.Prepare(*plan);
    if (!prepared.ok()) {
      return prepared;
    }
    const absl::StatusOr<SwapResult> result = swap.Exchange();
    if (result.ok()) {
      not_checked = result->not_checked;
    }
    return result.status();
  }
  absl::Status Finish() {
    const CallContext ctx = Ctx();
    return VolumeSwap(ctx, api, Random::Real(), {.namespace_name = "shop", .pvc_name = "data"},
                      [](const SwapNews&) {})
        .Finish()
        .status();
  }
  // As `snapshot delete monday --last-too`.
  absl::Status DeleteSnapshot() {
    const CallContext ctx = Ctx();
    const absl::StatusOr<Inventory> inventory = ReadInventory(
        ctx, api, {.namespace_name = "shop", .names = {"monday"}, .now = ctx.clock->Now()});
    if (!inventory.ok() || inventory->entries.empty()) {
      return inventory.ok() ? absl::NotFoundError("monday") : inventory.status();
    }
    const std::vector<PlannedRemoval> plan = PlanRemoval(*inventory, {0}, {.last_too = true});
    if (plan.front().verdict != RemovalVerdict::kDelete) {
      return absl::FailedPreconditionError(
          plan.front().kept_for.empty() ? "being deleted" : plan.front().kept_for.front().message);
    }
    return RemoveAsRead(ctx, api, plan.front().entry, {}).status();
  }
  // The archive has the content of monday.
  absl::Status DeleteBackup() {
    const CallContext ctx = Ctx();
    if (!archived_.has_value()) {
      return absl::NotFoundError("no backup");
    }
    return DeleteSnapshotOfBackup(ctx, env_, *VolumeSnapshotContent::Of(*archived_),
                                  velero::Backup{.name = "nightly", .uid = "backup-uid"},
                                  absl::Seconds(1))
        .status();
  }
  void ArchiveMonday() {
    const std::string content = GetString(*api.Find(VolumeSnapshotKey("shop", "monday")),
                                          {"status", "boundVolumeSnapshotContentName"});
    api.Mutate(VolumeSnapshotContentKey(content), [](Json& object) {
      SetJson(object, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
    });
    archived_ = *api.Find(VolumeSnapshotContentKey(content));
  }

  // Before the call of that position, of those that the verb makes, `act` runs once.
  void Before(int position, std::function<void()> act) {
    calls_left_ = position;
    act_ = std::move(act);
  }
  bool has_acted() const { return act_ == nullptr; }

  VolumeSnapshot Monday() const {
    return *VolumeSnapshot::Of(*api.Find(VolumeSnapshotKey("shop", "monday")));
  }
  bool HasMonday() const { return !cluster.driver().snapshots().empty(); }
  std::string DataOf(const std::string& pvc) const {
    return cluster.driver().volumes()[HandleOf(pvc)];
  }
  bool HasOriginal() const { return cluster.driver().volumes().contains(original_); }
  std::string HandleOf(const std::string& pvc) const {
    const std::optional<Json> found = api.Find(ClaimKey("shop", pvc));
    const std::string volume = found.has_value() ? GetString(*found, {"spec", "volumeName"}) : "";
    const std::optional<Json> pv = api.Find(VolumeKey(volume));
    return pv.has_value() ? GetString(*pv, {"spec", "csi", "volumeHandle"}) : "";
  }
  CallContext Ctx() const { return ctx_.WithTimeout(absl::Minutes(5)); }

  void RunPod(const std::string& pvc) {
    api.Seed(kPods,
             {{"metadata", {{"name", "user-of-" + pvc}, {"namespace", "shop"}}},
              {"spec",
               {{"volumes", {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", pvc}}}}}}}},
              {"status", {{"phase", "Running"}}}});
  }

  std::vector<std::string> not_checked;

 private:
  absl::Status See(const support::ApiCall& call) {
    if (is_acting_) {
      return absl::OkStatus();
    }
    is_acting_ = true;
    // What must hold at each moment.
    EXPECT_FALSE(copies.has_lost_a_source()) << "before " << call.verb << " " << call.plural;
    EXPECT_TRUE(HasOriginal() || copies.all_complete()) << call.verb << " " << call.plural;
    if (act_ != nullptr && calls_left_-- == 0) {
      std::exchange(act_, nullptr)();
    }
    if (call.plural == "volumes" && copies.size() > 0 && ++looks_ % looks_per_stage_ == 0) {
      copies.Show(stages_[std::min(stage_++, stages_.size() - 1)]);
    }
    is_acting_ = false;
    return absl::OkStatus();
  }

  const std::vector<std::string> stages_;
  const int looks_per_stage_;
  std::size_t stage_ = 0;
  int looks_ = 0;
  bool is_acting_ = false;
  int calls_left_ = 0;
  std::function<void()> act_;
  std::optional<Json> archived_;
  std::string original_;
  support::FakeClock clock_;
  CallContext ctx_;

 public:
  support::FakeApiClient api{clock_};
  support::FakeSnapshotCluster cluster{api};
  LateCopies copies{api, cluster};

 private:
  Environment env_{.api = api,
                   .clock = clock_,
                   .random = Random::Real(),
                   .velero_namespace = "velero",
                   .enable_csi = true};
};

// --- The three commands that lost data on a real Longhorn

TEST(PopulationTest, APromotionIsDoneWhenTheDataIsThereAndItsSourceStaysUntilThen) {
  World world({"", "", "initiated", "initiated", "completed"});
  ASSERT_THAT(world.Promote(), IsOk());
  EXPECT_EQ(world.DataOf("copy"), "old");
  EXPECT_THAT(world.DeleteSnapshot(), IsOk());
  EXPECT_FALSE(world.HasMonday());
  EXPECT_EQ(world.DataOf("copy"), "old");
}

TEST(PopulationTest, ARestoreIntoAPvcIsDoneWhenTheDataIsThereAndFinishes) {
  World world({"", "initiated", "initiated", "copy-completed-awaiting-healthy", "completed"});
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_EQ(world.DataOf("data"), "old");
  EXPECT_TRUE(world.HasOriginal());
  EXPECT_THAT(world.not_checked, IsEmpty());
  ASSERT_THAT(world.Finish(), IsOk());
  EXPECT_FALSE(world.HasOriginal());
  EXPECT_EQ(world.DataOf("data"), "old");
}

TEST(PopulationTest, WhileLonghornCopiesNothingDeletesTheSource) {
  World world({"initiated"});
  world.ArchiveMonday();
  EXPECT_THAT(world.Promote(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("is bound, but not filled yet"), HasSubstr("initiated"),
                             HasSubstr("keep the VolumeSnapshot"))));
  EXPECT_THAT(world.DeleteSnapshot(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("data is copied from it"), HasSubstr("PVC shop/copy"))));
  EXPECT_THAT(world.DeleteBackup(), IsOk()) << "deferred: the sweep deletes it";
  EXPECT_TRUE(world.HasMonday());
  EXPECT_EQ(world.DataOf("copy"), LateCopies::kCopying);
}

TEST(PopulationTest, OfACopyWhoseObjectsAreGoneTheBackupIsNotDeleted) {
  World world({"initiated"});
  world.ArchiveMonday();
  EXPECT_FALSE(world.Promote().ok());
  // As after a restore that another program cleaned up.
  const std::string content = GetString(*world.api.Find(VolumeSnapshotKey("shop", "monday")),
                                        {"status", "boundVolumeSnapshotContentName"});
  world.api.Mutate(VolumeSnapshotContentKey(content),
                   [](Json& object) { object["spec"]["deletionPolicy"] = "Retain"; });
  ASSERT_THAT(world.api.Delete({}, VolumeSnapshotKey("shop", "monday"), {}), IsOk());
  ASSERT_THAT(world.api.Delete({}, VolumeSnapshotContentKey(content), {}), IsOk());
  EXPECT_THAT(world.DeleteBackup(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("is kept"), HasSubstr("PVC shop/copy"))));
  EXPECT_TRUE(world.HasMonday());
  world.copies.Show("completed");
  EXPECT_THAT(world.DeleteBackup(), IsOk());
}

TEST(PopulationTest, AFailedCopyIsAnErrorWithTheDriversMessage) {
  for (const bool is_promotion : {true, false}) {
    World world({"initiated", "failed"});
    EXPECT_THAT(is_promotion ? world.Promote() : world.Restore(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("VolumeCloneFailed: cannot read the source")));
    EXPECT_TRUE(world.HasMonday());
    EXPECT_TRUE(world.HasOriginal());
    EXPECT_EQ(world.DataOf("data"), "new");
    EXPECT_THAT(world.DeleteSnapshot(), StatusIs(absl::StatusCode::kFailedPrecondition))
        << "Longhorn tries again";
  }
}

// A restore of a version before this one, or a run that was killed, may have exchanged early.
TEST(PopulationTest, AnExchangedVolumeThatIsNotFilledIsNotFinished) {
  World world;
  ASSERT_THAT(world.Restore(), IsOk());
  const std::string volume = world.HandleOf("data");
  const auto show = [&](const std::string& state) {
    world.api.Mutate({longhorn::Volume::Type(), longhorn::kDefaultNamespace, volume},
                     [&](Json& object) {
                       SetJson(object, {"status", "cloneStatus", "state"}, state);
                     });
  };
  show("initiated");
  EXPECT_THAT(world.Finish(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("may not have its data yet"), HasSubstr("initiated"))));
  show("failed");
  EXPECT_THAT(world.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--undo")));
  EXPECT_TRUE(world.HasOriginal());
  show("completed");
  EXPECT_THAT(world.Finish(), IsOk());
}

TEST(PopulationTest, WithoutRightsOnVolumesThePodThatRunsIsTheProof) {
  World world;
  world.api.Forbid("get", "volumes");
  world.api.Forbid("list", "volumes");
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_THAT(world.not_checked, testing::Contains(HasSubstr("until a Pod runs with it")));
  EXPECT_THAT(world.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("Longhorn's Volumes cannot be read")));
  EXPECT_TRUE(world.HasOriginal());
  world.copies.Show("completed");
  world.RunPod("data");
  EXPECT_THAT(world.Finish(), IsOk());
}

// --- One look

class PopulationReaderTest : public testing::Test {
 protected:
  Population Read(const std::string& driver) {
    const absl::StatusOr<Population> read =
        PopulationReader(bed_.ctx, bed_.api)
            .Read({.driver = driver, .handle = "v", .namespace_name = "shop", .pvc = "data"});
    EXPECT_THAT(read, IsOk());
    return read.value_or(Population());
  }
  void AddPod(const std::string& phase) {
    bed_.api.Seed(
        kPods,
        {{"metadata", {{"name", "p"}, {"namespace", "shop"}}},
         {"spec",
          {{"volumes", {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}}}}},
         {"status", {{"phase", phase}}}});
  }

  support::ActionBed bed_;
};

TEST_F(PopulationReaderTest, OfAKnownDriverBoundIsFilled) {
  for (const char* driver : {"hostpath.csi.k8s.io", "rbd.csi.ceph.com",
                             "openshift-storage.rbd.csi.ceph.com", "ebs.csi.aws.com"}) {
    EXPECT_EQ(Read(driver).state, PopulationState::kFilled) << driver;
  }
  EXPECT_FALSE(IsFilledWhenBound("notrbd.csi.ceph.com.example"));
  EXPECT_FALSE(IsFilledWhenBound(kLonghorn));
  EXPECT_FALSE(IsFilledWhenBound(""));
}

TEST_F(PopulationReaderTest, OfAnUnknownDriverAPodThatRunsOrItsCsiDriverIsTheProof) {
  EXPECT_EQ(Read(kUnknownDriver).state, PopulationState::kUnknown);
  EXPECT_THAT(Read(kUnknownDriver).text,
              AllOf(HasSubstr("no Pod that runs has mounted it"),
                    HasSubstr("kubectl annotate csidriver late.example.com "
                              "snapshot.csi-delta.io/filled-when-bound=true")));
  for (const char* phase : {"Pending", "Failed", ""}) {
    AddPod(phase);
    EXPECT_EQ(Read(kUnknownDriver).state, PopulationState::kUnknown) << phase;
  }
  for (const char* phase : {"Running", "Succeeded"}) {
    AddPod(phase);
    EXPECT_EQ(Read(kUnknownDriver).state, PopulationState::kFilled) << phase;
  }
  AddPod("Pending");
  bed_.api.Seed(kCsiDrivers,
                {{"metadata",
                  {{"name", kUnknownDriver},
                   {"annotations", {{objects::kFilledWhenBoundAnnotation, "true"}}}}}});
  EXPECT_EQ(Read(kUnknownDriver).state, PopulationState::kFilled);
}

TEST_F(PopulationReaderTest, WhatMayNotBeReadIsNotKnown) {
  bed_.api.Forbid("*", "csidrivers");
  bed_.api.Forbid("*", "pods");
  EXPECT_THAT(Read(kUnknownDriver).text, HasSubstr("its Pods may not be listed"));
  EXPECT_EQ(Read("").state, PopulationState::kUnknown);
  EXPECT_EQ(Read(kLonghorn).state, PopulationState::kUnknown) << "its Volume is not there";
}

TEST_F(PopulationReaderTest, OfALonghornElsewhereTheVolumeIsFoundAmongAll) {
  bed_.api.Seed(longhorn::Volume::Type(),
                {{"metadata", {{"name", "v"}, {"namespace", "storage"}}},
                 {"spec", {{"dataSource", "snap://s/one"}}},
                 {"status", {{"cloneStatus", {{"state", "initiated"}}}}}});
  EXPECT_EQ(Read(kLonghorn).state, PopulationState::kCopying);
  EXPECT_THAT(Read(kLonghorn).text, HasSubstr("Longhorn's clone of snap://s/one: initiated"));
}

TEST_F(PopulationReaderTest, WhatIsCopiedFromAVolumeIsFoundByTheVolumesSource) {
  const auto add = [&](const std::string& name, const std::string& source,
                       const std::string& state) {
    bed_.api.Seed(longhorn::Volume::Type(),
                  {{"metadata", {{"name", name}, {"namespace", "longhorn-system"}}},
                   {"spec", {{"dataSource", source}}},
                   {"status", {{"cloneStatus", {{"state", state}}}}}});
  };
  add("a", "snap://old/one", "initiated");
  add("b", "vol://old", "");
  add("c", "snap://old/two", "completed");
  add("d", "snap://other/one", "failed");
  PopulationReader reader(bed_.ctx, bed_.api);
  const auto copies = reader.UnfilledFromVolume({.driver = kLonghorn, .handle = "old"});
  ASSERT_THAT(copies, IsOk());
  EXPECT_THAT(*copies, ElementsAre(HasSubstr("Volume a"), HasSubstr("Volume b")));
  const auto one = reader.UnfilledFromSnapshot(kLonghorn, "snap://old/one", {});
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(*one, ElementsAre(HasSubstr("Volume a")));
}

// --- At each moment

struct Point {
  bool is_promotion = false;
  std::string end;  // of the copy
  int looks_per_stage = 1;
  int attack = 0;
  int position = 0;  // of the call before which the attack comes
};
std::ostream& operator<<(std::ostream& out, const Point& point) {
  return out << (point.is_promotion ? "promote" : "restore") << ", copy " << point.end << " after "
             << point.looks_per_stage << " looks each, attack " << point.attack << " before call "
             << point.position;
}

// What other people and programs do to the source meanwhile, by the product.
absl::Status Attack(World& world, int attack) {
  switch (attack) {
    case 0:
      return world.DeleteSnapshot();
    case 1:
      return world.Finish();
    default:
      return world.DeleteBackup();
  }
}

constexpr int kAttacks = 3;
constexpr int kCallsMax = 80;  // More than either verb makes.

// Whether the attack came at all.
bool Try(const Point& point) {
  World world({"", "initiated", point.end}, point.looks_per_stage);
  world.ArchiveMonday();
  world.Before(point.position,
               [&] { Attack(world, point.attack).IgnoreError(); });  // World looks at what it did.
  const absl::Status done = point.is_promotion ? world.Promote() : world.Restore();
  const bool has_acted = world.has_acted();
  if (done.ok()) {
    EXPECT_TRUE(world.copies.all_complete());
    EXPECT_EQ(world.DataOf(point.is_promotion ? "copy" : "data"), "old");
    EXPECT_NE(point.end, "failed");
  }
  for (int attack = 0; attack < kAttacks; ++attack) {
    Attack(world, attack).IgnoreError();
    EXPECT_FALSE(world.copies.has_lost_a_source()) << "attack " << attack << " at the end";
    EXPECT_TRUE(world.HasOriginal() || world.copies.all_complete());
  }
  if (point.end == "failed" && world.copies.size() > 0) {
    EXPECT_FALSE(done.ok());
    EXPECT_TRUE(world.HasMonday());
  }
  return has_acted;
}

TEST(PopulationSweepTest, NoSourceGoesAndNothingIsDoneBeforeTheCopyIsComplete) {
  const support::SweepSample sample;
  std::vector<Point> points;
  for (const bool is_promotion : {true, false}) {
    for (const char* end : {"completed", "copy-completed-awaiting-healthy", "failed"}) {
      for (const int looks : {1, 2}) {
        for (int attack = 0; attack < kAttacks; ++attack) {
          for (int position = 0; position < kCallsMax; ++position) {
            points.push_back({is_promotion, end, looks, attack, position});
          }
        }
      }
    }
  }
  int tried = 0;
  for (const Point& point : sample.Of(std::move(points), 60)) {
    SCOPED_TRACE(testing::PrintToString(point));
    tried += Try(point) ? 1 : 0;
  }
  RecordProperty("points", tried);
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace csidelta::csi::population_test
