#include "datamover/records/upload_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/json.h"
#include "base/rfc3339.h"
#include "objects/data_transfer.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::upload_report_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

TransferObject Upload() {
  Json upload = {{"metadata", {{"name", "u"}, {"namespace", "velero"}}}};
  SetJson(upload, {"metadata", "creationTimestamp"}, "2026-11-23T04:59:58Z");
  return TransferObject(objects::DataUpload::Type(), support::As<objects::DataTransfer>(upload));
}

// Without their prefix.
std::map<std::string, std::string> AnnotationsOf(const TransferObject& upload) {
  std::map<std::string, std::string> annotations;
  for (const auto& [key, value] : upload.object().annotations()) {
    const std::string prefix = "mover.csi-delta.io/";
    EXPECT_TRUE(key.starts_with(prefix)) << key;
    annotations[key.substr(prefix.size())] = value;
  }
  return annotations;
}

TEST(UploadReportTest, ASentenceHasUnitsOfEachSize) {
  objects::BackupFigures figures;
  figures.mode = "incremental";
  figures.logical_bytes = int64_t{10} << 30;
  figures.changed_bytes = int64_t{12} << 20;
  figures.read_bytes = 1536;
  figures.audit_bytes = (int64_t{1} << 20) - 1;
  EXPECT_EQ(Summarize(figures),
            "incremental backup: 12.0 MiB changed of 10.0 GiB, 1.5 KiB read, 1.0 MiB audited, 0 B "
            "stored");
  figures.mode = "full";
  figures.reason = "no-parent";
  figures.read_bytes = (int64_t{1} << 30) - 1;
  EXPECT_EQ(Summarize(figures),
            "full backup (first backup): 10.0 GiB, 1.0 GiB read, 1.0 MiB audited, 0 B stored");
}

TEST(UploadReportTest, FiguresBecomeAnnotations) {
  TransferObject upload = Upload();
  objects::VolumeTaskStatus task;
  task.node = "node-1";
  task.completed_at = absl::FromUnixSeconds(1'795'000'000);
  objects::BackupFigures figures;
  figures.mode = "full";
  figures.reason = "no-parent";
  figures.base = "b";
  figures.logical_bytes = 1;
  figures.changed_bytes = 2;
  figures.read_bytes = 3;
  figures.audit_bytes = 4;
  figures.stored_bytes = 5;
  figures.repository_bytes = 0;
  figures.repository_snapshots = 6;
  AnnotateFigures(figures, task, upload);
  EXPECT_THAT(AnnotationsOf(upload),
              ElementsAre(Pair("audit-bytes", "4"), Pair("base", "b"), Pair("changed-bytes", "2"),
                          Pair("mode", "full"), Pair("node", "node-1"), Pair("read-bytes", "3"),
                          Pair("reason", "no-parent"), Pair("repository-bytes", "0"),
                          Pair("repository-snapshots", "6"), Pair("stored-bytes", "5"),
                          Pair("uploaded-at", FormatRfc3339(*task.completed_at))));
}

TEST(UploadReportTest, WhatIsNotKnownIsNoAnnotation) {
  TransferObject upload = Upload();
  objects::BackupFigures figures;
  figures.mode = "incremental";
  AnnotateFigures(figures, {}, upload);
  EXPECT_THAT(
      AnnotationsOf(upload),
      ElementsAre(Pair("audit-bytes", "0"), Pair("changed-bytes", "0"), Pair("mode", "incremental"),
                  Pair("read-bytes", "0"), Pair("stored-bytes", "0")));
  TransferObject exposed = Upload();
  AnnotateExposure({}, exposed);
  EXPECT_THAT(AnnotationsOf(exposed), ElementsAre(Pair("asked-at", "2026-11-23T04:59:58Z")));
}

TEST(UploadReportTest, AnExposureSaysItsTimesAndItsVolumeGroup) {
  TransferObject upload = Upload();
  csi::Exposure exposure;
  exposure.snapshot_taken_at = ParseRfc3339("2026-11-23T05:00:01Z");
  exposure.ready_at = ParseRfc3339("2026-11-23T05:00:02Z");
  AnnotateExposure(exposure, upload);
  EXPECT_EQ(GroupSummary(upload), "") << "it was taken alone";
  exposure.group = csi::MovedGroup{.name = "shop/db",
                                   .label = "velero.io/volume-group=db",
                                   .snapshot = "velero-db-0123",
                                   .snapshot_taken_at = ParseRfc3339("2026-11-23T05:00:00Z"),
                                   .members = 3};
  AnnotateExposure(exposure, upload);
  EXPECT_THAT(
      AnnotationsOf(upload),
      ElementsAre(Pair("asked-at", "2026-11-23T04:59:58Z"), Pair("cut-at", "2026-11-23T05:00:01Z"),
                  Pair("ready-at", "2026-11-23T05:00:02Z"), Pair("volume-group", "shop/db"),
                  Pair("volume-group-cut-at", "2026-11-23T05:00:00Z"),
                  Pair("volume-group-snapshot", "velero-db-0123")));
  EXPECT_EQ(GroupSummary(upload), "; of volume group shop/db, taken at 2026-11-23T05:00:00Z");
  TransferObject timeless = Upload();
  exposure.group->snapshot_taken_at = std::nullopt;
  AnnotateExposure(exposure, timeless);
  EXPECT_EQ(GroupSummary(timeless), "; of volume group shop/db");
}

}  // namespace
}  // namespace csidelta::datamover::upload_report_test
