#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/longhorn_sweep.h"
#include "backupitemactions/slots.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "objects/keys.h"
#include "tests/support/action_log.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/native_bed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

// On the stand-in of Longhorn; no Longhorn was here.
namespace csidelta::backupitemactions::longhorn_volume_test {
namespace {

using support::ApiCall;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using velero::BackupItemResult;
using velero::OperationProgress;

class LonghornVolumeActionTest : public testing::Test {
 protected:
  LonghornVolumeActionTest() { Restart(); }
  ~LonghornVolumeActionTest() override { bed_.ExpectNoWritesToLonghorn(); }

  // Another process of the plugin.
  void Restart() { action_ = MakeLonghornVolumeAction(bed_.env); }

  absl::StatusOr<BackupItemResult> Run() {
    return action_->Execute(bed_.ctx, objects::Object(bed_.pvc), objects::Object(bed_.backup));
  }
  BackupItemResult MustRun() {
    const auto result = Run();
    EXPECT_THAT(result, IsOk());
    return result.value_or(BackupItemResult());
  }
  void ExpectNothingDone() {
    const BackupItemResult result = MustRun();
    EXPECT_FALSE(result.item.has_value());
    EXPECT_EQ(result.operation_id, "");
    EXPECT_THAT(bed_.Snapshots(), IsEmpty());
  }
  // The only Snapshot there is.
  Json Only() {
    const std::vector<Json> all = bed_.Snapshots();
    EXPECT_THAT(all, SizeIs(1));
    return all.size() == 1 ? all.front() : Json();
  }
  OperationProgress Progress(const std::string& operation_id) {
    return action_->Progress(bed_.ctx, operation_id, objects::Object(bed_.backup)).value();
  }
  // Until a minute later, Longhorn has nothing of what this backup asked for.
  void ExpectNothingIsTaken() {
    bed_.Pass(absl::Minutes(1));
    for (const Json& snapshot : bed_.Snapshots()) {
      EXPECT_FALSE(absl::StartsWith(k8s::Name(snapshot), "csd-")) << snapshot;
    }
  }
  void SeedBackup(const std::string& name, const std::string& phase, const std::string& uid) {
    bed_.api().Seed(BackupType(), support::MakeBackupObject(name, phase, uid));
  }
  // As Velero does with what Execute() of the PVC asks to add.
  void Archive(const Json& snapshot, const Json& backup) {
    bed_.Do([&] {
      EXPECT_THAT(MakeLonghornSnapshotAction(bed_.env)->Execute(bed_.ctx, objects::Object(snapshot),
                                                                objects::Object(backup)),
                  IsOk());
    });
  }
  // Another backup, which takes a native snapshot of the same PVC.
  void RunNext(const std::string& name = "next") {
    bed_.backup = support::MakeBackupObject(name, "InProgress", name + "-uid");
    SetJson(bed_.backup, {"spec", "resourcePolicy"},
            Json{{"kind", "configmap"}, {"name", "policies"}});
    bed_.api().Seed(BackupType(), bed_.backup);
    Restart();
    MustRun();
  }
  bool IsThere(const Json& snapshot) {
    const auto found = bed_.api().Find(support::NativeBed::SnapshotKey(k8s::Name(snapshot)));
    return found.has_value() && k8s::Uid(*found) == k8s::Uid(snapshot) &&
           !k8s::BeingDeleted(*found);
  }
  std::vector<Json> Leases() { return bed_.api().All(LeaseType()); }

  support::NativeBed bed_;
  std::unique_ptr<velero::BackupItemAction> action_;
};

TEST_F(LonghornVolumeActionTest, ReturnsOnceTheSnapshotIsTakenAndGoesOnUntilItIsReady) {
  bed_.passes_per_wait = absl::Milliseconds(400);
  const BackupItemResult result = MustRun();
  EXPECT_TRUE(bed_.EngineHas(k8s::Name(Only())));
  EXPECT_FALSE(GetBool(Only(), {"status", "readyToUse"})) << "it takes Longhorn some seconds";
  const OperationProgress before = Progress(result.operation_id);
  EXPECT_FALSE(before.completed);
  EXPECT_THAT(before.description,
              MatchesRegex("taken at .*, and Longhorn does not show it as ready"));
  bed_.Pass(absl::Seconds(6));
  Restart();
  const OperationProgress after = Progress(result.operation_id);
  EXPECT_TRUE(after.completed);
  EXPECT_EQ(after.error, "");
  EXPECT_THAT(after.description, MatchesRegex("taken at .*, ready"));
}

// A real engine needs about a second for each of 200 others; here five for each of 40.
TEST_F(LonghornVolumeActionTest, OneBehindManyOthersIsWaitedFor) {
  bed_.longhorn.SetSwitches({.cut_time = absl::Seconds(5)});
  bed_.Do([&] {
    for (int i = 0; i < 40; ++i) {
      ASSERT_THAT(bed_.Create(absl::StrCat("another-", i)), IsOk());
    }
  });
  const absl::Time begun = bed_.clock.Now();
  const absl::Time begun_in_longhorn = bed_.longhorn.now();
  MustRun();
  EXPECT_GE(bed_.longhorn.now() - begun_in_longhorn, absl::Seconds(190)) << "it was the last";
  EXPECT_LT(bed_.clock.Now() - begun, absl::Minutes(5)) << "of ten that it has";
}

TEST_F(LonghornVolumeActionTest, TheArchivedPvcNamesTheSnapshotAndBringsItAlong) {
  SetJson(bed_.pvc, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation}, "old");
  SetJson(bed_.pvc, {"metadata", "annotations", objects::kDataUploadNameAnnotation}, "velero/old");
  SetJson(bed_.pvc, {"metadata", "labels", objects::kVolumeSnapshotNameLabel}, "old");
  SetJson(bed_.pvc, {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
  const BackupItemResult result = MustRun();
  ASSERT_TRUE(result.item.has_value());
  const std::string name = k8s::Name(Only());
  EXPECT_THAT(result.item->labels(), ElementsAre(std::pair("longhorn.csi-delta.io/native", "true"),
                                                 std::pair("velero.io/backup-name", "nightly")));
  const auto annotations = result.item->annotations();
  EXPECT_EQ(annotations.at("longhorn.csi-delta.io/snapshot"),
            absl::StrCat("longhorn-system/", name));
  EXPECT_EQ(annotations.at("longhorn.csi-delta.io/snapshot-uid"), k8s::Uid(Only()));
  EXPECT_EQ(annotations.at("longhorn.csi-delta.io/volume"), "pvc-1");
  EXPECT_EQ(annotations.at("longhorn.csi-delta.io/taken-at"),
            GetString(Only(), {"status", "creationTime"}));
  EXPECT_EQ(annotations.at("backup.velero.io/must-include-additional-items"), "true")
      << "a backup of one namespace has it too";
  EXPECT_THAT(annotations, SizeIs(5)) << "what an earlier backup left would be restored instead";
  const velero::ResourceIdentifier snapshot{.group = "longhorn.io",
                                            .resource = "snapshots",
                                            .namespace_name = "longhorn-system",
                                            .name = name};
  EXPECT_THAT(result.additional_items, ElementsAre(snapshot));
  EXPECT_THAT(result.post_operation_items, ElementsAre(snapshot));
  EXPECT_EQ(k8s::Label(Only(), objects::kCsiDeltaLabel), "velero");
}

TEST_F(LonghornVolumeActionTest, ActsWithoutEnableCsi) {
  bed_.env.enable_csi = false;
  Restart();
  EXPECT_NE(MustRun().operation_id, "");
}

TEST_F(LonghornVolumeActionTest, LabelsOfAnEarlierBackupOfTheNameDoNotStopIt) {
  SetJson(bed_.pvc, {"metadata", "labels"},
          Json{{objects::kVolumeSnapshotNameLabel, "old"}, {objects::kBackupNameLabel, "nightly"}});
  EXPECT_NE(MustRun().operation_id, "");
}

TEST_F(LonghornVolumeActionTest, LeavesAloneWhatNoRuleGivesToLonghornAndAsksForNoMore) {
  for (const char* value : {"snapshot", "move", "\"true\""}) {
    bed_.SetPolicy(absl::StrCat("{csi-delta: ", value, "}"));
    Restart();
    bed_.calls.clear();
    ExpectNothingDone();
    EXPECT_THAT(bed_.calls, SizeIs(1)) << "that for the policy";
  }
  bed_.SetPolicy("{csi-delta: longhorn}");
  SetJson(bed_.backup, {"status", "phase"}, "Finalizing");
  Restart();
  ExpectNothingDone();
}

TEST_F(LonghornVolumeActionTest, AVolumeOfAnotherDriverIsAnErrorThatNamesTheRule) {
  bed_.api().Seed(PersistentVolumeType(),
                  {{"metadata", {{"name", "pv-data"}}},
                   {"spec", {{"csi", {{"driver", "ebs.csi.aws.com"}, {"volumeHandle", "v"}}}}}});
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kInvalidArgument,
                              AllOf(HasSubstr("shop/data"), HasSubstr("volume policy 1"),
                                    HasSubstr("ebs.csi.aws.com"))));
  EXPECT_THAT(bed_.Snapshots(), IsEmpty());
}

TEST_F(LonghornVolumeActionTest, AVolumeThatLonghornDoesNotHaveIsAnErrorThatNamesTheSetting) {
  bed_.Do([&] { ASSERT_TRUE(bed_.api().Remove(support::NativeBed::VolumeKey())); });
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              AllOf(HasSubstr("PVC shop/data: Longhorn has no Volume pvc-1"),
                                    HasSubstr("longhornNamespace"))));
}

TEST_F(LonghornVolumeActionTest, WithoutTheRightsTheErrorNamesTheManifest) {
  bed_.api().Forbid("get", "volumes");
  EXPECT_THAT(Run(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("PVC shop/"), HasSubstr("deploy/longhorn-rbac.yaml"))));
}

TEST_F(LonghornVolumeActionTest, AnUnusableVolumeIsRefusedBeforeAnythingIsMade) {
  bed_.api().SetField(support::NativeBed::VolumeKey(), {"spec", "Standby"}, true);
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("standby")));
  EXPECT_EQ(bed_.Count("create", "snapshots"), 0);
}

TEST_F(LonghornVolumeActionTest, AFullVolumeIsRefusedBeforeAnythingIsMade) {
  bed_.PatchVolume({{"spec", {{"snapshotMaxCount", 2}}}});
  bed_.AddSnapshot("one");
  bed_.AddSnapshot("two");
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("PVC shop/data: Longhorn's Volume pvc-1 has 2 snapshots")));
  EXPECT_THAT(
      support::EventTexts(bed_.api()),
      ElementsAre(AllOf(HasSubstr(" SnapshotFailed: "), HasSubstr("pvc-1 has 2 snapshots"))));
  EXPECT_EQ(bed_.Count("create", "snapshots"), 0);
  EXPECT_EQ(bed_.Count("create", "leases"), 0);
}

// Longhorn would take it as soon as a place becomes free.
TEST_F(LonghornVolumeActionTest, OneThatIsNotTakenInTimeIsDeletedAndNeverTaken) {
  bed_.PatchVolume({{"spec", {{"snapshotMaxCount", 2}}}});
  bed_.AddSnapshot("one");
  bed_.on_call = [&](const ApiCall& call, const Json*) {
    if (call.verb == "create" && call.plural == "snapshots") {
      bed_.longhorn.engines().Handle("pvc-1", [&](longhorn_stand_in::Engine& engine) {
        EXPECT_THAT(engine.TakeSnapshot("two", true, {}, bed_.longhorn.now()), IsOk());
      });
    }
    return absl::OkStatus();
  };
  const absl::Time begun = bed_.clock.Now();
  EXPECT_THAT(Run(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("PVC shop/data: Longhorn took no snapshot of Volume pvc-1 "
                                       "within 10m"),
                             HasSubstr("snapshot count usage 2 is equal or larger than "
                                       "snapshotMaxCount 2; nothing of it is kept; free places "
                                       "with: csi-delta longhorn prune --volume pvc-1 "
                                       "--keep-last 1"))));
  EXPECT_GE(bed_.clock.Now() - begun, absl::Minutes(10));
  EXPECT_LE(bed_.Count("get", "snapshots"), 62) << "every ten seconds, and once to remove it";
  bed_.Do([&] {
    EXPECT_THAT(bed_.api().Delete({}, support::NativeBed::SnapshotKey("one"), {}), IsOk());
  });
  ExpectNothingIsTaken();
  ASSERT_THAT(Leases(), SizeIs(1)) << "the record, and no turn";
  EXPECT_TRUE(absl::StartsWith(k8s::Name(Leases()[0]), "csi-delta-csd-")) << Leases()[0];
}

TEST_F(LonghornVolumeActionTest, OneThatCannotBeDeletedIsSaidToBeLeft) {
  bed_.passes_per_wait = absl::ZeroDuration();
  bed_.on_call = [&](const ApiCall& call, const Json*) {
    return call.verb == "delete" && call.plural == "snapshots"
               ? absl::UnavailableError("failed calling webhook \"validator.longhorn.io\"")
               : absl::OkStatus();
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                              AllOf(HasSubstr("is left, and Longhorn may take it yet"),
                                    HasSubstr("later: kubectl"), Not(HasSubstr("prune")))))
      << "nothing says that the volume is full";
}

TEST_F(LonghornVolumeActionTest, WaitsForAManagerThatIsAwayForTwentySeconds) {
  bed_.longhorn.StopManager();
  bed_.on_call = [&](const ApiCall&, const Json*) {
    if (bed_.Count("create", "snapshots") == 20) {
      bed_.longhorn.StartManager();
    }
    return absl::OkStatus();
  };
  EXPECT_NE(MustRun().operation_id, "");
}

TEST_F(LonghornVolumeActionTest, AManagerThatStaysAwayIsOneErrorThatNamesIt) {
  bed_.longhorn.StopManager();
  const absl::Time begun = bed_.clock.Now();
  EXPECT_THAT(
      Run(), StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("does longhorn-manager run?"),
                                                            HasSubstr("nothing of it is kept"))));
  EXPECT_LT(bed_.clock.Now() - begun, absl::Minutes(3));
}

TEST_F(LonghornVolumeActionTest, TheOneOfAProcessThatWasKilledIsTakenUp) {
  // Killed between the request and the answer: what it made has no other owner.
  bed_.api().FailNext("create", "snapshots", absl::CancelledError("killed"), 1,
                      support::Fault::kAnswerLost);
  bed_.api().FailNext("get", "snapshots", absl::CancelledError("killed"));
  EXPECT_FALSE(Run().ok());
  const std::string uid = k8s::Uid(Only());
  Restart();
  EXPECT_NE(MustRun().operation_id, "");
  EXPECT_EQ(k8s::Uid(Only()), uid);
}

TEST_F(LonghornVolumeActionTest, ARequestWhoseAnswerIsLostLeavesNothing) {
  bed_.api().FailNext("create", "snapshots", absl::CancelledError("stopped"), 1,
                      support::Fault::kAnswerLost);
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(bed_.Snapshots().empty() || k8s::BeingDeleted(Only()));
  ExpectNothingIsTaken();
}

TEST_F(LonghornVolumeActionTest, OneThatIsReplacedWhileItIsAwaitedIsAnErrorAndTheOtherStays) {
  bed_.passes_per_wait = absl::ZeroDuration();
  std::string name;
  bed_.on_wait = [&] {
    if (name.empty()) {
      name = k8s::Name(Only());
      EXPECT_TRUE(bed_.api().Remove(support::NativeBed::SnapshotKey(name)));
      bed_.Do([&] { EXPECT_THAT(bed_.Create(name), IsOk()); });
    }
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("deleted while")));
  EXPECT_FALSE(k8s::BeingDeleted(Only()));
}

TEST_F(LonghornVolumeActionTest, ADetachedVolumeIsWaitedForUntilItIsReady) {
  bed_.Do([&] { bed_.longhorn.Detach("pvc-1"); });
  bed_.Pass(absl::Seconds(10));
  bed_.passes_per_wait = absl::Seconds(1);
  MustRun();
  EXPECT_TRUE(GetBool(Only(), {"status", "readyToUse"})) << "then Longhorn detaches it again";
}

// Longhorn shows nothing any more: the snapshot is taken, and never ready.
TEST_F(LonghornVolumeActionTest, OneThatIsNeverReadyFailsItsOperationAndIsDeleted) {
  bed_.passes_per_wait = absl::Milliseconds(400);
  const BackupItemResult result = MustRun();
  const std::string uid = k8s::Uid(Only());
  EXPECT_FALSE(Progress(result.operation_id).completed);
  bed_.clock.Advance(absl::Minutes(9));
  EXPECT_FALSE(Progress(result.operation_id).completed);
  EXPECT_FALSE(k8s::BeingDeleted(Only()));
  bed_.clock.Advance(absl::Minutes(2));
  const OperationProgress late = Progress(result.operation_id);
  EXPECT_TRUE(late.completed);
  EXPECT_THAT(late.error, AllOf(HasSubstr("Longhorn does not show it as ready within 10m"),
                                HasSubstr("nothing of it is kept")));
  EXPECT_TRUE(k8s::BeingDeleted(Only()));
  EXPECT_EQ(k8s::Uid(Only()), uid);
}

TEST_F(LonghornVolumeActionTest, AnOperationGoesOnWhileItsSnapshotCannotBeDeleted) {
  bed_.passes_per_wait = absl::Milliseconds(400);
  const BackupItemResult result = MustRun();
  bed_.clock.Advance(absl::Minutes(11));
  bed_.longhorn.StopManager();
  const absl::Time asked_at = bed_.clock.Now();
  const OperationProgress progress = Progress(result.operation_id);
  EXPECT_FALSE(progress.completed);
  EXPECT_THAT(progress.description, HasSubstr("it cannot be deleted"));
  EXPECT_LE(bed_.clock.Now() - asked_at, velero::kProgressTimeMax);
}

TEST_F(LonghornVolumeActionTest, AnOperationEndsWithItsSnapshotAndPassesTrouble) {
  const BackupItemResult result = MustRun();
  bed_.api().FailNext("get", "snapshots", absl::UnavailableError("away"));
  const OperationProgress trouble = Progress(result.operation_id);
  EXPECT_FALSE(trouble.completed);
  EXPECT_THAT(trouble.description, HasSubstr("away"));
  bed_.Do([&] {
    const std::string name = k8s::Name(Only());
    EXPECT_TRUE(bed_.api().Remove(support::NativeBed::SnapshotKey(name)));
    EXPECT_THAT(bed_.Create(name), IsOk());
  });
  EXPECT_THAT(Progress(result.operation_id).error, HasSubstr("was deleted before"));
  EXPECT_THAT(Progress("1/a/b/c/2026-10-01T02:00:00Z").error, HasSubstr("is not an operation id"));
}

TEST_F(LonghornVolumeActionTest, CancellingRemovesWhatIsNotReadyAndNothingElse) {
  bed_.passes_per_wait = absl::Milliseconds(400);
  const BackupItemResult result = MustRun();
  Json other = bed_.backup;
  SetJson(other, {"metadata", "uid"}, "other-uid");
  EXPECT_THAT(action_->Cancel(bed_.ctx, result.operation_id, objects::Object(other)), IsOk());
  EXPECT_FALSE(k8s::BeingDeleted(Only()));
  EXPECT_THAT(action_->Cancel(bed_.ctx, result.operation_id, objects::Object(bed_.backup)), IsOk());
  EXPECT_TRUE(k8s::BeingDeleted(Only()));
}

TEST_F(LonghornVolumeActionTest, CancellingLeavesOneThatIsReady) {
  const BackupItemResult result = MustRun();
  EXPECT_THAT(action_->Cancel(bed_.ctx, result.operation_id, objects::Object(bed_.backup)), IsOk());
  EXPECT_FALSE(k8s::BeingDeleted(Only()));
}

// Its sidecar has asked for one at the same moment. Longhorn's engine takes one after the other.
TEST_F(LonghornVolumeActionTest, AVolumeSnapshotOfThePvcThatIsBeingTakenIsNotWaitedFor) {
  Json others = support::MakeSnapshotObject("shop", "theirs", "");
  SetJson(others, {"metadata", "creationTimestamp"}, FormatRfc3339(bed_.clock.Now()));
  bed_.api().Seed(VolumeSnapshotType(), others);
  bed_.on_call = [&](const ApiCall& call, const Json*) {
    if (call.verb == "create" && call.plural == "snapshots") {
      bed_.Do([&] { EXPECT_THAT(bed_.Create("snapshot-theirs-uid"), IsOk()); });
    }
    return absl::OkStatus();
  };
  const absl::Time begun = bed_.clock.Now();
  EXPECT_NE(MustRun().operation_id, "");
  EXPECT_LE(bed_.clock.Now() - begun, absl::Seconds(10));
  EXPECT_EQ(bed_.Count("list", "volumesnapshots"), 0);
  bed_.Pass(absl::Seconds(8));
  ASSERT_THAT(bed_.Snapshots(), SizeIs(2));
  for (const Json& snapshot : bed_.Snapshots()) {
    EXPECT_TRUE(bed_.EngineHas(k8s::Name(snapshot))) << snapshot;
    EXPECT_TRUE(GetBool(snapshot, {"status", "readyToUse"})) << snapshot;
  }
}

TEST_F(LonghornVolumeActionTest, NeedsNoVolumeSnapshotsInTheCluster) {
  bed_.api().RemoveType("volumesnapshots");
  bed_.api().RemoveType("volumesnapshotcontents");
  EXPECT_NE(MustRun().operation_id, "");
}

TEST_F(LonghornVolumeActionTest, AllPvcsOfABackupShareAWatchAndNoneIsReadByItself) {
  const Json pvcs[] = {bed_.pvc, bed_.AddPvc("two", "pvc-2"), bed_.AddPvc("three", "pvc-3")};
  for (const Json& pvc : pvcs) {
    EXPECT_THAT(action_->Execute(bed_.ctx, objects::Object(pvc), objects::Object(bed_.backup)),
                IsOk());
  }
  EXPECT_EQ(bed_.Count("watch", "snapshots"), 1);
  EXPECT_EQ(bed_.Count("get", "snapshots"), 0);
  EXPECT_EQ(bed_.Count("list", "snapshots"), 4) << "one for the sweep, one for the room of each";
  SetJson(bed_.backup, {"metadata", "uid"}, "another");
  bed_.watches = 2;
  MustRun();
  EXPECT_EQ(bed_.Count("watch", "snapshots"), 2);
}

TEST_F(LonghornVolumeActionTest, WithoutTheRightToWatchItTakesLonger) {
  bed_.api().Forbid("watch", "snapshots");
  bed_.watches = 0;
  const absl::Time begun = bed_.clock.Now();
  EXPECT_NE(MustRun().operation_id, "");
  EXPECT_LE(bed_.clock.Now() - begun, absl::Minutes(1));
}

// --- What failed backups left behind

TEST_F(LonghornVolumeActionTest, TheNextBackupRemovesWhatAFailedOneLeft) {
  MustRun();
  const Json left = Only();
  Archive(left, bed_.backup);
  SeedBackup("nightly", "Failed", "backup-uid");
  RunNext();
  EXPECT_FALSE(bed_.EngineHas(k8s::Name(left))) << "the newer one let Longhorn purge it";
  EXPECT_NE(k8s::Uid(Only()), k8s::Uid(left));
  // Once per backup.
  const int lists = bed_.Count("list", "backups");
  MustRun();
  EXPECT_EQ(bed_.Count("list", "backups"), lists);
}

// Longhorn cancels one that is deleted before it is taken.
TEST_F(LonghornVolumeActionTest, OneOfAFailedBackupThatIsNotTakenYetIsSweptAndNeverTaken) {
  bed_.api().FailNext("create", "snapshots", absl::CancelledError("killed"), 1,
                      support::Fault::kAnswerLost);
  bed_.api().FailNext("get", "snapshots", absl::CancelledError("killed"));
  EXPECT_FALSE(Run().ok());
  const std::string left = k8s::Name(Only());
  SeedBackup("nightly", "Failed", "backup-uid");
  Json swept;
  bed_.on_call = [&](const ApiCall& call, const Json*) {
    if (call.verb == "create" && call.plural == "snapshots") {
      swept = bed_.api().Find(support::NativeBed::SnapshotKey(left)).value_or(Json());
    }
    return absl::OkStatus();
  };
  RunNext();
  EXPECT_TRUE(k8s::BeingDeleted(swept)) << "before the next one is asked for";
  EXPECT_EQ(GetString(swept, {"status", "requestedTime"}), "");
  EXPECT_NE(k8s::Name(Only()), left);
  EXPECT_FALSE(bed_.EngineHas(left));
}

// The process died after Longhorn took it: no archive has it, and so no deletion of a backup.
TEST_F(LonghornVolumeActionTest, TheNextBackupRemovesWhatNoBackupArchived) {
  MustRun();
  const Json left = Only();
  EXPECT_TRUE(bed_.EngineHas(k8s::Name(left)));
  SeedBackup("nightly", "PartiallyFailed", "backup-uid");
  RunNext();
  EXPECT_FALSE(IsThere(left));
  ASSERT_THAT(Leases(), SizeIs(1)) << "that of the next one";
  EXPECT_EQ(GetString(Leases()[0], {"spec", "holderIdentity"}), "next");
}

TEST_F(LonghornVolumeActionTest, WhatIsArchivedStaysThoughItsBackupFailedInPart) {
  MustRun();
  const Json archived = Only();
  Archive(archived, bed_.backup);
  EXPECT_THAT(Leases(), IsEmpty());
  SeedBackup("nightly", "PartiallyFailed", "backup-uid");
  RunNext();
  EXPECT_TRUE(IsThere(archived));
}

TEST_F(LonghornVolumeActionTest, WhatABackupThatRunsHasNotArchivedYetStays) {
  MustRun();
  const Json taken = Only();
  for (const char* phase : {"InProgress", "WaitingForPluginOperations", "Finalizing"}) {
    SeedBackup("nightly", phase, "backup-uid");
    RunNext(absl::AsciiStrToLower(phase));
    EXPECT_TRUE(IsThere(taken)) << phase;
  }
}

// It enters its archive, and its backup ends, while the sweep reads what there is.
TEST_F(LonghornVolumeActionTest, WhatIsArchivedDuringTheSweepStays) {
  MustRun();
  const Json archived = Only();
  const Json backup = bed_.backup;
  SeedBackup("nightly", "InProgress", "backup-uid");
  int lists = 0;
  bed_.on_call = [&](const ApiCall& call, const Json*) {
    if (call.verb == "list" && (call.plural == "backups" || call.plural == "leases") &&
        ++lists == 2) {
      Archive(archived, backup);
      SeedBackup("nightly", "Completed", "backup-uid");
    }
    return absl::OkStatus();
  };
  RunNext();
  EXPECT_EQ(lists, 2);
  EXPECT_TRUE(IsThere(archived));
}

// Velero may read its Backup again from the bucket. The record alone proves that it has none of it.
TEST_F(LonghornVolumeActionTest, OfABackupThatIsMissingForADayWhatWasNotArchivedIsRemoved) {
  MustRun();
  const Json left = Only();
  RunNext();
  bed_.clock.Advance(absl::Hours(23));
  RunNext("third");
  EXPECT_TRUE(IsThere(left));
  bed_.clock.Advance(absl::Hours(2));
  RunNext("fourth");
  EXPECT_FALSE(IsThere(left));
}

TEST_F(LonghornVolumeActionTest, AnAbsenceThatEndedDoesNotCount) {
  MustRun();
  const Json left = Only();
  RunNext();
  SeedBackup("nightly", "InProgress", "another-uid");
  RunNext("third");
  bed_.Do([&] {
    EXPECT_THAT(bed_.api().Delete({}, {BackupType(), support::kVeleroNamespace, "nightly"}, {}),
                IsOk());
  });
  bed_.clock.Advance(absl::Hours(25));
  RunNext("fourth");
  EXPECT_TRUE(IsThere(left)) << "it is missing since now";
}

TEST_F(LonghornVolumeActionTest, OfABackupThatIsMissingWhatIsArchivedStaysForGood) {
  MustRun();
  const Json archived = Only();
  Archive(archived, bed_.backup);
  RunNext();
  bed_.clock.Advance(absl::Hours(100));
  RunNext("third");
  EXPECT_TRUE(IsThere(archived));
}

TEST_F(LonghornVolumeActionTest, WhereTheRunningBackupIsNotSeenNothingIsDecided) {
  MustRun();
  const Json left = Only();
  SeedBackup("nightly", "Failed", "backup-uid");
  bed_.on_call = [&](const ApiCall& call, const Json*) {
    if (call.verb == "list" && call.plural == "backups") {
      bed_.Do([&] {
        EXPECT_THAT(bed_.api().Delete({}, {BackupType(), support::kVeleroNamespace, "next"}, {}),
                    IsOk());
      });
    }
    return absl::OkStatus();
  };
  RunNext();
  EXPECT_TRUE(IsThere(left));
}

// A volume may have two PersistentVolumes, and each a PVC: the backup has one snapshot for both.
TEST_F(LonghornVolumeActionTest, TheRecordOfASecondPvcOfTheVolumeSaysNothingOfTheFirst) {
  MustRun();
  const Json archived = Only();
  Archive(archived, bed_.backup);
  Json second = bed_.pvc;
  SetJson(second, {"metadata", "name"}, "second");
  SetJson(second, {"metadata", "uid"}, "second-uid");
  EXPECT_THAT(action_->Execute(bed_.ctx, objects::Object(second), objects::Object(bed_.backup)),
              IsOk());
  EXPECT_EQ(k8s::Uid(Only()), k8s::Uid(archived));
  EXPECT_THAT(Leases(), SizeIs(1)) << "Velero does not archive the Snapshot again";
  SeedBackup("nightly", "Completed", "backup-uid");
  RunNext();
  EXPECT_TRUE(IsThere(archived));
}

TEST_F(LonghornVolumeActionTest, ARecordGoesWhenItsSnapshotIsGoneForADay) {
  MustRun();
  const std::string name = absl::StrCat("csi-delta-", k8s::Name(Only()));
  bed_.Do(
      [&] { EXPECT_TRUE(bed_.api().Remove(support::NativeBed::SnapshotKey(k8s::Name(Only())))); });
  SeedBackup("nightly", "PartiallyFailed", "backup-uid");
  const auto record_is_there = [&] {
    return bed_.api().Find({LeaseType(), support::kVeleroNamespace, name}).has_value();
  };
  RunNext();
  RunNext("third");
  EXPECT_TRUE(record_is_there()) << "a request whose answer was lost may be carried out late";
  bed_.api().SetField({LeaseType(), support::kVeleroNamespace, name},
                      {"metadata", "creationTimestamp"},
                      FormatRfc3339(bed_.clock.Now() - absl::Hours(25)));
  RunNext("fourth");
  EXPECT_FALSE(record_is_there());
}

// Of the last backup with native snapshots, that is.
TEST_F(LonghornVolumeActionTest, ARecordGoesThoughNoNativeSnapshotIsLeft) {
  MustRun();
  const k8s::ObjectKey record = {LeaseType(), support::kVeleroNamespace,
                                 "csi-delta-" + k8s::Name(Only())};
  bed_.Do(
      [&] { EXPECT_TRUE(bed_.api().Remove(support::NativeBed::SnapshotKey(k8s::Name(Only())))); });
  bed_.api().SetField(record, {"metadata", "creationTimestamp"},
                      FormatRfc3339(bed_.clock.Now() - absl::Hours(25)));
  RunNext();
  EXPECT_FALSE(bed_.api().Find(record).has_value());
  EXPECT_EQ(bed_.Count("list", "backups"), 0) << "no action on a Snapshot depends on them";
}

// The sweep finds Snapshots by a label, which this one has lost.
TEST_F(LonghornVolumeActionTest, ARecordWhoseSnapshotIsThereStays) {
  MustRun();
  const std::string name = k8s::Name(Only());
  const k8s::ObjectKey record = {LeaseType(), support::kVeleroNamespace, "csi-delta-" + name};
  bed_.api().Mutate(support::NativeBed::SnapshotKey(name), [](Json& snapshot) {
    EraseJson(snapshot, {"metadata", "labels", objects::kLonghornMadeByLabel});
  });
  bed_.api().SetField(record, {"metadata", "creationTimestamp"},
                      FormatRfc3339(bed_.clock.Now() - absl::Hours(25)));
  SeedBackup("nightly", "PartiallyFailed", "backup-uid");
  RunNext();
  RunNext("third");
  EXPECT_TRUE(bed_.api().Find(record).has_value());
  EXPECT_TRUE(bed_.api().Find(support::NativeBed::SnapshotKey(name)).has_value());
}

TEST_F(LonghornVolumeActionTest, NothingIsAskedOfLonghornWithoutARecord) {
  bed_.on_call = [&](const ApiCall& call, const Json* body) {
    return call.verb == "create" && call.plural == "leases" &&
                   !k8s::Label(*body, objects::kPvcUidLabel).empty()
               ? absl::InternalError("etcd is full")
               : absl::OkStatus();
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kInternal, HasSubstr("etcd is full")));
  EXPECT_EQ(bed_.Count("create", "snapshots"), 0);
  EXPECT_THAT(Leases(), IsEmpty());
}

TEST_F(LonghornVolumeActionTest, TheSweepCanBeSwitchedOff) {
  MustRun();
  SeedBackup("nightly", "Failed", "backup-uid");
  support::SetPluginConfig({{"sweepOrphans", "false"}}, bed_.api());
  Restart();
  MustRun();
  EXPECT_FALSE(k8s::BeingDeleted(Only()));
}

// The row of the table of NativeActionOf() for one of the Backup "b" with the uid "uid".
NativeAction ActionOf(const std::string& phase, const std::string& backup_uid, bool is_taken,
                      const NativeRecord* record) {
  Json object =
      support::MakeObject("longhorn.io/v1beta2", "Snapshot", "longhorn-system", "csd-1",
                          {{objects::kBackupNameLabel, "b"}, {objects::kBackupUidLabel, "uid"}});
  if (is_taken) {
    SetJson(object, {"status", "requestedTime"}, "2026-10-01T02:00:00Z");
  }
  csi::Backups backups;
  if (!phase.empty()) {
    backups["b"] = support::As<objects::Backup>(
        support::MakeBackupObject("b", phase == "new" ? "" : phase, backup_uid));
  }
  return NativeActionOf(longhorn::Snapshot::Of(object).value(), record, backups,
                        absl::FromUnixSeconds(1'700'000'000), absl::Hours(24));
}

TEST(NativeActionTest, OnlyWhatNoArchiveCanNeedIsRemoved) {
  const NativeRecord record;
  for (const bool is_taken : {false, true}) {
    for (const char* done : {"Completed", "PartiallyFailed"}) {
      EXPECT_EQ(ActionOf(done, "uid", is_taken, &record), NativeAction::kRemove);
      EXPECT_EQ(ActionOf(done, "other", is_taken, &record), NativeAction::kRemove);
      EXPECT_EQ(ActionOf(done, "uid", is_taken, nullptr),
                is_taken ? NativeAction::kKeep : NativeAction::kRemove);
      EXPECT_EQ(ActionOf(done, "other", is_taken, nullptr), NativeAction::kKeep);
    }
    EXPECT_EQ(ActionOf("Failed", "uid", is_taken, nullptr), NativeAction::kRemove);
    EXPECT_EQ(ActionOf("Failed", "other", is_taken, &record), NativeAction::kRemove);
    EXPECT_EQ(ActionOf("Failed", "other", is_taken, nullptr), NativeAction::kKeep);
    EXPECT_EQ(ActionOf("Failed", "", is_taken, nullptr), NativeAction::kKeep);
    for (const char* phase :
         {"new", "InProgress", "WaitingForPluginOperations", "Finalizing", "Deleting"}) {
      EXPECT_EQ(ActionOf(phase, "uid", is_taken, nullptr), NativeAction::kKeep) << phase;
      EXPECT_EQ(ActionOf(phase, "uid", is_taken, &record), NativeAction::kKeep) << phase;
    }
  }
}

TEST(NativeActionTest, OfAMissingBackupTheRecordDecides) {
  EXPECT_EQ(ActionOf("", "", true, nullptr), NativeAction::kKeep);
  NativeRecord record;
  EXPECT_EQ(ActionOf("", "", true, &record), NativeAction::kNoteMissing);
  record.backup_missing_since = absl::FromUnixSeconds(1'700'000'000) - absl::Hours(23);
  EXPECT_EQ(ActionOf("", "", true, &record), NativeAction::kKeep);
  EXPECT_EQ(ActionOf("InProgress", "other", true, &record), NativeAction::kNoteFound);
  *record.backup_missing_since -= absl::Hours(1);
  EXPECT_EQ(ActionOf("", "", true, &record), NativeAction::kRemove);
}

// --- Detached volumes

// Each is snapshotted while the one before waits for its own.
TEST_F(LonghornVolumeActionTest, OfDetachedVolumesTwoAreSnapshottedAtATime) {
  bed_.Do([&] { bed_.longhorn.Detach("pvc-1"); });
  bed_.Pass(absl::Seconds(10));
  const Json pvcs[] = {bed_.pvc, bed_.AddPvc("two", "pvc-2"), bed_.AddPvc("three", "pvc-3")};
  Json soon = bed_.backup;
  SetJson(soon, {"spec", "csiSnapshotTimeout"}, "1m0s");
  std::vector<absl::Status> done(3);
  int begun = 1;
  bed_.on_wait = [&] {
    if (begun < 3) {
      const int next = begun++;
      done[next] = action_
                       ->Execute(bed_.ctx, objects::Object(pvcs[next]),
                                 objects::Object(next == 2 ? soon : bed_.backup))
                       .status();
    }
  };
  done[0] =
      action_->Execute(bed_.ctx, objects::Object(pvcs[0]), objects::Object(bed_.backup)).status();
  EXPECT_EQ(begun, 3);
  EXPECT_THAT(done[0], IsOk());
  EXPECT_THAT(done[1], IsOk());
  EXPECT_THAT(done[2], StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("wait for 2 other detached volumes of Longhorn")));
  EXPECT_THAT(bed_.Snapshots(), SizeIs(2)) << "none was made of the third";
  EXPECT_THAT(action_->Execute(bed_.ctx, objects::Object(pvcs[2]), objects::Object(soon)), IsOk())
      << "they gave back their places";
}

TEST(SlotsTest, OneMoreThanThereAreWaitsForAnother) {
  support::FakeClock clock;
  clock.SetAutoAdvance(true);
  CallContext ctx;
  ctx.clock = &clock;
  Slots slots(2);
  EXPECT_THAT(slots.Take(ctx), IsOk());
  EXPECT_THAT(slots.Take(ctx), IsOk());
  EXPECT_THAT(slots.Take(ctx.WithTimeout(absl::Seconds(5))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  slots.Give();
  EXPECT_THAT(slots.Take(ctx), IsOk());
}

}  // namespace
}  // namespace csidelta::backupitemactions::longhorn_volume_test
