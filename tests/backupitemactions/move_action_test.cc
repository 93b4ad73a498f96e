#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "csi/expose/data_transfer.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/backupitemactions/action_fixture.h"
#include "tests/support/action_log.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "velero/labels.h"

namespace csidelta::backupitemactions::move_action_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A backup whose policy gives every CSI volume to our data mover.
class MoveActionTest : public ActionTest {
 protected:
  MoveActionTest() {
    SetPolicy("{csi-delta: move}");
    SetJson(backup_, {"spec", "storageLocation"}, "bucket");
  }

  absl::StatusOr<velero::BackupItemResult> Execute() { return RunAction(*action_, claim_); }
  velero::BackupItemResult Run() { return Succeed(*action_, claim_); }

  // As Velero makes it of the PVC.
  void SeedUploadOf(const std::string& mover) {
    const std::string operation = csi::UploadOperationId("backup-uid", k8s::Uid(claim_));
    api_.Seed(DataUploadType(), {{"metadata",
                                  {{"name", "nightly-x7k2p"},
                                   {"namespace", "velero"},
                                   {"labels", {{objects::kAsyncOperationIdLabel, operation}}}}},
                                 {"spec", {{"datamover", mover}}}});
  }

  std::vector<Json> Uploads() const { return api_.All(DataUploadType()); }

  Json Upload() const {
    EXPECT_THAT(Uploads(), SizeIs(1));
    return Uploads().empty() ? Json() : Uploads().front();
  }

  std::unique_ptr<velero::BackupItemAction> action_ = MakePvcAction(env_);
};

TEST_F(MoveActionTest, AsksTheMoverAsVelerosOwnActionDoes) {
  ASSERT_THAT(Execute(), IsOk());
  const Json upload = Upload();
  const std::string snapshot = k8s::Name(api_.All(VolumeSnapshotType()).front());
  EXPECT_EQ(*FindJson(upload, {"spec"}), (Json{{"snapshotType", "CSI"},
                                               {"csiSnapshot",
                                                {{"volumeSnapshot", snapshot},
                                                 {"storageClass", "std"},
                                                 {"snapshotClass", "fast"},
                                                 {"driver", "d.example.com"}}},
                                               {"sourcePVC", "data"},
                                               {"sourceNamespace", "app"},
                                               {"datamover", "csi-delta"},
                                               {"backupStorageLocation", "bucket"},
                                               {"operationTimeout", "10m"}}));
  EXPECT_EQ(k8s::Namespace(upload), "velero");
  EXPECT_EQ(k8s::Label(upload, objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(k8s::Label(upload, objects::kBackupUidLabel), "backup-uid");
  EXPECT_EQ(k8s::Label(upload, objects::kPvcUidLabel), k8s::Uid(claim_));
  EXPECT_EQ(*FindJson(upload, {"metadata", "ownerReferences"}),
            (Json::array({{{"apiVersion", "velero.io/v1"},
                           {"kind", "Backup"},
                           {"name", "nightly"},
                           {"uid", "backup-uid"},
                           {"controller", true}}})));
}

// As Velero 1.19 writes it, which tells the file system to the restore.
TEST_F(MoveActionTest, ABackupOfTypeFullAsksForOneAndTheFileSystemIsHandedOn) {
  SetJson(backup_, {"spec", "backupType"}, "Full");
  api_.SetField({PersistentVolumeType(), "", "pv-data"}, {"spec", "csi", "fsType"}, "xfs");
  ASSERT_THAT(Execute(), IsOk());
  EXPECT_EQ(GetString(Upload(), {"spec", "parentSnapshot"}), "none");
  EXPECT_EQ(GetString(Upload(), {"spec", "sourceFSType"}), "xfs");
}

TEST_F(MoveActionTest, AClassByWhichLonghornWouldUploadTheDataItselfIsRefused) {
  api_.SetField({PersistentVolumeType(), "", "pv-data"}, {"spec", "csi", "driver"},
                "driver.longhorn.io");
  Json of_longhorn = support::MakeClassObject("backups", "driver.longhorn.io");
  api_.Seed(VolumeSnapshotClassType(), of_longhorn);
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("app/data"), HasSubstr("backups"),
                                        HasSubstr("uploaded twice"), HasSubstr("type: snap"))));
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  SetJson(of_longhorn, {"parameters", "type"}, "snap");
  api_.Seed(VolumeSnapshotClassType(), of_longhorn);
  action_ = MakePvcAction(env_);  // Each holds the classes of its backup.
  EXPECT_THAT(Execute(), IsOk());
}

TEST_F(MoveActionTest, TheArchivedClaimNamesItsUploadAndTheOperationWaitsForIt) {
  const velero::BackupItemResult result = Run();
  const Json upload = Upload();
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(result.item->Annotation(objects::kDataUploadNameAnnotation),
            absl::StrCat("velero/", k8s::Name(upload)));
  EXPECT_EQ(result.item->Label(objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "64Mi");
  EXPECT_THAT(result.additional_items, IsEmpty()) << "the mover owns the VolumeSnapshot";
  EXPECT_EQ(result.operation_id, k8s::Label(upload, objects::kAsyncOperationIdLabel));
  EXPECT_LE(result.operation_id.size(), velero::kLabelValueBytesMax);
  EXPECT_THAT(result.post_operation_items,
              ElementsAre(velero::ResourceIdentifier{"velero.io", "datauploads", "velero",
                                                     k8s::Name(upload)}));
}

// Velero's own action restores the first, and would fail on the second.
TEST_F(MoveActionTest, NamesAVolumeSnapshotOnlyWhereTheBackupMovesData) {
  SetJson(claim_, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation}, "stale");
  auto result = Execute();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->item->Annotation(objects::kVolumeSnapshotNameAnnotation), "");

  SetJson(backup_, {"spec", "snapshotMoveData"}, true);
  result = Execute();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->item->Annotation(objects::kVolumeSnapshotNameAnnotation),
            GetString(Upload(), {"spec", "csiSnapshot", "volumeSnapshot"}));
}

TEST_F(MoveActionTest, ASecondCallFindsWhatTheFirstDid) {
  const velero::BackupItemResult first = Run();
  // The mover took the VolumeSnapshot over.
  api_.Remove({VolumeSnapshotType(), "app",
               GetString(Upload(), {"spec", "csiSnapshot", "volumeSnapshot"})});
  const velero::BackupItemResult second = Run();
  EXPECT_EQ(second.operation_id, first.operation_id);
  EXPECT_EQ(second.post_operation_items, first.post_operation_items);
  EXPECT_THAT(Uploads(), SizeIs(1));
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
}

TEST_F(MoveActionTest, AnUploadThatVeleroMadeIsLeftAlone) {
  SeedUploadOf("csi-delta");
  const velero::BackupItemResult result = Run();
  EXPECT_FALSE(result.item.has_value());
  EXPECT_EQ(result.operation_id, "");
  EXPECT_THAT(Uploads(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

// From 1.19 on a rule of type snapshot gives the volume to Velero's own data mover.
class OtherMoverTest : public MoveActionTest {
 protected:
  void SetUp() override {
    SetJson(backup_, {"spec", "snapshotMoveData"}, true);
    SetJson(backup_, {"spec", "datamover"}, "csi-delta");
  }

  // As Velero's own action does, which comes first and marks the claim.
  void MoveBy(const std::string& mover) {
    SeedUploadOf(mover);
    SetJson(claim_, {"metadata", "labels", objects::kVolumeSnapshotNameLabel}, "velero-data-1");
    SetJson(claim_, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
  }

  support::ActionLog log_;
};

TEST_F(OtherMoverTest, ARuleOfTypeSnapshotThatTakesAVolumeFromTheMoverIsWarnedOf) {
  SetPolicy("{}", "snapshot");
  MoveBy("velero-fs");
  EXPECT_THAT(Execute(), IsOk());
  EXPECT_THAT(log_.warnings(),
              ElementsAre(AllOf(HasSubstr("\"pvc\":\"data\""), HasSubstr("velero-fs"),
                                HasSubstr("csi-delta: move"))));
}

TEST_F(OtherMoverTest, AnUploadOfAnotherMoverInSpiteOfItsRuleIsWarnedOf) {
  MoveBy("velero-fs");
  EraseJson(claim_, {"metadata", "labels"});
  EXPECT_THAT(Execute(), IsOk());
  EXPECT_THAT(log_.warnings(), testing::Contains(HasSubstr("velero-fs")));
}

TEST_F(OtherMoverTest, WhatTheMoverGetsIsNoWarning) {
  SetPolicy("{}", "snapshot");
  MoveBy("csi-delta");
  EXPECT_THAT(Execute(), IsOk());
  EXPECT_THAT(log_.warnings(), IsEmpty());
}

TEST_F(OtherMoverTest, WithoutSuchARuleNothingIsAsked) {
  MoveBy("velero-fs");
  EXPECT_THAT(Execute(), IsOk());
  EXPECT_EQ(api_.CallCount("list", "datauploads"), 0);
}

TEST_F(MoveActionTest, WithoutAnUploadTheSnapshotGoesAndTheClaimFails) {
  api_.FailNext("create", "datauploads", absl::PermissionDeniedError("no"));
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("app/data")));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_THAT(Uploads(), IsEmpty());
}

TEST_F(MoveActionTest, AnAnswerThatIsLostIsAskedForAgain) {
  api_.FailNext("create", "datauploads", absl::UnavailableError("reset"), 1, Fault::kAnswerLost);
  const velero::BackupItemResult result = Run();
  EXPECT_EQ(k8s::Name(Upload()), result.post_operation_items.at(0).name);
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

// The mover takes what is never marked for data that no archive names.
TEST_F(MoveActionTest, AnUploadIsMarkedWhenItEntersTheArchive) {
  ASSERT_THAT(Execute(), IsOk());
  const objects::Object upload(Upload());
  const auto mark = [](const objects::Object& item) {
    return item.Annotation("velero.io/csi-delta-archived");
  };
  EXPECT_EQ(mark(upload), "awaited");
  const auto archive = MakeDataUploadAction(env_);
  auto archived = archive->Execute(ctx_, upload, objects::Object(backup_));
  ASSERT_THAT(archived, IsOk());
  EXPECT_FALSE(archived->item.has_value()) << "only what is archived at the end counts";
  Finalizing();
  objects::Object of_another = upload;
  of_another.SetLabel("velero.io/backup-name", "other");
  EXPECT_FALSE(archive->Execute(ctx_, of_another, objects::Object(backup_))->item.has_value());
  EXPECT_EQ(mark(objects::Object(Upload())), "awaited");
  api_.Forbid("patch", "datauploads");
  EXPECT_FALSE(archive->Execute(ctx_, upload, objects::Object(backup_)).ok())
      << "then it is not archived";
  api_.ClearFaults();
  archived = archive->Execute(ctx_, upload, objects::Object(backup_));
  ASSERT_THAT(archived, IsOk());
  EXPECT_EQ(mark(archived->item.value_or(upload)), "true");
  EXPECT_EQ(mark(objects::Object(Upload())), "true");
}

TEST_F(MoveActionTest, HandsOffWhileFinalizing) {
  Finalizing();
  ASSERT_THAT(Execute(), IsOk());
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(MoveActionTest, ProgressAndCancelAreTheUploads) {
  const velero::BackupItemResult result = Run();
  api_.SetField({DataUploadType(), "velero", k8s::Name(Upload())}, {"status"},
                Json{{"phase", "InProgress"},
                     {"startTimestamp", "2026-01-02T03:04:05Z"},
                     {"progress", {{"bytesDone", 5}, {"totalBytes", 9}}}});
  const auto progress = AskProgress(*action_, result.operation_id);
  ASSERT_THAT(progress, IsOk());
  EXPECT_FALSE(progress->completed);
  EXPECT_EQ(progress->completed_units, 5);
  EXPECT_EQ(progress->total_units, 9);
  EXPECT_EQ(progress->units, "Bytes");

  ASSERT_THAT(RunCancel(*action_, result.operation_id), IsOk());
  EXPECT_EQ(*FindJson(Upload(), {"spec", "cancel"}), true);
}

}  // namespace
}  // namespace csidelta::backupitemactions::move_action_test
