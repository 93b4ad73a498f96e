#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "csi/driver_error.h"
#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "tests/support/action_log.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/native_bed.h"
#include "tests/support/status_matchers.h"
#include "velero/labels.h"

// On the stand-in of Longhorn; no Longhorn was here.
namespace csidelta::restoreitemactions::longhorn_restore_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using velero::RestoreItemResult;

constexpr char kMovedData[] = "restore from a backup that moved the data";

// The PVC shop/data has a native snapshot in the backup "nightly", and is gone since.
class LonghornRestoreTest : public testing::Test {
 protected:
  LonghornRestoreTest() {
    const auto backed_up = backupitemactions::MakeLonghornVolumeAction(bed_.env)->Execute(
        bed_.ctx, objects::Object(bed_.pvc), objects::Object(bed_.backup));
    EXPECT_THAT(backed_up, IsOk());
    archived_ = backed_up->item.value_or(objects::Object()).json();
    name_ = backed_up->additional_items.at(0).name;
    bed_.Pass(absl::Seconds(8));
    bed_.api().Remove(ClaimKey("shop", "data"));
    bed_.api().Seed(StorageClassType(),
                    {{"metadata", {{"name", "longhorn"}}}, {"provisioner", "driver.longhorn.io"}});
    restore_ = support::MakeRestoreObject("r1", "nightly");
    bed_.calls.clear();
  }
  ~LonghornRestoreTest() override { bed_.ExpectNoWritesToLonghorn(); }

  absl::StatusOr<RestoreItemResult> Run() {
    return action_->Execute(bed_.ctx, objects::Object(archived_), objects::Object(archived_),
                            objects::Object(restore_));
  }
  Json MustRun() {
    const auto result = Run();
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->item.value_or(objects::Object()).json() : Json();
  }
  // The PVC is an error, at once, and nothing is made.
  void ExpectRefused(absl::StatusCode code, const std::string& why) {
    const absl::Time begun = bed_.clock.Now();
    EXPECT_THAT(Run(), StatusIs(code, AllOf(HasSubstr("PVC shop/data cannot be restored: "),
                                            HasSubstr(why))));
    EXPECT_LE(bed_.clock.Now() - begun, absl::Seconds(30));
    EXPECT_THAT(Contents(), IsEmpty());
    EXPECT_THAT(bed_.api().All(VolumeSnapshotType()), IsEmpty());
  }
  std::vector<Json> Contents() { return bed_.api().All(VolumeSnapshotContentType()); }
  void DeleteSnapshot() {
    bed_.Do([&] { EXPECT_TRUE(bed_.api().Remove(support::NativeBed::SnapshotKey(name_))); });
  }

  support::NativeBed bed_;
  std::unique_ptr<velero::RestoreItemAction> action_ = MakeLonghornRestoreAction(bed_.env);
  Json archived_;
  Json restore_;
  std::string name_;  // of the native snapshot
};

TEST_F(LonghornRestoreTest, AClassOfAnotherDriverIsRefusedUnlessAResourceModifierMayReplaceIt) {
  bed_.api().Seed(StorageClassType(),
                  {{"metadata", {{"name", "longhorn"}}}, {"provisioner", "other.driver"}});
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "of driver other.driver");
  SetJson(restore_, {"spec", "resourceModifier"},
          Json{{"kind", "configmap"}, {"name", "other-class"}});
  EXPECT_THAT(Run(), IsOk());
}

TEST_F(LonghornRestoreTest, IsAskedForPvcsOfNativeBackupsAlone) {
  EXPECT_THAT(action_->AppliesTo().included_resources, ElementsAre("persistentvolumeclaims"));
  EXPECT_EQ(action_->AppliesTo().label_selector, "longhorn.csi-delta.io/native=true");
}

TEST_F(LonghornRestoreTest, ThePvcIsFilledFromAStaticContentOfTheSnapshot) {
  const auto result = Run();
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->item.has_value());
  const std::string name = velero::RestoredSnapshotName("restore-uid", name_);
  EXPECT_EQ(
      *FindJson(result->item->json(), {"spec"}),
      (Json{{"dataSource",
             {{"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", name}}},
            {"storageClassName", "longhorn"},
            {"resources", {{"requests", {{"storage", "16Mi"}}}}}}));
  ASSERT_THAT(Contents(), SizeIs(1));
  const Json content = Contents()[0];
  EXPECT_EQ(GetString(content, {"spec", "source", "snapshotHandle"}),
            absl::StrCat("snap://pvc-1/", name_));
  EXPECT_EQ(GetString(content, {"spec", "driver"}), "driver.longhorn.io");
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotRef", "name"}), name);
  const Json snapshot = bed_.api().Find(VolumeSnapshotKey("shop", name)).value_or(Json());
  EXPECT_EQ(GetString(snapshot, {"spec", "source", "volumeSnapshotContentName"}),
            k8s::Name(content));
  EXPECT_EQ(k8s::Label(snapshot, objects::kRestoreNameLabel), "r1");
  EXPECT_EQ(result->operation_id, absl::StrCat("claim/shop/data/", name));
}

TEST_F(LonghornRestoreTest, WhatTheBackupWroteDoesNotComeBack) {
  const Json pvc = MustRun();
  EXPECT_THAT(GetStringMap(pvc, {"metadata", "annotations"}), IsEmpty());
  EXPECT_THAT(GetStringMap(pvc, {"metadata", "labels"}),
              ElementsAre(std::pair("velero.io/backup-name", "nightly")));
}

TEST_F(LonghornRestoreTest, IntoAMappedNamespaceWithoutEnableCsi) {
  bed_.env.enable_csi = false;
  action_ = MakeLonghornRestoreAction(bed_.env);
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "copy"}});
  // The PVC that it is a copy of is still there.
  bed_.api().Seed(PersistentVolumeClaimType(), bed_.pvc);
  MustRun();
  ASSERT_THAT(Contents(), SizeIs(1));
  EXPECT_EQ(GetString(Contents()[0], {"spec", "volumeSnapshotRef", "namespace"}), "copy");
}

// Longhorn fills a volume only at the size that the source has now.
TEST_F(LonghornRestoreTest, TheRequestIsTheSizeThatTheVolumeHasNow) {
  bed_.PatchVolume({{"spec", {{"size", absl::StrCat(int64_t{64} << 20)}}}});
  EXPECT_EQ(GetString(MustRun(), {"spec", "resources", "requests", "storage"}), "64Mi");
}

TEST_F(LonghornRestoreTest, ACallThatIsRepeatedMakesNothingTwice) {
  const Json first = MustRun();
  EXPECT_EQ(MustRun(), first);
  EXPECT_THAT(Contents(), SizeIs(1));
}

TEST_F(LonghornRestoreTest, AnExistingPvcIsLeftAlone) {
  bed_.api().Seed(PersistentVolumeClaimType(), bed_.pvc);
  const auto result = Run();
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->item.has_value());
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(Contents(), IsEmpty());
  EXPECT_THAT(support::EventTexts(bed_.api()),  // The Restore is not there.
              ElementsAre(HasSubstr("--namespace-mappings shop:shop-restored")));
}

TEST_F(LonghornRestoreTest, WithoutVolumesThePvcComesEmptyAsItWasAskedFor) {
  SetJson(restore_, {"spec", "restorePVs"}, false);
  SetJson(archived_, {"metadata", "annotations", objects::kBindCompletedAnnotation}, "yes");
  const auto result = Run();
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->item.has_value());
  EXPECT_EQ(k8s::Annotation(result->item->json(), objects::kBindCompletedAnnotation), "")
      << "Kubernetes would take it for one that lost its volume";
  EXPECT_EQ(FindJson(result->item->json(), {"spec", "volumeName"}), nullptr)
      << "nor the live volume";
  EXPECT_EQ(FindJson(result->item->json(), {"spec", "dataSource"}), nullptr);
  EXPECT_THAT(Contents(), IsEmpty());
}

TEST_F(LonghornRestoreTest, MarksOfAnotherBackupAreRemovedAndNotFollowed) {
  SetJson(archived_, {"metadata", "labels", objects::kBackupNameLabel}, "older");
  const auto result = Run();
  ASSERT_THAT(result, IsOk());
  ASSERT_TRUE(result->item.has_value());
  EXPECT_EQ(GetString(result->item->json(), {"spec", "volumeName"}), "pv-data");
  EXPECT_EQ(k8s::Label(result->item->json(), objects::kLonghornNativeLabel), "");
  EXPECT_EQ(result->operation_id, "");
  EXPECT_THAT(Contents(), IsEmpty());
}

// --- Never an empty volume, and never the live one

TEST_F(LonghornRestoreTest, AVolumeThatIsGoneIsAnError) {
  bed_.Do([&] { EXPECT_TRUE(bed_.api().Remove(support::NativeBed::VolumeKey())); });
  ExpectRefused(absl::StatusCode::kNotFound, "Longhorn's Volume pvc-1 is not here");
}

TEST_F(LonghornRestoreTest, AVolumeThatIsBeingDeletedIsAnError) {
  bed_.api().SetField(support::NativeBed::VolumeKey(), {"metadata", "deletionTimestamp"},
                      "2026-10-01T02:00:00Z");
  ExpectRefused(absl::StatusCode::kNotFound, "is being deleted");
}

TEST_F(LonghornRestoreTest, AClusterWithoutLonghornIsAnErrorThatSaysWhatToDo) {
  bed_.api().RemoveType("volumes");
  ExpectRefused(absl::StatusCode::kNotFound, kMovedData);
}

TEST_F(LonghornRestoreTest, ASnapshotThatVanishedIsAnError) {
  DeleteSnapshot();
  ExpectRefused(absl::StatusCode::kNotFound, absl::StrCat(name_, " is not here"));
}

TEST_F(LonghornRestoreTest, ASnapshotOfTheNameThatIsAnotherOneIsAnError) {
  DeleteSnapshot();
  bed_.AddSnapshot(name_);
  ExpectRefused(absl::StatusCode::kNotFound, "is another one than that of the backup");
}

// Every writer of a PVC would else get the data of any other one.
TEST_F(LonghornRestoreTest, ASnapshotOfAnotherPvcOrBackupIsAnError) {
  const auto expect_refused = [&] {
    EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kPermissionDenied,
                                HasSubstr("was not taken of this PVC by this backup")));
    EXPECT_THAT(Contents(), IsEmpty());
  };
  const Json whole = archived_;
  SetJson(archived_, {"metadata", "name"}, "thief");
  expect_refused();
  archived_ = whole;
  SetJson(archived_, {"metadata", "namespace"}, "thieves");
  expect_refused();
  archived_ = whole;
  SetJson(archived_, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
  SetJson(restore_, {"spec", "backupName"}, "weekly");
  expect_refused();
  SetJson(restore_, {"spec", "backupName"}, "nightly");
  archived_ = whole;
  bed_.api().Mutate(support::NativeBed::SnapshotKey(name_), [](Json& snapshot) {
    EraseJson(snapshot, {"metadata", "labels", objects::kLonghornMadeByLabel});
  });
  expect_refused();
}

TEST_F(LonghornRestoreTest, ASnapshotThatIsBeingDeletedIsAnError) {
  bed_.Do([&] {
    EXPECT_THAT(bed_.api().Delete({}, support::NativeBed::SnapshotKey(name_), {}), IsOk());
  });
  ExpectRefused(absl::StatusCode::kNotFound, "is being deleted");
}

TEST_F(LonghornRestoreTest, ASnapshotThatIsNotReadyIsAnErrorInLonghornsWords) {
  bed_.api().Mutate(support::NativeBed::SnapshotKey(name_), [](Json& snapshot) {
    SetJson(snapshot, {"status", "readyToUse"}, false);
    SetJson(snapshot, {"status", "error"}, "lost track");
  });
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "is not ready: lost track");
}

TEST_F(LonghornRestoreTest, AnArchiveThatNamesNoSnapshotIsAnError) {
  for (const char* key :
       {objects::kLonghornSnapshotAnnotation, objects::kLonghornSnapshotUidAnnotation,
        objects::kLonghornVolumeAnnotation}) {
    const Json whole = archived_;
    EraseJson(archived_, {"metadata", "annotations", key});
    ExpectRefused(absl::StatusCode::kInvalidArgument, key);
    archived_ = whole;
  }
}

// Velero restores a PersistentVolume that is retained as it was, for the PVC: they would be bound.
TEST_F(LonghornRestoreTest, ALiveVolumeThatIsReservedForThePvcIsAnError) {
  const auto reserve = [&](const Json& claim_ref) {
    bed_.api().SetField(VolumeKey("pv-data"), {"spec", "claimRef"}, claim_ref);
  };
  reserve({{"namespace", "shop"}, {"name", "data"}});
  ExpectRefused(absl::StatusCode::kFailedPrecondition,
                "PersistentVolume pv-data is reserved for it");
  // That of the PVC that was deleted is released, and bound to no other.
  reserve({{"namespace", "shop"}, {"name", "data"}, {"uid", "old"}});
  MustRun();
}

TEST_F(LonghornRestoreTest, AClusterWithoutVolumeSnapshotsIsAnErrorAndNothingIsLeft) {
  bed_.api().RemoveType("volumesnapshots");
  EXPECT_THAT(
      Run(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the snapshot controller")));
  EXPECT_THAT(Contents(), IsEmpty());
}

TEST_F(LonghornRestoreTest, AnotherVolumeSnapshotOfTheNameIsAnError) {
  const std::string name = velero::RestoredSnapshotName("restore-uid", name_);
  bed_.api().Seed(VolumeSnapshotType(),
                  support::MakeSnapshotObject("shop", name, "another-content"));
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(name)));
  EXPECT_THAT(Contents(), IsEmpty());
}

// --- Its operation

TEST_F(LonghornRestoreTest, TheOperationFailsWithLonghornsWordsWhenTheSnapshotVanishesMeanwhile) {
  const auto result = Run();
  ASSERT_THAT(result, IsOk());
  Json pvc = result->item->json();
  EraseJson(pvc, {"status"});
  const Json made = bed_.api().Seed(PersistentVolumeClaimType(), pvc);
  EXPECT_FALSE(
      action_->Progress(bed_.ctx, result->operation_id, objects::Object(restore_))->completed);
  bed_.api().Seed(
      EventType(),
      {{"metadata", {{"name", "e"}, {"namespace", "shop"}}},
       {"involvedObject", {{"uid", k8s::Uid(made)}}},
       {"reason", "ProvisioningFailed"},
       {"lastTimestamp", "2026-10-01T02:00:00Z"},
       {"message",
        "rpc error: code = Internal desc = failed to verify data source: 404 Not Found: "
        "snapshot.longhorn.io \"csd-1\" not found"}});
  const auto progress =
      action_->Progress(bed_.ctx, result->operation_id, objects::Object(restore_));
  ASSERT_THAT(progress, IsOk());
  EXPECT_TRUE(progress->completed);
  EXPECT_THAT(progress->error, HasSubstr("failed to verify data source"));
  EXPECT_TRUE(action_->Progress(bed_.ctx, "x", objects::Object(restore_))->completed);
}

// What makes the PVC, and binds VolumeSnapshot and content, are not here.
class BoundLonghornRestoreTest : public LonghornRestoreTest {
 protected:
  BoundLonghornRestoreTest() {
    const auto result = Run();
    EXPECT_THAT(result, IsOk());
    operation_ = result->operation_id;
    made_ = velero::RestoredSnapshotName("restore-uid", name_);
    Json pvc = result->item.value_or(objects::Object()).json();
    EraseJson(pvc, {"status"});
    pvc_ = bed_.api().Seed(PersistentVolumeClaimType(), pvc);
    bed_.api().SetField(VolumeSnapshotKey("shop", made_),
                        {"status", "boundVolumeSnapshotContentName"}, made_);
    const std::string uid = k8s::Uid(*bed_.api().Find(VolumeSnapshotKey("shop", made_)));
    bed_.api().SetField(VolumeSnapshotContentKey(made_), {"spec", "volumeSnapshotRef", "uid"}, uid);
  }

  velero::OperationProgress Progress() {
    return action_->Progress(bed_.ctx, operation_, objects::Object(restore_)).value();
  }
  // Longhorn binds before it copies.
  void ShowClone(const std::string& state) {
    const std::string volume = "pvc-" + k8s::Uid(pvc_);
    bed_.Do([&] {
      bed_.api().Seed(
          longhorn_stand_in::VolumeType(),
          {{"metadata",
            {{"name", volume},
             {"namespace", support::kLonghornNamespace},
             {"uid", "uid-of-the-clone"}}},
           {"spec",
            {{"size", "16777216"},
             {"dataSource", absl::StrCat("snap://", support::kLonghornVolume, "/", name_)}}},
           {"status",
            {{"kubernetesStatus", {{"namespace", "shop"}, {"pvcName", "data"}}},
             {"cloneStatus", {{"state", state}}}}}});
    });
  }
  void Bind(const std::string& clone_state = "completed") {
    const std::string volume = "pvc-" + k8s::Uid(pvc_);
    ShowClone(clone_state);
    bed_.api().Seed(PersistentVolumeType(),
                    {{"metadata", {{"name", volume}}},
                     {"spec",
                      {{"claimRef", {{"uid", k8s::Uid(pvc_)}}},
                       {"csi", {{"driver", "driver.longhorn.io"}, {"volumeHandle", volume}}}}}});
    bed_.api().Mutate(ClaimKey("shop", "data"), [&](Json& pvc) {
      SetJson(pvc, {"spec", "volumeName"}, volume);
      SetJson(pvc, {"status", "phase"}, "Bound");
    });
  }
  bool HasSource() {
    const bool has = bed_.api().Find(VolumeSnapshotKey("shop", made_)).has_value();
    EXPECT_EQ(Contents().size(), has ? 1U : 0U);
    return has;
  }

  std::string operation_;
  std::string made_;  // the name of VolumeSnapshot and content
  Json pvc_;
};

TEST_F(BoundLonghornRestoreTest, AnEventSaysWhatThePvcWaitsForWhenVeleroCancelsItsOperation) {
  EXPECT_THAT(action_->Cancel(bed_.ctx, operation_, objects::Object(restore_)), IsOk());
  EXPECT_THAT(bed_.api().All(EventType()), SizeIs(1));
}

TEST_F(BoundLonghornRestoreTest, WhatItWasFilledFromGoesOnceThePvcIsBoundAndTheSnapshotStays) {
  EXPECT_THAT(Progress().description, HasSubstr("waiting for the claim to be bound"));
  EXPECT_TRUE(HasSource());
  Bind();
  for (const char* call : {"first", "again, which Velero may"}) {
    const velero::OperationProgress bound = Progress();
    EXPECT_TRUE(bound.completed) << call;
    EXPECT_EQ(bound.error, "") << call;
    EXPECT_FALSE(HasSource()) << call;
  }
  const auto native = bed_.api().Find(support::NativeBed::SnapshotKey(name_));
  ASSERT_TRUE(native.has_value());
  EXPECT_FALSE(k8s::BeingDeleted(*native));
  EXPECT_TRUE(bed_.EngineHas(name_));
  EXPECT_EQ(bed_.Count("delete", "snapshots"), 0);
}

// Longhorn's source deletion ends its copy for good, and it does not refuse it (L1 of the findings
// on a real Longhorn).
TEST_F(BoundLonghornRestoreTest, ItIsNotDoneBeforeLonghornHasCopiedAndItsBackupIsNotDeleted) {
  const auto deletion = deleteitemactions::MakeLonghornSnapshotAction(bed_.env);
  const auto delete_backup = [&] {
    return deletion->Execute(
        bed_.ctx, objects::Object(*bed_.api().Find(support::NativeBed::SnapshotKey(name_))),
        objects::Object(support::MakeBackupObject("nightly", "Deleting")));
  };
  Bind("");
  for (const char* state : {"", "initiated"}) {
    ShowClone(state);
    const velero::OperationProgress progress = Progress();
    EXPECT_FALSE(progress.completed) << state;
    EXPECT_THAT(progress.description, HasSubstr("waiting for its data: Longhorn's clone"));
    EXPECT_TRUE(HasSource());
    EXPECT_THAT(delete_backup(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("shop/data"), HasSubstr("is kept"))));
  }
  EXPECT_EQ(bed_.Count("delete", "snapshots"), 0);
  ShowClone("completed");
  EXPECT_TRUE(Progress().completed);
  EXPECT_THAT(delete_backup(), IsOk());
  EXPECT_EQ(bed_.Count("delete", "snapshots"), 1);
}

TEST_F(BoundLonghornRestoreTest, AFailedCopyIsAnErrorInLonghornsWordsAndTheSourceStays) {
  Bind("failed");
  bed_.Do([&] {
    bed_.api().Seed({"", "v1", "events", "Event", true},
                    {{"metadata", {{"name", "e"}, {"namespace", support::kLonghornNamespace}}},
                     {"involvedObject", {{"uid", "uid-of-the-clone"}}},
                     {"reason", "VolumeCloneFailed"},
                     {"message", "the source is gone"}});
  });
  const velero::OperationProgress progress = Progress();
  EXPECT_TRUE(progress.completed);
  EXPECT_THAT(progress.error,
              AllOf(HasSubstr("failed"), HasSubstr("VolumeCloneFailed: the source is gone")));
  EXPECT_TRUE(HasSource());
  EXPECT_EQ(bed_.Count("delete", "snapshots"), 0);
}

// Longhorn attaches no volume before it is filled, so a Pod that runs is proof enough.
TEST_F(BoundLonghornRestoreTest, WithoutRightsOnVolumesAPodThatRunsIsTheProof) {
  Bind("initiated");
  bed_.api().Forbid("get", "volumes");
  bed_.api().Forbid("list", "volumes");
  EXPECT_THAT(Progress().description,
              HasSubstr("keep what it is made of until a Pod runs with it"));
  EXPECT_TRUE(HasSource());
  bed_.api().Seed(
      {"", "v1", "pods", "Pod", true},
      {{"metadata", {{"name", "db"}, {"namespace", "shop"}}},
       {"spec",
        {{"volumes", {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}}}}},
       {"status", {{"phase", "Running"}}}});
  EXPECT_TRUE(Progress().completed);
}

// The driver would delete the native snapshot with the content.
TEST_F(BoundLonghornRestoreTest, AContentThatSaysDeleteIsSetBackBeforeItGoes) {
  Bind();
  bed_.api().SetField(VolumeSnapshotContentKey(made_), {"spec", "deletionPolicy"}, "Delete");
  std::string last_policy;
  bed_.on_call = [&](const support::ApiCall& call, const Json*) {
    if (call.verb == "delete" && call.plural == "volumesnapshotcontents") {
      last_policy =
          GetString(*bed_.api().Find(VolumeSnapshotContentKey(made_)), {"spec", "deletionPolicy"});
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(Progress().completed);
  EXPECT_EQ(last_policy, "Retain");
}

TEST_F(BoundLonghornRestoreTest, OfAPvcThatWaitsForItsFirstConsumerItStays) {
  bed_.api().Seed(StorageClassType(), {{"metadata", {{"name", "longhorn"}}},
                                       {"provisioner", "driver.longhorn.io"},
                                       {"volumeBindingMode", "WaitForFirstConsumer"}});
  const support::ActionLog logged;
  const velero::OperationProgress progress = Progress();
  EXPECT_TRUE(progress.completed);
  EXPECT_THAT(progress.description, HasSubstr("not checked"));
  EXPECT_THAT(logged.warnings(), IsEmpty()) << "a restore of such PVCs is nothing to be warned of";
  EXPECT_TRUE(HasSource());
}

TEST_F(BoundLonghornRestoreTest, OfAPvcThatWasBoundToAnotherVolumeItStays) {
  Bind();
  bed_.api().SetField(VolumeKey("pvc-" + k8s::Uid(pvc_)), {"spec", "claimRef", "uid"}, "another");
  EXPECT_NE(Progress().error, "");
  EXPECT_TRUE(HasSource());
}

TEST_F(BoundLonghornRestoreTest, WhileAnotherPvcIsBeingFilledFromItItStays) {
  Json other = pvc_;
  SetJson(other, {"metadata", "name"}, "other");
  SetJson(other, {"metadata", "uid"}, "other-uid");
  SetJson(other, {"status", "phase"}, "Pending");
  bed_.api().Seed(PersistentVolumeClaimType(), other);
  Bind();
  EXPECT_TRUE(Progress().completed);
  EXPECT_TRUE(HasSource());
}

TEST_F(BoundLonghornRestoreTest, AVolumeSnapshotThatAnotherMadeUnderTheNameStays) {
  Bind();
  bed_.api().SetField(VolumeSnapshotKey("shop", made_),
                      {"metadata", "labels", objects::kRestoreNameLabel}, "r2");
  EXPECT_TRUE(Progress().completed);
  EXPECT_TRUE(HasSource());
}

TEST_F(BoundLonghornRestoreTest, ThePvcIsRestoredThoughItsSourceCannotBeRemoved) {
  Bind();
  bed_.api().Forbid("delete", "volumesnapshotcontents");
  const velero::OperationProgress progress = Progress();
  EXPECT_TRUE(progress.completed);
  EXPECT_EQ(progress.error, "");
  EXPECT_TRUE(HasSource());
}

TEST(LonghornRefusalTest, OnlyAMissingSourceIsDefinite) {
  EXPECT_TRUE(csi::IsDefiniteRefusal(
      "code = Internal desc = failed to verify data source: snapshot.longhorn.io \"x\" not found"));
  EXPECT_FALSE(csi::IsDefiniteRefusal(
      "code = Internal desc = failed to verify data source: connection refused"));
}

}  // namespace
}  // namespace csidelta::restoreitemactions::longhorn_restore_test
