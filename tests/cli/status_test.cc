#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"
#include "cli/mover/movement_json.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/finished_upload.h"
#include "tests/support/kind_names.h"
#include "tests/support/list_page.h"
#include "tests/support/sanitized.h"

namespace csidelta::cli::status_test {
namespace {

using support::ServedConnection;
using support::ServedRequest;
using testing::HasSubstr;
using testing::Not;

// 500 volumes each night, kept for thirty days.
constexpr int kUploads = support::kSanitizer == nullptr ? 15'000 : 1'000;
constexpr int kNights = 30;

class StatusTest : public testing::Test {
 protected:
  StatusTest()
      : server_(api_,
                {DataUploadType(), DataDownloadType(), ConfigMapType(), PersistentVolumeClaimType(),
                 VolumeSnapshotContentType(), objects::Restore::Type(),
                 objects::ProtectedVolume::Type(), objects::VolumeTask::Type()},
                {}, [this](const ServedRequest& request, ServedConnection& connection) {
                  return AnswerUploads(request, connection);
                }) {
    program_.Write("kubeconfig", server_.Kubeconfig());
  }

  // A list of kUploads DataUploads, of which the last one is being moved. In pages, unless it is
  // asked for as the API server remembers it: then, as a real one does, all in one answer, of 69
  // MiB.
  bool AnswerUploads(const ServedRequest& request, ServedConnection& connection) {
    if (!serves_many_ || request.target.find("/datauploads?") == std::string::npos) {
      return false;
    }
    const bool is_from_memory = request.target.find("resourceVersion=0") != std::string::npos;
    const auto [from, end] = is_from_memory ? support::ListPage{.from = 0, .end = kUploads}
                                            : support::PageIn(request.target, kUploads);
    std::string page = absl::StrCat(
        R"({"kind":"DataUploadList","metadata":{"resourceVersion":"1")",
        end < kUploads ? absl::StrCat(R"(,"continue":")", end, "\"") : "", "},\"items\":[");
    for (int i = from; i < end; ++i) {
      const std::string upload = support::FinishedUpload(upload_, i, kNights);
      absl::StrAppend(&page, i == from ? "" : ",",
                      i == kUploads - 1
                          ? absl::StrReplaceAll(upload, {{"\"Completed\"", "\"InProgress\""}})
                          : upload);
    }
    page += "]}";
    ++pages_;
    connection.Send(200, page, {{"Content-Type", "application/json"}});
    return true;
  }

  void AddRecord(const std::string& pvc, const Json& status,
                 const std::string& velero_namespace = "velero") {
    const std::string uid = absl::StrCat("uid-of-", pvc);
    api_.Seed(objects::ProtectedVolume::Type(),
              {{"metadata",
                {{"name", objects::ProtectedVolume::NameOf(uid, "default")},
                 {"namespace", velero_namespace}}},
               {"spec",
                {{"namespace", "shop"},
                 {"pvc", pvc},
                 {"pvcUID", uid},
                 {"backupStorageLocation", "default"}}},
               {"status", status}});
  }
  void AddGoodAndBad() {
    const std::string taken_at = FormatRfc3339(absl::Now() - absl::Hours(5) - absl::Minutes(1));
    AddRecord("a-good",
              {{"lastGoodBackup",
                {{"takenAt", taken_at}, {"mode", "incremental"}, {"logicalBytes", 1 << 20}}},
               {"base", {{"volumeSnapshotContent", "du-1"}, {"takenAt", taken_at}}}});
    AddRecord("z-bad", {{"failures", 2},
                        {"nextStep", "never backed up; the last 2 uploads failed: no room"}});
  }

  // A DataUpload of a PVC of shop; `annotations` are its figures, without their prefix.
  void AddUpload(const std::string& backup, const std::string& pvc, const std::string& phase,
                 const std::map<std::string, std::string>& annotations, int minute = 0,
                 const std::string& mover = "csi-delta") {
    const auto at = [minute](int second) {
      return FormatRfc3339(absl::FromUnixSeconds(1'700'000'000 + 60 * minute + second));
    };
    Json figures = Json::object();
    for (const auto& [name, value] : annotations) {
      figures[absl::StrCat("mover.csi-delta.io/", name)] = value;
    }
    api_.Seed(DataUploadType(),
              {{"metadata",
                {{"name", absl::StrCat(backup, "-", pvc)},
                 {"namespace", "velero"},
                 {"uid", absl::StrCat("uid-of-", backup, "-", pvc)},
                 {"creationTimestamp", at(0)},
                 {"labels",
                  {{objects::kBackupNameLabel, backup}, {objects::kPvcUidLabel, "uid-of-" + pvc}}},
                 {"annotations", figures}}},
               {"spec",
                {{"datamover", mover},
                 {"sourceNamespace", "shop"},
                 {"sourcePVC", pvc},
                 {"backupStorageLocation", "default"}}},
               {"status",
                {{"phase", phase},
                 {"message", phase == "Failed" ? "no room" : ""},
                 {"startTimestamp", at(1)},
                 {"completionTimestamp", at(13)},
                 {"progress", {{"bytesDone", 1 << 30}, {"totalBytes", 1 << 30}}}}}});
  }
  void AddBackups() {
    const std::map<std::string, std::string> full = {{"mode", "full"},
                                                     {"reason", "parent-damaged: pack 6e0ca2f1"},
                                                     {"changed-bytes", "1073741824"},
                                                     {"read-bytes", "1073741824"},
                                                     {"stored-bytes", "536870912"}};
    const std::map<std::string, std::string> incremental = {{"mode", "incremental"},
                                                            {"changed-bytes", "3145728"},
                                                            {"read-bytes", "4194304"},
                                                            {"stored-bytes", "3200000"}};
    AddUpload("shop-1", "orders", "Completed", full);
    AddUpload("shop-2", "orders", "Completed", full, 60);
    AddUpload("shop-2", "pictures", "Completed", incremental, 60);
    AddUpload("shop-2", "z", "Failed", {}, 60);
    AddUpload("shop-2", "other", "Completed", {}, 60, "velero");
    AddRecord("pictures",
              {{"verification", {{"at", FormatRfc3339(absl::Now() - absl::Hours(3))}}}});
    // Of the same name: another Velero backs up that PVC, too.
    AddRecord("pictures", {{"verification", {{"brokenBackups", Json::array({"shop-2"})}}}},
              "velero-two");
  }
  static void ExpectLinesWithin(const std::string& out, std::size_t columns) {
    for (const absl::string_view line : absl::StrSplit(out, '\n')) {
      EXPECT_LE(line.size(), columns) << line;
    }
  }

  // A Restore that left PVCs of these names and uids without data.
  void AddRestore(const Json& pvcs) {
    api_.Seed(objects::Restore::Type(),
              {{"metadata",
                {{"name", "back"},
                 {"namespace", "velero"},
                 {"creationTimestamp", "2026-01-02T00:00:00Z"},
                 {"annotations", {{objects::kWithoutDataAnnotation, pvcs.dump()}}}}}});
  }
  void AddPvc(const std::string& name, const std::string& restored_at = "") {
    api_.Seed(PersistentVolumeClaimType(),
              {{"metadata",
                {{"name", name},
                 {"namespace", "shop"},
                 {"uid", "uid-of-" + name},
                 {"annotations", {{objects::kRestoredAtAnnotation, restored_at}}}}}});
  }
  static Json LeftWithoutData(const std::string& name) {
    return {{"namespace", "shop"},
            {"name", name},
            {"uid", "uid-of-" + name},
            {"command", "csi-delta restore --into shop/" + name}};
  }

  Outcome Status(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"status", "--kubeconfig", program_.Path("kubeconfig")};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words);
  }

  const std::string upload_ = support::FinishedUpload();
  bool serves_many_ = false;
  std::atomic<int> pages_ = 0;
  support::FakeApiClient api_;
  support::ApiTestServer server_;
  ProgramRunner program_;
};

TEST_F(StatusTest, WorksAmongVeryManyDataUploadsThatAreOver) {
  serves_many_ = true;
  const Outcome outcome = Status();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("-", 100'000 + kUploads - 1)));
  EXPECT_THAT(outcome.out, Not(HasSubstr("-100000")));
  EXPECT_GT(pages_, 1);
}

TEST_F(StatusTest, ShowsProtectedVolumesThoseThatNeedSomethingFirst) {
  AddGoodAndBad();
  const Outcome outcome = Status();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("nothing is being moved\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nProtected volumes\n"));
  EXPECT_LT(outcome.out.find("shop/z-bad"), outcome.out.find("shop/a-good"));
  EXPECT_THAT(outcome.out, HasSubstr("never backed up; the last 2 uploads failed: no room"));
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("shop/a-good +velero/default +5h +incremental +1.0 MiB +5h"));
  const Json list = Status({"--json"}).Result();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["kind"], "volume");
  EXPECT_EQ(list[0]["volume"], "shop/z-bad");
  EXPECT_EQ(list[0]["failures"], 2);
  EXPECT_EQ(list[1]["mode"], "incremental");
  EXPECT_EQ(list[1]["logical_bytes"], 1 << 20);
  EXPECT_EQ(list[1]["next_step"], "");
}

TEST_F(StatusTest, NamesBackupsWhoseSnapshotsTheStorageLost) {
  const auto add = [this](const std::string& name, const Json& status) {
    api_.Seed(
        VolumeSnapshotContentType(),
        {{"metadata",
          {{"name", name},
           {"labels",
            {{objects::kKeptLabel, "later"}, {objects::kMoverVeleroNamespaceLabel, "velero"}}},
           {"annotations",
            {{objects::kBackupNameLabel, name}, {objects::kMemberClaimAnnotation, "shop/data"}}}}},
         {"spec", {{"driver", "d"}, {"source", {{"snapshotHandle", "snap-1"}}}}},
         {"status", status}});
  };
  add("good", {{"readyToUse", true}, {"restoreSize", 4096}});
  EXPECT_THAT(Status().out, Not(HasSubstr("Lost on the storage")));
  add("lost", {{"error", {{"message", "can not find snapshot for snapshotID snap-1"}}}});
  const std::string out = Status().out;
  EXPECT_THAT(out, testing::ContainsRegex("\nLost on the storage\n Backup +Not restorable\n "
                                          "velero/lost +the snapshot of PVC shop/data \\(snap-1 of "
                                          "d\\) is gone: can not find"));
  EXPECT_THAT(out, Not(HasSubstr("velero/good")));
  EXPECT_EQ(Status({"--json"}).Result()[0]["backup"], "velero/lost");
  api_.Forbid("list", "volumesnapshotcontents");
  EXPECT_THAT(Status().error, HasSubstr("lost snapshots are not known"));
}

TEST_F(StatusTest, ShowsWhatARestoreLeftWithoutDataUntilItIsRestoredOrMadeAgain) {
  AddRestore({LeftWithoutData("empty"), LeftWithoutData("old"), LeftWithoutData("done"),
              LeftWithoutData("again"), LeftWithoutData("gone")});
  AddPvc("empty");
  AddPvc("old", "2026-01-01T00:00:00Z");
  AddPvc("done", "2026-01-03T00:00:00Z");
  AddPvc("again");
  api_.SetField(ClaimKey("shop", "again"), {"metadata", "uid"}, "another");
  const std::string out = Status().out;
  EXPECT_THAT(out, testing::ContainsRegex("\nRestored without data\n PVC +Restore +Next step\n "
                                          "shop/empty +velero/back +without a Pod that uses the "
                                          "PVC: csi-delta restore --into shop/empty\n shop/old "));
  for (const char* other : {"shop/done", "shop/again", "shop/gone"}) {
    EXPECT_THAT(out, Not(HasSubstr(other)));
  }
  const Json list = Status({"--json"}).Result();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["kind"], "unrestored");
  EXPECT_EQ(list[0]["restore"], "velero/back");
  EXPECT_EQ(list[0]["volume"], "shop/empty");
  EXPECT_EQ(list[0]["next_step"],
            "without a Pod that uses the PVC: csi-delta restore --into shop/empty");
  api_.Forbid("list", "restores");
  EXPECT_THAT(Status().error, HasSubstr("left without data is not known"));
}

TEST_F(StatusTest, ABackupIsOneTableOfWhatItDidWithEachVolume) {
  AddBackups();
  const Outcome outcome = Status({"--backup", "shop-2", "--velero-namespace", "velero,velero-two"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(
      outcome.out,
      testing::MatchesRegex(
          "Volume +Mode +Why full +Changed +Read +Stored +Took +Verified +Next step\n"
          "shop/orders +full +The earlier backup cannot be read .* again\\. pack 6e0ca2f1 +1.0 GiB "
          "+1.0 GiB +512.0 MiB +12.00 s +not yet +Run csi-delta check: .*\n"
          "shop/pictures +incr +3.0 MiB +4.0 MiB +3.1 MiB +12.00 s +3h ago\n"
          "shop/z +Failed +no room; csi-delta doctor looks for the cause\n"));
  const Json list = Status({"--backup", "shop-2", "-o", "json"}).Result();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["kind"], "backup");
  EXPECT_EQ(list[0]["reason"], "parent-damaged: pack 6e0ca2f1");
  EXPECT_EQ(list[0]["stored_bytes"], 536870912);
  EXPECT_EQ(list[0]["duration_ms"], 12000);
  EXPECT_TRUE(list[0]["restorable"].is_null()) << "it has no record";
  EXPECT_EQ(list[1]["restorable"], true);
  EXPECT_EQ(Status({"--backup", "shop-2", "-o", "name"}).out,
            "dataupload.velero.io/shop-2-orders\n"
            "dataupload.velero.io/shop-2-pictures\ndataupload.velero.io/shop-2-z\n");
  EXPECT_THAT(Status({"--backup", "shop-2", "-o", "yaml"}).out, HasSubstr("backup: shop-2\n"));
}

TEST_F(StatusTest, AFlagThatWouldChangeNothingIsRefused) {
  EXPECT_THAT(Status({"-A"}).error, HasSubstr("leave out -A"));
  EXPECT_THAT(Status({"--all", "--backup", "shop-2"}).error, HasSubstr("leave out --all"));
  EXPECT_THAT(Status({"--all", "-n", "shop"}).error, HasSubstr("leave out --all"));
  EXPECT_THAT(Status({"--watch"}).error, HasSubstr("--watch draws on a terminal"));
  program_.out_is_terminal = true;
  EXPECT_EQ(Status({"--watch", "--json"}).code, ExitCode::kFailed);
}

TEST_F(StatusTest, ANamespaceIsTheNewestBackupOfEachVolume) {
  AddBackups();
  const Json list = Status({"-n", "shop", "--json"}).Result();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["backup"], "shop-2");
  EXPECT_THAT(Status({"-n", "empty"}).error, HasSubstr("; csi-delta try empty"));
  EXPECT_THAT(Status({"--backup", "no"}).error, HasSubstr("; velero backup describe no --details"));
}

TEST_F(StatusTest, NoLineIsLongerThanTheTerminalIsWide) {
  AddBackups();
  AddGoodAndBad();
  AddUpload("shop-3-of-a-long-name", "pictures-of-many-years", "InProgress", {}, 90);
  program_.out_is_terminal = true;
  for (const int columns : {80, 120}) {
    program_.table_columns = columns;
    const std::string all = Status({"--all"}).out;
    ExpectLinesWithin(all, static_cast<std::size_t>(columns));
    EXPECT_THAT(all, HasSubstr("Next step: never backed up; the last 2 uploads failed: no room\n"));
    const std::string backup = Status({"--backup", "shop-2"}).out;
    ExpectLinesWithin(backup, static_cast<std::size_t>(columns));
    EXPECT_THAT(backup, testing::ContainsRegex("shop/orders +full +1.0 GiB +1.0 GiB +512.0 MiB"));
    EXPECT_THAT(backup, HasSubstr("\n    Why full: The earlier backup cannot be read"));
    EXPECT_THAT(Status({"--backup", "shop-2", "-o", "wide"}).out, Not(HasSubstr("\n    ")));
  }
}

TEST_F(StatusTest, WatchDrawsAgainAndEndsWhenInterrupted) {
  program_.out_is_terminal = true;
  std::stop_source stop;
  bool is_added = false;
  program_.on_out = [&](const std::string& out) {
    if (out.find("shop/z-bad") != std::string::npos) {
      stop.request_stop();
    } else if (!is_added && out.find("nothing is being moved") != std::string::npos) {
      is_added = true;
      AddGoodAndBad();
    }
  };
  const Outcome outcome = program_.Run(
      {"status", "--watch", "--kubeconfig", program_.Path("kubeconfig")}, stop.get_token());
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_TRUE(outcome.out.starts_with("\x1b[H\x1b[Jnothing is being moved\n"));
}

// Before the CRD is there, as between the two halves of an upgrade.
TEST_F(StatusTest, SaysThatProtectedVolumesAreNotKnown) {
  api_.RemoveType("protectedvolumes");
  const Outcome outcome = Status();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("the protected volumes of namespace velero are not known"));
  EXPECT_THAT(outcome.out, HasSubstr("nothing is being moved\n"));
}

TEST(MovementJson, HasWhatIsKnown) {
  datamover::Movement movement;
  movement.kind = "upload";
  movement.message = "waits for u1";
  movement.total_bytes = 7;
  const Json unknown = ToJson(movement);
  EXPECT_EQ(unknown["kind"], "upload");
  EXPECT_EQ(unknown["message"], "waits for u1");
  EXPECT_EQ(unknown["total_bytes"], 7);
  for (const char* field : {"created_at", "bytes_per_second", "seconds_left", "waits_for"}) {
    EXPECT_FALSE(unknown.contains(field)) << field;
  }
  movement.waits_for = datamover::WaitReason::kVolume;
  movement.left = absl::Seconds(30);
  EXPECT_EQ(ToJson(movement)["waits_for"], "volume");
  EXPECT_EQ(ToJson(movement)["seconds_left"], 30);
}

}  // namespace
}  // namespace csidelta::cli::status_test
