#include "objects/volume_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::objects::volume_snapshot_test {
namespace {

using support::IsOk;

Json Snapshot() {
  return {{"kind", "VolumeSnapshot"},
          {"metadata",
           {{"name", "orders"},
            {"namespace", "shop"},
            {"uid", "u-1"},
            {"managedFields",
             Json::array({{{"time", "2023-11-14T22:13:25Z"},
                           {"fieldsV1", {{"f:status", {{"f:readyToUse", Json::object()}}}}}}})}}},
          {"spec",
           {{"source", {{"persistentVolumeClaimName", "data"}}},
            {"volumeSnapshotClassName", "fast"},
            {"futureField", 9007199254740993}}},
          {"status",
           {{"boundVolumeSnapshotContentName", "snapcontent-1"},
            {"readyToUse", true},
            {"creationTime", "2023-11-14T22:13:20Z"},
            {"restoreSize", "1Gi"},
            {"volumeGroupSnapshotName", "group"},
            {"error", {{"message", "busy"}, {"time", "2023-11-14T22:13:22Z"}}}}}};
}

TEST(VolumeSnapshotTest, NamesItsFieldsAndKeepsTheRest) {
  const absl::StatusOr<VolumeSnapshot> snapshot = VolumeSnapshot::Of(Snapshot());
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->name(), "orders");
  EXPECT_EQ(snapshot->namespace_name(), "shop");
  EXPECT_EQ(snapshot->uid(), "u-1");
  EXPECT_EQ(snapshot->source_pvc(), "data");
  EXPECT_EQ(snapshot->source_content(), "");
  EXPECT_EQ(snapshot->class_name(), "fast");
  EXPECT_EQ(snapshot->bound_content(), "snapcontent-1");
  EXPECT_TRUE(snapshot->is_ready());
  EXPECT_EQ(snapshot->taken_at(), absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(snapshot->ready_at(), absl::FromUnixSeconds(1'700'000'005));
  EXPECT_EQ(snapshot->restore_size_bytes(), int64_t{1} << 30);
  EXPECT_EQ(snapshot->group_snapshot(), "group");
  ASSERT_TRUE(snapshot->error().has_value());
  EXPECT_EQ(snapshot->error()->message, "busy");
  EXPECT_EQ(snapshot->error()->time, absl::FromUnixSeconds(1'700'000'002));
  EXPECT_EQ(snapshot->json(), Snapshot());
}

TEST(VolumeSnapshotTest, WithoutItsOtherWritersItStillSaysWhenItWasReady) {
  Json json = Snapshot();
  Json& writers = json["metadata"]["managedFields"];
  const Json other = {{"time", "2023-11-14T22:13:30Z"}, {"fieldsV1", {{"f:spec", Json::object()}}}};
  writers = {other, writers[0], other};
  json["metadata"]["annotations"] = {{"kubectl.kubernetes.io/last-applied-configuration", "{}"},
                                     {"note", "x"}};
  VolumeSnapshot snapshot = VolumeSnapshot::Of(json).value();
  EXPECT_EQ(snapshot.written_at(), absl::FromUnixSeconds(1'700'000'010));
  snapshot.DropWriters();
  json = Snapshot();
  json["metadata"]["annotations"] = {{"note", "x"}};
  EXPECT_EQ(snapshot.json(), json);
  EXPECT_EQ(snapshot.ready_at(), absl::FromUnixSeconds(1'700'000'005));
  EXPECT_EQ(VolumeSnapshot().written_at(), std::nullopt);
  json["status"]["readyToUse"] = false;
  EXPECT_EQ(VolumeSnapshot::Of(json)->ready_at(), std::nullopt);
}

TEST(VolumeSnapshotTest, TakesWrongTypesForMissing) {
  const absl::StatusOr<VolumeSnapshot> snapshot = VolumeSnapshot::Of(
      {{"spec", 7},
       {"status",
        {{"readyToUse", "yes"}, {"restoreSize", "much"}, {"creationTime", 7}, {"error", "x"}}}});
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_FALSE(snapshot->is_ready());
  EXPECT_EQ(snapshot->taken_at(), std::nullopt);
  EXPECT_EQ(snapshot->ready_at(), std::nullopt);
  EXPECT_EQ(snapshot->restore_size_bytes(), std::nullopt);
  EXPECT_FALSE(snapshot->error().has_value());
  const auto silent =
      VolumeSnapshot::Of({{"status", {{"error", Json::object()}, {"restoreSize", "0"}}}});
  EXPECT_EQ(silent->error()->message, "an error without a message");
  EXPECT_EQ(silent->restore_size_bytes(), std::nullopt);
  const auto odd = VolumeSnapshot::Of(
      {{"metadata", {{"managedFields", "odd"}}}, {"status", {{"readyToUse", true}}}});
  EXPECT_EQ(odd->ready_at(), std::nullopt);
}

TEST(VolumeSnapshotContentTest, SaysWhoseModeItIsAndWhetherThatMayChange) {
  Json json = {{"spec",
                {{"sourceVolumeMode", "Block"},
                 {"source", {{"snapshotHandle", "h"}}},
                 {"volumeSnapshotRef", {{"uid", "u-1"}}}}}};
  EXPECT_EQ(VolumeSnapshotContent::Of(json)->source_mode(), VolumeMode::kBlock);
  EXPECT_EQ(VolumeSnapshotContent::Of(json)->source_handle(), "h");
  EXPECT_EQ(VolumeSnapshotContent::Of(json)->snapshot_uid(), "u-1");
  EXPECT_FALSE(VolumeSnapshotContent::Of(json)->allows_mode_change());
  const char* const key = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
  for (const char* value : {"true", "True", "1"}) {
    json["metadata"]["annotations"] = {{key, value}};
    EXPECT_TRUE(VolumeSnapshotContent::Of(json)->allows_mode_change()) << value;
  }
  for (const char* value : {"false", "", "yes"}) {
    json["metadata"]["annotations"] = {{key, value}};
    EXPECT_FALSE(VolumeSnapshotContent::Of(json)->allows_mode_change()) << value;
  }
  EXPECT_EQ(VolumeSnapshotContent::Of(Json::object())->source_mode(), std::nullopt);
}

TEST(VolumeSnapshotTest, OneOfAnExistingContentNamesIt) {
  const auto snapshot =
      VolumeSnapshot::Of({{"spec", {{"source", {{"volumeSnapshotContentName", "existing"}}}}},
                          {"status", {{"restoreSize", "1"}}}});
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->source_content(), "existing");
  EXPECT_EQ(snapshot->source_pvc(), "");
  EXPECT_EQ(snapshot->restore_size_bytes(), 1);
}

TEST(VolumeSnapshotContentTest, ZeroIsASizeAndATimeThatAreNotKnown) {
  const auto unknown =
      VolumeSnapshotContent::Of({{"status", {{"creationTime", 0}, {"restoreSize", 0}}}});
  EXPECT_EQ(unknown->taken_at(), std::nullopt);
  EXPECT_EQ(unknown->restore_size_bytes(), std::nullopt);
  const auto known =
      VolumeSnapshotContent::Of({{"status", {{"creationTime", 1}, {"restoreSize", 1}}}});
  EXPECT_EQ(known->taken_at(), absl::FromUnixNanos(1));
  EXPECT_EQ(known->restore_size_bytes(), 1);
}

TEST(VolumeSnapshotContentTest, NamesItsFields) {
  const auto snapshot = VolumeSnapshot::Of(Snapshot());
  Json json = {
      {"spec",
       {{"driver", "ebs"},
        {"deletionPolicy", "Retain"},
        {"volumeSnapshotClassName", "fast"},
        {"source", {{"snapshotHandle", "h"}}},
        {"volumeSnapshotRef", {{"namespace", "shop"}, {"name", "orders"}, {"uid", "u-1"}}}}},
      {"status",
       {{"snapshotHandle", "h"}, {"creationTime", 1'700'000'000'000'000'001}, {"restoreSize", 7}}}};
  const auto content = VolumeSnapshotContent::Of(json);
  ASSERT_THAT(content, IsOk());
  EXPECT_EQ(content->driver(), "ebs");
  EXPECT_TRUE(content->is_retained());
  EXPECT_EQ(content->class_name(), "fast");
  EXPECT_TRUE(content->is_pre_provisioned());
  EXPECT_EQ(content->handle(), "h");
  EXPECT_EQ(content->taken_at(), absl::FromUnixNanos(1'700'000'000'000'000'001));
  EXPECT_EQ(content->restore_size_bytes(), 7);
  EXPECT_TRUE(content->Names(*snapshot));
  SetJson(json, {"spec", "volumeSnapshotRef", "uid"}, "another");
  EXPECT_FALSE(VolumeSnapshotContent::Of(json)->Names(*snapshot));
  SetJson(json, {"spec", "volumeSnapshotRef", "uid"}, "");
  EXPECT_TRUE(VolumeSnapshotContent::Of(json)->Names(*snapshot));
  SetJson(json, {"spec", "volumeSnapshotRef", "namespace"}, "elsewhere");
  EXPECT_FALSE(VolumeSnapshotContent::Of(json)->Names(*snapshot));
}

TEST(VolumeSnapshotTest, WhatSaysNothingIsNeitherReadyNorSaidToBeUnready) {
  for (const Json& status : {Json::object(), Json{{"readyToUse", true}}}) {
    EXPECT_FALSE(VolumeSnapshot::Of({{"status", status}})->is_said_unready());
  }
  EXPECT_TRUE(VolumeSnapshot::Of({{"status", {{"readyToUse", false}}}})->is_said_unready());
}

TEST(VolumeSnapshotTest, SourcesAreComparedAsAWhole) {
  auto one = VolumeSnapshot::Make("shop", "one");
  auto another = VolumeSnapshot::Make("shop", "another");
  EXPECT_FALSE(one.HasSourceOf(another)) << "none is no source";
  one.SetSourceContent("c");
  another.SetSourceContent("c");
  EXPECT_TRUE(one.HasSourceOf(another));
  another.SetSourcePvc("c");
  EXPECT_FALSE(one.HasSourceOf(another));
}

TEST(VolumeSnapshotContentTest, AnArchivedReferenceKeepsWhatIsNotOfTheOldSnapshot) {
  auto content = VolumeSnapshotContent::Of({{"spec",
                                             {{"volumeSnapshotClassName", "fast"},
                                              {"volumeSnapshotRef",
                                               {{"kind", "VolumeSnapshot"},
                                                {"name", "old"},
                                                {"namespace", "shop"},
                                                {"uid", "u"},
                                                {"resourceVersion", "7"}}}}}});
  content->ReplaceSnapshot("shop-2", "new");
  content->RemoveClassName();
  EXPECT_EQ(content->json(),
            (Json{{"spec",
                   {{"volumeSnapshotRef",
                     {{"kind", "VolumeSnapshot"}, {"name", "new"}, {"namespace", "shop-2"}}}}}}));
}

TEST(VolumeSnapshotTest, AnErrorWithoutAMessageIsStillAnError) {
  const auto message = [](const Json& status) {
    return support::As<VolumeSnapshot>({{"status", status}}).error_message();
  };
  EXPECT_EQ(message({{"error", {{"message", "no space"}}}}), "no space");
  EXPECT_NE(message({{"error", Json::object()}}), "");
  EXPECT_EQ(message({{"error", nullptr}}), "");
  EXPECT_EQ(message(Json::object()), "");
}

}  // namespace
}  // namespace csidelta::objects::volume_snapshot_test
