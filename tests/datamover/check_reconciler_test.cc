#include "datamover/records/check_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "datamover/keyring.h"
#include "datamover/worker/task_watch.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/data_deletion.h"
#include "objects/patch.h"
#include "objects/protected_volume.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/report_all.h"
#include "tests/support/sanitized.h"
#include "velero/data_reference.h"

namespace csidelta::datamover::check_reconciler_test {
namespace {

using objects::ProtectedVolume;
using objects::Verification;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CheckReconcilerTest : public testing::Test {
 protected:
  CheckReconcilerTest()
      : queue_([this](const std::string& task) { enqueue_table_.Enqueue(task); }),
        reconciler_(bed_.env, queue_, [this] { return may_begin_; }),
        loop_(
            ProtectedVolume::Type(), reconciler_, [] { return true; }, bed_.clock, 1),
        handler_(CheckSubjects(bed_.env.settings.checks, queue_), enqueue_table_, loop_) {
    bed_.worker = MoverBed::Worker::kRuns;
    bed_.api.SetStatusSubresource("protectedvolumes", true);
    key_ = OpenKeyring(bed_.ctx, bed_.api, MoverBed::kMover,
                       {.velero_namespace = "velero", .location = "default"},
                       /*make=*/true, bed_.secure_random)
               ->newest()
               .fingerprint;
  }

  // A record that was made, and whose last good backup was completed, `ago`.
  void Add(const std::string& name, absl::Duration ago = absl::Hours(48)) {
    const std::string snapshot =
        velero::FormatDataReference({.cluster = bed_.env.cluster,
                                     .namespace_name = "shop",
                                     .claim_uid = MoverBed::ClaimUid("shop", name),
                                     .snapshot_id = std::string(64, 'd'),
                                     .key = key_});
    const std::string at =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", bed_.clock.Now() - ago, absl::UTCTimeZone());
    bed_.api.Seed(
        ProtectedVolume::Type(),
        {{"metadata", {{"name", name}, {"namespace", "velero"}, {"creationTimestamp", at}}},
         {"spec",
          {{"namespace", "shop"},
           {"pvc", name},
           {"pvcUID", MoverBed::ClaimUid("shop", name)},
           {"backupStorageLocation", "default"}}},
         {"status",
          {{"lastGoodBackup",
            {{"backup", "nightly"}, {"snapshotID", snapshot}, {"completedAt", at}}}}}});
  }
  void SetVerifiedAt(const std::string& name, absl::Duration ago) {
    bed_.api.Mutate({ProtectedVolume::Type(), "velero", name}, [&](Json& record) {
      record.merge_patch(objects::Patch().SetVerification({.at = bed_.clock.Now() - ago}).json());
    });
  }
  void Look(int times = 2) {
    for (int i = 0; i < times; ++i) {
      support::ReportAll(informer_, bed_.api.All(ProtectedVolume::Type()));
      loop_.WorkOnce(bed_.ctx);
    }
  }
  void Begin() {
    Add("data");
    Look();
  }
  Json Object(const std::string& name = "data") const {
    return bed_.api.Find({ProtectedVolume::Type(), "velero", name}).value_or(Json());
  }
  Verification Verified(const std::string& name = "data") const {
    return support::As<ProtectedVolume>(Object(name))
        .status()
        .verification.value_or(Verification());
  }
  std::string TaskName(const std::string& name = "data") const {
    return TaskNameOf("ProtectedVolume", k8s::Uid(Object(name)));
  }
  objects::CheckWork Work(const std::string& name = "data") const {
    const objects::VolumeWork work = bed_.Job(TaskName(name)).work;
    EXPECT_TRUE(std::holds_alternative<objects::CheckWork>(work));
    return std::get<objects::CheckWork>(work);
  }
  // Without what is asked about orphaned repository snapshots.
  static objects::CheckWork PartOf(objects::CheckWork work) {
    work.host.clear();
    work.known_tags.clear();
    work.orphans_before.reset();
    return work;
  }
  std::vector<std::string> Tasks() const { return bed_.api.Names(objects::VolumeTask::Type()); }
  void EndWith(const objects::CheckFigures& figures, const std::string& name = "data") {
    bed_.End(TaskName(name), "Succeeded", {.code = objects::OutcomeCode::kDone, .check = figures});
    Look();
  }
  void FailWith(objects::OutcomeCause cause, const std::string& message) {
    bed_.End(TaskName(), "Failed",
             {.code = objects::OutcomeCode::kFailed, .cause = cause, .message = message});
    Look();
  }
  void LookNextDay() {
    bed_.clock.Advance(kCheckEvery);
    Look();
  }
  // One day later, and the check of that day ends so.
  void CheckNextDay(const objects::CheckFigures& figures) {
    LookNextDay();
    EndWith(figures);
  }

  MoverBed bed_;
  bool may_begin_ = true;
  std::string key_;
  EnqueueTable enqueue_table_;
  CheckQueue queue_;
  CheckReconciler reconciler_;
  k8s::ReconcileLoop loop_;
  SubjectEventHandler handler_;
  k8s::Informer informer_{{.type = ProtectedVolume::Type()}, {&handler_, &loop_}};
};

TEST_F(CheckReconcilerTest, ADueVolumeIsCheckedPartByPartAndNewDataFirst) {
  Begin();
  ASSERT_THAT(Tasks(), ElementsAre(TaskName()));
  EXPECT_EQ(PartOf(Work()), (objects::CheckWork{.part = 1, .parts = 34}));
  const absl::Time began =
      *support::As<objects::VolumeTask>(
           *bed_.api.Find({objects::VolumeTask::Type(), MoverBed::kMover, TaskName()}))
           .created_at();
  EXPECT_EQ(bed_.Job(TaskName()).repository.address,
            absl::StrCat("s3:http://s3:9000/b/p/plugins/csi-delta/", bed_.env.cluster, "/shop/",
                         MoverBed::ClaimUid("shop", "data")));
  bed_.Finish(TaskName());
  Look();
  EXPECT_THAT(Tasks(), IsEmpty());
  EXPECT_THAT(bed_.api.All(PodType()), IsEmpty());
  EXPECT_EQ(Verified().at, began);
  EXPECT_EQ(Verified().position, 1);
  EXPECT_EQ(Verified().parts, 34);
  EXPECT_EQ(Verified().read_bytes, 5 << 20);
  EXPECT_EQ(Verified().finding, "");
  EXPECT_FALSE(Verified().all_since.has_value());
  bed_.clock.Advance(kCheckEvery - absl::Minutes(1));
  Look();
  EXPECT_THAT(Tasks(), IsEmpty()) << "one a day";
  bed_.clock.Advance(absl::Minutes(1));
  Look();
  EXPECT_EQ(PartOf(Work()),
            (objects::CheckWork{.part = 2, .parts = 34, .read_newer_than = began - kCheckOverlap}));
  EXPECT_THAT(bed_.EventReasons(), IsEmpty());
}

TEST_F(CheckReconcilerTest, AfterTheLastPartAllDataOfTheRoundWasRead) {
  bed_.env.settings.checks.percent_per_day = 50;
  Begin();
  bed_.Finish(TaskName());
  Look();
  const absl::Time began = *Verified().at;
  CheckNextDay({});
  EXPECT_EQ(Verified().position, 0);
  EXPECT_EQ(Verified().all_since, began);
}

TEST_F(CheckReconcilerTest, AFindingNamesBackupsAndIsLookedAtAgainUntilItIsGone) {
  Json upload = bed_.AddUpload("nightly");
  bed_.api.Mutate({DataUploadType(), "velero", "nightly"}, [](Json& one) {
    one["metadata"]["labels"]["velero.io/backup-name"] = "backup-7";
  });
  Begin();
  EndWith({.read_bytes = 1,
           .snapshots = 3,
           .errors = 2,
           .findings = {"pack 0a: is damaged; run repair packs 0a"},
           .broken_snapshots = 2,
           .broken_tags = {bed_.TaskNameOfUpload(), "du-gone"}});
  EXPECT_THAT(Verified().broken_backups, ElementsAre("backup-7", "DataUpload gone"));
  EXPECT_EQ(Verified().finding,
            "2 errors; 2 of 3 repository snapshots cannot be restored, backups: backup-7, "
            "DataUpload gone; pack 0a: is damaged; run repair packs 0a");
  EXPECT_EQ(Verified().position, 0);
  EXPECT_FALSE(Verified().read_until.has_value());
  EXPECT_THAT(bed_.EventReasons(), ElementsAre("Warning VerificationFailed"));
  LookNextDay();
  EXPECT_EQ(PartOf(Work()), (objects::CheckWork{.part = 1, .parts = 34}))
      << "what was bad is read again";
  EndWith({});
  EXPECT_EQ(Verified().finding, "");
  EXPECT_THAT(Verified().broken_backups, IsEmpty());
  EXPECT_EQ(Verified().position, 1);
  EXPECT_THAT(bed_.EventReasons(), Contains("Normal Verified"));
}

// Until a check finds nothing, uploads are told what not to rely on.
TEST_F(CheckReconcilerTest, TheRecordNamesDamagedPacksUntilACheckFindsNothing) {
  Begin();
  EndWith({});
  EXPECT_EQ(Verified().damage, std::nullopt);
  const objects::RepositoryDamage damage{.packs = {std::string(64, 'a'), std::string(64, 'b')},
                                         .packs_found = 2};
  CheckNextDay({.errors = 2, .damage = damage});
  EXPECT_EQ(Verified().damage, damage);
  // Damage that is no pack: a parent is to be proven all the same.
  CheckNextDay({.errors = 1});
  EXPECT_EQ(Verified().damage, objects::RepositoryDamage());
  const objects::RepositoryDamage much{.packs = std::vector<std::string>(64, std::string(64, 'c')),
                                       .packs_found = 700,
                                       .written_until = bed_.clock.Now() - absl::Hours(1)};
  CheckNextDay({.errors = 700, .damage = much});
  EXPECT_EQ(Verified().damage, much);
  // A check that could not be made says nothing about it.
  LookNextDay();
  FailWith(objects::OutcomeCause::kNone, "no answer");
  EXPECT_EQ(Verified().damage, much);
  CheckNextDay({});
  EXPECT_EQ(Verified().damage, std::nullopt);
  EXPECT_EQ(Verified().finding, "");
}

// Else a change of checks.percentPerDay would pass for a repair.
TEST_F(CheckReconcilerTest, WithImmutabilityACheckRenewsLocksAndTheRecordSaysUntilWhen) {
  const objects::JobObjectLock lock{.mode = "COMPLIANCE", .days = 30};
  Begin();
  EXPECT_FALSE(Work().renew_locks.has_value());
  EXPECT_FALSE(bed_.Job(TaskName()).repository.object_lock.has_value());
  EndWith({});
  EXPECT_FALSE(Verified().locks.has_value());

  bed_.env.settings.locations["default"].immutability = lock;
  LookNextDay();
  EXPECT_EQ(Work().renew_locks, lock);
  EXPECT_FALSE(Work().locks_renewed_at.has_value()) << "the first run looks at all";
  EXPECT_EQ(bed_.Job(TaskName()).repository.object_lock, lock);
  const absl::Time earliest = bed_.clock.Now() + absl::Hours(24 * 17);
  EndWith(
      {.locks = objects::LockFigures{.objects = 9, .due = 9, .extended = 3, .earliest = earliest}});
  ASSERT_TRUE(Verified().locks.has_value());
  EXPECT_EQ(Verified().locks->renewed_at, Verified().at);
  EXPECT_EQ(Verified().locks->locked_until, absl::FromUnixSeconds(absl::ToUnixSeconds(earliest)));
  EXPECT_EQ(Verified().locks->objects, 9);
  EXPECT_EQ(Verified().locks->extended, 3);
  const absl::Time first = *Verified().at;

  LookNextDay();
  EXPECT_EQ(Work().locks_renewed_at, first);
  EndWith({.locks = objects::LockFigures{.objects = 9, .due = 1, .extended = 1}});
  EXPECT_EQ(Verified().locks->locked_until, *Verified().at + absl::Hours(24 * 15) - kCheckOverlap);
  EXPECT_THAT(bed_.EventReasons(), IsEmpty());

  bed_.env.settings.locations["default"].immutability->days = 60;
  LookNextDay();
  EXPECT_FALSE(Work().locks_renewed_at.has_value()) << "for other days all are looked at again";
}

TEST_F(CheckReconcilerTest, LocksThatWereNotRenewedAreTheRecordsFindingAndAnEvent) {
  bed_.env.settings.locations["default"].immutability =
      objects::JobObjectLock{.mode = "GOVERNANCE", .days = 30};
  Begin();
  EndWith({.locks = objects::LockFigures{.objects = 9, .due = 9}});
  const absl::Time renewed_at = *Verified().at;
  const absl::Time locked_until = *Verified().locks->locked_until;

  const absl::Time earliest =
      absl::FromUnixSeconds(absl::ToUnixSeconds(bed_.clock.Now())) + absl::Hours(24 * 3);
  CheckNextDay(
      {.locks = objects::LockFigures{.objects = 9,
                                     .due = 9,
                                     .failed = 2,
                                     .findings = {"config: AccessDenied", "data/00: AccessDenied"},
                                     .earliest = earliest}});
  EXPECT_EQ(Verified().locks->finding,
            "object locks were not renewed: 2 failures, the first: config: AccessDenied");
  EXPECT_EQ(Verified().locks->renewed_at, renewed_at);
  EXPECT_LT(earliest, locked_until);
  EXPECT_EQ(Verified().locks->locked_until, earliest);
  EXPECT_EQ(Verified().finding, "") << "the data is good";
  EXPECT_THAT(bed_.EventReasons(), ElementsAre("Warning LocksNotRenewed"));

  CheckNextDay({});  // A CRD of the version before drops what the worker reports.
  EXPECT_THAT(Verified().locks->finding, HasSubstr("update the CRDs"));
  CheckNextDay({.locks = objects::LockFigures{.objects = 9, .due = 3, .extended = 3}});
  EXPECT_EQ(Verified().locks->finding, "");
  EXPECT_EQ(Verified().locks->renewed_at, Verified().at);
  EXPECT_THAT(bed_.EventReasons(), Contains("Normal LocksRenewed"));
}

TEST_F(CheckReconcilerTest, WhileSomethingIsWrongThePartsStayAsTheyAre) {
  Begin();
  EndWith({});
  CheckNextDay({.errors = 1});
  bed_.env.settings.checks.percent_per_day = 50;
  LookNextDay();
  EXPECT_EQ(Work().part, 2);
  EXPECT_EQ(Work().parts, 34);
  EndWith({});
  LookNextDay();
  EXPECT_EQ(Work().part, 1);
  EXPECT_EQ(Work().parts, 2);
}

TEST_F(CheckReconcilerTest, TheJobNamesTheUploadsThatAreThere) {
  bed_.AddUpload("nightly");
  bed_.AddUpload("of-another-pvc", "shop", "logs");
  Begin();
  EXPECT_EQ(Work().host, bed_.env.cluster);
  EXPECT_THAT(Work().known_tags, ElementsAre(bed_.TaskNameOfUpload()));
  EXPECT_EQ(Work().orphans_before, bed_.clock.Now() - kOrphanedAfter);
}

// Those of the PVC that it was restored from are in the same repository.
TEST_F(CheckReconcilerTest, OfARestoredPvcTheUploadsOfBothAreNamed) {
  bed_.AddUpload("before", "shop", "former");
  bed_.AddUpload("nightly");
  bed_.AddUpload("of-another-pvc", "shop", "logs");
  Add("data");
  bed_.api.Mutate({ProtectedVolume::Type(), "velero", "data"}, [&](Json& record) {
    record["status"]["lastGoodBackup"]["snapshotID"] =
        velero::FormatDataReference({.cluster = bed_.env.cluster,
                                     .namespace_name = "shop",
                                     .claim_uid = MoverBed::ClaimUid("shop", "former"),
                                     .snapshot_id = std::string(64, 'd'),
                                     .key = key_});
  });
  Look();
  EXPECT_THAT(Work().known_tags, testing::UnorderedElementsAre(bed_.TaskNameOfUpload("before"),
                                                               bed_.TaskNameOfUpload("nightly")));
}

TEST_F(CheckReconcilerTest, RepositorySnapshotsWithoutBackupAndDeletionAreNamed) {
  bed_.api.Seed(objects::Backup::Type(),
                {{"metadata", {{"name", "kept"}, {"namespace", "velero"}}}});
  const std::string awaited(64, 'b');
  bed_.api.Seed(objects::DataDeletion::Type(),
                {{"metadata",
                  {{"name", "goes"},
                   {"namespace", "velero"},
                   {"labels", {{"velero.io/backup-name", "gone"}}}}},
                 {"spec",
                  {{"backupStorageLocation", "default"},
                   {"backup", "gone"},
                   {"snapshotID",
                    velero::FormatDataReference({.cluster = bed_.env.cluster,
                                                 .namespace_name = "shop",
                                                 .claim_uid = MoverBed::ClaimUid("shop", "data"),
                                                 .snapshot_id = awaited,
                                                 .key = key_})}}}});
  Begin();
  const auto orphan = [](std::string id, std::string backup) {
    return objects::OrphanedSnapshot{.id = std::move(id),
                                     .upload_tag = "du-1",
                                     .backup = std::move(backup),
                                     .made_at = "2026-01-02T03:04:05Z"};
  };
  const std::string gone(64, 'a');
  EndWith(
      {.snapshots = 9,
       .orphans_found = 6,
       .orphans = {orphan(gone, "velero/gone"), orphan(awaited, "velero/gone"),
                   orphan(std::string(64, 'c'), "velero/kept"),
                   orphan(std::string(64, 'd'), "another-velero/gone"),
                   orphan(std::string(64, 'e'), ""), orphan(std::string(64, 'f'), "velero/../x")}});
  EXPECT_EQ(Verified().orphaned_snapshots, 1);
  EXPECT_THAT(Verified().orphans,
              ElementsAre(gone + " of backup gone, made at 2026-01-02T03:04:05Z"));
  EXPECT_EQ(Verified().unattributed_snapshots, 1);
  EXPECT_EQ(Verified().finding, "") << "every backup can be restored";
  CheckNextDay({.snapshots = 8});
  EXPECT_EQ(Verified().orphaned_snapshots, 0);
  EXPECT_THAT(Verified().orphans, IsEmpty());
}

TEST_F(CheckReconcilerTest, ARepositoryThatIsGoneIsAFinding) {
  Begin();
  FailWith(objects::OutcomeCause::kNoRepository, "none");
  EXPECT_THAT(
      Verified().finding,
      HasSubstr("the repository was not found, so no backup of this PVC can be restored (none)"));
  EXPECT_THAT(Verified().broken_backups, ElementsAre("nightly"));
  EXPECT_THAT(Tasks(), IsEmpty());
}

TEST_F(CheckReconcilerTest, TheOneThatWasVerifiedTheLongestAgoComesFirst) {
  for (const char* name : {"a", "b", "c"}) {
    Add(name);
  }
  SetVerifiedAt("a", absl::Hours(30));
  SetVerifiedAt("b", absl::Hours(50));
  SetVerifiedAt("c", absl::Hours(40));
  support::ReportAll(informer_, bed_.api.All(ProtectedVolume::Type()));
  may_begin_ = false;  // Until each has asked.
  Look();
  may_begin_ = true;
  std::vector<std::string> order;
  for (int i = 0; i < 3; ++i) {
    bed_.clock.Advance(absl::Seconds(30));
    Look();
    ASSERT_THAT(Tasks(), SizeIs(1)) << "checks.workers";
    for (const char* name : {"a", "b", "c"}) {
      if (TaskName(name) == Tasks()[0]) {
        order.emplace_back(name);
      }
    }
    bed_.Finish(Tasks()[0]);
    Look();
  }
  EXPECT_THAT(order, ElementsAre("b", "c", "a"));
}

// A worker takes 150 s for 3 % of a repository: 1 TiB at 210 MiB/s.
TEST_F(CheckReconcilerTest, FiveHundredRepositoriesADayTakeOneWorkerAtATime) {
  // A sanitizer makes each of them slow, and looks for other things.
  constexpr int kVolumes = support::kSanitizer == nullptr ? 500 : 50;
  constexpr absl::Duration kWorkerTakes = absl::Seconds(150);
  for (int i = 0; i < kVolumes; ++i) {
    Add(absl::StrCat("pvc-", i));
  }
  support::ReportAll(informer_, bed_.api.All(ProtectedVolume::Type()));
  const absl::Time began = bed_.clock.Now();
  std::size_t admissions = 0;
  while (bed_.clock.Now() < began + kCheckEvery) {
    loop_.WorkOnce(bed_.ctx);
    const std::vector<std::string> tasks = Tasks();
    admissions = std::max(admissions, tasks.size());
    if (tasks.empty() && bed_.pods_made == kVolumes) {
      break;
    }
    bed_.clock.Advance(kWorkerTakes / 2);
    loop_.WorkOnce(bed_.ctx);
    bed_.clock.Advance(kWorkerTakes / 2);
    for (const std::string& task : tasks) {
      bed_.Finish(task);
    }
    loop_.WorkOnce(bed_.ctx);
  }
  const absl::Duration took = bed_.clock.Now() - began;
  std::cout << kVolumes << " checks at " << bed_.env.settings.checks.percent_per_day
            << " %: " << admissions << " admission at a time, for " << absl::FormatDuration(took)
            << " of a day\n";
  RecordProperty("admissions", static_cast<int>(admissions));
  RecordProperty("seconds", static_cast<int>(absl::ToInt64Seconds(took)));
  EXPECT_EQ(admissions, 1U);
  EXPECT_LT(took, kCheckEvery);
  EXPECT_EQ(bed_.pods_made, kVolumes);
  for (int i = 0; i < kVolumes; ++i) {
    EXPECT_TRUE(Verified(absl::StrCat("pvc-", i)).at.has_value()) << i;
  }
}

TEST_F(CheckReconcilerTest, ChecksThatAreOverdueAreMadeOneAtATimeThoughTransfersAlwaysWait) {
  constexpr int kVolumes = 8;
  bed_.env.settings.checks.workers = 4;
  may_begin_ = false;
  for (int i = 0; i < kVolumes; ++i) {
    Add(absl::StrCat("pvc-", i), absl::ZeroDuration());
    SetVerifiedAt(absl::StrCat("pvc-", i), absl::Minutes(i));
  }
  support::ReportAll(informer_, bed_.api.All(ProtectedVolume::Type()));
  const absl::Time began = bed_.clock.Now();
  absl::Time first = absl::InfiniteFuture();
  while (bed_.pods_made < kVolumes && bed_.clock.Now() < began + 5 * kCheckEvery) {
    bed_.clock.Advance(absl::Minutes(10));
    loop_.WorkOnce(bed_.ctx);
    const std::vector<std::string> tasks = Tasks();
    ASSERT_LE(tasks.size(), 1U) << "at most one admission is taken from transfers";
    for (const std::string& task : tasks) {
      first = std::min(first, bed_.clock.Now());
      bed_.clock.Advance(absl::Seconds(30));
      loop_.WorkOnce(bed_.ctx);
      bed_.Finish(task);
    }
  }
  EXPECT_EQ(bed_.pods_made, kVolumes);
  EXPECT_GE(first, began + kCheckEvery + kCheckOverdue - absl::Minutes(kVolumes));
  EXPECT_LE(first, began + kCheckEvery + kCheckOverdue + absl::Minutes(10));
}

TEST_F(CheckReconcilerTest, APauseHoldsBackEvenWhatIsOverdue) {
  Add("data");
  SetVerifiedAt("data", 10 * kCheckEvery);
  bed_.env.settings.is_paused = true;
  Look();
  EXPECT_THAT(Tasks(), IsEmpty());
}

TEST_F(CheckReconcilerTest, HourlyBackupsDoNotPutTheFirstCheckOff) {
  Add("data", absl::Hours(24));
  bed_.api.Mutate({ProtectedVolume::Type(), "velero", "data"}, [&](Json& record) {
    record["status"]["lastGoodBackup"]["completedAt"] =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", bed_.clock.Now(), absl::UTCTimeZone());
  });
  EXPECT_LE(*CheckDueAt(support::As<ProtectedVolume>(Object())), bed_.clock.Now());
}

TEST_F(CheckReconcilerTest, AFindingCountsInSingularAndPlural) {
  Begin();
  EndWith({.read_bytes = 1,
           .snapshots = 1,
           .errors = 1,
           .broken_snapshots = 1,
           .broken_tags = {"du-gone"}});
  EXPECT_EQ(Verified().finding,
            "1 error; 1 of 1 repository snapshot cannot be restored, backup: DataUpload gone");
}

TEST_F(CheckReconcilerTest, WaitsWhileTransfersWaitOrThingsArePaused) {
  Add("data");
  may_begin_ = false;
  Look();
  EXPECT_THAT(Tasks(), IsEmpty());
  may_begin_ = true;
  bed_.env.settings.is_paused = true;
  bed_.clock.Advance(absl::Minutes(1));
  Look();
  EXPECT_THAT(Tasks(), IsEmpty());
  bed_.env.settings.is_paused = false;
  bed_.clock.Advance(absl::Minutes(1));
  Look();
  EXPECT_THAT(Tasks(), SizeIs(1));
}

TEST_F(CheckReconcilerTest, ALockThatIsHeldIsAskedForLaterAndNoEvent) {
  Begin();
  FailWith(objects::OutcomeCause::kLocked, "locked");
  EXPECT_THAT(Tasks(), IsEmpty());
  EXPECT_FALSE(Verified().at.has_value());
  EXPECT_THAT(bed_.EventReasons(), IsEmpty());
  bed_.clock.Advance(kCheckLockedAgain);
  Look();
  EXPECT_THAT(Tasks(), SizeIs(1));
}

TEST_F(CheckReconcilerTest, WhatCannotBeCheckedIsAnEventAndTriedEverLater) {
  Add("data");
  for (const absl::Duration pause : {absl::Hours(1), absl::Hours(2), absl::Hours(4)}) {
    Look();
    ASSERT_THAT(Tasks(), SizeIs(1));
    FailWith(objects::OutcomeCause::kNone, "the bucket does not answer");
    bed_.clock.Advance(pause - absl::Minutes(1));
    Look();
    EXPECT_THAT(Tasks(), IsEmpty());
    bed_.clock.Advance(absl::Minutes(1));
  }
  EXPECT_THAT(bed_.EventReasons(), Contains("Warning CheckFailed"));
  EXPECT_FALSE(Verified().at.has_value()) << "its age grows";
}

TEST_F(CheckReconcilerTest, AResultIsRecordedOnceThoughTheProcessEndsInBetween) {
  Begin();
  bed_.Finish(TaskName());
  const Json task = *bed_.api.Find({objects::VolumeTask::Type(), MoverBed::kMover, TaskName()});
  const objects::Patch written = objects::Patch().SetVerification(
      {.at = support::As<objects::VolumeTask>(task).created_at(), .position = 1, .parts = 34});
  bed_.api.Mutate({ProtectedVolume::Type(), "velero", "data"},
                  [&](Json& record) { record.merge_patch(written.json()); });
  Look();
  EXPECT_EQ(Verified().position, 1);
  EXPECT_THAT(Tasks(), IsEmpty());
}

TEST_F(CheckReconcilerTest, ZeroPercentChecksNothing) {
  bed_.env.settings.checks.percent_per_day = 0;
  Begin();
  EXPECT_THAT(Tasks(), IsEmpty());
  EXPECT_FALSE(enqueue_table_.Has(TaskName())) << "what an earlier setting began is removed";
}

TEST_F(CheckReconcilerTest, FirstChecksAreSpreadOverADay) {
  std::map<int64_t, int> hours;
  for (int i = 0; i < 48; ++i) {
    Add(absl::StrCat("pvc-", i));
    const ProtectedVolume volume = support::As<ProtectedVolume>(Object(absl::StrCat("pvc-", i)));
    const absl::Duration after = *CheckDueAt(volume) - *volume.created_at();
    EXPECT_GE(after, absl::ZeroDuration());
    EXPECT_LT(after, kCheckEvery);
    ++hours[absl::ToInt64Hours(after)];
  }
  EXPECT_GT(hours.size(), 10);
}

TEST_F(CheckReconcilerTest, AVolumeWithoutAGoodBackupIsNotChecked) {
  Add("data");
  bed_.api.Mutate({ProtectedVolume::Type(), "velero", "data"},
                  [](Json& record) { record["status"].erase("lastGoodBackup"); });
  Look();
  EXPECT_THAT(Tasks(), IsEmpty());
}

}  // namespace
}  // namespace csidelta::datamover::check_reconciler_test
