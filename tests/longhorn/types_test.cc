#include "longhorn/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::longhorn::types_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json SnapshotObject() {
  return {{"apiVersion", "longhorn.io/v1beta2"},
          {"kind", "Snapshot"},
          {"metadata", {{"name", "nightly-1"}, {"namespace", "longhorn-system"}, {"uid", "u-1"}}},
          {"spec",
           {{"volume", "pvc-1"},
            {"createSnapshot", true},
            {"labels", {{"RecurringJob", "nightly"}}},
            {"futureField", 9007199254740993}}},
          {"status",
           {{"requestedTime", "2023-11-14T22:13:20Z"},
            {"creationTime", "2023-11-14T22:13:25Z"},
            {"readyToUse", true},
            {"userCreated", true},
            {"parent", "older"},
            {"children", {{"volume-head", true}, {"branch", false}}},
            {"size", 4096},
            {"restoreSize", int64_t{1} << 30},
            {"error", "waits"}}}};
}

TEST(LonghornSnapshotTest, NamesItsFieldsAndKeepsTheRest) {
  const absl::StatusOr<Snapshot> snapshot = Snapshot::Of(SnapshotObject());
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->name(), "nightly-1");
  EXPECT_EQ(snapshot->volume(), "pvc-1");
  EXPECT_TRUE(snapshot->is_to_be_taken());
  EXPECT_EQ(snapshot->engine_labels().at("RecurringJob"), "nightly");
  EXPECT_EQ(snapshot->requested_at(), absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(snapshot->taken_at(), absl::FromUnixSeconds(1'700'000'005));
  EXPECT_TRUE(snapshot->is_ready());
  EXPECT_FALSE(snapshot->is_marked_removed());
  EXPECT_TRUE(snapshot->is_user_created());
  EXPECT_EQ(snapshot->parent(), "older");
  EXPECT_THAT(snapshot->children(), ElementsAre("volume-head"));
  EXPECT_EQ(snapshot->size_bytes(), 4096);
  EXPECT_EQ(snapshot->restore_size_bytes(), int64_t{1} << 30);
  EXPECT_EQ(snapshot->error(), "waits");
  EXPECT_EQ(snapshot->json(), SnapshotObject());
}

TEST(LonghornSnapshotTest, IsNotReadyOnceItIsRemovedOrBeingDeleted) {
  Json removed = SnapshotObject();
  SetJson(removed, {"status", "markRemoved"}, true);
  EXPECT_FALSE(Snapshot::Of(removed)->is_ready());
  EXPECT_TRUE(Snapshot::Of(removed)->is_marked_removed());
  Json going = SnapshotObject();
  SetJson(going, {"metadata", "deletionTimestamp"}, "2023-11-14T22:13:30Z");
  EXPECT_FALSE(Snapshot::Of(going)->is_ready());
}

TEST(LonghornSnapshotTest, ANewOneHasNoStatus) {
  const auto snapshot = Snapshot::Of({{"spec", {{"volume", "pvc-1"}}}});
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_FALSE(snapshot->is_to_be_taken());
  EXPECT_EQ(snapshot->requested_at(), std::nullopt);
  EXPECT_EQ(snapshot->taken_at(), std::nullopt);
  EXPECT_FALSE(snapshot->is_ready());
  EXPECT_FALSE(snapshot->is_user_created());
  EXPECT_EQ(snapshot->error(), "");
}

TEST(LonghornSnapshotTest, TakesWrongTypesForMissing) {
  const auto snapshot = Snapshot::Of(
      {{"spec", {{"createSnapshot", "true"}, {"labels", 7}}},
       {"status",
        {{"creationTime", 7}, {"children", {"volume-head"}}, {"size", "4096"}, {"error", {1}}}}});
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_FALSE(snapshot->is_to_be_taken());
  EXPECT_THAT(snapshot->engine_labels(), IsEmpty());
  EXPECT_EQ(snapshot->taken_at(), std::nullopt);
  EXPECT_THAT(snapshot->children(), IsEmpty());
  EXPECT_EQ(snapshot->size_bytes(), 0);
  EXPECT_EQ(snapshot->error(), "");
}

TEST(LonghornSnapshotTest, AnotherKindIsRefused) {
  EXPECT_THAT(Snapshot::Of({{"kind", "VolumeSnapshot"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found VolumeSnapshot")));
  EXPECT_THAT(Volume::Of(SnapshotObject()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wanted a Volume")));
  EXPECT_THAT(Snapshot::Of(Json("text")), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(LonghornVolumeTest, NamesItsFieldsAndKeepsTheRest) {
  const Json object = {
      {"kind", "Volume"},
      {"metadata", {{"name", "pvc-1"}}},
      {"spec", {{"size", "10737418240"}, {"snapshotMaxCount", 250}, {"Standby", true}}},
      {"status",
       {{"state", "attached"},
        {"robustness", "degraded"},
        {"currentNodeID", "node-1"},
        {"restoreRequired", true},
        {"cloneStatus", {{"state", "initiated"}}},
        {"kubernetesStatus", {{"namespace", "shop"}, {"pvcName", "orders"}}},
        {"futureField", 1}}}};
  const auto volume = Volume::Of(object);
  ASSERT_THAT(volume, IsOk());
  EXPECT_EQ(volume->size_bytes(), int64_t{10} << 30);
  EXPECT_EQ(volume->snapshot_count_max(), 250);
  EXPECT_TRUE(volume->is_standby());
  EXPECT_EQ(volume->state(), "attached");
  EXPECT_EQ(volume->robustness(), "degraded");
  EXPECT_TRUE(volume->is_being_restored());
  EXPECT_EQ(volume->clone_state(), "initiated");
  EXPECT_EQ(volume->pvc_namespace(), "shop");
  EXPECT_EQ(volume->pvc_name(), "orders");
  EXPECT_FALSE(volume->is_migrating());
  EXPECT_EQ(volume->cloned_from(), "");
  EXPECT_EQ(volume->linked_to(), "");
  EXPECT_EQ(volume->json(), object);
}

TEST(LonghornVolumeTest, IsMigratingFromTheRequestToTheEnd) {
  EXPECT_TRUE(Volume::Of({{"spec", {{"migrationNodeID", "node-2"}}}})->is_migrating());
  EXPECT_TRUE(Volume::Of({{"status", {{"currentMigrationNodeID", "node-2"}}}})->is_migrating());
}

TEST(LonghornRecurringJobTest, NamesItsGroups) {
  const auto job = RecurringJob::Of({{"spec", {{"groups", {"default", 7, "often"}}}}});
  ASSERT_THAT(job, IsOk());
  EXPECT_THAT(job->groups(), ElementsAre("default", "often"));
  EXPECT_THAT(RecurringJob::Of({{"spec", {{"groups", "default"}}}})->groups(), IsEmpty());
}

TEST(LonghornBackupTest, NamesItsFields) {
  const auto backup = Backup::Of({{"spec", {{"snapshotName", "one"}}},
                                  {"status",
                                   {{"state", "Completed"},
                                    {"snapshotName", "other"},
                                    {"volumeName", "pvc-1"},
                                    {"backupTargetName", "default"},
                                    {"snapshotCreatedAt", "2023-11-14T22:13:20Z"}}}});
  ASSERT_THAT(backup, IsOk());
  EXPECT_EQ(backup->snapshot(), "one");
  EXPECT_EQ(backup->volume(), "pvc-1");
  EXPECT_EQ(backup->target(), "default");
  EXPECT_TRUE(backup->is_completed());
  EXPECT_TRUE(backup->is_over());
  EXPECT_EQ(backup->snapshot_taken_at(), absl::FromUnixSeconds(1'700'000'000));
  const auto found = Backup::Of({{"status", {{"snapshotName", "other"}}}});
  EXPECT_EQ(found->snapshot(), "other") << "one that was found on the target";
  EXPECT_FALSE(found->is_over());
}

TEST(LonghornVolumeTest, ASizeThatIsNoNumberIsNotKnown) {
  for (const Json& size : {Json("10Gi"), Json(""), Json("0"), Json("-1"), Json(1024), Json()}) {
    EXPECT_EQ(Volume::Of({{"spec", {{"size", size}}}})->size_bytes(), std::nullopt) << size;
  }
  EXPECT_EQ(Volume::Of(Json::object())->snapshot_count_max(), std::nullopt);
}

TEST(LonghornTypesTest, AreNamedAsTheApiServerNamesThem) {
  EXPECT_EQ(k8s::ToString(Snapshot::Type()), "snapshots.longhorn.io");
  EXPECT_EQ(k8s::ToString(Volume::Type()), "volumes.longhorn.io");
  EXPECT_EQ(Snapshot::Type().version, "v1beta2");
  EXPECT_TRUE(Snapshot::Type().namespaced);
}

}  // namespace
}  // namespace csidelta::longhorn::types_test
