#include "velero/data_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::velero::data_upload_test {
namespace {

using support::StatusIs;
using testing::HasSubstr;

Json Upload() {
  return Json::parse(R"({
    "metadata": {"name": "nightly-x7", "namespace": "velero", "uid": "u-1",
                 "labels": {"velero.io/pvc-uid": "c-1"}},
    "spec": {"snapshotType": "CSI", "datamover": "csi-delta", "backupStorageLocation": "default",
             "sourceNamespace": "app", "sourcePVC": "data", "operationTimeout": "10m0s",
             "csiSnapshot": {"volumeSnapshot": "velero-data-1", "storageClass": "fast"}}})");
}

Json Download() {
  return Json::parse(R"({
    "metadata": {"name": "restore-x7", "namespace": "velero", "uid": "u-2"},
    "spec": {"datamover": "csi-delta", "backupStorageLocation": "default", "snapshotSize": 4096,
             "sourceNamespace": "app", "snapshotID": "anything", "operationTimeout": "0s",
             "targetVolume": {"pvc": "data", "pv": "", "namespace": "copy"}},
    "status": {"phase": "Accepted", "acceptedTimestamp": "2026-11-22T09:00:00Z"}})");
}

TEST(DataUploadTest, IsReadAsVeleroWritesIt) {
  const absl::StatusOr<DataUpload> upload = ParseDataUpload(Upload());
  ASSERT_THAT(upload, support::IsOk());
  EXPECT_EQ(upload->uid, "u-1");
  EXPECT_EQ(upload->claim_uid, "c-1");
  EXPECT_EQ(upload->source_claim, "data");
  EXPECT_EQ(upload->volume_snapshot, "velero-data-1");
  EXPECT_EQ(upload->storage_class, "fast");
  EXPECT_EQ(upload->operation_timeout, absl::Minutes(10));
  EXPECT_EQ(upload->phase, DataPhase::kNew);
  EXPECT_FALSE(upload->cancel || upload->is_being_deleted);
}

TEST(DataUploadTest, SaysWhichFieldIsWrong) {
  for (const auto& [path, word] : {std::pair{"/spec/sourcePVC", "spec.sourcePVC"},
                                   std::pair{"/spec/csiSnapshot", "volumeSnapshot"},
                                   std::pair{"/metadata/name", "metadata.name"},
                                   std::pair{"/metadata/namespace", "metadata.namespace"},
                                   std::pair{"/metadata/uid", "metadata.uid"},
                                   std::pair{"/spec/sourceNamespace", "spec.sourceNamespace"},
                                   std::pair{"/spec/backupStorageLocation", "Location"}}) {
    Json object = Upload();
    object[Json::json_pointer(path)] = nullptr;
    EXPECT_THAT(ParseDataUpload(object),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(word)));
    object[Json::json_pointer(path)] = {1, 2};
    EXPECT_THAT(ParseDataUpload(object), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (const Json& object : {Json(), Json::array(), Json("text"), Json::object()}) {
    EXPECT_THAT(ParseDataUpload(object), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(DataDownloadTest, IsReadAsVeleroWritesIt) {
  const absl::StatusOr<DataDownload> download = ParseDataDownload(Download());
  ASSERT_THAT(download, support::IsOk());
  EXPECT_EQ(download->target_claim, "data");
  EXPECT_EQ(download->target_namespace, "copy");
  EXPECT_EQ(download->snapshot_id, "anything");
  EXPECT_EQ(download->snapshot_size_bytes, 4096);
  EXPECT_FALSE(download->operation_timeout.has_value());
  EXPECT_EQ(download->phase, DataPhase::kAccepted);
  EXPECT_TRUE(download->accepted_at.has_value());
}

TEST(DataDownloadTest, SaysWhichFieldIsWrong) {
  Json object = Download();
  object["spec"]["snapshotSize"] = -1;
  EXPECT_THAT(ParseDataDownload(object),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.snapshotSize")));
  object = Download();
  object["status"]["acceptedTimestamp"] = "yesterday";
  EXPECT_THAT(ParseDataDownload(object),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("acceptedTimestamp")));
  object = Download();
  object["spec"]["targetVolume"]["pv"] = "pvc-123";
  EXPECT_THAT(ParseDataDownload(object),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("targetVolume.pv is pvc-123"),
                                      HasSubstr("restore --upload"))));
  for (const char* key : {"mover.csi-delta.io/into", "mover.csi-delta.io/in-place"}) {
    Json in_place = object;
    in_place["metadata"]["annotations"][key] = "uid";
    const auto download = ParseDataDownload(in_place);
    ASSERT_TRUE(download.ok()) << download.status();
    EXPECT_EQ(download->target_volume, "pvc-123");
  }
  object["spec"]["targetVolume"]["pv"] = "";
  object["spec"]["targetVolume"]["pvc"] = "";
  EXPECT_THAT(ParseDataDownload(object),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("targetVolume.pvc")));
}

TEST(DataPhaseTest, IsReadAsItIsWritten) {
  for (const DataPhase phase :
       {DataPhase::kNew, DataPhase::kAccepted, DataPhase::kPrepared, DataPhase::kInProgress,
        DataPhase::kCanceling, DataPhase::kCanceled, DataPhase::kCompleted, DataPhase::kFailed}) {
    EXPECT_EQ(ParseDataPhase(ToString(phase)), phase);
  }
  EXPECT_EQ(ParseDataPhase(""), DataPhase::kNew);
  EXPECT_EQ(ParseDataPhase("Dreaming"), DataPhase::kUnknown);
  EXPECT_FALSE(IsTerminal(DataPhase::kCanceling));
  EXPECT_TRUE(IsTerminal(DataPhase::kCanceled));
}

}  // namespace
}  // namespace csidelta::velero::data_upload_test
