#include "objects/data_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/outcome.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "tests/support/velero_119_objects.h"

namespace csidelta::objects::data_transfer_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;

TEST(DataTransferTest, IsOfEitherKind) {
  EXPECT_THAT(DataTransfer::Of({{"kind", "DataUpload"}}), IsOk());
  EXPECT_THAT(DataTransfer::Of({{"kind", "DataDownload"}}), IsOk());
  EXPECT_THAT(DataTransfer::Of(Json::object()), IsOk()) << "an item of a list";
  EXPECT_THAT(DataTransfer::Of({{"kind", "Backup"}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DataTransfer::Of("text"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DataTransferTest, WritesItsStatusAsVeleroReadsIt) {
  DataUpload upload = DataUpload::Make("velero", "u");
  upload.SetPhase(DataPhase::kInProgress);
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

TEST(DataTransferTest, FiguresAreReadAsTheyAreWritten) {
  for (const BackupFigures& figures :
       {BackupFigures{.mode = "incremental", .base = "b", .changed_bytes = 2, .read_bytes = 3},
        BackupFigures{.mode = "full", .reason = "no-parent", .repository_bytes = 0},
        BackupFigures{.mode = "full",
        .reason = "parent-damaged",
        .reason_detail = "pack 1 is gone: it was lost",
        .logical_bytes = 7,
        .audit_bytes = 4,
        .stored_bytes = 5,
        .repository_snapshots = 6}}) {
    DataUpload upload = DataUpload::Make("velero", "u");
    upload.SetProgress(0, figures.logical_bytes);
    upload.SetFigures(figures);
    EXPECT_EQ(upload.figures(), figures);
  }
}

TEST(DataTransferTest, FiguresThatAreNoNumbersAreZero) {
  const auto upload = support::As<DataUpload>({{"metadata",
                                                {{"annotations",
                                                  {{kChangedBytesAnnotation, "many"},
                                                   {kReadBytesAnnotation, "-1"},
                                                   {kUploadModeAnnotation, 5}}}}},
                                               {"status", {{"progress", {{"totalBytes", -1}}}}}});
  EXPECT_EQ(upload.figures(), BackupFigures());
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
  const absl::StatusOr<DataUpload> upload = DataUpload::Parse(Object(Upload()));
  ASSERT_THAT(upload, support::IsOk());
  EXPECT_EQ(upload->uid(), "u-1");
  EXPECT_EQ(upload->pvc_uid(), "c-1");
  EXPECT_EQ(upload->source_pvc(), "data");
  EXPECT_EQ(upload->volume_snapshot(), "velero-data-1");
  EXPECT_EQ(upload->storage_class(), "fast");
  EXPECT_EQ(upload->known_phase(), DataPhase::kNew);
  EXPECT_FALSE(upload->is_cancelled() || upload->is_being_deleted());
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
    EXPECT_THAT(DataUpload::Parse(Object(object)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(word)));
    object[Json::json_pointer(path)] = {1, 2};
    EXPECT_THAT(DataUpload::Parse(Object(object)), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (const Json& object : {Json(), Json::array(), Json("text"), Json::object()}) {
    EXPECT_THAT(DataUpload::Parse(Object(object)), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(DataDownloadTest, IsReadAsVeleroWritesIt) {
  const absl::StatusOr<DataDownload> download = DataDownload::Parse(Object(Download()));
  ASSERT_THAT(download, support::IsOk());
  EXPECT_EQ(download->target_pvc(), "data");
  EXPECT_EQ(download->target_namespace(), "copy");
  EXPECT_EQ(download->moved_snapshot(), "anything");
  EXPECT_EQ(download->moved_bytes(), 4096);
  EXPECT_EQ(download->known_phase(), DataPhase::kAccepted);
  EXPECT_TRUE(download->accepted_at().has_value());
}

TEST(DataDownloadTest, SaysWhichFieldIsWrong) {
  Json object = Download();
  object["spec"]["snapshotSize"] = -1;
  EXPECT_THAT(DataDownload::Parse(Object(object)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.snapshotSize")));
  object = Download();
  object["status"]["acceptedTimestamp"] = "yesterday";
  EXPECT_THAT(DataDownload::Parse(Object(object)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("acceptedTimestamp")));
  object = Download();
  object["spec"]["targetVolume"]["pv"] = "pvc-123";
  EXPECT_THAT(DataDownload::Parse(Object(object)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("targetVolume.pv is pvc-123"),
                                      HasSubstr("restore --upload"))));
  for (const char* key : {"mover.csi-delta.io/into", "mover.csi-delta.io/in-place"}) {
    Json in_place = object;
    in_place["metadata"]["annotations"][key] = "uid";
    const auto download = DataDownload::Parse(Object(in_place));
    ASSERT_TRUE(download.ok()) << download.status();
    EXPECT_EQ(download->target_volume(), "pvc-123");
  }
  object["spec"]["targetVolume"]["pv"] = "";
  object["spec"]["targetVolume"]["pvc"] = "";
  EXPECT_THAT(DataDownload::Parse(Object(object)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("targetVolume.pvc")));
}

TEST(DataTransferTest, ObjectsOfVelero119AreUnderstood) {
  const auto upload = DataUpload::Parse(Object(*ParseJson(support::kDataUploadOf119)));
  ASSERT_THAT(upload, IsOk());
  EXPECT_TRUE(upload->is_full());
  EXPECT_EQ(upload->parent_snapshot(), "none");
  Json in_place = *ParseJson(support::kDataDownloadOf119);
  EXPECT_THAT(DataDownload::Parse(Object(in_place)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("targetVolume.pv is pvc-123"),
                                      HasSubstr("in place is not supported"))));
  in_place["spec"]["targetVolume"]["pv"] = "";
  const auto download = DataDownload::Parse(Object(in_place));
  ASSERT_THAT(download, IsOk());
  EXPECT_EQ(download->file_system(), "xfs");
}

TEST(DataUploadTest, IsFullIfVeleroOrItsTypeSaysSo) {
  const auto is_full = [](const char* field, const char* text) {
    Json upload = Upload();
    upload["spec"][field] = text;
    return DataUpload::Parse(Object(upload))->is_full();
  };
  EXPECT_TRUE(is_full("parentSnapshot", "none"));
  EXPECT_TRUE(is_full("backupType", "Full"));
  EXPECT_FALSE(is_full("parentSnapshot", "auto"));
  EXPECT_FALSE(is_full("parentSnapshot", ""));
  EXPECT_FALSE(is_full("backupType", "Incremental"));
  Json upload = Upload();
  upload["spec"]["parentSnapshot"] = 7;
  EXPECT_THAT(DataUpload::Parse(Object(upload)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("spec.parentSnapshot")));
}

TEST(DataDownloadTest, ItsSourceIsSetAsVeleroDescribesTheUpload) {
  auto download = DataDownload::Make("velero", "r1");
  ASSERT_THAT(
      download.SetSource(
          R"({"backupStorageLocation":"default","datamover":"","snapshotID":"s","sourceNamespace":"shop",)"
          R"("snapshotSize":9007199254740993,"nodeOS":7,"dataMoverResult":{"a":"b"}})"),
      IsOk());
  EXPECT_EQ(download.moved_snapshot(), "s");
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

TEST(DataDownloadTest, ASourceThatIsNoObjectIsRefused) {
  DataDownload download;
  for (const char* text : {"", "[]", "x"}) {
    EXPECT_THAT(download.SetSource(text), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(download.SetSource("{}"), IsOk());
  EXPECT_EQ(download.moved_snapshot(), "");
}

TEST(DataPhaseTest, IsReadAsItIsWritten) {
  const auto in_phase = [](const char* text) {
    return support::As<DataUpload>({{"status", {{"phase", text}}}});
  };
  DataUpload upload;
  for (const DataPhase phase :
       {DataPhase::kNew, DataPhase::kAccepted, DataPhase::kPrepared, DataPhase::kInProgress,
        DataPhase::kCanceling, DataPhase::kCanceled, DataPhase::kCompleted, DataPhase::kFailed}) {
    upload.SetPhase(phase);
    EXPECT_EQ(upload.known_phase(), phase);
  }
  EXPECT_EQ(in_phase("").known_phase(), DataPhase::kNew);
  EXPECT_EQ(in_phase("Dreaming").known_phase(), DataPhase::kUnknown);
  EXPECT_FALSE(in_phase("Canceling").is_over());
  EXPECT_TRUE(in_phase("Canceled").is_over());
}

}  // namespace
}  // namespace csidelta::objects::data_transfer_test
