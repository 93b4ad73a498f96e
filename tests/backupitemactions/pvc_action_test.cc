#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "k8s/object.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "tests/backupitemactions/action_fixture.h"
#include "tests/support/action_log.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::backupitemactions::pvc_action_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PvcActionTest : public ActionTest {
 protected:
  absl::StatusOr<velero::BackupItemResult> Execute() {
    return RunAction(*MakePvcAction(env_), claim_);
  }
  velero::BackupItemResult Run() { return Succeed(*MakePvcAction(env_), claim_); }

  void ExpectUntouched() {
    const velero::BackupItemResult result = Run();
    EXPECT_FALSE(result.item.has_value());
    EXPECT_THAT(result.additional_items, IsEmpty());
    EXPECT_EQ(Writes(), 0);
    EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  }
};

TEST_F(PvcActionTest, TakesTheVolumeThatThePolicyGivesToUs) {
  const velero::BackupItemResult result = Run();
  ASSERT_THAT(api_.All(VolumeSnapshotType()), SizeIs(1));
  const std::string name = k8s::Name(api_.All(VolumeSnapshotType()).front());
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(result.item->Label("velero.io/volume-snapshot-name"), name);
  EXPECT_EQ(result.item->Label("velero.io/backup-name"), "nightly");
  EXPECT_EQ(result.item->Annotation("velero.io/volume-snapshot-name"), name);
  EXPECT_EQ(result.item->Annotation("backup.velero.io/must-include-additional-items"), "true");
  EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "64Mi");
  ASSERT_THAT(result.additional_items, SizeIs(1));
  EXPECT_EQ(
      result.additional_items[0],
      (velero::ResourceIdentifier{"snapshot.storage.k8s.io", "volumesnapshots", "app", name}));
  EXPECT_EQ(result.operation_id, "");
  EXPECT_THAT(result.post_operation_items, IsEmpty());
  EXPECT_THAT(SnapshotFailures(), IsEmpty());
  // The claim in the cluster stays as it is.
  EXPECT_EQ(*api_.Find({PersistentVolumeClaimType(), "app", "data"}), claim_);
}

TEST_F(PvcActionTest, AnUnknownSizeChangesNoRequest) {
  cluster_.driver().size_bytes = 0;
  const velero::BackupItemResult result = Run();
  EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "16Mi");
}

TEST_F(PvcActionTest, ALargerRequestAndUnknownFieldsSurvive) {
  SetJson(claim_, {"spec", "resources", "requests", "storage"}, "1Gi");
  SetJson(claim_, {"spec", "future"}, Json{{"big", 9007199254740993}});
  const velero::BackupItemResult result = Run();
  EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "1Gi");
  EXPECT_EQ(result.item->json()["spec"]["future"]["big"], 9007199254740993);
}

TEST_F(PvcActionTest, HandsOffWithoutTheFeature) {
  env_.enable_csi = false;
  ExpectUntouched();
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(PvcActionTest, AVolumeThatARuleGivesToLonghornIsLeftToItsAction) {
  api_.Seed(PersistentVolumeType(),
            {{"metadata", {{"name", "pv-data"}}},
             {"spec", {{"csi", {{"driver", "driver.longhorn.io"}, {"volumeHandle", "pvc-1"}}}}}});
  SetPolicy("{csi-delta: longhorn}");
  ExpectUntouched();
  const support::ActionLog log;
  env_.enable_csi = false;
  EXPECT_THAT(RunAction(*MakeUnclaimedVolumeAction(env_), claim_), IsOk());
  EXPECT_THAT(log.warnings(), IsEmpty()) << "it is taken";
}

// Velero's own ways step aside for a rule of type custom.
TEST_F(PvcActionTest, AVolumeThatNoPluginTakesIsWarnedOf) {
  const support::ActionLog log;
  const auto run = [&] { return RunAction(*MakeUnclaimedVolumeAction(env_), claim_); };
  EXPECT_THAT(run(), IsOk());
  EXPECT_THAT(log.warnings(), IsEmpty()) << "it is taken";
  env_.enable_csi = false;
  EXPECT_THAT(run(), IsOk());
  EXPECT_THAT(log.warnings(),
              ElementsAre(AllOf(HasSubstr("\"pvc\":\"data\""), HasSubstr("--features=EnableCSI"))));
  log.warnings().clear();
  SetPolicy("{acme: mine}");
  EXPECT_THAT(run(), IsOk());
  EXPECT_THAT(log.warnings(), IsEmpty());
  env_.enable_csi = true;
  SetJson(claim_, {"spec", "storageClassName"}, "");
  for (const char* const way : {"{csi-delta: snapshot}", "{csi-delta: move}"}) {
    SetPolicy(way);
    EXPECT_THAT(Execute(), IsOk());
    EXPECT_THAT(log.warnings(), testing::Contains(HasSubstr("resource modifier"))) << way;
    log.warnings().clear();
  }
}

TEST_F(PvcActionTest, AVolumeOfThePolicyThatCannotBeTakenIsWarnedOf) {
  const support::ActionLog log;
  SetJson(claim_, {"status", "phase"}, "Lost");
  ExpectUntouched();
  EXPECT_THAT(log.warnings(),
              testing::Contains(AllOf(HasSubstr("volume left alone"), HasSubstr("\"pvc\":\"data\""),
                                      HasSubstr("Lost"))));
}

TEST_F(PvcActionTest, ARestoreIntoTheVolumeIsWarnedOfOnceAndNotArchived) {
  const auto run = [&](const objects::CopyRecord& record) {
    SetJson(claim_, {"metadata", "annotations", objects::kCopyRecordAnnotation},
            objects::FormatCopyRecord(record));
    SetJson(claim_, {"metadata", "annotations", objects::kMayWriteAnnotation}, "velero/x");
    const support::ActionLog log;
    const auto result = Execute();
    EXPECT_THAT(result, IsOk());
    EXPECT_EQ(result->item->Annotation(objects::kCopyRecordAnnotation), "");
    EXPECT_EQ(result->item->Annotation(objects::kMayWriteAnnotation), "");
    return std::count_if(log.warnings().begin(), log.warnings().end(), [](const auto& line) {
      return absl::StrContains(line, "partly old") && absl::StrContains(line, "velero/x");
    });
  };
  objects::CopyRecord record{.from = "velero/x", .id = "download-uid", .has_begun = true};
  EXPECT_EQ(run(record), 0) << "the DataDownload does not exist";
  api_.Seed(DataDownloadType(),
            {{"metadata", {{"name", "x"}, {"namespace", "velero"}, {"uid", "download-uid"}}},
             {"status", {{"phase", "InProgress"}}}});
  EXPECT_EQ(run(record), 1);
  record.has_begun = false;
  EXPECT_EQ(run(record), 0);
  record.has_begun = record.has_ended = true;
  EXPECT_EQ(run(record), 0);
}

TEST_F(PvcActionTest, HandsOffWhileFinalizing) {
  Finalizing();
  ExpectUntouched();
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(PvcActionTest, HandsOffWhereVeleroTookTheVolumeWithoutARequest) {
  SetJson(claim_, {"metadata", "labels", "velero.io/volume-snapshot-name"}, "velero-data-x");
  SetJson(claim_, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
  ExpectUntouched();
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(PvcActionTest, StaleLabelsOfARestoredClaimDoNotCount) {
  SetJson(claim_, {"metadata", "labels", "velero.io/volume-snapshot-name"}, "gone");
  SetJson(claim_, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
  SetJson(claim_, {"metadata", "labels", "velero.io/restore-name"}, "r");
  SetJson(claim_, {"metadata", "annotations", "velero.io/data-upload-name"}, "velero/old");
  const velero::BackupItemResult result = Run();
  ASSERT_TRUE(result.item.has_value());
  EXPECT_NE(result.item->Label("velero.io/volume-snapshot-name"), "gone");
  EXPECT_EQ(result.item->Annotation("velero.io/data-upload-name"), "");
}

// Velero up to 1.17 copies the labels of a restored claim to the VolumeSnapshot that it takes.
TEST_F(PvcActionTest, HandsOffARestoredClaimWhoseVolumeVeleroTook) {
  SetJson(claim_, {"metadata", "labels", "velero.io/volume-snapshot-name"}, "velero-data-x");
  SetJson(claim_, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
  SetJson(claim_, {"metadata", "labels", "velero.io/restore-name"}, "r");
  SetJson(backup_, {"metadata", "creationTimestamp"}, "2023-11-14T22:13:20Z");
  Json taken = {{"metadata", {{"name", "velero-data-x"}, {"namespace", "app"}}},
                {"spec", {{"source", {{"persistentVolumeClaimName", "data"}}}}}};
  SetJson(taken, {"metadata", "labels"}, *FindJson(claim_, {"metadata", "labels"}));
  SetJson(taken, {"metadata", "creationTimestamp"}, "2023-11-14T22:13:20Z");
  api_.Seed(VolumeSnapshotType(), taken);
  ExpectUntouched();

  SetJson(taken, {"metadata", "creationTimestamp"}, "2023-11-13T22:13:20Z");
  api_.Seed(VolumeSnapshotType(), taken);
  const velero::BackupItemResult result = Run();
  EXPECT_TRUE(result.item.has_value()) << "a VolumeSnapshot from before the backup";
}

TEST_F(PvcActionTest, LeavesAVolumeOfAnotherPluginAlone) {
  SetPolicy("{another: plugin}");
  ExpectUntouched();
}

TEST_F(PvcActionTest, HandsOffUnboundClaims) {
  SetJson(claim_, {"status", "phase"}, "Pending");
  EraseJson(claim_, {"spec", "volumeName"});
  ExpectUntouched();
}

TEST_F(PvcActionTest, AWrongValueNamesClaimAndLegalOnes) {
  SetPolicy("{csi-delta: snapshoot}");
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("app/data"), HasSubstr("snapshot, move"))));
}

TEST_F(PvcActionTest, AMissingClassSaysWhatToDo) {
  api_.Remove({VolumeSnapshotClassType(), "", "fast"});
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("app/data"), HasSubstr("create one"))));
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
}

TEST_F(PvcActionTest, TheClaimsAnnotationChoosesTheClass) {
  api_.Seed(VolumeSnapshotClassType(),
            {{"metadata", {{"name", "slow"}}}, {"driver", "d.example.com"}});
  SetJson(claim_, {"metadata", "annotations", "velero.io/csi-volumesnapshot-class"}, "slow");
  ASSERT_THAT(Execute(), IsOk());
  EXPECT_EQ(GetString(api_.All(VolumeSnapshotType()).front(), {"spec", "volumeSnapshotClassName"}),
            "slow");
}

TEST_F(PvcActionTest, TheDriversErrorReachesTheUser) {
  cluster_.driver().Refuse("CreateSnapshot", "Internal", "quota used up");
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                  AllOf(HasSubstr("app/data"), HasSubstr("quota used up"))));
  EXPECT_THAT(
      SnapshotFailures(),
      ElementsAre(AllOf(testing::StartsWith("data: backup nightly has no snapshot of this PVC: "),
                        HasSubstr("quota used up"))));
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
}

TEST_F(PvcActionTest, AFailureThatNoEventCanTellIsLogged) {
  const support::ActionLog log;
  cluster_.driver().Refuse("CreateSnapshot", "Internal", "quota used up");
  api_.Forbid("get", "persistentvolumeclaims");
  EXPECT_FALSE(Execute().ok());
  EXPECT_THAT(SnapshotFailures(), IsEmpty());
  EXPECT_THAT(log.text(), HasSubstr("an event could not be written"));
}

TEST_F(PvcActionTest, WrongSettingsFailOnlyManagedVolumes) {
  support::SetPluginConfig({{"sweepOrphans", "maybe"}}, api_);
  EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sweepOrphans")));
  SetPolicy("{another: plugin}");
  EXPECT_THAT(Execute(), IsOk());
}

TEST_F(PvcActionTest, ARefusalNamesTheClaim) {
  for (const char* plural : {"configmaps", "persistentvolumes", "leases", "volumesnapshots"}) {
    api_.Forbid("*", plural);
    EXPECT_THAT(Execute(), StatusIs(absl::StatusCode::kPermissionDenied,
                                    AllOf(HasSubstr("app/data"), HasSubstr(plural))));
    api_.ClearFaults();
  }
}

TEST_F(PvcActionTest, GarbageIsRefused) {
  const auto action = MakePvcAction(env_);
  for (const Json& backup :
       {Json::object(), Json("x"), Json::array(), Json{{"metadata", {{"name", 5}}}}}) {
    EXPECT_THAT(action->Execute(ctx_, objects::Object(claim_), objects::Object(backup)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (const Json& item :
       {Json::object(), Json{{"metadata", "x"}}, Json{{"spec", {{"volumeName", 7}}}}}) {
    const auto result = RunAction(*action, item);
    EXPECT_TRUE(!result.ok() || !result->item.has_value());
  }
  EXPECT_EQ(Writes(), 0);
}

TEST_F(PvcActionTest, ReadsOncePerBackupWhatHoldsForAllOfIt) {
  const auto action = MakePvcAction(env_);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      Json claim = claim_;
      SetJson(claim, {"metadata", "name"}, absl::StrCat("data-", i));
      SetJson(claim, {"metadata", "uid"}, absl::StrCat("uid-", i));
      EXPECT_THAT(RunAction(*action, claim), IsOk());
    });
  }
  threads.clear();
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(16));
  EXPECT_EQ(api_.CallCount("get", "configmaps"), 1);
  EXPECT_EQ(api_.CallCount("list", "configmaps"), 1);
  EXPECT_EQ(api_.CallCount("list", "volumesnapshotclasses"), 1);
  EXPECT_EQ(api_.CallCount("list", "pods"), 0);
}

TEST_F(PvcActionTest, KnowsNoOperations) {
  const auto progress = AskProgress(*MakePvcAction(env_), "odd");
  ASSERT_THAT(progress, IsOk());
  EXPECT_TRUE(progress->completed);
  EXPECT_NE(progress->error, "");
  EXPECT_TRUE(progress->started.has_value());
}

// Whatever call fails, a claim that fails leaves nothing in driver or API.
TEST_F(PvcActionTest, NoFailingCallLeavesAnythingBehind) {
  int n = 1;
  for (bool hit = true; hit; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    api_.FailCall(n, absl::UnavailableError("injected"));
    const auto result = Execute();
    hit = api_.sweep_hit();
    api_.ClearFaults();
    if (!result.ok()) {
      EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
      EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
      EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
    }
    EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
    for (const Json& snapshot : api_.All(VolumeSnapshotType())) {
      EXPECT_THAT(api_.Delete(ctx_, VolumeSnapshotKey("app", k8s::Name(snapshot)), {}), IsOk());
    }
  }
  EXPECT_GT(n, 10);
}

}  // namespace
}  // namespace csidelta::backupitemactions::pvc_action_test
