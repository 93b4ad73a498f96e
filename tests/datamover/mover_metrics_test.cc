#include "datamover/mover_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"
#include "objects/keys.h"
#include "tests/support/paths.h"
#include "tests/support/typed.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::mover_metrics_test {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

objects::DataUpload As(const Json& upload) { return support::As<objects::DataUpload>(upload); }

Json Completed(const std::string& claim, absl::Duration ago, const std::string& confirmed) {
  return {{"metadata",
           {{"name", "n"},
            {"namespace", "velero"},
            {"uid", "u"},
            {"annotations", {{objects::kKeyConfirmedAnnotation, confirmed}}}}},
          {"spec",
           {{"datamover", "csi-delta"},
            {"backupStorageLocation", "default"},
            {"sourceNamespace", "app"},
            {"sourcePVC", claim},
            {"csiSnapshot", {{"volumeSnapshot", "vs"}}}}},
          {"status", {{"phase", "Completed"}, {"completionTimestamp", FormatRfc3339(kNow - ago)}}}};
}

TEST(MoverMetricsTest, TheAgeOfAVolumesLastBackupComesFromTheObjects) {
  MoverMetrics metrics;
  metrics.Note(As(Completed("data", absl::Hours(1), "true")));
  metrics.Note(As(Completed("data", absl::Hours(3), "false")));  // An older one, seen later.
  Json failed = Completed("data", absl::ZeroDuration(), "true");
  failed["status"]["phase"] = "Failed";
  metrics.Note(As(failed));
  metrics.Note(objects::DataUpload());
  const std::string text = metrics.Text(
      kNow, {.leads = true,
             .transfers = {
                 .admitted = 2, .waiting = 5, .is_paused = true, .uploads_are_admitted = false}});
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_last_good_backup_age_seconds{velero_namespace="
                              "\"velero\",location=\"default\",namespace=\"app\",claim=\"data\"} "
                              "3600\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_key_unconfirmed{velero_namespace=\"velero\","
                              "location=\"default\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_transfers{state=\"waiting\"} 5\n"));
  metrics.Note(As(Completed("data", absl::Minutes(1), "false")));
  EXPECT_THAT(metrics.Text(kNow, {}), HasSubstr("location=\"default\"} 1\n"));
}

TEST(MoverMetricsTest, WhatTransfersWaitForIsCountedAndEachReasonIsThereFromTheBeginning) {
  const std::string begun = MoverMetrics().Text(kNow, {});
  for (int reason = 0; reason < kWaitReasons; ++reason) {
    EXPECT_THAT(begun,
                HasSubstr(absl::StrCat("csi_delta_mover_transfers_waiting{reason=\"",
                                       ToString(static_cast<WaitReason>(reason)), "\"} 0\n")));
  }
  EXPECT_THAT(begun, HasSubstr("csi_delta_mover_transfers_admitted{kind=\"restore\"} 0\n"));
  const std::string text = MoverMetrics().Text(
      kNow,
      {.transfers = {.admitted = 5,
                     .restores = 2,
                     .waiting_for = {{WaitReason::kRefused, 3}, {WaitReason::kStorageClass, 4}}}});
  for (const char* line : {"csi_delta_mover_transfers_admitted{kind=\"restore\"} 2\n",
                           "csi_delta_mover_transfers_admitted{kind=\"upload\"} 3\n",
                           "csi_delta_mover_transfers_waiting{reason=\"refused\"} 3\n",
                           "csi_delta_mover_transfers_waiting{reason=\"storage-class\"} 4\n",
                           "csi_delta_mover_transfers_waiting{reason=\"total\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MoverMetricsTest, TheQueuesOfReconciles) {
  const std::string text =
      MoverMetrics().Text(kNow, {.queues = {{"tasks", {}},
                                            {"uploads",
                                             {.due = 7,
                                              .oldest_wait = absl::Seconds(3),
                                              .reconciles = 20,
                                              .reconcile_time = absl::Milliseconds(2500),
                                              .retries = 2}}}});
  for (const char* line : {"csi_delta_mover_queue_depth{queue=\"uploads\"} 7\n",
                           "csi_delta_mover_queue_depth{queue=\"tasks\"} 0\n",
                           "csi_delta_mover_queue_oldest_wait_seconds{queue=\"uploads\"} 3\n",
                           "csi_delta_mover_reconciles_total{queue=\"uploads\"} 20\n",
                           "csi_delta_mover_reconcile_seconds_total{queue=\"uploads\"} 2.5\n",
                           "csi_delta_mover_reconcile_retries_total{queue=\"uploads\"} 2\n",
                           "csi_delta_mover_reconcile_retries_total{queue=\"tasks\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MoverMetricsTest, TheRepositoryIsAsTheNewestUploadLeftIt) {
  MoverMetrics metrics;
  const auto note = [&](absl::Duration ago, const char* bytes, const char* snapshots) {
    Json upload = Completed("data", ago, "true");
    upload["metadata"]["annotations"]["mover.csi-delta.io/repository-bytes"] = bytes;
    upload["metadata"]["annotations"]["mover.csi-delta.io/repository-snapshots"] = snapshots;
    metrics.Note(As(upload));
  };
  constexpr char kData[] =
      "{velero_namespace=\"velero\",location=\"default\",namespace=\"app\",claim=\"data\"} ";
  note(absl::Hours(1), "4096", "3");
  note(absl::Hours(2), "9000", "7");  // An older one, seen later.
  std::string text = metrics.Text(kNow, {});
  EXPECT_THAT(text, HasSubstr(absl::StrCat("mover_repository_bytes", kData, "4096\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("mover_repository_snapshots", kData, "3\n")));
  note(absl::Minutes(1), "-5", "many");
  text = metrics.Text(kNow, {});
  EXPECT_THAT(text, testing::Not(HasSubstr("mover_repository_bytes{")));
  EXPECT_THAT(text, testing::Not(HasSubstr("mover_repository_snapshots{")));
}

TEST(MoverMetricsTest, TheAgeOfAVolumesLastRestoreIsOfItsSource) {
  MoverMetrics metrics;
  const auto note = [&](const char* phase, absl::Duration ago, const std::string& snapshot_id) {
    metrics.Note(support::As<objects::DataDownload>(
        {{"metadata", {{"name", "r"}, {"namespace", "velero"}, {"uid", "u"}}},
         {"spec",
          {{"datamover", "csi-delta"},
           {"backupStorageLocation", "default"},
           {"sourceNamespace", "app"},
           {"snapshotID", snapshot_id},
           {"targetVolume", {{"namespace", "drill"}, {"pvc", "data"}}}}},
         {"status", {{"phase", phase}, {"completionTimestamp", FormatRfc3339(kNow - ago)}}}}));
  };
  const std::string id =
      velero::FormatDataReference({.cluster = "c1000000-0000-4000-8000-000000000001",
                                   .namespace_name = "app",
                                   .claim_uid = "a1000000-0000-4000-8000-000000000001",
                                   .snapshot_id = std::string(64, '5'),
                                   .key = std::string(16, 'a')});
  note("Completed", absl::Hours(2), id);
  note("Completed", absl::Hours(5), id);
  note("Failed", absl::Hours(1), id);
  note("Completed", absl::Hours(1), "of another mover");
  EXPECT_THAT(metrics.Text(kNow, {}),
              HasSubstr("csi_delta_mover_last_restore_age_seconds{velero_namespace=\"velero\","
                        "location=\"default\",namespace=\"app\",claim=\"data\"} 7200\n"));
}

TEST(MoverMetricsTest, WhatEndedIsCounted) {
  MoverMetrics metrics;
  UploadEnd end;
  end.phase = velero::DataPhase::kCompleted;
  end.figures.mode = "full";
  end.figures.reason = "no-parent";
  end.figures.read_bytes = 4096;
  end.audit_mismatch = true;
  metrics.Count(end);
  end.figures.mode = "incremental";
  end.pods_lost = 2;
  metrics.Count(end);
  end.phase = velero::DataPhase::kFailed;
  metrics.Count(end);
  const std::string text = metrics.Text(kNow, {});
  for (const char* line :
       {"csi_delta_mover_uploads_total{phase=\"Completed\"} 2\n",
        "csi_delta_mover_uploads_total{phase=\"Failed\"} 1\n",
        "csi_delta_mover_bytes_total{kind=\"read\"} 8192\n",
        "csi_delta_mover_full_uploads_total{reason=\"no-parent\"} 1\n",
        "csi_delta_mover_audit_mismatches_total 2\n", "csi_delta_mover_worker_pods_lost_total 4\n",
        "csi_delta_mover_leader 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MoverMetricsTest, DownloadsAreCounted) {
  MoverMetrics metrics;
  metrics.Count(
      DownloadEnd{.download = {}, .phase = velero::DataPhase::kCompleted, .restored_bytes = 4096});
  metrics.Count(
      DownloadEnd{.download = {}, .phase = velero::DataPhase::kFailed, .restored_bytes = 0});
  const std::string text = metrics.Text(kNow, {});
  for (const char* line : {"csi_delta_mover_downloads_total{phase=\"Completed\"} 1\n",
                           "csi_delta_mover_downloads_total{phase=\"Failed\"} 1\n",
                           "csi_delta_mover_restored_bytes_total 4096\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MoverMetricsTest, DeletionsAreToldApartAndTheOldestThatIsNotDoneIsKnown) {
  const auto deletion = [](const char* phase, const char* trouble, absl::Duration ago) {
    return DeletionStateOf(support::As<objects::DataDeletion>(
        {{"metadata", {{"creationTimestamp", FormatRfc3339(kNow - ago)}}},
         {"status", {{"phase", phase}, {"trouble", trouble}, {"attempts", 2}}}}));
  };
  const std::string text =
      MoverMetrics().Text(kNow, {.deletions = {deletion("Waiting", "Locked", absl::Seconds(1)),
                                               deletion("Waiting", "Failed", absl::Hours(1)),
                                               deletion("Waiting", "Retained", absl::Minutes(2)),
                                               deletion("InProgress", "", absl::Minutes(1)),
                                               deletion("Completed", "", absl::Hours(9))},
                                 .leftover_tasks = 3});
  for (const char* line : {"csi_delta_mover_deletions{state=\"waiting\"} 1\n",
                           "csi_delta_mover_deletions{state=\"failing\"} 1\n",
                           "csi_delta_mover_deletions{state=\"retained\"} 1\n",
                           "csi_delta_mover_deletions{state=\"running\"} 1\n",
                           "csi_delta_mover_deletions{state=\"refused\"} 0\n",
                           "csi_delta_mover_deletions{state=\"done\"} 1\n",
                           "csi_delta_mover_oldest_deletion_age_seconds 3600\n",
                           "csi_delta_mover_leftover_tasks 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MoverMetricsTest, ForeignWordsStayInTheirQuotes) {
  MoverMetrics metrics;
  metrics.Note(As(Completed("a\"} 1\nx \\", absl::Hours(1), "true")));
  EXPECT_THAT(metrics.Text(kNow, {}), HasSubstr("claim=\"a\\\"} 1\\nx \\\\\"} 3600\n"));
}

// The names of ours in a text.
std::set<std::string> FamiliesIn(const std::string& text) {
  const std::regex form("csi_delta_mover_[a-z_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), form), std::sregex_token_iterator()};
}

TEST(MoverMetricsTest, DocumentsAndAlertsNameNothingElse) {
  const std::set<std::string> families = FamiliesIn(MoverMetrics().Text(kNow, {}));
  EXPECT_EQ(FamiliesIn(support::ReadSource("docs/data-mover-status.md")), families);
  const std::set<std::string> alerts = FamiliesIn(support::ReadSource("docs/operations.md"));
  EXPECT_GE(alerts.size(), 5U);
  EXPECT_THAT(alerts, testing::Each(testing::AnyOfArray(families)));
}

TEST(MoverMetricsTest, EveryFamilyHasItsHelpAndItsLineInTheDocument) {
  const std::string document = support::ReadSource("docs/data-mover-status.md");
  const std::string text = MoverMetrics().Text(kNow, {});
  std::string family;
  int families = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "# HELP ")) {
      ++families;
      const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
      ASSERT_EQ(words.size(), 4U);
      family = std::string(words[2]);
      EXPECT_THAT(document, HasSubstr("| `" + family + "` |"));
    } else if (!line.empty() && !absl::StartsWith(line, "#")) {
      EXPECT_TRUE(absl::StartsWith(line, family)) << line;
    }
  }
  EXPECT_GT(families, 0);
}

}  // namespace
}  // namespace csidelta::datamover::mover_metrics_test
