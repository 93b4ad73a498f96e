#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/deleteitemactions/undeleted_record.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::deleteitemactions::data_upload_action_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kSnapshotId[] = "csi-delta/1/cluster/app/claim/0123/key";

class DataUploadActionTest : public testing::Test {
 protected:
  DataUploadActionTest() {
    upload_ = support::MakeObject(
        "velero.io/v2alpha1", "DataUpload", "velero", "nightly-1",
        {{objects::kBackupNameLabel, "nightly"}, {objects::kAsyncOperationIdLabel, "du-1"}});
    SetJson(upload_, {"metadata", "uid"}, "upload-uid");
    SetJson(upload_, {"spec"}, Json{{"datamover", "csi-delta"}, {"backupStorageLocation", "old"}});
    SetJson(upload_, {"status"}, Json{{"phase", "Completed"}, {"snapshotID", kSnapshotId}});
    backup_ = support::MakeBackupObject("nightly", "Deleting");
    SetJson(backup_, {"spec", "storageLocation"}, "bucket");
  }

  absl::Status Delete() {
    return MakeDataUploadAction(bed_.env)->Execute(bed_.ctx, objects::Object(upload_),
                                                   objects::Object(backup_));
  }

  std::vector<Json> Deletions() { return bed_.api.All(DataDeletionType()); }

  void ExpectNothingAsked() {
    EXPECT_THAT(Delete(), IsOk());
    EXPECT_THAT(Deletions(), IsEmpty());
  }

  support::ActionBed bed_;
  Json upload_;
  Json backup_;
};

TEST_F(DataUploadActionTest, WritesDownWhatIsToBeDeletedThoughTheArchiveAloneKnows) {
  ASSERT_THAT(Delete(), IsOk());
  ASSERT_THAT(Deletions(), SizeIs(1));
  EXPECT_EQ(k8s::Namespace(Deletions()[0]), "velero");
  EXPECT_EQ(*FindJson(Deletions()[0], {"spec"}), (Json{{"backupStorageLocation", "bucket"},
                                                       {"snapshotID", kSnapshotId},
                                                       {"backup", "nightly"}}));
}

TEST_F(DataUploadActionTest, OnceHoweverOftenTheBackupIsDeleted) {
  ASSERT_THAT(Delete(), IsOk());
  ASSERT_THAT(Delete(), IsOk());
  EXPECT_THAT(Deletions(), SizeIs(1));
  SetJson(upload_, {"metadata", "uid"}, "another");
  ASSERT_THAT(Delete(), IsOk());
  EXPECT_THAT(Deletions(), SizeIs(2));
}

TEST_F(DataUploadActionTest, OtherMoversUploadsAreLeftAlone) {
  for (const char* mover : {"", "velero", "csi-delta2"}) {
    SetJson(upload_, {"spec", "datamover"}, mover);
    ExpectNothingAsked();
  }
}

// A backup of Velero's own namespace holds the DataUploads of others.
TEST_F(DataUploadActionTest, OtherBackupsUploadsAreLeftAlone) {
  SetJson(upload_, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
  ExpectNothingAsked();
}

// Two Veleros whose schedules have one name: what one of them archived of the other stays. In a new
// cluster, where Velero has another namespace, nothing but the record tells of it.
TEST_F(DataUploadActionTest, AnotherVelerosUploadsAreLeftAlone) {
  SetJson(upload_, {"metadata", "namespace"}, "velero-a");
  SetJson(upload_, {"metadata", "ownerReferences"},
          Json::array({{{"kind", "Backup"}, {"name", "nightly"}, {"uid", "uid-in-velero-a"}}}));
  ExpectNothingAsked();
  EXPECT_THAT(UndeletedTexts(bed_.api),
              ElementsAre(AllOf(HasSubstr("velero-a/nightly-1"), HasSubstr(kSnapshotId))));
  // The very same Backup, whatever its Velero's namespace is called.
  SetJson(upload_, {"metadata", "ownerReferences"},
          Json::array({{{"kind", "Backup"}, {"name", "nightly"}, {"uid", "backup-uid"}}}));
  ASSERT_THAT(Delete(), IsOk());
  EXPECT_THAT(Deletions(), SizeIs(1));
}

TEST_F(DataUploadActionTest, NothingWasBroughtNothingIsDeleted) {
  SetJson(upload_, {"status", "snapshotID"}, "");
  ExpectNothingAsked();
  SetJson(upload_, {"status"}, Json{{"phase", "Failed"}, {"snapshotID", kSnapshotId}});
  ExpectNothingAsked();
}

TEST_F(DataUploadActionTest, AnUploadThatEndedAfterItsBackupIsFound) {
  bed_.api.Seed(DataUploadType(), upload_);
  SetJson(upload_, {"status"}, Json{{"phase", "InProgress"}});
  ASSERT_THAT(Delete(), IsOk());
  EXPECT_THAT(Deletions(), SizeIs(1));
}

TEST_F(DataUploadActionTest, AnotherUploadOfTheNameSaysNothing) {
  Json other = upload_;
  SetJson(other, {"metadata", "uid"}, "other-uid");
  bed_.api.Seed(DataUploadType(), other);
  SetJson(upload_, {"status"}, Json{{"phase", "InProgress"}});
  ExpectNothingAsked();
}

// Velero 1.19 keeps the backup for ever otherwise: the mover was removed, or is in another cluster.
TEST_F(DataUploadActionTest, WithoutOurMoverTheBackupGoesAndWhatStaysIsRecordedOnce) {
  bed_.api.RemoveType("datadeletions");
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api),
              ElementsAre(AllOf(HasSubstr("backup nightly: "), HasSubstr(kSnapshotId),
                                HasSubstr("location bucket"))));
  SetJson(upload_, {"metadata", "uid"}, "another");
  SetJson(upload_, {"metadata", "name"}, "nightly-2");
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api), SizeIs(2));
}

TEST_F(DataUploadActionTest, ARequestThatTheApiServerRefusesIsRecorded) {
  bed_.api.FailNext("create", "datadeletions", absl::InvalidArgumentError("snapshotID: too long"));
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api), ElementsAre(HasSubstr("snapshotID: too long")));
}

TEST_F(DataUploadActionTest, WhatAnotherTryMayDoIsAnErrorAndNotRecorded) {
  for (const absl::Status& error :
       {absl::UnavailableError("away"), absl::PermissionDeniedError("no role")}) {
    bed_.api.FailNext("create", "datadeletions", error);
    EXPECT_THAT(Delete(), StatusIs(error.code(), HasSubstr(kSnapshotId)));
  }
  EXPECT_THAT(UndeletedTexts(bed_.api), IsEmpty());
}

TEST_F(DataUploadActionTest, ARecordThatMayBeWrittenLaterIsAnErrorAndOneThatMayNotIsNone) {
  bed_.api.RemoveType("datadeletions");
  for (const char* verb : {"get", "create", "patch"}) {
    bed_.api.FailNext(verb, "configmaps", absl::UnavailableError("away"));
    EXPECT_THAT(Delete(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(kSnapshotId))) << verb;
    bed_.api.ClearFaults();
  }
  bed_.api.Forbid("patch", "configmaps");
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api), IsEmpty());
}

// 1 MiB: 1000 entries of 900 bytes.
TEST_F(DataUploadActionTest, TheRecordIsNoLargerThanAConfigMapMayBe) {
  bed_.api.RemoveType("datadeletions");
  Json record = support::MakeObject("v1", "ConfigMap", "velero", objects::kUndeletedConfigMap);
  for (int i = 0; i < 999; ++i) {
    SetJson(record, {"data", std::to_string(i)}, "an entry");
  }
  bed_.api.Seed(ConfigMapType(), record);
  SetJson(upload_, {"status", "snapshotID"}, std::string(2000, 's'));
  for (const char* name : {"nightly-1", "nightly-2"}) {
    SetJson(upload_, {"metadata", "name"}, name);
    EXPECT_THAT(Delete(), IsOk());
  }
  const std::vector<std::string> texts = UndeletedTexts(bed_.api);
  EXPECT_THAT(texts, SizeIs(1000));
  EXPECT_THAT(texts, testing::Contains(SizeIs(900)));
}

TEST_F(DataUploadActionTest, AppliesToDataUploadsAlone) {
  EXPECT_THAT(MakeDataUploadAction(bed_.env)->AppliesTo().included_resources,
              testing::ElementsAre("datauploads.velero.io"));
}

}  // namespace
}  // namespace csidelta::deleteitemactions::data_upload_action_test
