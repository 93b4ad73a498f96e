#include "objects/persistent_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/storage_class.h"
#include "tests/support/status_matchers.h"

namespace csidelta::objects::persistent_volume_claim_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json Claim() {
  return {{"kind", "PersistentVolumeClaim"},
          {"metadata",
           {{"name", "data"},
            {"namespace", "shop"},
            {"labels", {{"app", "db"}}},
            {"annotations", {{"volume.kubernetes.io/selected-node", "node-1"}}},
            {"managedFields",
             Json::array(
                 {{{"time", "2023-11-14T22:13:20Z"}, {"fieldsV1", {{"f:spec", Json::object()}}}},
                  {{"time", "2023-11-14T22:13:25Z"},
                   {"fieldsV1", {{"f:status", {{"f:phase", Json::object()}}}}}}})}}},
          {"spec",
           {{"storageClassName", "fast"},
            {"volumeMode", "Block"},
            {"volumeName", "pv-1"},
            {"accessModes", {"ReadWriteOnce", 7, "ReadOnlyMany"}},
            {"resources", {{"requests", {{"storage", "1Gi"}}}}},
            {"dataSource", {{"kind", "VolumeSnapshot"}, {"name", "monday"}}},
            {"futureField", 9007199254740993}}},
          {"status", {{"phase", "Bound"}, {"capacity", {{"storage", "2Gi"}}}}}};
}

TEST(PersistentVolumeClaimTest, NamesItsFieldsAndKeepsTheRest) {
  const absl::StatusOr<PersistentVolumeClaim> pvc = PersistentVolumeClaim::Of(Claim());
  ASSERT_THAT(pvc, IsOk());
  EXPECT_EQ(pvc->labels().at("app"), "db");
  EXPECT_EQ(pvc->storage_class(), "fast");
  EXPECT_EQ(pvc->mode(), VolumeMode::kBlock);
  EXPECT_THAT(pvc->access_modes(), ElementsAre("ReadWriteOnce", "ReadOnlyMany"));
  EXPECT_EQ(pvc->requested_bytes(), int64_t{1} << 30);
  EXPECT_EQ(pvc->source_snapshot(), "monday");
  EXPECT_EQ(pvc->volume_name(), "pv-1");
  EXPECT_EQ(pvc->selected_node(), "node-1");
  EXPECT_TRUE(pvc->is_bound());
  EXPECT_EQ(pvc->bound_at(), absl::FromUnixSeconds(1'700'000'005));
  EXPECT_EQ(pvc->capacity_bytes(), int64_t{2} << 30);
  EXPECT_EQ(pvc->json(), Claim());
}

TEST(PersistentVolumeClaimTest, AsksForAtLeastWhatItIsTold) {
  PersistentVolumeClaim pvc = *PersistentVolumeClaim::Of(Claim());
  pvc.RaiseRequestedBytes(64 << 20);
  EXPECT_EQ(pvc.json(), Claim()) << "byte for byte";
  pvc.RaiseRequestedBytes(int64_t{3} << 30);
  EXPECT_EQ(GetString(pvc.json(), {"spec", "resources", "requests", "storage"}), "3Gi");
  PersistentVolumeClaim empty;
  empty.RaiseRequestedBytes(64 << 20);
  EXPECT_EQ(empty.requested_bytes(), 64 << 20);
}

TEST(PersistentVolumeClaimTest, TakesWrongTypesForMissing) {
  const absl::StatusOr<PersistentVolumeClaim> pvc = PersistentVolumeClaim::Of(
      {{"metadata", {{"managedFields", "x"}}},
       {"spec",
        {{"storageClassName", 7},
         {"volumeMode", "Odd"},
         {"accessModes", "ReadWriteOnce"},
         {"resources", {{"requests", {{"storage", "much"}}}}}}},
       {"status", {{"phase", "Bound"}, {"capacity", {{"storage", "-1Gi"}}}}}});
  ASSERT_THAT(pvc, IsOk());
  EXPECT_EQ(pvc->storage_class(), std::nullopt);
  EXPECT_EQ(pvc->mode(), VolumeMode::kFilesystem);
  EXPECT_THAT(pvc->access_modes(), IsEmpty());
  EXPECT_EQ(pvc->requested_bytes(), std::nullopt);
  EXPECT_EQ(pvc->capacity_bytes(), std::nullopt);
  EXPECT_FALSE(pvc->is_bound());  // It has no volume.
  EXPECT_EQ(pvc->bound_at(), std::nullopt);
  EXPECT_THAT(PersistentVolumeClaim::Of({{"kind", "Pod"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Pod")));
}

TEST(PersistentVolumeClaimTest, ASourceOfAnotherNamespaceIsNotOneOfItsOwn) {
  Json claim = Claim();
  claim["spec"].erase("dataSource");
  claim["spec"]["dataSourceRef"] = {
      {"kind", "VolumeSnapshot"}, {"name", "monday"}, {"namespace", "team"}};
  EXPECT_EQ(PersistentVolumeClaim::Of(claim)->source_snapshot(), "");
  claim["spec"]["dataSourceRef"]["namespace"] = "shop";
  EXPECT_EQ(PersistentVolumeClaim::Of(claim)->source_snapshot(), "monday");
  claim["spec"]["dataSourceRef"]["kind"] = "PersistentVolumeClaim";
  EXPECT_EQ(PersistentVolumeClaim::Of(claim)->source_snapshot(), "");
}

TEST(PersistentVolumeClaimTest, WhatItIsFilledFromCanBeChanged) {
  auto pvc = PersistentVolumeClaim::Of(
      {{"spec", {{"volumeName", ""}, {"dataSource", {{"name", "x"}}}, {"selector", nullptr}}}});
  EXPECT_FALSE(pvc->RemoveVolumeName());
  EXPECT_FALSE(pvc->RemoveSelector());
  EXPECT_FALSE(pvc->RemoveDataSourceRef());
  EXPECT_TRUE(pvc->RemoveDataSource());
  EXPECT_FALSE(pvc->RemoveDataSource());
  EXPECT_EQ(pvc->json(), (Json{{"spec", {{"volumeName", ""}, {"selector", nullptr}}}}))
      << "what is as good as none stays";
  pvc->SetSelectedLabel("a", "b");
  EXPECT_THAT(pvc->selected_labels(), ElementsAre(testing::Pair("a", "b")));
  EXPECT_TRUE(pvc->RemoveSelector());
}

TEST(PersistentVolumeClaimTest, AnAttributesClassMayBeMissing) {
  PersistentVolumeClaim pvc = PersistentVolumeClaim::Make("shop", "data");
  EXPECT_EQ(pvc.attributes_class(), std::nullopt);
  pvc.SetAttributesClass("gold");
  EXPECT_EQ(pvc.attributes_class(), "gold");
}

TEST(StorageClassTest, NamesItsFields) {
  Json object = {{"metadata", {{"name", "fast"}}},
                 {"provisioner", "d.example.com"},
                 {"volumeBindingMode", "WaitForFirstConsumer"}};
  EXPECT_EQ(StorageClass::Of(object)->provisioner(), "d.example.com");
  EXPECT_TRUE(StorageClass::Of(object)->waits_for_first_consumer());
  EXPECT_FALSE(StorageClass::Of(object)->is_default());
  for (const char* key : {"storageclass.kubernetes.io/is-default-class",
                          "storageclass.beta.kubernetes.io/is-default-class"}) {
    object["metadata"]["annotations"] = {{key, "true"}};
    EXPECT_TRUE(StorageClass::Of(object)->is_default()) << key;
    object["metadata"]["annotations"] = {{key, "false"}};
    EXPECT_FALSE(StorageClass::Of(object)->is_default()) << key;
  }
  EXPECT_THAT(StorageClass::Of({{"kind", "Pod"}}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(VolumeModeTest, IsReadAsItIsWritten) {
  EXPECT_EQ(ParseVolumeMode("Block"), VolumeMode::kBlock);
  EXPECT_EQ(ParseVolumeMode("Filesystem"), VolumeMode::kFilesystem);
  EXPECT_EQ(ParseVolumeMode("block"), std::nullopt);
  EXPECT_EQ(ParseVolumeMode(""), std::nullopt);
  EXPECT_EQ(ToString(VolumeMode::kBlock), "Block");
}

}  // namespace
}  // namespace csidelta::objects::persistent_volume_claim_test
