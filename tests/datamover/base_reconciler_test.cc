#include "datamover/records/base_reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/data_deletion.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/protected_volume.h"
#include "tests/datamover/mover_bed.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "velero/labels.h"

namespace csidelta::datamover::base_reconciler_test {
namespace {

using support::IsOk;
using support::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class BaseReconcilerTest : public ::testing::Test {
 protected:
  Json AddBase() { return bed_.AddBase("data", bed_.env.cluster); }

  void DeleteClaim() {
    ASSERT_THAT(bed_.api.Delete(bed_.ctx, ClaimKey("shop", "data"), {}), IsOk());
  }

  absl::Time LookAt(const Json& base) {
    const absl::StatusOr<absl::Time> next = bases_.Reconcile(bed_.ctx, base);
    EXPECT_THAT(next, IsOk());
    return next.value_or(absl::InfinitePast());
  }

  std::vector<Json> Bases() { return bed_.api.All(VolumeSnapshotContentType()); }
  void ExpectStays(const Json& base) {
    LookAt(base);
    EXPECT_THAT(Bases(), SizeIs(1));
  }
  void ExpectGoes(const Json& base) {
    LookAt(base);
    EXPECT_THAT(Bases(), IsEmpty());
  }

  // Of the PVC and location of the base; the upload is that of the base, unless said otherwise.
  void AddRecord(const std::string& upload = "1", absl::Duration age = absl::Hours(1)) {
    const std::string uid = MoverBed::ClaimUid("shop", "data");
    auto record =
        objects::ProtectedVolume::Make("velero", objects::ProtectedVolume::NameOf(uid, "default"));
    record.SetSpec({.pvc_namespace = "shop", .pvc = "data", .pvc_uid = uid, .location = "default"});
    Json json = record.json();
    json.merge_patch(
        objects::Patch()
            .SetLastGood(objects::LastGoodBackup{.backup = "nightly",
                                                 .upload = upload,
                                                 .snapshot_id = "snapshot-1",
                                                 .taken_at = bed_.clock.Now() - age,
                                                 .completed_at = bed_.clock.Now() - age,
                                                 .mode = "full"})
            .json());
    bed_.api.Seed(objects::ProtectedVolume::Type(), json);
  }

  // A base of the DataUpload "1", so old.
  Json AddBaseOfUpload(absl::Duration age = absl::Hours(1)) {
    AddBase();
    bed_.api.Mutate(kContent, [&](Json& content) {
      content["metadata"]["labels"][objects::kMoverTaskLabel] = "du-1";
      content["metadata"]["annotations"][objects::kMoverTakenAtAnnotation] =
          FormatRfc3339(bed_.clock.Now() - age);
    });
    return *bed_.api.Find(kContent);
  }

  void AddBackup(const std::string& phase = "Completed", const std::string& name = "nightly",
                 const std::string& of = "shop") {
    bed_.api.Seed(objects::Backup::Type(), {{"metadata", {{"name", name}, {"namespace", "velero"}}},
                                            {"spec", {{"includedNamespaces", Json::array({of})}}},
                                            {"status", {{"phase", phase}}}});
  }

  // The informer delivers a DataDeletion of the snapshot that the record names.
  void DeliverDeletion(const std::string& phase) {
    auto deletion = objects::DataDeletion::Make("velero", "dx-1");
    deletion.SetSnapshot("default", "snapshot-1", "nightly");
    Json json = deletion.json();
    json["status"]["phase"] = phase;
    deleted_.Record(support::As<objects::DataDeletion>(json));
  }

  void SeedUploadTask() {
    bed_.api.Seed(
        objects::VolumeTask::Type(),
        objects::VolumeTask::Make(MoverBed::kMover, "du-2",
                                  {.kind = objects::TaskKind::kUpload,
                                   .subject = {},
                                   .volume = {.namespace_name = "shop",
                                              .claim = "data",
                                              .claim_uid = MoverBed::ClaimUid("shop", "data")},
                                   .cancel = false},
                                  {})
            .json());
  }

  const k8s::ObjectKey kContent = {VolumeSnapshotContentType(), "", "du-1"};
  const k8s::ObjectKey kLocation = objects::BackupStorageLocation::Key("velero", "default");
  MoverBed bed_;
  DeletedSnapshots deleted_;
  VolumeRecords records_{[](const VolumeRecordKey&) {}};
  BaseReconciler bases_{bed_.env, deleted_, records_};
};

TEST_F(BaseReconcilerTest, TheBaseOfAVolumeThatIsThereStaysAndIsLookedAtAgain) {
  const Json base = AddBase();
  EXPECT_EQ(LookAt(base), bed_.clock.Now() + kBaseReconciledEvery);
  EXPECT_THAT(Bases(), SizeIs(1));
}

TEST_F(BaseReconcilerTest, TheBaseOfAVolumeThatIsGoneGoes) {
  const Json base = AddBase();
  DeleteClaim();
  EXPECT_EQ(LookAt(base), absl::InfiniteFuture());
  EXPECT_THAT(Bases(), IsEmpty());
}

// Its upload has just read the PVC.
TEST_F(BaseReconcilerTest, ThePvcOfABaseThatWasJustMadeIsNotReadAgain) {
  LookAt(bed_.AddBase("data", "another-cluster"));
  bed_.api.Remove(kContent);
  bed_.clock.Advance(absl::Seconds(1));
  const Json base = AddBase();
  bed_.api.ClearCalls();
  const absl::Time next = LookAt(base);
  EXPECT_EQ(bed_.api.CallCount("get", "persistentvolumeclaims"), 0);
  DeleteClaim();
  bed_.clock.Advance(next - bed_.clock.Now());
  ExpectGoes(base);
}

TEST_F(BaseReconcilerTest, AClaimThatWasMadeAgainIsAnotherVolume) {
  const Json base = AddBase();
  bed_.api.SetField(ClaimKey("shop", "data"), {"metadata", "uid"}, "another");
  ExpectGoes(base);
}

TEST_F(BaseReconcilerTest, ABaseThatAnUploadIsComparedWithStays) {
  const Json base = AddBase();
  DeleteClaim();
  SeedUploadTask();
  EXPECT_EQ(LookAt(base), bed_.clock.Now() + kBaseReconciledEvery);
  EXPECT_THAT(Bases(), SizeIs(1));
  const std::string task = k8s::Name(bed_.api.All(objects::VolumeTask::Type()).at(0));
  bed_.api.SetField(objects::VolumeTask::Key(MoverBed::kMover, task), {"spec", "type"}, "Newer");
  LookAt(base);
  EXPECT_THAT(Bases(), SizeIs(1)) << "it may be an upload";
}

TEST_F(BaseReconcilerTest, BasesOfOtherClustersAreLeftAlone) {
  const Json base = bed_.AddBase("data", "another");
  DeleteClaim();
  EXPECT_EQ(LookAt(base), absl::InfiniteFuture());
  EXPECT_THAT(Bases(), SizeIs(1));
}

class BaseInTheWayTest : public BaseReconcilerTest {
 protected:
  BaseInTheWayTest() {
    driver().habits = {.grows_with_snapshots = false, .deletes_with_snapshots = false};
  }

  support::FakeStorageDriver& driver() { return bed_.cluster.driver(); }

  Json AddBaseInDriver() {
    driver().AddSnapshot("snap-1", "volume-1");
    return AddBase();
  }
  void RequestMore() {
    bed_.api.SetField(ClaimKey("shop", "data"), {"spec", "resources", "requests", "storage"},
                      "20Gi");
  }
  void BeginDeletion() {
    bed_.api.Mutate(ClaimKey("shop", "data"), [](Json& claim) {
      claim["metadata"]["finalizers"] = {"kubernetes.io/pvc-protection"};
    });
    DeleteClaim();
    ASSERT_TRUE(bed_.api.Find(ClaimKey("shop", "data")).has_value());
  }
};

TEST_F(BaseInTheWayTest, GoesWhenItsPvcWaitsToGrow) {
  const Json base = AddBaseInDriver();
  ExpectStays(base);
  bed_.clock.Advance(kBaseReconciledEvery);
  RequestMore();
  EXPECT_THAT(driver().ExpandVolume("volume-1"), Not(IsOk()));
  EXPECT_EQ(LookAt(base), absl::InfiniteFuture());
  EXPECT_THAT(Bases(), IsEmpty());
  EXPECT_THAT(driver().ExpandVolume("volume-1"), IsOk());
  EXPECT_THAT(support::EventTexts(bed_.api),
              Contains(AllOf(StartsWith("PersistentVolumeClaim data Normal BaseDropped: "),
                             HasSubstr("du-1"), HasSubstr("its PVC waits to grow"),
                             HasSubstr("d.example.com"))));
}

TEST_F(BaseInTheWayTest, StaysWhereTheDriverGrowsVolumesWithSnapshots) {
  AddBaseInDriver();
  bed_.api.SetField(kContent, {"spec", "driver"}, "rbd.csi.ceph.com");
  RequestMore();
  ExpectStays(*bed_.api.Find(kContent));
}

TEST_F(BaseInTheWayTest, GoesWhenItsPvcIsBeingDeleted) {
  const Json base = AddBaseInDriver();
  BeginDeletion();
  EXPECT_THAT(driver().DeleteVolume("volume-1"), Not(IsOk()));
  ExpectGoes(base);
  EXPECT_THAT(driver().DeleteVolume("volume-1"), IsOk());
  EXPECT_THAT(support::EventTexts(bed_.api),
              Contains(AllOf(StartsWith("PersistentVolumeClaim data "),
                             HasSubstr("its PVC is being deleted"))));
}

TEST_F(BaseInTheWayTest, WhileAnUploadNeedsItItStaysAndThePvcSaysSo) {
  const Json base = AddBaseInDriver();
  RequestMore();
  SeedUploadTask();
  EXPECT_EQ(LookAt(base), bed_.clock.Now() + kBaseReconciledEvery);
  EXPECT_THAT(Bases(), SizeIs(1));
  EXPECT_THAT(support::EventTexts(bed_.api),
              Contains(AllOf(StartsWith("PersistentVolumeClaim data Warning BaseInTheWay: "),
                             HasSubstr("until the upload of the PVC is over"))));
}

// A VolumeSnapshot that Velero's own action made, on a driver that keeps one of a volume.
class RoomReconcilerTest : public BaseReconcilerTest {
 protected:
  RoomReconcilerTest() {
    bed_.env.velero_namespaces = {"velero"};
    driver().habits.snapshots_max = 1;
    driver().AddSnapshot("snap-1", "volume-1");
    AddBase();
    AddBackup("InProgress");
    bed_.AddUpload("data-x");
    bed_.api.Remove({DataUploadType(), "velero", "data-x"});
    bed_.api.SetField(kSnapshot, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
  }

  void SetError(const std::string& message) {
    bed_.api.SetField(kSnapshot, {"status", "error", "message"}, message);
  }
  support::FakeStorageDriver& driver() { return bed_.cluster.driver(); }
  Json Snapshot() { return *bed_.api.Find(kSnapshot); }
  // When it is looked at again.
  absl::Time Look() {
    const Json snapshot = Snapshot();
    if (!room_.Concerns(snapshot)) {
      return absl::InfiniteFuture();
    }
    return room_.Reconcile(bed_.ctx, snapshot).value_or(absl::InfinitePast());
  }

  const k8s::ObjectKey kSnapshot = VolumeSnapshotKey("shop", "velero-data-x");
  RoomReconciler room_{bed_.env};
};

TEST_F(RoomReconcilerTest, ABaseMakesRoomForTheSnapshotOfVelerosOwnAction) {
  EXPECT_EQ(Look(), bed_.clock.Now() + absl::Minutes(5));
  EXPECT_FALSE(bed_.api.Find(kContent).has_value());
  EXPECT_THAT(support::EventTexts(bed_.api),
              Contains(AllOf(StartsWith("PersistentVolumeClaim data Normal BaseDropped: "),
                             HasSubstr("du-1"), HasSubstr("1 of 1 snapshots"))));
  bed_.cluster.Resync();
  EXPECT_TRUE(GetBool(Snapshot(), {"status", "readyToUse"}));
  EXPECT_EQ(Look(), absl::InfiniteFuture());
}

TEST_F(RoomReconcilerTest, ABackupIsFoundWhoseNameIsLongerThanALabel) {
  const std::string name(70, 'n');
  AddBackup("InProgress", name);
  bed_.api.SetField(kSnapshot, {"metadata", "labels", objects::kBackupNameLabel},
                    velero::ValidLabelValue(name));
  Look();
  EXPECT_FALSE(bed_.api.Find(kContent).has_value());
}

TEST_F(RoomReconcilerTest, ASecondBaseWaitsUntilTheFirstMayBeGone) {
  driver().AddSnapshot("kept", "volume-1");
  const absl::Time next = Look();
  AddBase();
  EXPECT_EQ(Look(), next);
  EXPECT_TRUE(bed_.api.Find(kContent).has_value());
  bed_.clock.Advance(next - bed_.clock.Now());
  Look();
  EXPECT_FALSE(bed_.api.Find(kContent).has_value());
}

TEST_F(RoomReconcilerTest, NoBaseMakesRoomForAnythingElse) {
  const auto expect_stays = [this](const char* what, absl::Duration next) {
    EXPECT_EQ(Look(), bed_.clock.Now() + next) << what;
    EXPECT_TRUE(bed_.api.Find(kContent).has_value()) << what;
  };
  AddBackup("Completed");
  expect_stays("a backup that is over", absl::InfiniteDuration());
  AddBackup("InProgress", "nightly", "bank");
  expect_stays("a label that a tenant wrote", absl::InfiniteDuration());
  AddBackup("InProgress");
  bed_.api.SetField(kSnapshot, {"metadata", "deletionTimestamp"}, "2026-11-01T00:00:00Z");
  expect_stays("one that Velero deletes", absl::InfiniteDuration());
  bed_.api.SetField(kSnapshot, {"metadata", "deletionTimestamp"}, Json());
  bed_.env.velero_namespaces = {"velero-two"};
  expect_stays("a backup of another Velero", absl::InfiniteDuration());
  bed_.env.velero_namespaces.insert("velero");
  bed_.AddUpload("earlier");
  expect_stays("while an upload may be compared with it", absl::Minutes(1));
  bed_.api.SetField({DataUploadType(), "velero", "earlier"}, {"status", "phase"}, "Completed");
  SetError("rpc error: code = ResourceExhausted desc = TooManyRequests");
  expect_stays("a rate", absl::Minutes(1));
}

TEST_F(RoomReconcilerTest, AnErrorThatLastsReachesThePvcOnce) {
  const auto told = Contains(AllOf(
      StartsWith("PersistentVolumeClaim data Warning SnapshotNotReady"),
      HasSubstr("backup nightly has no snapshot of this PVC yet"), HasSubstr("pool is broken")));
  SetError("rpc error: code = Internal desc = pool is broken");
  EXPECT_EQ(Look(), bed_.clock.Now() + absl::Minutes(1)) << "it may pass";
  EXPECT_THAT(support::EventTexts(bed_.api), Not(told));
  bed_.clock.Advance(absl::Minutes(1));
  EXPECT_EQ(Look(), absl::InfiniteFuture());
  EXPECT_THAT(support::EventTexts(bed_.api), told);
  const std::size_t events = support::EventTexts(bed_.api).size();
  Look();
  EXPECT_THAT(support::EventTexts(bed_.api), SizeIs(events));
  EXPECT_TRUE(bed_.api.Find(kContent).has_value()) << "the base is not in its way";
}

TEST_F(RoomReconcilerTest, AFullDriverWithoutABaseIsToldAtOnce) {
  bed_.api.Remove(kContent);
  EXPECT_EQ(Look(), bed_.clock.Now() + absl::Minutes(1));
  EXPECT_THAT(support::EventTexts(bed_.api),
              Contains(AllOf(HasSubstr("SnapshotNotReady"), HasSubstr("1 of 1 snapshots"))));
}

TEST_F(RoomReconcilerTest, ABaseStaysWhileUploadsCannotBeListed) {
  bed_.api.FailNext("list", "datauploads", absl::PermissionDeniedError("no"));
  EXPECT_EQ(Look(), bed_.clock.Now() + absl::Minutes(1));
  EXPECT_TRUE(bed_.api.Find(kContent).has_value());
  EXPECT_THAT(support::EventTexts(bed_.api),
              Contains(AllOf(HasSubstr("SnapshotNotReady"), HasSubstr("1 of 1 snapshots"),
                             HasSubstr("du-1 stays: whether an upload is compared with it"))));
}

TEST_F(BaseReconcilerTest, WhoDoesNotKnowWhetherTheClaimIsThereDropsNothing) {
  const Json base = AddBase();
  DeleteClaim();
  bed_.api.FailNext("get", "persistentvolumeclaims", absl::UnavailableError("away"));
  EXPECT_THAT(bases_.Reconcile(bed_.ctx, base).status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Bases(), SizeIs(1));
}

TEST_F(BaseReconcilerTest, GoesAnHourAfterItsBackupStorageLocation) {
  const Json base = AddBase();
  const Json location = *bed_.api.Find(kLocation);
  bed_.api.Remove(kLocation);
  LookAt(base);
  bed_.clock.Advance(absl::Minutes(50));
  ExpectStays(base);
  bed_.api.Seed(objects::BackupStorageLocation::Type(), location);
  bed_.clock.Advance(absl::Minutes(10));
  LookAt(base);
  EXPECT_THAT(Bases(), SizeIs(1)) << "it was made again";
  bed_.api.Remove(kLocation);
  bed_.clock.Advance(absl::Minutes(10));
  LookAt(base);
  bed_.clock.Advance(absl::Hours(1));
  ExpectGoes(base);
}

TEST_F(BaseReconcilerTest, StaysWhereTheLocationMayNotBeRead) {
  const Json base = AddBase();
  bed_.api.FailNext("get", "protectedvolumes", absl::PermissionDeniedError("403"));
  bed_.api.FailNext("get", "backupstoragelocations", absl::PermissionDeniedError("403"));
  ExpectStays(base);
}

TEST_F(BaseReconcilerTest, GoesWhereTheSettingsKeepNoBaseForTheDriver) {
  const Json base = AddBase();
  bed_.env.settings.keep_base["d.example.com"] = false;
  EXPECT_EQ(LookAt(base), absl::InfiniteFuture());
  EXPECT_THAT(Bases(), IsEmpty());
}

TEST_F(BaseReconcilerTest, StaysWhereTheDriverNeedsBasesWhateverTheSettingsSay) {
  AddBase();
  bed_.api.Mutate(kContent, [](Json& content) {
    content["metadata"]["labels"][objects::kBaseNeededLabel] = "true";
  });
  bed_.env.settings.keep_base["d.example.com"] = false;
  ExpectStays(*bed_.api.Find(kContent));
}

TEST_F(BaseReconcilerTest, GoesOnceItIsOlderThanTheSettingsSay) {
  const Json base = AddBaseOfUpload(absl::Hours(14 * 24 - 1));
  ExpectStays(base);
  bed_.clock.Advance(absl::Hours(2));
  ExpectGoes(base);
}

TEST_F(BaseReconcilerTest, AnOldBaseStaysWhileAnUploadIsComparedWithIt) {
  const Json base = AddBaseOfUpload(absl::Hours(15 * 24));
  SeedUploadTask();
  EXPECT_EQ(LookAt(base), bed_.clock.Now() + kBaseReconciledEvery);
  EXPECT_THAT(Bases(), SizeIs(1));
}

TEST_F(BaseReconcilerTest, GoesOnceItsRepositorySnapshotIsDeletedAndSaysSoOnTheRecord) {
  const Json base = AddBaseOfUpload();
  AddRecord();
  AddBackup();
  DeliverDeletion("InProgress");
  ExpectStays(base);
  EXPECT_THAT(bed_.EventReasons(), IsEmpty());
  DeliverDeletion("Completed");
  ExpectGoes(base);
  EXPECT_THAT(bed_.EventReasons(), ElementsAre("Normal BaseDropped"));
}

TEST_F(BaseReconcilerTest, GoesAnHourAfterTheBackupThatItWasTakenFor) {
  const Json base = AddBaseOfUpload();
  AddRecord();
  ExpectStays(base);
  bed_.clock.Advance(absl::Hours(1));
  ExpectGoes(base);
}

TEST_F(BaseReconcilerTest, GoesWhereANewerBackupLeftNoBase) {
  const Json base = AddBaseOfUpload(absl::Hours(24));
  AddBackup();
  AddRecord("2", absl::Hours(1));
  ExpectGoes(base);
}

TEST_F(BaseReconcilerTest, AsksOnceForWhatManyBasesShare) {
  const Json base = AddBaseOfUpload();
  AddRecord();
  AddBackup();
  bed_.api.ClearCalls();
  constexpr std::size_t kLooks = 100;
  for (std::size_t i = 0; i < kLooks; ++i) {
    LookAt(base);
  }
  EXPECT_LE(bed_.api.calls().size(), 2 * kLooks + 2) << "of BackupStorageLocation and Backup one";
}

}  // namespace
}  // namespace csidelta::datamover::base_reconciler_test
