#include "datamover/records/volume_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/crypto.h"
#include "base/rfc3339.h"
#include "datamover/records/base_reconciler.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/records/volume_record_writer.h"
#include "objects/backup.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/protected_volume.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/memory_growth.h"
#include "tests/support/sanitized.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::volume_records_test {
namespace {

using objects::ProtectedVolume;
using support::IsOk;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kPlural[] = "protectedvolumes";

// Controllers that write the records of the Velero in "velero".
class VolumeRecordsTest : public testing::Test {
 protected:
  // As after a start: it knows what there is.
  struct Controller {
    Controller(MoverBed& bed, const bool& leads)
        : records([this](const VolumeRecordKey& key) { writer.Enqueue(key); }),
          writer(bed.env, records,
                 {.leads = [&leads] { return leads; },
                  .is_synced = [this] { return records.is_synced(); },
                  .is_deleted = [this](absl::string_view id) { return deleted.Has(id); }}) {
      records.Add(informer);
    }

    VolumeRecords records;
    VolumeRecordWriter writer;
    k8s::Informer informer{{.type = ProtectedVolume::Type(), .namespace_name = "velero"}};
    DeletedSnapshots deleted;
  };

  VolumeRecordsTest() { Restart(); }

  void Restart() {
    controller_ = std::make_unique<Controller>(bed_, leads_);
    Deliver();
  }

  // All ProtectedVolumes, as an informer lists them.
  void Deliver() { controller_->informer.OnAll(bed_.api.All(ProtectedVolume::Type())); }

  Json Upload(const std::string& name, const std::string& phase, const std::string& pvc = "data") {
    Json upload = {{"apiVersion", "velero.io/v2alpha1"},
                   {"kind", "DataUpload"},
                   {"metadata",
                    {{"name", name},
                     {"namespace", "velero"},
                     {"uid", absl::StrCat("uid-of-", name)},
                     {"creationTimestamp", FormatRfc3339(bed_.clock.Now())},
                     {"labels",
                      {{"velero.io/pvc-uid", MoverBed::ClaimUid("shop", pvc)},
                       {"velero.io/backup-name", absl::StrCat("backup-", name)}}},
                     {"annotations",
                      {{objects::kUploadModeAnnotation, "incremental"},
                       {objects::kChangedBytesAnnotation, "4096"},
                       {objects::kRepositoryBytesAnnotation, "65536"},
                       {objects::kMoverTakenAtAnnotation,
                        FormatRfc3339(bed_.clock.Now() - absl::Minutes(5))}}}}},
                   {"spec",
                    {{"datamover", "csi-delta"},
                     {"backupStorageLocation", "default"},
                     {"sourceNamespace", "shop"},
                     {"sourcePVC", pvc},
                     {"csiSnapshot", {{"volumeSnapshot", "vs"}, {"storageClass", "fast"}}}}},
                   {"status",
                    {{"phase", phase},
                     {"message", absl::StrCat("why ", name, " is so")},
                     {"snapshotID", SnapshotOf(name, pvc)}}}};
    if (phase == "Completed" || phase == "Failed" || phase == "Canceled") {
      upload["status"]["completionTimestamp"] = FormatRfc3339Seconds(bed_.clock.Now());
      upload["status"]["progress"] = {{"bytesDone", 1 << 20}, {"totalBytes", 1 << 20}};
    }
    return upload;
  }
  static std::string SnapshotOf(const std::string& name, const std::string& pvc = "data") {
    return velero::FormatDataReference({.cluster = "c0ffee00-0000-4000-8000-000000000000",
                                        .namespace_name = "shop",
                                        .claim_uid = MoverBed::ClaimUid("shop", pvc),
                                        .snapshot_id = Sha256Hex(name),
                                        .key = std::string(16, 'a')});
  }
  // With its Backup.
  void RecordUpload(const Json& upload) {
    const objects::DataUpload object = support::As<objects::DataUpload>(upload);
    bed_.api.Seed(objects::DataUpload::Type(), upload);
    bed_.api.Seed(objects::Backup::Type(),
                  support::MakeObject("velero.io/v1", "Backup", "velero",
                                      object.Label(objects::kBackupNameLabel)));
    controller_->writer.Record(support::As<objects::DataUpload>(upload));
  }
  // Each a minute after the one before.
  void End(const std::string& name, const std::string& phase, const std::string& pvc = "data") {
    bed_.clock.Advance(absl::Minutes(1));
    RecordUpload(Upload(name, phase, pvc));
    Work();
  }
  // It was restored just now.
  void RecordRestore(const std::string& snapshot) {
    controller_->writer.Record(support::As<objects::DataDownload>(
        {{"metadata", {{"name", "r"}, {"namespace", "velero"}, {"uid", "u"}}},
         {"spec",
          {{"datamover", "csi-delta"},
           {"backupStorageLocation", "default"},
           {"sourceNamespace", "shop"},
           {"snapshotID", snapshot},
           {"targetVolume", {{"namespace", "drill"}, {"pvc", "data"}}}}},
         {"status",
          {{"phase", "Completed"},
           {"completionTimestamp", FormatRfc3339Seconds(bed_.clock.Now())}}}}));
    Work();
  }
  void Work(absl::Duration later = absl::ZeroDuration()) {
    bed_.clock.Advance(later);
    controller_->writer.WorkOnce(bed_.ctx);
    Deliver();
    controller_->writer.WorkOnce(bed_.ctx);
  }
  // As a check writes it.
  void SetVerification(const Json& verification) {
    bed_.api.SetField(ProtectedVolume::Key("velero", Record().name), {"status", "verification"},
                      verification);
    Deliver();
  }

  // The DataDeletion of what an upload stored is completed.
  void CompleteDeletion(const std::string& name) {
    const Json deletion = {
        {"apiVersion", "mover.csi-delta.io/v1alpha1"},
        {"kind", "DataDeletion"},
        {"metadata", {{"name", name}, {"namespace", "velero"}, {"uid", "d"}}},
        {"spec", {{"backupStorageLocation", "default"}, {"snapshotID", SnapshotOf(name)}}},
        {"status", {{"phase", "Completed"}}}};
    controller_->deleted.Record(support::As<objects::DataDeletion>(deletion));
    controller_->writer.Record(support::As<objects::DataDeletion>(deletion));
    Work();
  }
  void RemoveBackup(const std::string& name) {
    bed_.api.Remove(objects::Backup::Key("velero", absl::StrCat("backup-", name)));
  }
  // As Velero does it: the objects go, and then the data.
  void DeleteBackup(const std::string& name) {
    RemoveBackup(name);
    bed_.api.Remove(objects::DataUpload::Key("velero", name));
    CompleteDeletion(name);
  }

  ProtectedVolumeRecord Record(const std::string& pvc = "data") const {
    const std::optional<ProtectedVolumeRecord> record =
        controller_->records.Find("velero", MoverBed::ClaimUid("shop", pvc), "default");
    EXPECT_TRUE(record.has_value());
    return record.value_or(ProtectedVolumeRecord());
  }
  int Writes() const {
    return bed_.api.CallCount("create", kPlural) + bed_.api.CallCount("patch", kPlural) +
           bed_.api.CallCount("update", kPlural) + bed_.api.CallCount("delete", kPlural);
  }
  int PvcReads() const { return bed_.api.CallCount("get", "persistentvolumeclaims"); }

  MoverBed bed_;
  bool leads_ = true;
  const RecordSettings& rules_ = bed_.env.settings.records;
  std::unique_ptr<Controller> controller_;
};

TEST_F(VolumeRecordsTest, TheFirstBackupTakesTwoWritesAndEachFurtherOneOne) {
  RecordUpload(Upload("one", "New"));
  Work();
  EXPECT_EQ(Writes(), 0) << "nothing before it is accepted";
  RecordUpload(Upload("one", "Accepted"));
  Work();
  EXPECT_EQ(Writes(), 1);
  EXPECT_EQ(Record().spec.pvc, "data");
  EXPECT_EQ(Record().spec.pvc_namespace, "shop");
  EXPECT_EQ(k8s::Label(bed_.api.All(ProtectedVolume::Type())[0], objects::kExcludeFromBackupLabel),
            "true");
  RecordUpload(Upload("one", "InProgress"));
  Work();
  End("one", "Completed");
  EXPECT_EQ(Writes(), 2);
  const objects::ProtectedVolumeStatus status = Record().status;
  ASSERT_TRUE(status.last_good.has_value());
  EXPECT_EQ(status.last_good->backup, "backup-one");
  EXPECT_EQ(status.last_good->mode, "incremental");
  EXPECT_EQ(status.last_good->logical_bytes, 1 << 20);
  EXPECT_EQ(status.last_good->changed_bytes, 4096);
  EXPECT_EQ(status.last_good->completed_at.value() - status.last_good->taken_at.value(),
            absl::Minutes(5));
  EXPECT_EQ(status.repository.bytes, 65536);
  ASSERT_TRUE(status.last_attempt.has_value());
  EXPECT_EQ(status.last_attempt->phase, "Completed");
  EXPECT_EQ(status.next_step, "");

  bed_.api.ClearCalls();
  for (const char* phase : {"Accepted", "Prepared", "InProgress"}) {
    RecordUpload(Upload("two", phase));
    Work();
  }
  End("two", "Completed");
  Json archived = Upload("two", "Completed");
  archived["status"]["completionTimestamp"] =
      FormatRfc3339Seconds(*Record().status.last_good->completed_at);
  RecordUpload(archived);
  Work();
  EXPECT_EQ(Writes(), 1);
  EXPECT_EQ(Record().status.last_good->backup, "backup-two");
}

TEST_F(VolumeRecordsTest, AVolumeThatNeverSucceededIsKnownWithTheCause) {
  End("one", "Failed");
  EXPECT_EQ(Record().status.failures, 1);
  EXPECT_EQ(
      Record().status.next_step,
      "never backed up; the last upload failed: why one is so; correct that, and back up again");
  End("two", "Canceled");
  EXPECT_EQ(Record().status.failures, 1) << "what was cancelled has not failed";
  EXPECT_EQ(Record().status.last_attempt->phase, "Canceled");
  End("three", "Failed");
  EXPECT_EQ(Record().status.failures, 2);
  EXPECT_THAT(Record().status.next_step, HasSubstr("the last 2 uploads failed: why three is so"));
  End("four", "Completed");
  EXPECT_EQ(Record().status.failures, 0);
  EXPECT_EQ(Record().status.next_step, "");
}

TEST_F(VolumeRecordsTest, AWriteThatFailsIsMadeAgain) {
  bed_.api.FailNext("patch", kPlural, absl::UnavailableError("away"));
  bed_.api.FailNext("create", kPlural, absl::UnavailableError("away"));
  End("one", "Completed");
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), IsEmpty());
  Work(kRecordWriteAgain);
  Work(kRecordWriteAgain);
  EXPECT_EQ(Record().status.last_good->backup, "backup-one");
}

TEST_F(VolumeRecordsTest, AnAnswerThatIsLostMakesNoSecondRecord) {
  bed_.api.FailNext("create", kPlural, absl::UnavailableError("lost"), 1,
                    support::Fault::kAnswerLost);
  End("one", "Completed");
  Work(kRecordWriteAgain);
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), SizeIs(1));
  EXPECT_EQ(Record().status.last_good->backup, "backup-one");
}

// The first start after an upgrade, and one after a time in which no controller ran.
TEST_F(VolumeRecordsTest, RecordsAreMadeOfTheUploadsThatThereAreOfTheNewestOnly) {
  constexpr int kVolumes = 5;
  constexpr int kNights = 30;
  std::vector<Json> uploads;
  for (int night = 0; night < kNights; ++night) {
    bed_.clock.Advance(absl::Hours(1));
    for (int volume = 0; volume < kVolumes; ++volume) {
      const std::string pvc = absl::StrCat("pvc-", volume);
      if (night == 0) {
        bed_.AddClaim("shop", pvc);
      }
      uploads.push_back(Upload(absl::StrFormat("%02d-%d", night, volume),
                               night == kNights - 1 ? "Failed" : "Completed", pvc));
    }
  }
  const auto note_all = [&] {
    for (const Json& upload : uploads) {
      RecordUpload(upload);
    }
    const absl::Time began = bed_.clock.Now();
    Work();
    return bed_.clock.Now() - began;
  };
  EXPECT_GE(note_all(), kRecordWriteEvery * kVolumes) << "not all at once";
  EXPECT_EQ(Writes(), 2 * kVolumes);
  EXPECT_EQ(Record("pvc-3").status.last_good->backup, "backup-28-3");
  EXPECT_EQ(Record("pvc-3").status.failures, 1);

  bed_.api.ClearCalls();
  Restart();
  note_all();
  EXPECT_EQ(Writes(), 0) << "nothing is new to a controller that starts again";
}

TEST_F(VolumeRecordsTest, OnlyTheControllerThatLeadsWrites) {
  leads_ = false;
  End("one", "Completed");
  EXPECT_EQ(Writes(), 0);
  leads_ = true;
  Work(kRecordWriteAgain);
  EXPECT_EQ(Record().status.last_good->backup, "backup-one");
}

TEST_F(VolumeRecordsTest, ARestoreIsThatOfItsSource) {
  End("one", "Completed");
  const absl::Time restored_at = absl::FromUnixSeconds(absl::ToUnixSeconds(bed_.clock.Now()));
  RecordRestore(SnapshotOf("another"));
  EXPECT_EQ(Record().status.restored_at, restored_at);
}

// A PVC that was restored has its backups in the repository of another one.
TEST_F(VolumeRecordsTest, WhatBecomesOfARestoredPvcsBackupIsItsRecords) {
  Json upload = Upload("two", "Completed", "restored");
  upload["status"]["snapshotID"] = SnapshotOf("two", "data");
  RecordUpload(Upload("one", "Completed"));
  RecordUpload(upload);
  Work();
  const auto status_of = [&](const std::string& pvc) {
    return controller_->records.Find("velero", MoverBed::ClaimUid("shop", pvc), "default")->status;
  };
  ASSERT_EQ(status_of("restored").last_good->snapshot_id, SnapshotOf("two", "data"));
  RecordRestore(SnapshotOf("two"));
  EXPECT_TRUE(status_of("restored").restored_at.has_value());
  EXPECT_FALSE(status_of("data").restored_at.has_value());
  CompleteDeletion("two");
  EXPECT_EQ(status_of("restored").deleted_backup->upload, "uid-of-two");
  EXPECT_EQ(status_of("data").last_good->upload, "uid-of-one");
}

TEST_F(VolumeRecordsTest, WhatFilledAPvcIsForgottenWithItsRecord) {
  const RestoredPlace place = {"velero", "default", "shop", "data"};
  const auto record = [&](const std::string& uid) {
    EXPECT_THAT(
        RecordRestored(bed_.ctx, bed_.env, place,
                       {.pvc_uid = uid, .source = *velero::ParseDataReference(SnapshotOf("one"))}),
        IsOk());
  };
  for (const auto& [uid, stays] : {std::pair(std::string("a-later-one"), true),
                                   std::pair(MoverBed::ClaimUid("shop", "data"), false)}) {
    RecordUpload(Upload("one", "Completed"));
    record(uid);
    Work();
    bed_.api.Remove({PersistentVolumeClaimType(), "shop", "data"});
    Work(kRecordPvcEvery);
    Work(rules_.keep_after_pvc + absl::Hours(1));
    ASSERT_THAT(bed_.api.All(ProtectedVolume::Type()), IsEmpty());
    EXPECT_EQ(FindRestored(bed_.ctx, bed_.env, place)->has_value(), stays);
    bed_.AddClaim("shop", "data");
    Restart();
  }
}

TEST_F(VolumeRecordsTest, ARecordGoesWithItsPvcAfterATime) {
  const Json upload = Upload("one", "Completed");
  RecordUpload(upload);
  Work();
  EXPECT_EQ(PvcReads(), 0);
  for (int hour = 0; hour < 10; ++hour) {
    Work(kRecordPvcEvery);
  }
  EXPECT_LE(PvcReads(), 10) << "one each hour";
  EXPECT_FALSE(Record().status.pvc_gone_at.has_value());

  bed_.api.Remove({PersistentVolumeClaimType(), "shop", "data"});
  Work(kRecordPvcEvery);
  ASSERT_TRUE(Record().status.pvc_gone_at.has_value());
  EXPECT_THAT(Record().status.next_step,
              HasSubstr("the PVC is gone: restore backup backup-one if it is missed"));
  bed_.api.ClearCalls();
  Work(rules_.keep_after_pvc - absl::Hours(1));
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), SizeIs(1));
  Work(absl::Hours(2));
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), IsEmpty());
  EXPECT_EQ(PvcReads(), 0) << "a PVC that is gone does not come back with its uid";
  RecordUpload(upload);
  Work();
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), IsEmpty())
      << "a DataUpload that is left does not bring it back";
}

TEST_F(VolumeRecordsTest, ARecordWhoseLocksAreRenewedStaysUntilItsLastBackupGoes) {
  End("one", "Completed");
  SetVerification(
      {{"at", "2026-11-28T00:00:00Z"}, {"locks", {{"mode", "GOVERNANCE"}, {"days", 30}}}});
  bed_.api.Remove({PersistentVolumeClaimType(), "shop", "data"});
  Work(kRecordPvcEvery);
  ASSERT_TRUE(Record().status.pvc_gone_at.has_value());
  EXPECT_THAT(Record().status.next_step, HasSubstr("goes after its last backup"));
  Work(rules_.keep_after_pvc + absl::Hours(1));
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), SizeIs(1));
  bed_.api.SetField(ProtectedVolume::Key("velero", Record().name), {"status", "lastGoodBackup"},
                    nullptr);
  Deliver();
  Work(kRecordPvcEvery);
  EXPECT_THAT(bed_.api.All(ProtectedVolume::Type()), IsEmpty());
}

TEST_F(VolumeRecordsTest, DataThatTheStorageLostIsANextStepWithTheBackupFromBefore) {
  const k8s::ObjectKey pvc = {PersistentVolumeClaimType(), "shop", "data"};
  End("one", "Completed");
  bed_.api.SetField(
      pvc, {"status", "healthStatus", "conditions"},
      Json::array({{{"status", "Degraded"}, {"reason", "Rebuild"}, {"message", "1 of 3"}},
                   {{"status", "DataLoss"}, {"reason", "Media"}, {"message", "sector 7"}}}));
  Work(kRecordPvcEvery);
  End("two", "Completed");
  End("three", "Failed");
  EXPECT_EQ(Record().status.last_good->backup, "backup-two");
  EXPECT_THAT(Record().status.next_step,
              testing::StartsWith("the storage has lost data of the volume: Media: sector 7; "
                                  "backup backup-one is from before that was seen: restore it"));
  Restart();
  bed_.api.ClearCalls();
  Work(kRecordPvcEvery);
  EXPECT_EQ(Writes(), 0);
  bed_.api.SetField(pvc, {"status", "healthStatus"}, Json::object());
  Work(kRecordPvcEvery);
  EXPECT_FALSE(Record().status.lost_data.has_value());
  EXPECT_THAT(Record().status.next_step, HasSubstr("upload failed"));
}

TEST_F(VolumeRecordsTest, APvcOfTheSameNameIsAnother) {
  End("one", "Completed");
  bed_.api.SetField({PersistentVolumeClaimType(), "shop", "data"}, {"metadata", "uid"}, "another");
  Work(kRecordPvcEvery);
  EXPECT_TRUE(Record().status.pvc_gone_at.has_value());
}

TEST_F(VolumeRecordsTest, ALastGoodBackupThatIsTooOldHasANextStep) {
  End("one", "Completed");
  Work(rules_.stale_after + kRecordPvcEvery);
  EXPECT_THAT(Record().status.next_step, HasSubstr("the last good backup was taken at "));
  bed_.api.ClearCalls();
  Work(absl::Hours(5));
  EXPECT_EQ(Writes(), 0) << "the text does not change with the age";
}

TEST_F(VolumeRecordsTest, ADeletedLastGoodBackupFallsBackToTheNewestOther) {
  End("one", "Completed");
  End("two", "Completed");
  End("three", "Completed");
  bed_.api.ClearCalls();
  DeleteBackup("one");
  EXPECT_EQ(Writes(), 0) << "an older one than the last good backup";
  DeleteBackup("three");
  EXPECT_EQ(Writes(), 1);
  EXPECT_EQ(Record().status.last_good->backup, "backup-two");
  EXPECT_EQ(Record().status.deleted_backup->backup, "backup-three");
  EXPECT_EQ(Record().status.deleted_backup->upload, "uid-of-three");
  EXPECT_EQ(Record().status.last_attempt->backup, "backup-three");
  EXPECT_EQ(Record().status.next_step, "");
  bed_.clock.Advance(rules_.stale_after);
  Work(kRecordPvcEvery);
  EXPECT_THAT(Record().status.next_step, HasSubstr(", since backup-three was deleted: "));

  End("four", "Completed");
  EXPECT_EQ(Record().status.last_good->backup, "backup-four");
  EXPECT_FALSE(Record().status.deleted_backup.has_value());
  EXPECT_EQ(Record().status.next_step, "");
}

TEST_F(VolumeRecordsTest, AVolumeWhoseBackupsWereAllDeletedHasNoneAndSaysWhy) {
  End("one", "Completed");
  SetVerification({{"at", "2026-11-28T00:00:00Z"}, {"finding", "damage"}});
  bed_.api.ClearCalls();
  DeleteBackup("one");
  EXPECT_EQ(Writes(), 1);
  EXPECT_FALSE(Record().status.last_good.has_value());
  EXPECT_EQ(Record().status.next_step,
            "no backup is left since backup-one was deleted; back up again");
  EXPECT_EQ(Record().status.verification.value_or(objects::Verification()).finding, "")
      << "no check follows that could end it";
  End("two", "Failed");
  EXPECT_THAT(Record().status.next_step,
              HasSubstr("no backup is left since backup-one was deleted; the last upload failed"));
}

// The DataUpload may be there, and change, when its data is gone already.
TEST_F(VolumeRecordsTest, ADeletedBackupDoesNotComeBack) {
  End("one", "Completed");
  bed_.clock.Advance(absl::Minutes(1));
  const Json two = Upload("two", "Completed");
  RecordUpload(two);
  Work();
  CompleteDeletion("two");
  EXPECT_EQ(Record().status.last_good->backup, "backup-one");
  bed_.api.ClearCalls();
  RecordUpload(two);
  Work();
  EXPECT_EQ(Record().status.last_good->backup, "backup-one");
  Restart();
  RecordUpload(two);
  Work();
  CompleteDeletion("two");
  EXPECT_EQ(Record().status.last_good->backup, "backup-one");
  EXPECT_EQ(Writes(), 0);
}

// Of a BackupStorageLocation whose Backups were removed, and of a deletion that waits.
TEST_F(VolumeRecordsTest, ABackupThatIsMissingForAnHourCountsAsDeleted) {
  for (const char* name : {"one", "two", "three"}) {
    End(name, "Completed");
  }
  Work(kRecordPvcEvery);
  EXPECT_EQ(Record().status.last_good->backup, "backup-three");
  RemoveBackup("three");
  RemoveBackup("two");
  Work(kRecordPvcEvery);
  EXPECT_EQ(Record().status.last_good->backup, "backup-three") << "it may be back soon";
  bed_.api.ClearCalls();
  Work(kRecordPvcEvery);
  EXPECT_EQ(Record().status.last_good->backup, "backup-one") << "the newest that has its Backup";
  EXPECT_EQ(Writes(), 1);
}

TEST_F(VolumeRecordsTest, BackupsOfManyVolumesAreReadOnceForAll) {
  constexpr int kVolumes = 20;
  for (int i = 0; i < kVolumes; ++i) {
    const std::string pvc = absl::StrCat("pvc-", i);
    bed_.AddClaim("shop", pvc);
    Json upload = Upload(absl::StrCat("of-", pvc), "Completed", pvc);
    upload["metadata"]["labels"]["velero.io/backup-name"] = "nightly";
    RecordUpload(upload);
  }
  Work();
  Work(kRecordPvcEvery);
  EXPECT_LE(bed_.api.CallCount("get", "backups"), 2);
}

TEST_F(VolumeRecordsTest, AFailedReadOfTheDataUploadsChangesNothingAndIsMadeAgain) {
  End("one", "Completed");
  bed_.api.FailNext("list", "datauploads", absl::UnavailableError("away"), 1);
  DeleteBackup("one");
  EXPECT_TRUE(Record().status.last_good.has_value());
  Work(kRecordWriteAgain);
  EXPECT_FALSE(Record().status.last_good.has_value());
}

// The oldest first, as backups expire: two writes for each backup at most, over all of its life.
TEST_F(VolumeRecordsTest, BackupsThatExpireCostNoWritesButTheLast) {
  constexpr int kBackups = 10;
  for (int i = 0; i < kBackups; ++i) {
    End(absl::StrCat("b", i), "Completed");
  }
  for (int i = 0; i < kBackups; ++i) {
    DeleteBackup(absl::StrCat("b", i));
  }
  EXPECT_FALSE(Record().status.last_good.has_value());
  EXPECT_LE(Writes(), kBackups + 2);
  EXPECT_EQ(bed_.api.CallCount("list", "datauploads"), 1);
}

TEST_F(VolumeRecordsTest, WhatACheckFindsIsANextStepAtOnce) {
  constexpr char kDamage[] = "pack 6e0ca2f1 is gone";
  constexpr char kLocks[] = "object locks were not renewed: 1 failure";
  End("one", "Completed");
  for (const auto& [verification, next_step] : std::vector<std::pair<Json, std::string>>{
           {{{"orphanedSnapshots", 3}}, "the Backups of 3 repository snapshots are gone: verify"},
           {{{"locks", {{"finding", kLocks}}}, {"orphanedSnapshots", 3}}, kLocks},
           {{{"finding", kDamage}, {"locks", {{"finding", kLocks}}}},
            absl::StrCat("a check found: ", kDamage, "; repair the repository, and only then")},
           {{{"finding", kDamage},
             {"damage", {{"packs", {std::string(64, '6')}}, {"packsFound", 1}}}},
            "the next backup does not rely on"}}) {
    SetVerification(verification);
    Work();
    EXPECT_THAT(Record().status.next_step, HasSubstr(next_step));
  }
}

TEST_F(VolumeRecordsTest, TheBaseIsThatOfTheVolume) {
  const Json base = bed_.AddBase("data", bed_.env.cluster);
  k8s::Informer(csi::BaseContents(), {&bed_.bases}).OnAll(std::vector<Json>(1, base));
  bed_.env.bases = &bed_.bases;
  End("one", "Completed");
  ASSERT_TRUE(Record().status.base.has_value());
  EXPECT_EQ(Record().status.base->content, "du-1");
}

TEST_F(VolumeRecordsTest, UploadsOfOtherMoversAndOfUnknownPvcsHaveNoRecord) {
  Json other = Upload("one", "Completed");
  other["spec"]["datamover"] = "velero";
  RecordUpload(other);
  Json hostile = Upload("two", "Completed");
  hostile["metadata"]["labels"]["velero.io/pvc-uid"] = "../../x";
  RecordUpload(hostile);
  Work();
  EXPECT_EQ(Writes(), 0);
}

TEST_F(VolumeRecordsTest, ARecordUnderAnothersNameIsIgnored) {
  bed_.api.Seed(ProtectedVolume::Type(), {{"metadata", {{"name", "x"}, {"namespace", "velero"}}},
                                          {"spec",
                                           {{"namespace", "shop"},
                                            {"pvc", "data"},
                                            {"pvcUID", "u"},
                                            {"backupStorageLocation", "default"}}}});
  Deliver();
  EXPECT_EQ(controller_->records.size(), 0U);
}

TEST(VolumeRecordsMemoryTest, AThousandRecordsTakeLessThanEightMebibytes) {
  constexpr int kRecords = 1000;
  const auto record = [](int number) {
    const std::string uid = absl::StrFormat("a1000000-0000-4000-8000-%012d", number);
    return support::As<ProtectedVolume>(
        {{"metadata",
          {{"name", ProtectedVolume::NameOf(uid, "default")},
           {"namespace", "velero"},
           {"uid", uid},
           {"creationTimestamp", "2026-11-01T02:00:00Z"}}},
         {"spec",
          {{"namespace", absl::StrCat("app-", number)},
           {"pvc", "data"},
           {"pvcUID", uid},
           {"backupStorageLocation", "default"}}},
         {"status",
          {{"lastGoodBackup",
            {{"backup", "nightly-20261101020000"},
             {"dataUploadUID", uid},
             {"snapshotID", std::string(200, 's')},
             {"takenAt", "2026-11-01T02:00:00Z"},
             {"completedAt", "2026-11-01T02:10:00Z"},
             {"mode", "full"},
             {"reason", std::string(200, 'r')}}},
           {"lastAttempt",
            {{"backup", "nightly-20261101020000"},
             {"dataUploadUID", uid},
             {"phase", "Failed"},
             {"at", "2026-11-01T02:10:00Z"},
             {"message", std::string(1000, 'm')}}},
           {"failures", 3},
           {"base", {{"volumeSnapshotContent", uid}, {"takenAt", "2026-11-01T02:00:00Z"}}},
           {"nextStep", std::string(300, 'n')}}}});
  };
  const support::MemoryGrowth growth;
  VolumeRecords records([](const VolumeRecordKey&) {});
  for (int i = 0; i < kRecords; ++i) {
    records.Put(record(i));
  }
  EXPECT_EQ(records.size(), static_cast<std::size_t>(kRecords));
  if (support::AssertsUnsanitized("1,000 records take 8 MiB at most")) {
    EXPECT_LE(growth.bytes(), int64_t{8} << 20);
  }
}

TEST(VolumeRecordsMemoryTest, MoreThanTheMostAreNotHeld) {
  if (!support::AssertsUnsanitized("at most 20,000 records are held")) {
    return;
  }
  VolumeRecords records([](const VolumeRecordKey&) {});
  for (std::size_t i = 0; i < kVolumeRecordsMax + 5; ++i) {
    const std::string uid = absl::StrFormat("a1000000-0000-4000-8000-%012d", i);
    ProtectedVolume object =
        ProtectedVolume::Make("velero", ProtectedVolume::NameOf(uid, "default"));
    object.SetSpec({.pvc_namespace = "shop", .pvc = "data", .pvc_uid = uid, .location = "default"});
    records.Put(object);
  }
  EXPECT_EQ(records.size(), kVolumeRecordsMax);
}

}  // namespace
}  // namespace csidelta::datamover::volume_records_test
