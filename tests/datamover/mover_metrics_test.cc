#include "datamover/controller/mover_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"
#include "datamover/records/volume_records.h"
#include "incremental/mover/full_reason.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "tests/support/paths.h"
#include "tests/support/typed.h"

namespace csidelta::datamover::mover_metrics_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

// A record of app/data at location "default", one hour old.
std::unique_ptr<VolumeRecords> RecordsOf(const std::vector<Json>& statuses,
                                         const std::string& pvc = "data") {
  auto records = std::make_unique<VolumeRecords>([](const VolumeRecordKey&) {});
  int number = 0;
  for (const Json& status : statuses) {
    const std::string uid = absl::StrCat("a1000000-0000-4000-8000-00000000000", number);
    records->Put(support::As<objects::ProtectedVolume>(
        {{"metadata",
          {{"name", objects::ProtectedVolume::NameOf(uid, "default")},
           {"namespace", "velero"},
           {"creationTimestamp", FormatRfc3339(kNow - absl::Hours(1) + absl::Seconds(number))}}},
         {"spec",
          {{"namespace", "app"},
           {"pvc", pvc},
           {"pvcUID", uid},
           {"backupStorageLocation", "default"}}},
         {"status", status}}));
    ++number;
  }
  return records;
}

std::string At(absl::Duration ago) { return FormatRfc3339(kNow - ago); }

std::string TextOf(const std::vector<Json>& statuses) {
  const std::unique_ptr<VolumeRecords> records = RecordsOf(statuses);
  return MoverMetrics().Text(kNow, {.records = records.get()});
}

constexpr char kData[] =
    "{velero_namespace=\"velero\",location=\"default\",namespace=\"app\",claim=\"data\"} ";

TEST(MoverMetricsTest, KeyUnconfirmedIsThatOfTheNewestUpload) {
  MoverMetrics metrics;
  metrics.Record(As(Completed("data", absl::Hours(1), "true")));
  metrics.Record(As(Completed("data", absl::Hours(3), "false")));  // An older one, seen later.
  metrics.Record(objects::DataUpload());
  const std::string text = metrics.Text(
      kNow, {.leads = true,
             .transfers = {
                 .admitted = 2, .waiting = 5, .is_paused = true, .uploads_are_admitted = false}});
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_key_unconfirmed{velero_namespace=\"velero\","
                              "location=\"default\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_transfers{state=\"waiting\"} 5\n"));
  metrics.Record(As(Completed("data", absl::Minutes(1), "false")));
  EXPECT_THAT(metrics.Text(kNow, {}), HasSubstr("location=\"default\"} 1\n"));
}

TEST(MoverMetricsTest, VolumeSamplesComeFromItsRecord) {
  const Json status = {
      {"lastGoodBackup", {{"takenAt", At(absl::Minutes(90))}, {"completedAt", At(absl::Hours(1))}}},
      {"failures", 2},
      {"verification",
       {{"at", At(absl::Minutes(1))}, {"finding", "pack 1 is gone"}, {"orphanedSnapshots", 4}}},
      {"repository", {{"bytes", 4096}, {"snapshots", 3}}},
      {"restoredAt", At(absl::Hours(2))},
      {"lostData", {{"message", "Media: sector 7"}}}};
  const std::string text = TextOf(std::vector<Json>(1, status));
  for (const char* sample :
       {"last_good_backup_age_seconds 3600", "recovery_point_age_seconds 5400",
        "consecutive_failures 2", "verified_age_seconds 60", "verification_findings 1",
        "orphaned_snapshots 4", "repository_bytes 4096", "repository_snapshots 3",
        "last_restore_age_seconds 7200", "lost_data 1"}) {
    const std::vector<std::string> parts = absl::StrSplit(sample, ' ');
    EXPECT_THAT(text, HasSubstr(absl::StrCat("csi_delta_mover_", parts[0], kData, parts[1], "\n")));
  }
  EXPECT_THAT(text, Not(HasSubstr("never_backed_up{")));
}

TEST(MoverMetricsTest, SaysHowLongWhatBackupsNeedStaysLocked) {
  MoverSettings settings;
  settings.locations["default"].immutability =
      objects::JobObjectLock{.mode = "GOVERNANCE", .days = 14};
  Json good = {{"lastGoodBackup", {{"completedAt", At(absl::Hours(1))}}}};
  Json renewed = good;
  renewed["verification"] = {{"locks", {{"days", 14}, {"lockedUntil", At(-absl::Hours(2))}}}};
  Json failed = renewed;
  failed["pvcGoneAt"] = At(absl::Hours(1));  // Its backups need their locks all the same.
  failed["verification"]["locks"]["finding"] = "AccessDenied";
  const auto text = [&](const std::vector<Json>& statuses, const MoverSettings* told) {
    const std::unique_ptr<VolumeRecords> records = RecordsOf(statuses);
    return MoverMetrics().Text(kNow, {.records = records.get(), .settings = told});
  };
  const auto line = [](const char* name, const char* value) {
    return HasSubstr(absl::StrCat("csi_delta_mover_", name, kData, value, "\n"));
  };
  EXPECT_THAT(text({good}, &settings),
              AllOf(line("immutability_seconds", "1.2096e+06"), line("locked_seconds", "0"),
                    line("lock_renewal_findings", "0")));
  EXPECT_THAT(text({renewed}, &settings), line("locked_seconds", "7200"));
  EXPECT_THAT(text({failed, renewed}, &settings),
              AllOf(line("locked_seconds", "7200"), line("lock_renewal_findings", "1")));
  settings.locations.clear();
  EXPECT_THAT(text({renewed}, &settings), Not(HasSubstr("locked_seconds{")));
}

TEST(MoverMetricsTest, AVolumeThatWasNeverBackedUpHasARecoveryPointAgeFromItsRecordOn) {
  const std::string text = TextOf(std::vector<Json>(1, Json::object()));
  for (const char* line :
       {"never_backed_up", "recovery_point_age_seconds", "consecutive_failures"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("csi_delta_mover_", line, kData)));
  }
  EXPECT_THAT(text, HasSubstr(absl::StrCat("csi_delta_mover_never_backed_up", kData, "1\n")));
  EXPECT_THAT(
      text, HasSubstr(absl::StrCat("csi_delta_mover_recovery_point_age_seconds", kData, "3600\n")));
  for (const char* absent : {"last_good_backup_age_seconds{", "verified_age_seconds{",
                             "verification_findings{", "last_restore_age_seconds{"}) {
    EXPECT_THAT(text, Not(HasSubstr(absent)));
  }
}

TEST(MoverMetricsTest, AVolumeWhosePvcIsGoneHasNoSamples) {
  Json status;
  status["pvcGoneAt"] = At(absl::Hours(1));
  EXPECT_THAT(TextOf(std::vector<Json>(1, status)), Not(HasSubstr("claim=\"data\"")));
}

TEST(MoverMetricsTest, OfAPvcThatWasMadeAgainTheNewestRecordCounts) {
  Json older;
  older["failures"] = 7;
  Json newer;
  newer["failures"] = 1;
  const std::string text = TextOf(std::vector<Json>{older, newer});
  EXPECT_THAT(text, HasSubstr(absl::StrCat("csi_delta_mover_consecutive_failures", kData, "1\n")));
  EXPECT_THAT(text, Not(HasSubstr(absl::StrCat("consecutive_failures", kData, "7\n"))))
      << "Prometheus refuses a page with the same series twice";
}

// An increase is seen only of a series that was there before.
TEST(MoverMetricsTest, CountersBeginAtZeroForEachValueOfTheirLabels) {
  const std::string text = MoverMetrics().Text(kNow, {});
  for (const char* phase : {"Completed", "Failed", "Canceled"}) {
    EXPECT_THAT(
        text, HasSubstr(absl::StrCat("csi_delta_mover_uploads_total{phase=\"", phase, "\"} 0\n")));
    EXPECT_THAT(text, HasSubstr(absl::StrCat("csi_delta_mover_downloads_total{phase=\"", phase,
                                             "\"} 0\n")));
  }
  for (const char* kind : {"changed", "read", "audited", "stored"}) {
    EXPECT_THAT(text,
                HasSubstr(absl::StrCat("csi_delta_mover_bytes_total{kind=\"", kind, "\"} 0\n")));
  }
  for (const incremental::FullReasonText& reason : incremental::FullReasons()) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("csi_delta_mover_full_uploads_total{reason=\"",
                                             reason.name, "\"} 0\n")));
  }
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

TEST(MoverMetricsTest, KeptSnapshotsAreCountedByState) {
  EXPECT_THAT(MoverMetrics().Text(kNow, {.kept = {{"gone", 1}, {"present", 4}}}),
              AllOf(HasSubstr("csi_delta_mover_kept_snapshots{state=\"gone\"} 1\n"),
                    HasSubstr("csi_delta_mover_kept_snapshots{state=\"present\"} 4\n")));
}

TEST(MoverMetricsTest, BasesAreCountedByDriverAndAreZeroFromTheBeginning) {
  const std::string begun = MoverMetrics().Text(kNow, {});
  EXPECT_THAT(begun, HasSubstr("csi_delta_mover_bases{driver=\"\"} 0\n"));
  EXPECT_THAT(begun, HasSubstr("csi_delta_mover_oldest_base_age_seconds 0\n"));
  const std::string text = MoverMetrics().Text(
      kNow, {.bases = {.by_driver = {{"a.example.com", 3}, {"b.example.com", 0}},
                       .oldest = kNow - absl::Hours(2)}});
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_bases{driver=\"a.example.com\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_bases{driver=\"b.example.com\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_oldest_base_age_seconds 7200\n"));
}

// Alerts compare with them.
TEST(MoverMetricsTest, SettingsAreTold) {
  MoverSettings settings;
  settings.records.stale_after = absl::Hours(200);
  settings.checks.percent_per_day = 0;
  const std::string text = MoverMetrics().Text(kNow, {.settings = &settings});
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_stale_after_seconds 720000\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_base_age_max_seconds 1.2096e+06\n"));
  EXPECT_THAT(text, HasSubstr("csi_delta_mover_check_percent_per_day 0\n"));
}

TEST(MoverMetricsTest, WhatEndedIsCounted) {
  MoverMetrics metrics;
  TransferEnd end;
  end.phase = objects::DataPhase::kCompleted;
  end.figures.mode = "full";
  end.figures.reason = "no-parent";
  end.figures.read_bytes = 4096;
  end.audit_mismatch = true;
  metrics.CountUpload(end);
  end.figures.mode = "incremental";
  end.pods_lost = 2;
  metrics.CountUpload(end);
  end.phase = objects::DataPhase::kFailed;
  metrics.CountUpload(end);
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
  metrics.CountDownload({.phase = objects::DataPhase::kCompleted, .restored_bytes = 4096});
  metrics.CountDownload({.phase = objects::DataPhase::kFailed, .restored_bytes = 0});
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
                                               deletion("Failed", "Failed", absl::Hours(200)),
                                               deletion("Completed", "", absl::Hours(9))},
                                 .leftover_tasks = 3});
  for (const char* line : {"csi_delta_mover_deletions{state=\"waiting\"} 1\n",
                           "csi_delta_mover_deletions{state=\"failing\"} 1\n",
                           "csi_delta_mover_deletions{state=\"retained\"} 1\n",
                           "csi_delta_mover_deletions{state=\"running\"} 1\n",
                           "csi_delta_mover_deletions{state=\"given_up\"} 1\n",
                           "csi_delta_mover_deletions{state=\"refused\"} 0\n",
                           "csi_delta_mover_deletions{state=\"done\"} 1\n",
                           "csi_delta_mover_oldest_deletion_age_seconds 3600\n",
                           "csi_delta_mover_leftover_tasks 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MoverMetricsTest, ForeignTextStaysInItsQuotes) {
  const std::unique_ptr<VolumeRecords> records =
      RecordsOf(std::vector<Json>(1, Json::object()), "a\"} 1\nx \\");
  EXPECT_THAT(MoverMetrics().Text(kNow, {.records = records.get()}),
              HasSubstr("claim=\"a\\\"} 1\\nx \\\\\"} 3600\n"));
}

// The names of csi-delta in a text.
std::set<std::string> FamiliesIn(const std::string& text) {
  const std::regex form("csi_delta_mover_[a-z_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), form), std::sregex_token_iterator()};
}

TEST(MoverMetricsTest, DocumentsAndAlertsNameNothingElse) {
  const std::set<std::string> families = FamiliesIn(MoverMetrics().Text(kNow, {}));
  EXPECT_EQ(FamiliesIn(support::ReadSource("docs/data-mover-status.md")), families);
  const std::set<std::string> alerts =
      FamiliesIn(support::ReadSource("deploy/chart/files/alerts.yaml"));
  EXPECT_GE(alerts.size(), 15U);
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
