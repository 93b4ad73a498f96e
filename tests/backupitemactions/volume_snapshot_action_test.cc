#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/item_results.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"
#include "tests/backupitemactions/action_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::backupitemactions::volume_snapshot_action_test {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;
using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class VolumeSnapshotActionTest : public ActionTest {
 protected:
  // What the claim's action made.
  Json Take() {
    EXPECT_THAT(RunAction(*MakePvcAction(env_), claim_), IsOk());
    api_.ClearCalls();
    return api_.All(VolumeSnapshotType()).front();
  }

  // A VolumeSnapshot that a user made, with a content if it is bound.
  Json SeedUsers(const std::string& content) {
    Json snapshot = {{"metadata", {{"name", "by-hand"}, {"namespace", "app"}}},
                     {"spec",
                      {{"volumeSnapshotClassName", "fast"},
                       {"source", {{"persistentVolumeClaimName", "data"}}}}}};
    if (!content.empty()) {
      SetJson(snapshot, {"status", "boundVolumeSnapshotContentName"}, content);
    }
    return api_.Seed(VolumeSnapshotType(), snapshot);
  }

  absl::StatusOr<velero::BackupItemResult> Execute(const Json& item) {
    return RunAction(*MakeVolumeSnapshotAction(env_), item);
  }
  velero::BackupItemResult Run(const Json& item) {
    return Succeed(*MakeVolumeSnapshotAction(env_), item);
  }

  velero::OperationProgress Progress(const std::string& id) {
    const auto progress = AskProgress(*MakeVolumeSnapshotAction(env_), id);
    EXPECT_THAT(progress, IsOk());
    EXPECT_TRUE(progress->started.has_value());
    return *progress;
  }

  // What Velero's own action leaves: annotations of the item, and the label of the content.
  void VeleroHasDone(Json& snapshot) {
    const auto content = support::As<VolumeSnapshotContent>(Content());
    SetJson(snapshot, {"metadata", "annotations", objects::kVolumeSnapshotHandleAnnotation},
            content.handle());
    SetJson(snapshot, {"metadata", "annotations", objects::kDriverNameAnnotation},
            content.driver());
    api_.SetField(content.key(), {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
    api_.ClearCalls();
  }

  // What every writer of a VolumeSnapshot may have written on it.
  static void Forge(Json& snapshot) {
    for (const char* key :
         {objects::kVolumeSnapshotHandleAnnotation, objects::kGroupSnapshotHandleAnnotation,
          objects::kDeletionSecretNameAnnotation, objects::kDeletionSecretNamespaceAnnotation}) {
      SetJson(snapshot, {"metadata", "annotations", key}, "of-the-bank");
    }
    SetJson(snapshot, {"metadata", "annotations", objects::kDriverNameAnnotation}, "bank.driver");
  }

  static void ExpectHandle(const absl::StatusOr<velero::BackupItemResult>& result,
                           const std::string& handle) {
    ASSERT_THAT(result, IsOk());
    ASSERT_TRUE(result->item.has_value());
    EXPECT_EQ(result->item->Annotation(objects::kVolumeSnapshotHandleAnnotation), handle);
    EXPECT_EQ(result->item->Annotation(objects::kDriverNameAnnotation),
              handle.empty() ? "" : "d.example.com");
    EXPECT_EQ(result->item->Annotation(objects::kGroupSnapshotHandleAnnotation), "");
    EXPECT_EQ(result->item->Annotation(objects::kDeletionSecretNameAnnotation), "");
    EXPECT_EQ(result->item->Annotation(objects::kHandleUnprovenAnnotation), "");
  }

  std::string Handle() const { return support::As<VolumeSnapshotContent>(Content()).handle(); }
  Json Content() const { return api_.All(VolumeSnapshotContentType()).front(); }
  Json Snapshot() const { return api_.All(VolumeSnapshotType()).front(); }
};

// Velero up to 1.13: no other controller looks after the VolumeSnapshot.
TEST_F(VolumeSnapshotActionTest, AloneDoesAllThatStockDoes) {
  const Json snapshot = Take();
  const velero::BackupItemResult result = Run(snapshot);
  const std::string handle = support::As<VolumeSnapshotContent>(Content()).handle();
  for (const Json& object : {result.item->json(), api_.All(VolumeSnapshotType()).front()}) {
    EXPECT_EQ(k8s::Annotation(object, "velero.io/csi-volumesnapshot-handle"), handle);
    EXPECT_EQ(k8s::Annotation(object, "velero.io/csi-driver-name"), "d.example.com");
    EXPECT_EQ(k8s::Annotation(object, "velero.io/csi-vsc-deletion-policy"), "Delete");
    EXPECT_EQ(k8s::Annotation(object, "velero.io/csi-volumesnapshot-restore-size"), "64Mi");
    EXPECT_EQ(k8s::Annotation(object, "velero.io/csi-delta-cut-at"), "2023-11-14T22:13:20.5Z");
  }
  EXPECT_EQ(result.item->Annotation("backup.velero.io/must-include-additional-items"), "true");
  EXPECT_EQ(result.item->Annotation("velero.io/csi-delta-asked-at"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(k8s::Label(Content(), "velero.io/backup-name"), "nightly");
  ASSERT_THAT(result.additional_items, SizeIs(2));
  EXPECT_EQ(result.additional_items[0].resource, "volumesnapshotclasses");
  EXPECT_EQ(result.additional_items[1].name, k8s::Name(Content()));
  ASSERT_THAT(result.post_operation_items, SizeIs(2));
  EXPECT_EQ(result.post_operation_items[0].resource, "volumesnapshots");
  EXPECT_EQ(result.post_operation_items[1].resource, "volumesnapshotcontents");
  EXPECT_TRUE(Progress(result.operation_id).completed);
}

TEST_F(VolumeSnapshotActionTest, AfterVelerosActionOnlyTimesAreAdded) {
  Json snapshot = Take();
  VeleroHasDone(snapshot);
  SetJson(snapshot, {"metadata", "annotations", "velero.io/csi-volumesnapshot-restore-size"}, "0");
  const velero::BackupItemResult result = Run(snapshot);
  EXPECT_THAT(result.additional_items, IsEmpty());
  EXPECT_EQ(result.operation_id, "");
  EXPECT_EQ(Writes(), 0);
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(result.item->Annotation("velero.io/csi-delta-cut-at"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(FindJson(result.item->json(),
                     {"metadata", "annotations", "velero.io/csi-volumesnapshot-restore-size"}),
            nullptr);
}

// The host lists what there is before the sweep removes what a dead backup left. Nothing of it
// comes along: a restore would make a content of it that is never deleted.
TEST_F(VolumeSnapshotActionTest, WhatADeadBackupLeftBringsNothingAlong) {
  Json snapshot = Take();
  SetJson(backup_, {"metadata", "name"}, "next");
  SetJson(backup_, {"metadata", "uid"}, "next-uid");
  const velero::BackupItemResult result = Run(snapshot);
  EXPECT_FALSE(result.item.has_value());
  EXPECT_THAT(result.additional_items, IsEmpty());
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(VolumeSnapshotActionTest, VelerosOwnGoesBackByteForByte) {
  SeedUsers("");
  cluster_.Resync();
  Json snapshot = Snapshot();
  SetJson(snapshot, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
  VeleroHasDone(snapshot);
  const velero::BackupItemResult result = Run(snapshot);
  EXPECT_FALSE(result.item.has_value());
  EXPECT_EQ(Writes(), 0);
}

// A tenant may write a VolumeSnapshot. A restore would fill a PVC from the handle that it names.
TEST_F(VolumeSnapshotActionTest, AHandleThatATenantWroteIsNotArchived) {
  Json snapshot = Take();
  Forge(snapshot);
  const auto result = Execute(snapshot);
  ExpectHandle(result, Handle());
  EXPECT_NE(result->operation_id, "");
  EXPECT_THAT(result->post_operation_items, SizeIs(2));
  EXPECT_EQ(k8s::Label(Content(), objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(k8s::Annotation(Snapshot(), objects::kFinalizeAnnotation), "backup-uid");
}

TEST_F(VolumeSnapshotActionTest, AHandleThatATenantWroteOnHisOwnIsNotArchived) {
  Json unbound = SeedUsers("");
  Forge(unbound);
  ExpectHandle(Execute(unbound), "");
  cluster_.Resync();
  Json bound = Snapshot();
  Forge(bound);
  SetJson(bound, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
  ExpectHandle(Execute(bound), Handle());
  // Its status names the content of another one.
  SetJson(bound, {"metadata", "uid"}, "another");
  const auto result = Execute(bound);
  ExpectHandle(result, "");
  EXPECT_THAT(result->additional_items, IsEmpty());
}

// Velero reads the VolumeSnapshot again when it finalizes the backup.
TEST_F(VolumeSnapshotActionTest, AHandleThatATenantWroteMeanwhileIsNotArchived) {
  ASSERT_THAT(Execute(Take()), IsOk());
  Finalizing();
  Json snapshot = Snapshot();
  const std::string handle = Handle();
  Forge(snapshot);
  ExpectHandle(Execute(snapshot), handle);
}

// Velero's own action finalizes first: up to 1.15 it parks the content, from 1.16 on it deletes it.
TEST_F(VolumeSnapshotActionTest, AHandleWhoseContentIsGoneIsArchivedAsUnproven) {
  Json snapshot = Take();
  VeleroHasDone(snapshot);
  Finalizing();
  const k8s::ObjectKey key = VolumeSnapshotContentKey(k8s::Name(Content()));
  const std::string handle = Handle();
  api_.Mutate(key, [&](Json& content) {
    SetJson(content, {"spec", "volumeSnapshotRef"},
            Json{{"namespace", "ns-1234"}, {"name", "name-1234"}});
    SetJson(content, {"spec", "source"}, Json{{"snapshotHandle", handle}});
    EraseJson(content, {"status"});
  });
  Json forged = snapshot;
  SetJson(forged, {"metadata", "annotations", objects::kVolumeSnapshotHandleAnnotation}, "bank's");
  ExpectHandle(Execute(forged), handle);
  api_.Remove(key);
  const velero::BackupItemResult result = Run(snapshot);
  EXPECT_EQ(result.item->Annotation(objects::kVolumeSnapshotHandleAnnotation), handle);
  EXPECT_EQ(result.item->Annotation(objects::kHandleUnprovenAnnotation), "true");
}

TEST_F(VolumeSnapshotActionTest, AUsersGoesAlongUntouched) {
  SeedUsers("");
  cluster_.Resync();
  const Json bound = api_.All(VolumeSnapshotType()).front();
  const velero::BackupItemResult result = Run(bound);
  EXPECT_THAT(result.additional_items, SizeIs(2));
  EXPECT_EQ(result.operation_id, "");
  EXPECT_THAT(result.post_operation_items, IsEmpty());
  EXPECT_EQ(Writes(), 0);
  EXPECT_EQ(result.item->Annotation("velero.io/csi-volumesnapshot-handle"),
            support::As<VolumeSnapshotContent>(Content()).handle());
  Finalizing();
  const velero::BackupItemResult finalized = Run(bound);
  EXPECT_FALSE(finalized.item.has_value());
  EXPECT_EQ(Writes(), 0);
}

TEST_F(VolumeSnapshotActionTest, AUsersWithoutContentIsArchivedAsItIs) {
  for (const char* content : {"", "gone"}) {
    const velero::BackupItemResult result = Run(SeedUsers(content));
    EXPECT_FALSE(result.item.has_value());
    EXPECT_THAT(result.additional_items, IsEmpty());
  }
}

TEST_F(VolumeSnapshotActionTest, FinalizeKeepsTheSnapshotAndNothingElse) {
  const Json snapshot = Take();
  ASSERT_THAT(Execute(snapshot), IsOk());
  Finalizing();
  const Json annotated = api_.All(VolumeSnapshotType()).front();
  const velero::BackupItemResult result = Run(annotated);
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(VolumeSnapshot::From(*result.item)->bound_content(),
            support::As<VolumeSnapshot>(annotated).bound_content());
  EXPECT_EQ(result.item->Annotation("velero.io/csi-delta-finalize"), "");
  EXPECT_EQ(result.operation_id, "");
}

// The garbage collector deletes an object whose owner it does not find in the object's namespace.
TEST_F(VolumeSnapshotActionTest, NoOwnerInAnotherNamespaceIsArchived) {
  Json snapshot = Take();
  SetJson(snapshot, {"metadata", "ownerReferences"},
          Json::array({{{"apiVersion", "velero.io/v1"}, {"kind", "Backup"}, {"name", "nightly"}}}));
  const velero::BackupItemResult taken = Run(snapshot);
  Finalizing();
  const velero::BackupItemResult finalized = Run(snapshot);
  for (const auto& result : {taken, finalized}) {
    ASSERT_TRUE(result.item.has_value());
    EXPECT_EQ(FindJson(result.item->json(), {"metadata", "ownerReferences"}), nullptr);
  }
}

TEST_F(VolumeSnapshotActionTest, FinalizeLeavesToVeleroWhatVeleroLooksAfter) {
  const Json snapshot = Take();
  Finalizing();
  ASSERT_THAT(Execute(snapshot), IsOk());
  EXPECT_THAT(api_.calls(), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(1));
}

TEST_F(VolumeSnapshotActionTest, AnUnknownSizeIsNotArchivedAsZeroAtTheEndEither) {
  for (Json item : {Take(), SeedUsers("")}) {
    SetJson(item, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
    SetJson(item, {"metadata", "annotations", objects::kRestoreSizeAnnotation}, "0");
    Finalizing();
    const velero::BackupItemResult result = Run(item);
    ASSERT_TRUE(result.item.has_value());
    EXPECT_EQ(result.item->Annotation(objects::kRestoreSizeAnnotation), "");
    SetJson(backup_, {"status", "phase"}, "InProgress");
  }
}

TEST_F(VolumeSnapshotActionTest, AnotherBackupsIsNotRetained) {
  ASSERT_THAT(Execute(Take()), IsOk());
  Finalizing();
  SetJson(backup_, {"metadata", "uid"}, "another-uid");
  ASSERT_THAT(Execute(api_.All(VolumeSnapshotType()).front()), IsOk());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(1));
}

TEST_F(VolumeSnapshotActionTest, WithoutTheFeatureOnlyAForgedHandleIsChanged) {
  Json snapshot = Take();
  env_.enable_csi = false;
  const velero::BackupItemResult result = Run(snapshot);
  EXPECT_FALSE(result.item.has_value());
  EXPECT_THAT(api_.calls(), IsEmpty());
  Forge(snapshot);
  ExpectHandle(Execute(snapshot), Handle());
  SetJson(snapshot, {"metadata", "uid"}, "another");
  ExpectHandle(Execute(snapshot), "");
  EXPECT_EQ(Writes(), 0);
}

// Whatever call fails: either all is done, or nothing is left.
TEST_F(VolumeSnapshotActionTest, NoFailingCallLeavesHalf) {
  for (const Fault fault : {Fault::kRefused, Fault::kAnswerLost}) {
    int n = 1;
    for (bool hit = true; hit; ++n) {
      SCOPED_TRACE(absl::StrCat("call ", n));
      const Json snapshot = Take();
      api_.FailCall(n, absl::InternalError("injected"), fault);
      const auto result = Execute(snapshot);
      hit = api_.sweep_hit();
      api_.ClearFaults();
      EXPECT_EQ(result.ok(), !hit);
      if (result.ok()) {
        EXPECT_THAT(api_.Delete(ctx_, VolumeSnapshotKey("app", k8s::Name(snapshot)), {}), IsOk());
      }
      EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
      EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
      EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
    }
    EXPECT_GE(n, 3);
  }
}

// --- The operation

TEST_F(VolumeSnapshotActionTest, ProgressFollowsTheDriver) {
  cluster_.driver().AddFault({.method = "CreateSnapshot", .not_ready = true});
  const velero::BackupItemResult result = Run(Take());
  velero::OperationProgress progress = Progress(result.operation_id);
  EXPECT_FALSE(progress.completed);
  EXPECT_THAT(progress.description, HasSubstr("not ready yet"));
  EXPECT_THAT(progress.description, HasSubstr("2023-11-14T22:13:20.5Z"));

  const auto key = VolumeSnapshotContentKey(k8s::Name(Content()));
  api_.SetField(key, {"status", "error", "message"}, "copying");
  progress = Progress(result.operation_id);
  EXPECT_FALSE(progress.completed);
  EXPECT_THAT(progress.description, HasSubstr("copying"));

  clock_.Advance(absl::Minutes(10));
  progress = Progress(result.operation_id);
  EXPECT_TRUE(progress.completed);
  EXPECT_THAT(progress.error, HasSubstr("copying"));
  EXPECT_THAT(SnapshotFailures(), testing::ElementsAre(HasSubstr("copying")));

  // The snapshot controller writes what the sidecar wrote, a moment later.
  api_.SetField(key, {"status", "readyToUse"}, true);
  progress = Progress(result.operation_id);
  EXPECT_FALSE(progress.completed);
  EXPECT_EQ(progress.error, "");
  api_.SetField(VolumeSnapshotKey(k8s::Namespace(Snapshot()), k8s::Name(Snapshot())),
                {"status", "readyToUse"}, true);
  progress = Progress(result.operation_id);
  EXPECT_TRUE(progress.completed);
  EXPECT_EQ(progress.error, "");
}

TEST_F(VolumeSnapshotActionTest, TroubleThatPassesIsNotAnEnd) {
  const velero::BackupItemResult result = Run(Take());
  for (const char* plural : {"volumesnapshots", "volumesnapshotcontents"}) {
    for (const absl::Status& status :
         {absl::UnavailableError("down"), absl::PermissionDeniedError("no"),
          absl::DeadlineExceededError("slow"), absl::InternalError("odd")}) {
      api_.FailNext("get", plural, status);
      const velero::OperationProgress progress = Progress(result.operation_id);
      EXPECT_FALSE(progress.completed);
      EXPECT_THAT(progress.description, HasSubstr("not known"));
    }
  }
}

TEST_F(VolumeSnapshotActionTest, AVanishedSnapshotIsAFailure) {
  const velero::BackupItemResult result = Run(Take());
  const Json content = Content();
  api_.Remove(VolumeSnapshotContentKey(k8s::Name(content)));
  EXPECT_THAT(Progress(result.operation_id).error, HasSubstr("deleted"));
  const Json snapshot = api_.All(VolumeSnapshotType()).front();
  api_.Remove(VolumeSnapshotKey("app", k8s::Name(snapshot)));
  EXPECT_THAT(Progress(result.operation_id).error, HasSubstr("deleted"));
  // The same name, another object.
  Json other = snapshot;
  SetJson(other, {"metadata", "uid"}, "other");
  api_.Seed(VolumeSnapshotType(), other);
  EXPECT_THAT(Progress(result.operation_id).error, HasSubstr("deleted"));
}

TEST_F(VolumeSnapshotActionTest, OddOperationIdsFail) {
  for (const char* id : {"", "x", "2/a/b/c/2023-11-14T22:13:20Z", "1/a/b/c", "1//b/c/d",
                         "1/a/b/c/today", "app/vs/2023-11-14T22:13:20Z"}) {
    const velero::OperationProgress progress = Progress(id);
    EXPECT_TRUE(progress.completed) << id;
    EXPECT_THAT(progress.error, HasSubstr("not an operation id of csi-delta")) << id;
    EXPECT_EQ(progress.description, progress.error) << id;
  }
}

TEST_F(VolumeSnapshotActionTest, OperationIdsOfTheFirstFormStayReadable) {
  const auto operation = DecodeOperationId("1/app/velero-data-0123/uid-1/2023-11-14T22:13:20.5Z");
  ASSERT_THAT(operation, IsOk());
  EXPECT_EQ(operation->namespace_name, "app");
  EXPECT_EQ(operation->snapshot_name, "velero-data-0123");
  EXPECT_EQ(operation->snapshot_uid, "uid-1");
  EXPECT_EQ(EncodeOperationId(*operation), "1/app/velero-data-0123/uid-1/2023-11-14T22:13:20.5Z");
}

TEST_F(VolumeSnapshotActionTest, CancelRemovesWhatIsNotReady) {
  cluster_.driver().AddFault({.method = "CreateSnapshot", .not_ready = true});
  const velero::BackupItemResult result = Run(Take());
  const auto action = MakeVolumeSnapshotAction(env_);
  EXPECT_THAT(RunCancel(*action, result.operation_id), IsOk());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_THAT(RunCancel(*action, result.operation_id), IsOk());
  EXPECT_THAT(RunCancel(*action, "odd"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(VolumeSnapshotActionTest, CancelKeepsWhatIsReady) {
  const velero::BackupItemResult result = Run(Take());
  EXPECT_THAT(RunCancel(*MakeVolumeSnapshotAction(env_), result.operation_id), IsOk());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

}  // namespace
}  // namespace csidelta::backupitemactions::volume_snapshot_action_test
