// csi-delta try: a namespace is backed up twice, restored, compared, and all that is
// removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/cluster.h"
#include "objects/core.h"
#include "objects/data_transfer.h"
#include "objects/differential_snapshot.h"
#include "objects/persistent_volume.h"
#include "objects/protected_volume.h"
#include "objects/storage_class.h"
#include "objects/volume_snapshot.h"
#include "objects/workload.h"
#include "tests/cli/program_runner.h"
#include "tests/support/api_test_server.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::cli::try_test {
namespace {

using objects::Backup;
using objects::BackupStorageLocation;
using objects::DataDownload;
using objects::DataUpload;
using objects::DeleteBackupRequest;
using objects::Deployment;
using objects::Lease;
using objects::Namespace;
using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::ProtectedVolume;
using objects::Restore;
using objects::SnapshotMetadataService;
using objects::VolumeSnapshotClass;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kTrial[] = "mover.csi-delta.io/try";
constexpr char kDriver[] = "block.example";
constexpr int64_t kMib = 1 << 20;

// A cluster with Velero, the data mover and an application with two PVCs, of which one changes.
class TryTest : public testing::Test {
 protected:
  TryTest()
      : api_server_(
            api_, {Backup::Type(), Restore::Type(), DeleteBackupRequest::Type(), DataUpload::Type(),
                   DataDownload::Type(), PersistentVolumeClaim::Type(), PersistentVolume::Type(),
                   Namespace::Type(), BackupStorageLocation::Type(), Lease::Type(),
                   Deployment::Type(), VolumeSnapshotClass::Type(), SnapshotMetadataService::Type(),
                   SnapshotMetadataService::kKind.TypeOf("v1alpha1"),
                   objects::DifferentialSnapshot::Type(), ProtectedVolume::Type()}) {
    program_.Write("kubeconfig", api_server_.Kubeconfig());
    api_.RemoveType("differentialsnapshots");
    AddCluster();
    for (const char* pvc : {"data", "logs"}) {
      AddPvc("shop", pvc, "Delete");
    }
    api_.OnCreate("backups", [this](auto&, const Json& backup) { RunBackup(backup); });
    api_.OnCreate("restores", [this](auto&, const Json& restore) { RunRestore(restore); });
    api_.OnCreate("deletebackuprequests",
                  [this](auto&, const Json& request) { RunDeletion(request); });
    api_.OnEvent("datauploads", [this](auto&, const auto& event) { CancelUpload(event.object); });
  }

  void AddCluster() {
    api_.Seed(Namespace::Type(), {{"metadata", {{"name", "shop"}}}, {"status", Json::object()}});
    api_.Seed(BackupStorageLocation::Type(),
              {{"metadata", {{"name", "default"}, {"namespace", "velero"}}},
               {"spec", {{"default", true}}},
               {"status", {{"phase", "Available"}}}});
    AddServer("--features=EnableCSI", "example/velero-plugin-for-csi-delta:v1");
    AddLease(absl::Now());
    AddSnapshotClass("fast", true);
    api_.Seed(SnapshotMetadataService::Type(),
              {{"metadata", {{"name", kDriver}}},
               {"spec",
                {{"address", "metadata.csi:6443"},
                 {"audience", "block"},
                 {"caCert", "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"}}}});
  }
  void AddServer(const std::string& argument, const std::string& init_image) {
    api_.Seed(Deployment::Type(),
              {{"metadata", {{"name", "velero"}, {"namespace", "velero"}}},
               {"spec",
                {{"template",
                  {{"spec",
                    {{"containers", Json::array({{{"name", "velero"},
                                                  {"image", "velero/velero:v1.18.1"},
                                                  {"args", Json::array({"server", argument})}}})},
                     {"initContainers",
                      Json::array({{{"name", "plugin"}, {"image", init_image}}})}}}}}}}});
  }
  void AddLease(absl::Time renewed_at) {
    api_.Seed(
        Lease::Type(),
        {{"metadata", {{"name", "csi-delta-datamover"}, {"namespace", "csi-delta"}}},
         {"spec",
          {{"holderIdentity", "controller"}, {"renewTime", FormatRfc3339Micros(renewed_at)}}}});
  }
  void AddSnapshotClass(const std::string& name, bool is_labelled) {
    Json object = {{"metadata", {{"name", name}}}, {"driver", kDriver}};
    if (is_labelled) {
      object["metadata"]["labels"] = {{"velero.io/csi-volumesnapshot-class", "true"}};
    }
    api_.Seed(VolumeSnapshotClass::Type(), object);
  }
  void AddPvc(const std::string& space, const std::string& pvc, const std::string& policy,
              const std::string& driver = kDriver) {
    const std::string volume = absl::StrCat("pv-", space, "-", pvc);
    api_.Seed(PersistentVolumeClaim::Type(), {{"metadata", {{"name", pvc}, {"namespace", space}}},
                                              {"spec", {{"volumeName", volume}}},
                                              {"status", {{"phase", "Bound"}}}});
    Json spec = {{"persistentVolumeReclaimPolicy", policy}};
    if (!driver.empty()) {
      spec["csi"] = {{"driver", driver}, {"volumeHandle", volume}};
    }
    api_.Seed(PersistentVolume::Type(), {{"metadata", {{"name", volume}}}, {"spec", spec}});
  }

  // --- What Velero and the data mover do.

  void RunBackup(const Json& backup) {
    const std::string name = k8s::Name(backup);
    const bool is_first = api_.All(DataUpload::Type()).empty();
    const bool is_stopped = !held_backup_.empty() && name.ends_with(held_backup_);
    const bool is_held = is_stopped || (is_first && holds_first_);
    for (const std::string& pvc : moved_pvcs_) {
      AddUpload(name, pvc, is_first, is_held);
    }
    SetPhase(Backup::Type(), name, is_held ? "WaitingForPluginOperations" : backup_phase_);
    if (is_stopped) {
      stop_.request_stop();
    }
  }
  void AddUpload(const std::string& backup, const std::string& pvc, bool is_first, bool is_held) {
    const bool is_full = is_first || second_mode_ == "full";
    const int64_t changed = is_full ? 64 * kMib : changed_bytes_;
    Json status = {
        {"phase", is_held ? "InProgress" : upload_phase_},
        {"message", upload_message_},
        {"startTimestamp", "2026-11-28T07:00:00Z"},
        {"completionTimestamp", "2026-11-28T07:01:05Z"},
        {"progress", {{"totalBytes", 64 * kMib}, {"bytesDone", (is_held ? 16 : 64) * kMib}}}};
    AddRecord("shop", pvc, backup);
    api_.Seed(DataUpload::Type(),
              {{"metadata",
                {{"name", absl::StrCat(backup, "-", pvc)},
                 {"namespace", "velero"},
                 {"labels", {{"velero.io/backup-name", backup}}},
                 {"annotations",
                  {{"mover.csi-delta.io/mode", is_full ? "full" : "incremental"},
                   {"mover.csi-delta.io/reason", is_full ? "first: there is no earlier one" : ""},
                   {"mover.csi-delta.io/changed-bytes", absl::StrCat(changed)},
                   {"mover.csi-delta.io/read-bytes", absl::StrCat(changed)},
                   {"mover.csi-delta.io/audit-bytes", absl::StrCat(4 * kMib)},
                   {"mover.csi-delta.io/stored-bytes", absl::StrCat(changed + 1000)}}}}},
               {"spec",
                {{"snapshotType", "CSI"},
                 {"datamover", "csi-delta"},
                 {"backupStorageLocation", "default"},
                 {"sourceNamespace", "shop"},
                 {"sourcePVC", pvc}}},
               {"status", status}});
  }
  // The record of a PVC, which is there once.
  void AddRecord(const std::string& space, const std::string& pvc, const std::string& backup,
                 const std::string& created = "") {
    const k8s::ObjectKey key = ProtectedVolume::Key("velero", absl::StrCat(space, "-", pvc));
    if (!api_.Find(key).has_value()) {
      Json metadata = {{"name", key.name}, {"namespace", "velero"}};
      if (!created.empty()) {
        metadata["creationTimestamp"] = created;
      }
      api_.Seed(
          ProtectedVolume::Type(),
          {{"metadata", metadata},
           {"spec",
            {{"namespace", space}, {"pvc", pvc}, {"pvcUID", "uid"}, {"location", "default"}}}});
    }
    api_.Mutate(key, [&backup](Json& record) {
      record["status"] = {{"lastGoodBackup", {{"backup", backup}}},
                          {"lastAttempt", {{"backup", backup}, {"phase", "Completed"}}}};
    });
  }
  // The data mover ends a transfer that is cancelled, and Velero the Backup.
  void CancelUpload(const Json& upload) {
    if (!GetBool(upload, {"spec", "cancel"})) {
      return;
    }
    SetPhase(DataUpload::Type(), k8s::Name(upload), "Canceled");
    SetPhase(Backup::Type(), k8s::Label(upload, "velero.io/backup-name"), "PartiallyFailed");
  }
  void RunRestore(const Json& restore) {
    const std::string into = GetString(restore, {"spec", "namespaceMapping", "shop"});
    api_.Seed(Namespace::Type(), {{"metadata", {{"name", into}}}, {"status", Json::object()}});
    for (const std::string& pvc : moved_pvcs_) {
      if (pvc == lost_pvc_) {
        continue;
      }
      AddPvc(into, pvc, "Retain");
      api_.Seed(DataDownload::Type(),
                {{"metadata",
                  {{"name", absl::StrCat("dd-", pvc)},
                   {"namespace", "velero"},
                   {"labels", {{"velero.io/restore-name", k8s::Name(restore)}}}}},
                 {"spec",
                  {{"datamover", "csi-delta"},
                   {"backupStorageLocation", "default"},
                   {"sourceNamespace", "shop"},
                   {"snapshotID", "s"},
                   {"targetVolume", {{"namespace", into}, {"pvc", pvc}, {"pv", ""}}}}},
                 {"status", {{"phase", download_phase_}, {"message", "pack 1 is damaged"}}}});
    }
    SetPhase(Restore::Type(), k8s::Name(restore), restore_phase_);
  }
  void RunDeletion(const Json& request) {
    const std::string backup = GetString(request, {"spec", "backupName"});
    if (!deletion_error_.empty()) {
      api_.Mutate(
          {DeleteBackupRequest::Type(), "velero", k8s::Name(request)}, [this](Json& object) {
            object["status"] = {{"phase", "Processed"}, {"errors", Json::array({deletion_error_})}};
          });
      return;
    }
    api_.Remove({Backup::Type(), "velero", backup});
    for (const Json& restore : api_.All(Restore::Type())) {
      if (GetString(restore, {"spec", "backupName"}) == backup) {
        api_.Remove({Restore::Type(), "velero", k8s::Name(restore)});
      }
    }
    for (const Json& upload : api_.All(DataUpload::Type())) {
      if (k8s::Label(upload, "velero.io/backup-name") == backup) {
        api_.Remove({DataUpload::Type(), "velero", k8s::Name(upload)});
      }
    }
    deleted_backups_.insert(backup);
    api_.Remove({DeleteBackupRequest::Type(), "velero", k8s::Name(request)});
  }
  void SetPhase(const k8s::ResourceType& type, const std::string& name, const std::string& phase) {
    api_.Mutate({type, "velero", name}, [&](Json& object) { object["status"]["phase"] = phase; });
  }

  // A Backup of the user with both PVCs, which no run made.
  void AddBackup(const std::string& name, const std::string& created, const std::string& space,
                 const std::string& phase = "Completed") {
    api_.Seed(
        Backup::Type(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}, {"creationTimestamp", created}}},
         {"spec", {{"includedNamespaces", Json::array({space})}}},
         {"status", {{"phase", phase}}}});
    for (const std::string& pvc : moved_pvcs_) {
      AddUpload(name, pvc, true, false);
    }
  }

  // --- What earlier runs left.

  void AddBackupOfEarlierRun(const std::string& name, const std::string& phase) {
    api_.Seed(
        Backup::Type(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}, {"labels", {{kTrial, "shop"}}}}},
         {"spec", {{"includedNamespaces", Json::array({"shop"})}}},
         {"status", {{"phase", phase}}}});
  }
  void AddRestoreOfEarlierRun(const std::string& phase, const std::string& created) {
    api_.Seed(Restore::Type(), {{"metadata",
                                 {{"name", "earlier"},
                                  {"namespace", "velero"},
                                  {"creationTimestamp", created},
                                  {"labels", {{kTrial, "shop"}}}}},
                                {"spec",
                                 {{"backupName", "earlier-2"},
                                  {"includedNamespaces", Json::array({"shop"})},
                                  {"namespaceMapping", {{"shop", "shop-try"}}}}},
                                {"status", {{"phase", phase}}}});
  }
  void AddScratch(const std::string& created) {
    api_.Seed(Namespace::Type(),
              {{"metadata", {{"name", "shop-try"}, {"creationTimestamp", created}}},
               {"status", Json::object()}});
  }

  Outcome Run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"try", "shop", "--kubeconfig", program_.Path("kubeconfig")};
    words.insert(words.end(), more.begin(), more.end());
    return program_.Run(words, stop_.get_token());
  }
  void ExpectRefusal(const std::string& reason, const std::string& next_step) {
    const Outcome outcome = Run();
    EXPECT_EQ(outcome.code, ExitCode::kFailed);
    EXPECT_THAT(outcome.error, AllOf(HasSubstr(reason), HasSubstr(next_step)));
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(api_.CallCount("create", "backups"), 0);
  }
  void ExpectNothingLeft() const {
    EXPECT_THAT(api_.All(Backup::Type()), IsEmpty());
    EXPECT_THAT(api_.All(Restore::Type()), IsEmpty());
    EXPECT_THAT(api_.All(DeleteBackupRequest::Type()), IsEmpty());
    EXPECT_THAT(api_.All(ProtectedVolume::Type()), IsEmpty());
    EXPECT_FALSE(HasScratch());
  }
  bool HasScratch() const { return api_.Find({Namespace::Type(), "", "shop-try"}).has_value(); }

  std::vector<std::string> moved_pvcs_ = {"data", "logs"};
  std::string lost_pvc_;
  std::string backup_phase_ = "Completed";
  std::string upload_phase_ = "Completed";
  std::string upload_message_;
  std::string download_phase_ = "Completed";
  std::string restore_phase_ = "Completed";
  std::string second_mode_ = "incremental";
  std::string held_backup_;                // the end of its name: it is stopped while it runs
  std::atomic<bool> holds_first_ = false;  // the first Backup, until its progress was printed
  std::string deletion_error_;             // of Velero
  int64_t changed_bytes_ = kMib;
  std::set<std::string> deleted_backups_;
  std::stop_source stop_;
  ProgramRunner program_;
  support::FakeApiClient api_;
  support::ApiTestServer api_server_;
};

TEST_F(TryTest, TwoBackupsAreMadeAndTheSecondIsRestoredAndAllIsRemoved) {
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(deleted_backups_, SizeIs(2));
  EXPECT_THAT(deleted_backups_, Each(AllOf(HasSubstr("try-"), HasSubstr("-shop-"))));
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("PVC data, 64.0 MiB\n"),
            HasSubstr("  1       full         64.0 MiB  64.0 MiB  4.0 MiB  64.0 MiB  1:05\n"),
            HasSubstr("  2       incremental  1.0 MiB   1.0 MiB   4.0 MiB  1.0 MiB   1:05\n"),
            HasSubstr("backup 1 was full: first: there is no earlier one"),
            HasSubstr("Verified: the second backup was restored into namespace shop-try"),
            HasSubstr("of 128.0 MiB it read 2.0 MiB, and uploaded\n2.0 MiB"),
            HasSubstr("All that was made")));
  ExpectNothingLeft();
}

TEST_F(TryTest, BackupsAreThoseThatAUserWouldMake) {
  Run({"--keep", "--location", "default"});
  const std::vector<Json> backups = api_.All(Backup::Type());
  ASSERT_THAT(backups, SizeIs(2));
  EXPECT_EQ(backups[0].at("spec"), Json({{"includedNamespaces", Json::array({"shop"})},
                                         {"snapshotMoveData", true},
                                         {"datamover", "csi-delta"},
                                         {"storageLocation", "default"}}));
}

TEST_F(TryTest, NoLineIsLongerThanATerminal) {
  second_mode_ = "full";
  const Outcome outcome = Run({"--keep"});
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
}

TEST_F(TryTest, ProgressIsInBytesOfAllVolumes) {
  holds_first_ = true;
  program_.on_out = [this](const std::string& out) {
    if (holds_first_ && out.find("\"bytes_done\":33554432") != std::string::npos) {
      holds_first_ = false;
      SetPhase(Backup::Type(), api_.Names(Backup::Type()).at(0), "Completed");
    }
  };
  const Outcome outcome = Run({"--json"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines.front(),
              AllOf(HasSubstr("\"message_type\":\"status\""), HasSubstr("\"stage\":")));
  EXPECT_THAT(lines, testing::Contains(AllOf(HasSubstr("\"stage\":\"backing up shop (1 of 2)\""),
                                             HasSubstr("\"percent_done\":0.25"),
                                             HasSubstr("\"total_bytes\":134217728"))));
}

TEST_F(TryTest, TheResultIsTheLastLineOfJson) {
  const Outcome outcome = Run({"--json"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  const Json result = outcome.Result();
  EXPECT_EQ(GetString(result, {"message_type"}), "result");
  EXPECT_TRUE(GetBool(result, {"ok"}) && GetBool(result, {"incremental"}) &&
              GetBool(result, {"removed"}));
  ASSERT_THAT(result.at("backups"), SizeIs(2));
  EXPECT_EQ(result.at("backups").at(1).at("volumes").at(0), Json({{"pvc", "data"},
                                                                  {"mode", "incremental"},
                                                                  {"reason", ""},
                                                                  {"logical_bytes", 64 * kMib},
                                                                  {"changed_bytes", kMib},
                                                                  {"read_bytes", kMib},
                                                                  {"audit_bytes", 4 * kMib},
                                                                  {"stored_bytes", kMib + 1000},
                                                                  {"duration_ms", 65'000}}));
}

TEST_F(TryTest, ABackupWithoutChangesIsReported) {
  changed_bytes_ = 0;
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, HasSubstr("Nothing had changed since the first one"));
}

TEST_F(TryTest, ASecondBackupThatWasFullIsIncomplete) {
  second_mode_ = "full";
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Verified"), HasSubstr("not incremental for each PVC"),
                                 HasSubstr("backup 2 was full")));
  ExpectNothingLeft();
}

TEST_F(TryTest, APvcThatIsNotRestoredFails) {
  lost_pvc_ = "logs";
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("PVC logs: it is not in the scratch namespace"),
                                 HasSubstr("Not verified"), Not(HasSubstr("Verified:"))));
  ExpectNothingLeft();
}

TEST_F(TryTest, APvcThatIsNotMovedIsIncomplete) {
  moved_pvcs_ = {"data"};
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.out, HasSubstr("PVC logs was not moved by the data mover"));
}

TEST_F(TryTest, ABackupThatFailsSaysWhyAndIsRemoved) {
  backup_phase_ = "PartiallyFailed";
  upload_phase_ = "Failed";
  upload_message_ = "the bucket is full";
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("is PartiallyFailed"), HasSubstr("PVC data"),
                                   HasSubstr("the bucket is full"), HasSubstr("--keep")));
  EXPECT_THAT(deleted_backups_, SizeIs(1));
  ExpectNothingLeft();
}

TEST_F(TryTest, KeepLeavesBothBackupsAndTheNextRunToo) {
  EXPECT_EQ(Run({"--keep"}).code, ExitCode::kOk);
  EXPECT_THAT(api_.All(Backup::Type()), SizeIs(2));
  EXPECT_THAT(api_.All(Restore::Type()), IsEmpty());
  EXPECT_FALSE(HasScratch());
  EXPECT_EQ(Run({"--clean-up"}).code, ExitCode::kOk);
  EXPECT_THAT(api_.All(Backup::Type()), SizeIs(2));
}

TEST_F(TryTest, RetainedVolumesOfTheScratchNamespaceGoWithIt) {
  Run();
  const auto policy = [this](const std::string& volume) {
    return GetString(*api_.Find({PersistentVolume::Type(), "", volume}),
                     {"spec", "persistentVolumeReclaimPolicy"});
  };
  EXPECT_EQ(policy("pv-shop-try-data"), "Delete");
}

TEST_F(TryTest, ApplicationsHaveTimeToWriteBetweenBoth) {
  EXPECT_THAT(Run({"--between", "400ms"}).error, HasSubstr("waiting"));
}

// --- A backup that exists

TEST_F(TryTest, TheNewestBackupIsRestoredComparedAndStays) {
  AddBackup("old", "2026-11-01T00:00:00Z", "shop");
  AddBackup("newest", "2026-11-20T00:00:00Z", "shop");
  AddBackup("of-others", "2026-11-21T00:00:00Z", "bank");
  AddBackup("failed", "2026-11-22T00:00:00Z", "shop", "PartiallyFailed");
  const Outcome outcome = Run({"--backup", "latest"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("Verified: Backup newest was restored into namespace "
                                     "shop-try, 2 PVCs, and"));
  EXPECT_THAT(api_.All(Backup::Type()), SizeIs(4));
  EXPECT_THAT(api_.All(ProtectedVolume::Type()), SizeIs(2));
  EXPECT_THAT(api_.All(Restore::Type()), IsEmpty());
  EXPECT_FALSE(HasScratch());
  const Json result = Run({"--backup", "old", "--json"}).Result();
  EXPECT_EQ(GetString(result, {"backup"}), "old");
  EXPECT_TRUE(GetBool(result, {"ok"}) && GetBool(result, {"removed"}));
  EXPECT_TRUE(result.at("incremental").is_null());
}

TEST_F(TryTest, DamagedDataFailsAndTheNamespaceStaysUntilTheCleanUp) {
  AddBackup("nightly", "2026-11-20T00:00:00Z", "shop");
  download_phase_ = "Failed";
  restore_phase_ = "PartiallyFailed";
  const Outcome outcome = Run({"--backup", "nightly", "--keep-namespace"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("pack 1 is damaged"), HasSubstr("PartiallyFailed"),
                                 HasSubstr("try shop --clean-up removes")));
  EXPECT_TRUE(HasScratch());
  EXPECT_EQ(Run({"--clean-up"}).code, ExitCode::kOk);
  EXPECT_FALSE(HasScratch());
  EXPECT_THAT(api_.All(Backup::Type()), SizeIs(1));
}

TEST_F(TryTest, ABackupWithoutPvcsProvesNothing) {
  moved_pvcs_.clear();
  AddBackup("empty", "2026-11-25T00:00:00Z", "shop");
  const Outcome outcome = Run({"--backup", "latest"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.out, HasSubstr("no PVC was restored"));
}

TEST_F(TryTest, ANamespaceWithoutBackupSaysWhatToName) {
  AddBackup("of-others", "2026-11-21T00:00:00Z", "bank");
  EXPECT_THAT(Run({"--backup", "latest"}).error, AllOf(HasSubstr("shop"), HasSubstr("--backup")));
}

TEST_F(TryTest, FlagsOfBackupsThatAreMadeAreRefusedWithOneThatExists) {
  EXPECT_THAT(Run({"--backup", "nightly", "--keep"}).error, HasSubstr("leave out --keep"));
}

// --- Interruption and clean-up

TEST_F(TryTest, RecordsOfOtherBackupsStay) {
  AddRecord("bank", "data", "nightly");                          // of another namespace
  AddRecord("shop", "data", "nightly", "2026-11-01T00:00:00Z");  // and one that was there before
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("its next backup will read whole volumes"));
  EXPECT_TRUE(api_.Find(ProtectedVolume::Key("velero", "bank-data")).has_value());
  EXPECT_TRUE(api_.Find(ProtectedVolume::Key("velero", "shop-data")).has_value());
  EXPECT_FALSE(api_.Find(ProtectedVolume::Key("velero", "shop-logs")).has_value());
  EXPECT_THAT(Run({"--keep"}).error, Not(HasSubstr("will read whole volumes")));
}

TEST_F(TryTest, AnInterruptedBackupIsCancelledAndRemoved) {
  for (const char* backup : {"-1", "-2"}) {
    SCOPED_TRACE(backup);
    stop_ = std::stop_source();
    held_backup_ = backup;
    const Outcome outcome = Run();
    EXPECT_EQ(outcome.code, ExitCode::kInterrupted);
    EXPECT_THAT(outcome.error, HasSubstr("--clean-up"));
    ExpectNothingLeft();
  }
}

TEST_F(TryTest, TheNextRunRemovesTheObjectsOfAKilledRun) {
  AddBackupOfEarlierRun("earlier-1", "Completed");
  AddBackupOfEarlierRun("earlier-2", "Completed");
  AddRestoreOfEarlierRun("Completed", "2026-11-20T00:00:00Z");
  AddScratch("2026-11-20T00:00:01Z");
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(deleted_backups_, SizeIs(4));
  ExpectNothingLeft();
}

TEST_F(TryTest, ARunThatEndsAtAnyCallIsCleanedUpByTheNext) {
  for (int n = 1;; ++n) {
    SCOPED_TRACE(n);
    std::atomic<int> calls = 0;
    api_.SetInterceptor([&calls, n](const support::ApiCall&, const Json*) {
      return ++calls > n ? absl::InvalidArgumentError("the run was killed") : absl::OkStatus();
    });
    Run();
    api_.SetInterceptor(nullptr);
    if (calls <= n) {
      break;
    }
    const Outcome outcome = Run();
    ASSERT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
    ExpectNothingLeft();
  }
}

TEST_F(TryTest, ARunThatIsNotOverIsLeftAlone) {
  AddBackupOfEarlierRun("earlier-1", "InProgress");
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kLocked);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("Backup earlier-1"), HasSubstr("--clean-up")));
  EXPECT_THAT(api_.All(Backup::Type()), SizeIs(1));
}

TEST_F(TryTest, CleanUpCancelsWhatIsNotOver) {
  AddBackupOfEarlierRun("earlier-1", "WaitingForPluginOperations");
  AddUpload("earlier-1", "data", true, true);
  const Outcome outcome = Run({"--clean-up"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("is removed"));
  ExpectNothingLeft();
  EXPECT_THAT(Run({"--clean-up"}).out, HasSubstr("nothing to remove"));
}

TEST_F(TryTest, ANamespaceThatIsOlderThanTheRestoreIsNotRemoved) {
  AddScratch("2026-11-20T00:00:00Z");
  AddRestoreOfEarlierRun("FailedValidation", "2026-11-21T00:00:00Z");
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("shop-try exists"), HasSubstr("--into")));
  EXPECT_TRUE(HasScratch());
  EXPECT_THAT(api_.All(Backup::Type()), IsEmpty());
}

TEST_F(TryTest, BackupsThatVeleroDoesNotDeleteAreNamed) {
  deletion_error_ = "the bucket is read-only";
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, ExitCode::kIncomplete);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("the bucket is read-only"), HasSubstr("--clean-up")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("All that was made is removed")));
}

// --- Refusals

TEST_F(TryTest, ANamespaceThatDoesNotExistIsRefused) {
  api_.Remove({Namespace::Type(), "", "shop"});
  ExpectRefusal("namespace shop does not exist", "kubectl get namespaces");
}

TEST_F(TryTest, AClusterWithoutVeleroIsRefused) {
  api_.RemoveType("backupstoragelocations");
  ExpectRefusal("Velero 1.12 or newer is not installed", "velero install");
}

TEST_F(TryTest, ANamespaceWithoutBackupStorageLocationIsRefused) {
  api_.Remove({BackupStorageLocation::Type(), "velero", "default"});
  ExpectRefusal("has no BackupStorageLocation", "velero backup-location create");
}

TEST_F(TryTest, ABackupStorageLocationThatIsNotAvailableIsRefused) {
  api_.Mutate({BackupStorageLocation::Type(), "velero", "default"}, [](Json& object) {
    object["status"] = {{"phase", "Unavailable"}, {"message", "no such bucket"}};
  });
  ExpectRefusal("no such bucket", "velero backup-location get");
}

TEST_F(TryTest, NoDefaultBackupStorageLocationIsRefused) {
  api_.Remove({BackupStorageLocation::Type(), "velero", "default"});
  api_.Seed(BackupStorageLocation::Type(),
            {{"metadata", {{"name", "near"}, {"namespace", "velero"}}},
             {"spec", Json::object()},
             {"status", {{"phase", "Available"}}}});
  ExpectRefusal("no BackupStorageLocation is the default", "--location");
  EXPECT_THAT(Run({"--location", "far"}).error,
              HasSubstr("BackupStorageLocation far does not exist"));
  EXPECT_EQ(Run({"--location", "near"}).code, ExitCode::kOk);
}

TEST_F(TryTest, AVeleroWithoutCsiIsRefused) {
  AddServer("--uploader-type=kopia", "example/velero-plugin-for-csi-delta:v1");
  ExpectRefusal("without --features=EnableCSI", "deployment velero/velero");
}

TEST_F(TryTest, AMoverThatIsNotInstalledIsRefused) {
  api_.Remove({Lease::Type(), "csi-delta", "csi-delta-datamover"});
  ExpectRefusal("the data mover is not installed", "helm install csi-delta");
}

TEST_F(TryTest, AMoverThatDoesNotRunIsRefused) {
  AddLease(absl::Now() - absl::Hours(1));
  ExpectRefusal("no controller of the data mover runs", "kubectl get pods --namespace csi-delta");
}

TEST_F(TryTest, ANamespaceWithoutPvcIsRefused) {
  for (const char* pvc : {"data", "logs"}) {
    api_.Remove({PersistentVolumeClaim::Type(), "shop", pvc});
  }
  ExpectRefusal("namespace shop has no PVC", "name the namespace of an application");
}

TEST_F(TryTest, VolumesWithoutCsiDriverAreRefused) {
  for (const char* pvc : {"data", "logs"}) {
    AddPvc("shop", pvc, "Delete", "");
  }
  ExpectRefusal("the volume of PVC data has no CSI driver", "with CSI volumes");
}

TEST_F(TryTest, ADriverWithoutSnapshotClassIsRefused) {
  api_.Remove({VolumeSnapshotClass::Type(), "", "fast"});
  ExpectRefusal("no VolumeSnapshotClass for driver block.example", "kubectl label");
}

TEST_F(TryTest, SeveralSnapshotClassesOfWhichNoneIsChosenAreRefused) {
  AddSnapshotClass("fast", false);
  AddSnapshotClass("slow", false);
  ExpectRefusal("fast, slow", "kubectl label volumesnapshotclass CLASS");
}

TEST_F(TryTest, AClusterWithoutVolumeSnapshotsIsRefused) {
  api_.RemoveType("volumesnapshotclasses");
  ExpectRefusal("the snapshot controller is not installed", "kubectl apply -k");
}

TEST_F(TryTest, ADriverWithoutChangedBlocksIsReportedBeforehand) {
  api_.Remove({SnapshotMetadataService::Type(), "", kDriver});
  EXPECT_THAT(Run().error, AllOf(HasSubstr("driver block.example does not list changed blocks"),
                                 HasSubstr("uploads only what changed")));
}

TEST_F(TryTest, AMissingPluginIsReportedBeforehand) {
  AddServer("--features=EnableCSI", "example/velero-plugin-for-aws:v1");
  EXPECT_THAT(Run().error,
              AllOf(HasSubstr("velero-plugin-for-csi-delta"), HasSubstr("velero plugin add")));
}

TEST_F(TryTest, NamesThatAreNoNamespacesAreRefused) {
  EXPECT_THAT(Run({"--into", "shop"}).error, HasSubstr("--into"));
}

}  // namespace
}  // namespace csidelta::cli::try_test
