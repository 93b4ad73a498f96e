#include "objects/data_upload_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/data_download.h"
#include "tests/support/status_matchers.h"

namespace csidelta::objects::data_upload_result_test {
namespace {

TEST(DataUploadResultTest, ADataDownloadIsToldWhatItNeedsAsItIs) {
  const auto upload = DataUploadResult::Parse(
      R"({"backupStorageLocation":"default","datamover":"","snapshotID":"s","sourceNamespace":"shop",)"
      R"("snapshotSize":9007199254740993,"nodeOS":7,"dataMoverResult":{"a":"b"}})");
  ASSERT_THAT(upload, support::IsOk());
  EXPECT_EQ(upload->snapshot_id(), "s");
  auto download = DataDownload::Make("velero", "r1");
  download.SetSource(*upload);
  download.SetTarget("shop-2", "data", "");
  download.SetOperationTimeout("10m");
  EXPECT_EQ(download.json(),
            (Json{{"apiVersion", "velero.io/v2alpha1"},
                  {"kind", "DataDownload"},
                  {"metadata", {{"name", "r1"}, {"namespace", "velero"}}},
                  {"spec",
                   {{"backupStorageLocation", "default"},
                    {"datamover", ""},
                    {"snapshotID", "s"},
                    {"sourceNamespace", "shop"},
                    {"snapshotSize", 9007199254740993},
                    {"nodeOS", 7},
                    {"operationTimeout", "10m"},
                    {"targetVolume", {{"namespace", "shop-2"}, {"pvc", "data"}, {"pv", ""}}}}}}));
}

TEST(DataUploadResultTest, OtherTextIsRefused) {
  for (const char* text : {"", "[]", "x"}) {
    EXPECT_THAT(DataUploadResult::Parse(text),
                support::StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(DataUploadResult::Parse("{}")->snapshot_id(), "");
}

}  // namespace
}  // namespace csidelta::objects::data_upload_result_test
