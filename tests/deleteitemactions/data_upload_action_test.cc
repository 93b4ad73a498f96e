#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::deleteitemactions::data_upload_action_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
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

// Two Veleros whose schedules have one name: what one of them archived of the other stays.
TEST_F(DataUploadActionTest, AnotherVelerosUploadsAreLeftAlone) {
  SetJson(upload_, {"metadata", "namespace"}, "velero-a");
  SetJson(upload_, {"metadata", "ownerReferences"},
          Json::array({{{"kind", "Backup"}, {"name", "nightly"}, {"uid", "uid-in-velero-a"}}}));
  ExpectNothingAsked();
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

TEST_F(DataUploadActionTest, WithoutOurMoverTheErrorSaysWhatStays) {
  bed_.api.RemoveType("datadeletions");
  EXPECT_THAT(Delete(), StatusIs(absl::StatusCode::kNotFound,
                                 AllOf(HasSubstr(kSnapshotId), HasSubstr("stays in the bucket"))));
}

TEST_F(DataUploadActionTest, AppliesToDataUploadsAlone) {
  EXPECT_THAT(MakeDataUploadAction(bed_.env)->AppliesTo().included_resources,
              testing::ElementsAre("datauploads.velero.io"));
}

}  // namespace
}  // namespace csidelta::deleteitemactions::data_upload_action_test
