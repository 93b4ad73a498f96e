#include "csi/population.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "inplace/restore_guard.h"
#include "inplace/volume_swap.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "objects/keys.h"
#include "snapshots/promotion.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/late_copies.h"
#include "tests/support/late_copy_world.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::csi::population_test {
namespace {

using objects::VolumeSnapshot;
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

// --- The three commands that lost data on a real Longhorn

TEST(PopulationTest, APromotionIsDoneWhenTheDataIsThereAndItsSourceStaysUntilThen) {
  LateCopyWorld world({"", "", "initiated", "initiated", "completed"});
  ASSERT_THAT(world.Promote(), IsOk());
  EXPECT_EQ(world.DataOf("copy"), "old");
  EXPECT_THAT(world.DeleteSnapshot(), IsOk());
  EXPECT_FALSE(world.HasMonday());
  EXPECT_EQ(world.DataOf("copy"), "old");
}

TEST(PopulationTest, ARestoreIntoAPvcIsDoneWhenTheDataIsThereAndFinishes) {
  LateCopyWorld world(
      {"", "initiated", "initiated", "copy-completed-awaiting-healthy", "completed"});
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_EQ(world.DataOf("data"), "old");
  EXPECT_TRUE(world.HasOriginal());
  EXPECT_THAT(world.not_checked, IsEmpty());
  ASSERT_THAT(world.Finish(), IsOk());
  EXPECT_FALSE(world.HasOriginal());
  EXPECT_EQ(world.DataOf("data"), "old");
}

TEST(PopulationTest, WhileLonghornCopiesNothingDeletesTheSource) {
  LateCopyWorld world({"initiated"});
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

TEST(PopulationTest, ACopyWithoutAVolumeSnapshotKeepsItsBackup) {
  LateCopyWorld world({"initiated"});
  world.ArchiveMonday();
  EXPECT_FALSE(world.Promote().ok());
  // As after a restore that another program cleaned up.
  const std::string content = GetString(*world.api.Find(VolumeSnapshotKey("shop", "monday")),
                                        {"status", "boundVolumeSnapshotContentName"});
  world.api.SetField(VolumeSnapshotContentKey(content), {"spec", "deletionPolicy"}, "Retain");
  ASSERT_THAT(world.api.Delete({}, VolumeSnapshotKey("shop", "monday"), {}), IsOk());
  ASSERT_THAT(world.api.Delete({}, VolumeSnapshotContentKey(content), {}), IsOk());
  EXPECT_THAT(world.DeleteBackup(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("is kept"), HasSubstr("PVC shop/copy"))));
  EXPECT_TRUE(world.HasMonday());
  world.api.Forbid("list", "volumes");
  EXPECT_THAT(world.DeleteBackup(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("is kept: whether data is copied from it is not known"),
                             HasSubstr("deploy/longhorn-rbac.yaml"))));
  EXPECT_TRUE(world.HasMonday());
  world.api.ClearFaults();
  world.copies.Show("completed");
  EXPECT_THAT(world.DeleteBackup(), IsOk());
}

TEST(PopulationTest, AFailedCopyIsAnErrorWithTheDriversMessage) {
  for (const bool is_promotion : {true, false}) {
    LateCopyWorld world({"initiated", "failed"});
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
  LateCopyWorld world;
  ASSERT_THAT(world.Restore(), IsOk());
  const std::string volume = world.HandleOf("data");
  const auto show = [&](const std::string& state) {
    world.api.SetField({longhorn::Volume::Type(), longhorn::kDefaultNamespace, volume},
                       {"status", "cloneStatus", "state"}, state);
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
  LateCopyWorld world;
  world.api.Forbid("get", "volumes");
  world.api.Forbid("list", "volumes");
  ASSERT_THAT(world.Restore(), IsOk());
  EXPECT_THAT(world.not_checked, testing::Contains(HasSubstr("until a Pod runs with it")));
  EXPECT_THAT(world.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("Longhorn's Volumes cannot be read")));
  EXPECT_TRUE(world.HasOriginal());
  world.copies.Show("completed");
  world.RunPod("data");
  EXPECT_THAT(world.Finish(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("whether it is still copied from is not known"),
                             HasSubstr("csi-delta-longhorn-viewer"))));
  EXPECT_TRUE(world.HasOriginal());
  world.api.ClearFaults();
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

TEST_F(PopulationReaderTest, ABoundPvcOfAKnownDriverIsFilled) {
  for (const char* driver : {"hostpath.csi.k8s.io", "rbd.csi.ceph.com",
                             "openshift-storage.rbd.csi.ceph.com", "ebs.csi.aws.com"}) {
    EXPECT_EQ(Read(driver).state, PopulationState::kFilled) << driver;
  }
  EXPECT_FALSE(IsFilledWhenBound("notrbd.csi.ceph.com.example"));
  for (const char* driver :
       {"disk.csi.azure.com", "csi.trident.netapp.io", "linstor.csi.linbit.com"}) {
    EXPECT_EQ(Read(driver).state, PopulationState::kUnknown) << driver << ": nothing shows it";
  }
  EXPECT_FALSE(IsFilledWhenBound(kLonghorn));
  EXPECT_FALSE(IsFilledWhenBound(""));
}

TEST_F(PopulationReaderTest, APodThatCannotMountItSaysWhy) {
  AddPod("Pending");
  bed_.api.SetField({kPods, "shop", "p"}, {"spec", "nodeName"}, "n1");
  bed_.api.Seed({"", "v1", "events", "Event", true},
                {{"metadata", {{"name", "p.1"}, {"namespace", "shop"}}},
                 {"involvedObject", {{"uid", k8s::Uid(*bed_.api.Find({kPods, "shop", "p"}))}}},
                 {"type", "Warning"},
                 {"reason", "FailedMount"},
                 {"message", "no such device"}});
  bed_.clock.Advance(absl::Seconds(30));
  EXPECT_THAT(Read(kUnknownDriver).text,
              HasSubstr("has mounted it (Pod p waits: FailedMount: no such device); keep"));
}

TEST_F(PopulationReaderTest, ARunningPodOrTheCsiDriverProvesAnUnknownDriversVolume) {
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

TEST_F(PopulationReaderTest, WithoutRightsTheStateIsUnknown) {
  bed_.api.Forbid("*", "csidrivers");
  bed_.api.Forbid("*", "pods");
  EXPECT_THAT(Read(kUnknownDriver).text, HasSubstr("its Pods may not be listed"));
  EXPECT_EQ(Read("").state, PopulationState::kUnknown);
  EXPECT_EQ(Read(kLonghorn).state, PopulationState::kUnknown) << "its Volume is not there";
}

TEST_F(PopulationReaderTest, FindsTheVolumeOfALonghornInAnotherNamespace) {
  bed_.api.Seed(longhorn::Volume::Type(),
                {{"metadata", {{"name", "v"}, {"namespace", "storage"}}},
                 {"spec", {{"dataSource", "snap://s/one"}}},
                 {"status", {{"cloneStatus", {{"state", "initiated"}}}}}});
  EXPECT_EQ(Read(kLonghorn).state, PopulationState::kCopying);
  EXPECT_THAT(Read(kLonghorn).text, HasSubstr("Longhorn's clone of snap://s/one: initiated"));
}

TEST_F(PopulationReaderTest, FindsCopiesByTheSourceOfTheirVolumes) {
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
  EXPECT_THAT(reader.UnfilledFromHandle(kLonghorn, "old"),
              support::IsOkAndHolds(ElementsAre(HasSubstr("Volume a"), HasSubstr("Volume b"))));
  EXPECT_THAT(reader.UnfilledFromSnapshot(kLonghorn, "snap://old/one", "", {}),
              support::IsOkAndHolds(ElementsAre(HasSubstr("Volume a"))));
}

// --- A snapshot that went with its volume

// Longhorn keeps snapshots inside of a volume, and shows their VolumeSnapshots as Ready for ever.
TEST_F(PopulationReaderTest, ASnapshotOfAVolumeThatIsGoneIsLostAndNothingIsMadeOfIt) {
  for (const char* volume : {"old", "here"}) {
    const std::string name = absl::StrCat("of-", volume);
    Json snapshot = support::MakeSnapshotObject("shop", name, "content-" + name);
    SetJson(snapshot, {"status", "readyToUse"}, true);
    SetJson(snapshot, {"status", "restoreSize"}, "1Gi");
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    Json content = support::MakeContentObject("content-" + name, "shop", name,
                                              absl::StrCat("snap://", volume, "/one"));
    SetJson(content, {"spec", "driver"}, kLonghorn);
    bed_.api.Seed(VolumeSnapshotContentType(), content);
  }
  const auto state_of = [&](const std::string& name) {
    const absl::StatusOr<snapshots::Inventory> inventory = snapshots::ReadInventory(
        bed_.ctx, bed_.api,
        {.namespace_name = "shop", .names = {name}, .only_names = true, .now = bed_.clock.Now()});
    EXPECT_THAT(inventory, IsOk());
    return inventory->entries.at(0).status.state;
  };
  EXPECT_EQ(state_of("of-old"), SnapshotState::kReady) << "no Volume is known at all";
  bed_.api.Seed(longhorn::Volume::Type(),
                {{"metadata", {{"name", "here"}, {"namespace", longhorn::kDefaultNamespace}}}});
  EXPECT_EQ(state_of("of-old"), SnapshotState::kLost);
  EXPECT_EQ(state_of("of-here"), SnapshotState::kReady);

  snapshots::PromotionRequest promotion;
  const auto snapshot = *VolumeSnapshot::Of(*bed_.api.Find(VolumeSnapshotKey("shop", "of-old")));
  promotion.targets.push_back(
      {.snapshot = snapshot, .options = {.namespace_name = "shop", .name = "copy"}});
  const absl::StatusOr<snapshots::PromotionPlan> plan =
      snapshots::PlanPromotions(bed_.ctx, bed_.api, promotion);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->promotions.front().refusals,
              testing::Contains(testing::Field(&Finding::message, HasSubstr("is Lost"))));
  const absl::StatusOr<inplace::RestoreInfo> info =
      inplace::ReadRestoreInfo(bed_.ctx, bed_.api, snapshot, "data");
  ASSERT_THAT(info, IsOk());
  EXPECT_TRUE(info->is_handle_gone);

  bed_.api.Forbid("list", "volumes");
  EXPECT_EQ(state_of("of-old"), SnapshotState::kReady) << "it is not known";
}

}  // namespace
}  // namespace csidelta::csi::population_test
