#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/expose/data_transfer.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/velero_119_objects.h"
#include "velero/data_reference.h"

namespace csidelta::restoreitemactions::moved_claim_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A claim that our data mover took in a backup whose policy says so, and its restore elsewhere.
class MovedClaimTest : public testing::Test {
 protected:
  MovedClaimTest() {
    claim_ = support::MakeObject(
        "v1", "PersistentVolumeClaim", "shop", "data",
        {{objects::kVolumeSnapshotNameLabel, "snap"}, {objects::kBackupNameLabel, "nightly"}},
        {{objects::kDataUploadNameAnnotation, "velero/nightly-1"}});
    SetJson(claim_, {"metadata", "uid"}, "claim-uid");
    SetJson(claim_, {"spec"}, Json{{"storageClassName", "fast"}, {"volumeName", "pv-1"}});
    SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
    SetBackup(false);
    SeedResult("result", {{"backupStorageLocation", "bucket"},
                          {"datamover", "csi-delta"},
                          {"snapshotID", "csi-delta/1/x"},
                          {"sourceNamespace", "shop"},
                          {"snapshotSize", 64},
                          {"dataMoverResult", {{"a", "b"}}}});
  }

  void SetBackup(bool moves_data) {
    Json backup = support::MakeBackupObject("nightly", "Completed");
    SetJson(backup, {"spec", "snapshotMoveData"}, moves_data);
    bed_.api.Seed(BackupType(), backup);
  }

  // What Velero's action on DataUploads leaves for the claim's.
  void SeedResult(const std::string& name, const Json& content) {
    Json result = support::MakeObject("v1", "ConfigMap", "velero", name,
                                      {{objects::kPvcNamespaceNameLabel, "shop.data"},
                                       {objects::kRestoreUidLabel, "restore-uid"},
                                       {objects::kResourceUsageLabel, "DataUpload"}});
    SetJson(result, {"data", "restore-uid"}, content.dump());
    bed_.api.Seed(ConfigMapType(), result);
  }

  absl::StatusOr<velero::RestoreItemResult> Execute(const Json& item) {
    return action_->Execute(bed_.ctx, objects::Object(item), objects::Object(claim_),
                            objects::Object(restore_));
  }
  absl::StatusOr<velero::RestoreItemResult> Execute() { return Execute(claim_); }

  std::vector<Json> Downloads() { return bed_.api.All(DataDownloadType()); }

  support::ActionBed bed_;
  Json claim_;
  Json restore_ = support::MakeRestoreObject("r1", "nightly");
  std::unique_ptr<velero::RestoreItemAction> action_ = MakePvcAction(bed_.env);
};

TEST_F(MovedClaimTest, AsksTheMoverAsVelerosOwnActionDoes) {
  ASSERT_THAT(Execute(), IsOk());
  ASSERT_THAT(Downloads(), SizeIs(1));
  const Json download = Downloads()[0];
  EXPECT_EQ(*FindJson(download, {"spec"}),
            (Json{{"targetVolume", {{"pvc", "data"}, {"namespace", "shop-2"}, {"pv", ""}}},
                  {"backupStorageLocation", "bucket"},
                  {"datamover", "csi-delta"},
                  {"snapshotID", "csi-delta/1/x"},
                  {"sourceNamespace", "shop"},
                  {"snapshotSize", 64},
                  {"operationTimeout", "10m"}}));
  EXPECT_EQ(k8s::Namespace(download), "velero");
  EXPECT_EQ(k8s::Label(download, objects::kRestoreNameLabel), "r1");
  EXPECT_EQ(k8s::Label(download, objects::kRestoreUidLabel), "restore-uid");
  EXPECT_EQ(k8s::Label(download, objects::kExcludeFromBackupLabel), "true");
  EXPECT_EQ(GetString(download.at("metadata").at("ownerReferences").at(0), {"kind"}), "Restore");
}

TEST_F(MovedClaimTest, AResultOfVelero119TellsTheMoverTheFileSystem) {
  SeedResult("result", *ParseJson(support::kUploadResultOf119));
  ASSERT_THAT(Execute(), IsOk());
  const Json download = Downloads().at(0);
  const Json& spec = download.at("spec");
  EXPECT_EQ(spec.at("targetVolume"),
            (Json{{"pvc", "data"}, {"namespace", "shop-2"}, {"pv", ""}, {"fsType", "xfs"}}));
  EXPECT_FALSE(spec.contains("fsType")) << "the API server drops it there";
}

TEST_F(MovedClaimTest, TheClaimWaitsForTheMoversVolume) {
  SetJson(claim_, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "old"}});
  const auto result = Execute();
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->item.has_value());
  const Json& spec = result->item->json().at("spec");
  EXPECT_FALSE(spec.contains("volumeName"));
  EXPECT_FALSE(spec.contains("dataSource"));
  EXPECT_THAT(GetString(spec, {"selector", "matchLabels", objects::kDynamicPvRestoreLabel}),
              testing::StartsWith("shop-2.data."));
  EXPECT_EQ(k8s::Annotation(result->item->json(), objects::kDataUploadNameAnnotation), "");
  EXPECT_EQ(result->operation_id, k8s::Label(Downloads()[0], objects::kAsyncOperationIdLabel));
  EXPECT_THAT(result->additional_items, IsEmpty());
}

TEST_F(MovedClaimTest, OnceHoweverOftenItIsAsked) {
  const auto first = Execute();
  const auto second = Execute();
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->item, second->item);
  EXPECT_EQ(first->operation_id, second->operation_id);
  EXPECT_THAT(Downloads(), SizeIs(1));
}

TEST_F(MovedClaimTest, VeleroThatRestoresNothingByItself) {
  SetBackup(true);
  SetJson(claim_, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation}, "snap");
  ASSERT_THAT(Execute(), IsOk());
  EXPECT_THAT(Downloads(), SizeIs(1));
}

TEST_F(MovedClaimTest, WhereVeleroAskedNoOtherActionDoes) {
  SetBackup(true);
  SetJson(claim_, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation}, "snap");
  Json item = claim_;
  SetJson(item, {"spec", "selector", "matchLabels", objects::kDynamicPvRestoreLabel}, "x");
  const auto result = Execute(item);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(Downloads(), IsEmpty());
}

TEST_F(MovedClaimTest, ALocalSnapshotBesideAStaleUploadIsWhatCounts) {
  SetJson(claim_, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation}, "snap");
  const auto result = Execute();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(Downloads(), IsEmpty());
  EXPECT_EQ(GetString(result->item->json(), {"spec", "dataSource", "kind"}), "VolumeSnapshot");
}

TEST_F(MovedClaimTest, AnUploadOfAnEarlierLifeDoesNotCount) {
  SetJson(claim_, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
  const auto result = Execute();
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_THAT(Downloads(), IsEmpty());
}

TEST_F(MovedClaimTest, DataOfUnknownOriginFailThePvc) {
  bed_.api.Remove({ConfigMapType(), "velero", "result"});
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kNotFound,
                                  AllOf(HasSubstr("shop/data"), HasSubstr("velero/nightly-1"))));
}

TEST_F(MovedClaimTest, TwoResultsFailTheClaim) {
  SeedResult("another", Json::object());
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("several")));
}

TEST_F(MovedClaimTest, AnUploadThatBroughtNothingFailsTheClaim) {
  SeedResult("result", {{"datamover", "csi-delta"}, {"backupStorageLocation", "bucket"}});
  EXPECT_THAT(Execute(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("brought no data")));
  EXPECT_THAT(Downloads(), IsEmpty());
}

TEST_F(MovedClaimTest, AResultThatIsNoneFailsTheClaim) {
  Json broken = bed_.api.All(ConfigMapType()).front();
  SetJson(broken, {"data", "restore-uid"}, "{");
  bed_.api.Seed(ConfigMapType(), broken);
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(MovedClaimTest, WithoutVolumesOnRequest) {
  SetJson(restore_, {"spec", "restorePVs"}, false);
  ASSERT_THAT(Execute(), IsOk());
  EXPECT_THAT(Downloads(), IsEmpty());
}

// The PVC of the target exists, with a volume.
class ExistingMovedClaimTest : public MovedClaimTest {
 protected:
  ExistingMovedClaimTest() {
    bed_.api.Seed(objects::Restore::Type(), restore_);
    Json existing = support::MakeObject("v1", "PersistentVolumeClaim", "shop-2", "data");
    SetJson(existing, {"spec", "volumeName"}, "pv-new");
    bed_.api.Seed(PersistentVolumeClaimType(), existing);
    SeedMoved(kReference);
  }
  void SeedMoved(const std::string& reference, const std::string& location = "bucket") {
    SeedResult("result", {{"backupStorageLocation", location},
                          {"datamover", "csi-delta"},
                          {"snapshotID", reference}});
  }
  // In the cluster that made the backup.
  void SeedUpload(const std::string& name, const std::string& reference) {
    Json upload = support::MakeObject("velero.io/v2alpha1", "DataUpload", "velero", name,
                                      {{objects::kPvcUidLabel, "claim-uid"}});
    SetJson(upload, {"status", "snapshotID"}, reference);
    bed_.api.Seed(DataUploadType(), upload);
  }
  // As the record on the Restore has it.
  std::string Command() {
    EXPECT_THAT(Execute(), IsOk());
    EXPECT_THAT(Downloads(), IsEmpty());
    const auto all =
        objects::Restore::Of(*bed_.api.Find({objects::Restore::Type(), "velero", "r1"}))
            ->pvcs_without_data();
    EXPECT_THAT(all, SizeIs(1));
    return all.empty() ? "" : all[0].command;
  }

  const std::string kReference =
      velero::FormatDataReference({.cluster = "c2000000-0000-4000-8000-000000000002",
                                   .namespace_name = "shop",
                                   .claim_uid = "c1a10000-0000-4000-8000-00000000000a",
                                   .snapshot_id = std::string(64, 'a'),
                                   .key = std::string(16, 'b')});
  const std::string kByReference = absl::StrCat("csi-delta restore --upload ", kReference,
                                                " --location bucket --into shop-2/data --yes");
};

TEST_F(ExistingMovedClaimTest, ItsDataComesByTheDataUpload) {
  SeedUpload("nightly-1", kReference);
  EXPECT_EQ(Command(), "csi-delta restore --upload nightly-1 --into shop-2/data --yes");
  EXPECT_THAT(support::EventTexts(bed_.api),
              testing::Each(testing::HasSubstr(
                  "next: with restore.intoExistingVolumes switched on in the mover's settings, and "
                  "without a Pod that uses the PVC: csi-delta restore --upload nightly-1 ")));
}

TEST_F(ExistingMovedClaimTest, InANewClusterItsDataComesByWhatTheArchiveSays) {
  EXPECT_EQ(Command(), kByReference);
}

// The archived PVC is its namespace's text: no command names another's data.
TEST_F(ExistingMovedClaimTest, AnUploadThatIsNotItsOwnIsNotNamed) {
  SeedUpload("other", absl::StrCat(kReference.substr(0, kReference.size() - 1), "c"));
  SetJson(claim_, {"metadata", "annotations", objects::kDataUploadNameAnnotation}, "velero/other");
  EXPECT_EQ(Command(), kByReference);
}

TEST_F(ExistingMovedClaimTest, DataOfUnknownOriginComesBesideIt) {
  const std::string beside =
      "velero restore create --from-backup nightly --include-namespaces shop --namespace-mappings "
      "shop:shop-2-restored";
  SeedMoved("a1b2");  // By another data mover.
  EXPECT_EQ(Command(), beside);
  SeedMoved(kReference, "bucket; rm -rf /");
  EXPECT_EQ(Command(), beside) << "no word of the bucket's gets to a shell";
  bed_.api.Remove({ConfigMapType(), "velero", "result"});
  EXPECT_EQ(Command(), beside);
  bed_.api.Remove({BackupType(), "velero", "nightly"});
  EXPECT_EQ(Command(), beside);
}

TEST_F(MovedClaimTest, ProgressAndCancelAreTheDownloads) {
  const auto result = Execute();
  ASSERT_THAT(result, IsOk());
  bed_.api.SetField({DataDownloadType(), "velero", k8s::Name(Downloads()[0])}, {"status"},
                    Json{{"phase", "Failed"}, {"message", "no such key"}});
  const auto progress =
      action_->Progress(bed_.ctx, result->operation_id, objects::Object(restore_));
  ASSERT_THAT(progress, IsOk());
  EXPECT_TRUE(progress->completed);
  EXPECT_THAT(progress->error, HasSubstr("no such key"));

  bed_.api.SetField({DataDownloadType(), "velero", k8s::Name(Downloads()[0])}, {"status", "phase"},
                    "InProgress");
  ASSERT_THAT(action_->Cancel(bed_.ctx, result->operation_id, objects::Object(restore_)), IsOk());
  EXPECT_EQ(*FindJson(Downloads()[0], {"spec", "cancel"}), true);
}

}  // namespace
}  // namespace csidelta::restoreitemactions::moved_claim_test
