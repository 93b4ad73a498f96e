#include "objects/data_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/data_download.h"
#include "objects/data_upload.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::objects::data_transfer_test {
namespace {

using support::IsOk;
using support::StatusIs;

TEST(DataTransferTest, IsOfEitherKind) {
  EXPECT_THAT(DataTransfer::Of({{"kind", "DataUpload"}}), IsOk());
  EXPECT_THAT(DataTransfer::Of({{"kind", "DataDownload"}}), IsOk());
  EXPECT_THAT(DataTransfer::Of(Json::object()), IsOk()) << "an item of a list";
  EXPECT_THAT(DataTransfer::Of({{"kind", "Backup"}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DataTransfer::Of("text"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DataTransferTest, WritesItsStatusAsVeleroReadsIt) {
  DataUpload upload = DataUpload::Make("velero", "u");
  upload.SetPhase("InProgress");
  upload.SetMessage("moves");
  upload.SetProgress(3, 7);
  upload.SetAcceptedAt(absl::FromUnixSeconds(0));
  upload.SetStartedAt(absl::FromUnixSeconds(1));
  upload.SetCompletedAt(absl::FromUnixSeconds(2));
  upload.SetSnapshotId("s");
  upload.SetIncrementalBytes(5);
  EXPECT_EQ(upload.json()["status"], Json({{"phase", "InProgress"},
                                           {"message", "moves"},
                                           {"progress", {{"bytesDone", 3}, {"totalBytes", 7}}},
                                           {"acceptedTimestamp", "1970-01-01T00:00:00Z"},
                                           {"startTimestamp", "1970-01-01T00:00:01Z"},
                                           {"completionTimestamp", "1970-01-01T00:00:02Z"},
                                           {"snapshotID", "s"},
                                           {"incrementalBytes", 5}}));
  EXPECT_EQ(upload.done_bytes(), 3);
  EXPECT_EQ(upload.total_bytes(), 7);
  EXPECT_EQ(upload.started_at(), absl::FromUnixSeconds(1));
}

TEST(DataTransferTest, AnUploadIsReducedToWhatItsArchiveNeeds) {
  auto upload = support::As<DataUpload>(
      {{"metadata",
        {{"name", "u"},
         {"uid", "u-1"},
         {"resourceVersion", "7"},
         {"generation", 2},
         {"finalizers", {"f"}},
         {"creationTimestamp", "2026-11-23T04:59:58Z"},
         {"labels", {{"l", "v"}, {"other", "no"}}},
         {"annotations", {{"kept", "yes"}, {"other", "no"}}}}},
       {"spec",
        {{"sourcePVC", "data"},
         {"operationTimeout", "10m0s"},
         {"csiSnapshot", {{"volumeSnapshot", "v"}, {"driver", "d"}}}}},
       {"status", {{"phase", "Completed"}, {"snapshotID", "s"}, {"message", "long"}}}});
  upload.ReduceTo("l", "kept");
  EXPECT_EQ(upload.json(),
            Json({{"metadata",
                   {{"name", "u"},
                    {"uid", "u-1"},
                    {"labels", {{"l", "v"}}},
                    {"annotations", {{"kept", "yes"}}}}},
                  {"spec", {{"sourcePVC", "data"}, {"csiSnapshot", {{"volumeSnapshot", "v"}}}}},
                  {"status", {{"phase", "Completed"}, {"snapshotID", "s"}}}}));
  upload.ReduceTo("none", "none");
  EXPECT_FALSE(upload.json()["metadata"].contains("labels"));
  EXPECT_FALSE(upload.json()["metadata"].contains("annotations"));
}

}  // namespace
}  // namespace csidelta::objects::data_transfer_test
