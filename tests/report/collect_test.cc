// The records of a cluster; repositories are read in tests/cli/report_verb_test.cc.
#include "report/collect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "objects/backup.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "tests/report/sample_report.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::report::collect_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const k8s::ResourceType kSchedules = {"velero.io", "v1", "schedules", "Schedule", true};
constexpr char kUid[] = "b0000000-0000-4000-8000-000000000001";
constexpr char kCluster[] = "c1000000-0000-4000-8000-000000000001";

class ReadClusterTest : public testing::Test {
 protected:
  static std::string At(int nights_ago) {
    return FormatRfc3339(SampleNow() - absl::Hours(6 + 24 * nights_ago));
  }
  static Json Meta(const std::string& name, const std::string& at) {
    return {{"name", name}, {"namespace", "velero"}, {"creationTimestamp", at}};
  }
  static std::string Reference(char digit) {
    return absl::StrCat("csi-delta/1/", kCluster, "/shop/", kUid, "/", std::string(64, digit), "/",
                        std::string(16, '9'));
  }

  void AddUpload(const std::string& backup, int nights_ago, const std::string& phase,
                 const std::string& pvc_namespace = "shop",
                 const std::string& mover = "csi-delta") {
    Json metadata = Meta(absl::StrCat(backup, "-", pvc_namespace), At(nights_ago));
    metadata["labels"] = {{objects::kBackupNameLabel, backup}, {objects::kPvcUidLabel, kUid}};
    metadata["annotations"] = {{objects::kUploadModeAnnotation, "incremental"},
                               {objects::kUploadBaseAnnotation, std::string(64, 'a')},
                               {objects::kReadBytesAnnotation, "4096"},
                               {objects::kAuditBytesAnnotation, "8192"}};
    api_.Seed(objects::DataUpload::Type(),
              {{"metadata", metadata},
               {"spec",
                {{"datamover", mover},
                 {"sourceNamespace", pvc_namespace},
                 {"sourcePVC", "orders"},
                 {"backupStorageLocation", "default"}}},
               {"status",
                {{"phase", phase},
                 {"message", phase == "Failed" ? "no room" : ""},
                 {"snapshotID", Reference('b')},
                 {"progress", {{"bytesDone", 1 << 20}, {"totalBytes", 1 << 20}}}}}});
  }
  void AddRecord() {
    api_.Seed(objects::ProtectedVolume::Type(),
              {{"metadata", Meta("orders", At(20))},
               {"spec",
                {{"namespace", "shop"},
                 {"pvc", "orders"},
                 {"pvcUID", kUid},
                 {"backupStorageLocation", "default"}}},
               {"status",
                {{"nextStep", "look"},
                 {"verification",
                  {{"at", At(1)},
                   {"finding", "pack 6e is damaged"},
                   {"brokenBackups", Json::array({"nightly-2"})}}}}}});
  }
  void AddBackup(const std::string& name, const std::string& phase) {
    api_.Seed(
        objects::Backup::Type(),
        {{"metadata", Meta(name, At(0))},
         {"spec", {{"snapshotMoveData", true}, {"datamover", "csi-delta"}}},
         {"status", {{"phase", phase}, {"validationErrors", Json::array({"location is gone"})}}}});
  }
  void AddSchedule(const std::string& name, const std::string& cron, bool is_paused) {
    api_.Seed(kSchedules, {{"metadata", Meta(name, At(20))},
                           {"spec",
                            {{"schedule", cron},
                             {"paused", is_paused},
                             {"template",
                              {{"snapshotMoveData", true},
                               {"datamover", "csi-delta"},
                               {"includedNamespaces", Json::array({"shop"})}}}}}});
  }

  ClusterVolumes Read(const std::string& of = "") {
    auto found = ReadCluster({}, api_,
                             {.velero_namespaces = {"velero"},
                              .namespace_name = of,
                              .since = SampleNow() - absl::Hours(24 * 30)});
    EXPECT_THAT(found.status(), support::IsOk());
    return found.value_or(ClusterVolumes());
  }

  support::FakeApiClient api_;
};

TEST_F(ReadClusterTest, JoinsWhatTheRecordsSayOfAVolume) {
  AddRecord();
  AddUpload("nightly-2", 2, "Completed");
  AddUpload("nightly-1", 1, "Completed");
  AddUpload("nightly-0", 0, "Failed");
  AddUpload("other", 1, "Completed", "shop", "velero");
  AddUpload("now", 0, "InProgress");
  AddSchedule("nightly", "0 2 * * *", /*is_paused=*/false);
  AddSchedule("paused", "0 3 * * *", /*is_paused=*/true);
  const ClusterVolumes found = Read();
  ASSERT_EQ(found.volumes.size(), 1U);
  EXPECT_THAT(found.notes, IsEmpty());
  VolumeEntry volume = found.volumes[0];
  EXPECT_EQ(volume.name, "shop/orders");
  EXPECT_EQ(volume.location, "velero/default");
  EXPECT_THAT(volume.schedules, ElementsAre("0 2 * * *"));
  EXPECT_EQ(volume.finding, "pack 6e is damaged");
  EXPECT_TRUE(volume.verified_at.has_value());
  Report report = {.made_at = SampleNow(), .since = SampleNow() - absl::Hours(24 * 30)};
  report.volumes.push_back(volume);
  ASSERT_THAT(Normalize(report), support::IsOk());
  const auto& backups = report.volumes[0].backups;
  ASSERT_EQ(backups.size(), 3U);
  EXPECT_EQ(backups[0].state, BackupState::kBroken);
  EXPECT_EQ(backups[1].snapshot, "bbbbbbbb");
  EXPECT_EQ(backups[1].base, "aaaaaaaa");
  EXPECT_EQ(backups[1].read_bytes, 4096);
  EXPECT_EQ(backups[1].audit_bytes, 8192);
  EXPECT_EQ(backups[1].size_bytes, 1 << 20);
  EXPECT_EQ(backups[2].state, BackupState::kFailed);
  EXPECT_EQ(backups[2].message, "no room");
  EXPECT_EQ(found.repositories[0].path,
            absl::StrCat("plugins/csi-delta/", kCluster, "/shop/", kUid));
  EXPECT_TRUE(found.repositories[0].has_more) << "it is known for 20 days";
}

TEST_F(ReadClusterTest, ABackupThatMovedNothingFailedForEachOfItsVolumes) {
  AddUpload("nightly-0", 0, "Completed");
  AddUpload("nightly-0", 0, "Completed", "billing");
  AddBackup("broken", "FailedValidation");
  AddBackup("nightly-0", "Failed");
  AddBackup("fine", "Completed");
  const ClusterVolumes found = Read();
  ASSERT_EQ(found.volumes.size(), 2U);
  for (const VolumeEntry& volume : found.volumes) {
    ASSERT_EQ(volume.backups.size(), 2U);
    EXPECT_EQ(volume.backups[1].backup, "broken");
    EXPECT_THAT(volume.backups[1].message, HasSubstr("location is gone; velero backup describe"));
  }
  EXPECT_THAT(Read("billing").volumes, testing::SizeIs(1));
}

TEST_F(ReadClusterTest, NotesWhatItMayNotRead) {
  AddUpload("nightly-0", 0, "Completed");
  api_.Forbid("list", "schedules");
  api_.RemoveType("protectedvolumes");
  EXPECT_THAT(Read().notes, ElementsAre(HasSubstr("protectedvolumes"), HasSubstr("schedules")));
  api_.Forbid("list", "datauploads");
  EXPECT_TRUE(
      absl::IsPermissionDenied(ReadCluster({}, api_, {.velero_namespaces = {"velero"}}).status()));
}

}  // namespace
}  // namespace csidelta::report::collect_test
