#include "csi/expose/data_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/rfc3339.h"
#include "objects/keys.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "velero/labels.h"

namespace csidelta::csi::data_transfer_test {
namespace {

using objects::DataUpload;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::SizeIs;

class DataTransferTest : public testing::Test {
 protected:
  Json Seed(const std::string& name, const Json& status = Json::object()) {
    Json upload = support::MakeObject("velero.io/v2alpha1", "DataUpload", "velero", name,
                                      {{objects::kAsyncOperationIdLabel, "du-1"}});
    SetJson(upload, {"status"}, status);
    return bed_.api.Seed(DataUpload::Type(), upload);
  }

  velero::OperationProgress Progress() { return transfer_.Progress(bed_.ctx, bed_.env); }

  support::ActionBed bed_;
  const Transfer<DataUpload> transfer_{.namespace_name = "velero", .operation_id = "du-1"};
};

TEST(TransferNameTest, IsStableAndFitsAnObjectName) {
  EXPECT_EQ(TransferName("nightly", "du-1"), TransferName("nightly", "du-1"));
  EXPECT_NE(TransferName("nightly", "du-1"), TransferName("nightly", "du-2"));
  EXPECT_EQ(TransferName(std::string(300, 'b'), "du-1").size(), 253);
}

TEST(TransferNameTest, OperationIdsAreThoseOfVelero) {
  const std::string backup = "11111111-2222-3333-4444-555555555555";
  const std::string claim = "66666666-7777-8888-9999-000000000000";
  EXPECT_EQ(UploadOperationId("b", "c"), "du-b.c");
  EXPECT_EQ(DownloadOperationId("r", "c"), "dd-r.c");
  EXPECT_EQ(UploadOperationId(backup, claim),
            velero::ValidLabelValue("du-" + backup + "." + claim));
  EXPECT_EQ(UploadOperationId(backup, claim).size(), 63);
}

TEST_F(DataTransferTest, NewIsNotStarted) {
  for (const char* phase : {"", "New"}) {
    Seed("upload", {{"phase", phase}, {"message", "m"}});
    const velero::OperationProgress progress = Progress();
    EXPECT_FALSE(progress.completed);
    EXPECT_FALSE(progress.started.has_value());
  }
}

TEST_F(DataTransferTest, AWaitingTransferReportsItsMessageAndIsInProgress) {
  Seed("upload", {{"phase", "Accepted"},
                  {"message", "waits for app/data"},
                  {"acceptedTimestamp", "2026-01-02T03:04:05Z"}});
  const velero::OperationProgress progress = Progress();
  EXPECT_FALSE(progress.completed);
  EXPECT_EQ(progress.description, "Accepted: waits for app/data");
  EXPECT_EQ(progress.started, ParseRfc3339("2026-01-02T03:04:05Z"));
}

TEST_F(DataTransferTest, CompletedIsASuccessWithItsSize) {
  Seed("upload", {{"phase", "Completed"},
                  {"startTimestamp", "2026-01-02T03:04:05Z"},
                  {"completionTimestamp", "2026-01-02T03:05:05Z"},
                  {"progress", {{"bytesDone", 7}, {"totalBytes", 7}}}});
  const velero::OperationProgress progress = Progress();
  EXPECT_TRUE(progress.completed);
  EXPECT_EQ(progress.error, "");
  EXPECT_EQ(progress.completed_units, 7);
  EXPECT_EQ(progress.updated, ParseRfc3339("2026-01-02T03:05:05Z"));
}

TEST_F(DataTransferTest, AFailureHasAnErrorThatIsNeverEmpty) {
  for (const char* phase : {"Failed", "Canceled"}) {
    Seed("upload", {{"phase", phase}});
    EXPECT_TRUE(Progress().completed);
    EXPECT_THAT(Progress().error, HasSubstr("DataUpload velero/upload"));
  }
  Seed("upload", {{"phase", "Failed"}, {"message", "the bucket is full"}});
  EXPECT_THAT(Progress().error, HasSubstr("the bucket is full"));
}

TEST_F(DataTransferTest, AMissingTransferHasFailed) {
  EXPECT_TRUE(Progress().completed);
  EXPECT_THAT(Progress().error, HasSubstr("is gone"));
}

TEST_F(DataTransferTest, ErrorsOfTheApiServerAreNotCompletion) {
  Seed("upload", {{"phase", "InProgress"}});
  bed_.api.FailNext("list", "datauploads", absl::UnavailableError("down"));
  const velero::OperationProgress progress = Progress();
  EXPECT_FALSE(progress.completed);
  EXPECT_THAT(progress.description, HasSubstr("down"));
}

TEST_F(DataTransferTest, TwoForOneOperationAreNamed) {
  Seed("one");
  Seed("two");
  EXPECT_THAT(transfer_.Find(bed_.ctx, bed_.api),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("two")));
}

TEST_F(DataTransferTest, CancelWritesOnceAndOnlyToARunningTransfer) {
  ASSERT_THAT(transfer_.Cancel(bed_.ctx, bed_.api), IsOk());
  Seed("upload", {{"phase", "Completed"}});
  ASSERT_THAT(transfer_.Cancel(bed_.ctx, bed_.api), IsOk());
  EXPECT_EQ(bed_.api.CallCount("patch", "datauploads"), 0);
  Seed("upload", {{"phase", "Prepared"}});
  ASSERT_THAT(transfer_.Cancel(bed_.ctx, bed_.api), IsOk());
  EXPECT_EQ(*FindJson(bed_.api.All(DataUpload::Type()).front(), {"spec", "cancel"}), true);
}

TEST_F(DataTransferTest, EnsureCreatesOneTransferHoweverOftenItIsCalled) {
  DataUpload wanted = DataUpload::Make("velero", "mine");
  wanted.SetLabel(objects::kAsyncOperationIdLabel, "du-1");
  ASSERT_THAT(transfer_.Ensure(bed_.ctx, bed_.api, wanted), IsOk());
  ASSERT_THAT(transfer_.Ensure(bed_.ctx, bed_.api, wanted), IsOk());
  EXPECT_THAT(bed_.api.All(DataUpload::Type()), SizeIs(1));
}

}  // namespace
}  // namespace csidelta::csi::data_transfer_test
