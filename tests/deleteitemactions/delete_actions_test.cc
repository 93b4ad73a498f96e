#include <gtest/gtest.h>

#include <set>
#include <string>

#include "csi/content_deletion.h"
#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/csi/deletion_sidecar.h"
#include "tests/deleteitemactions/undeleted_record.h"
#include "tests/support/action_log.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::deleteitemactions::delete_actions_test {
namespace {

using support::ActionBed;
using support::IsOk;
using support::MakeContentObject;
using support::MakeSnapshotObject;
using testing::ElementsAre;
using testing::HasSubstr;

class DeleteActionsTest : public testing::Test {
 protected:
  void SetUp() override { bed_.clock.SetAutoAdvance(true); }

  static Json Archived(const std::string& handle = "handle-1") {
    return MakeContentObject("content", "shop", "snap", handle,
                             {{objects::kBackupNameLabel, "nightly"}});
  }

  absl::Status Delete(const Json& content) {
    return MakeVolumeSnapshotContentAction(bed_.env, MakeGroupDeletions(bed_.env))
        ->Execute(bed_.ctx, objects::Object(content),
                  objects::Object(support::MakeBackupObject("nightly", "Deleting")));
  }

  std::size_t Contents() { return bed_.api.All(VolumeSnapshotContentType()).size(); }

  support::ActionLog log_;
  ActionBed bed_;
  csi::Sidecar sidecar_{bed_.api};
};

TEST_F(DeleteActionsTest, EachActionAppliesToOneKindOfOneApiGroup) {
  const auto groups = MakeGroupDeletions(bed_.env);
  EXPECT_THAT(MakeVolumeSnapshotAction(bed_.env)->AppliesTo().included_resources,
              ElementsAre("volumesnapshots.snapshot.storage.k8s.io"));
  EXPECT_THAT(MakeVolumeSnapshotContentAction(bed_.env, groups)->AppliesTo().included_resources,
              ElementsAre("volumesnapshotcontents.snapshot.storage.k8s.io"));
  EXPECT_THAT(MakeVolumeGroupSnapshotContentAction(groups)->AppliesTo().included_resources,
              ElementsAre("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io"));
}

TEST_F(DeleteActionsTest, DriverHoldsTheSnapshotNoMore) {
  EXPECT_THAT(Delete(Archived()), IsOk());
  EXPECT_EQ(sidecar_.snapshots, std::set<std::string>{"handle-2"});
  EXPECT_EQ(Contents(), 0u);
  EXPECT_THAT(log_.text(), HasSubstr("the driver holds the snapshot no more"));
}

TEST_F(DeleteActionsTest, RefusingDriverIsNamedAndFinishesLater) {
  sidecar_.refuses = true;
  EXPECT_THAT(Delete(Archived()), IsOk());
  ASSERT_EQ(Contents(), 1u);
  const Json content = bed_.api.All(VolumeSnapshotContentType())[0];
  EXPECT_TRUE(k8s::BeingDeleted(content));
  EXPECT_THAT(log_.text(), HasSubstr("handle-1"));
  EXPECT_THAT(log_.text(), HasSubstr(support::kDriver));
  EXPECT_THAT(csi::FinishSnapshotDeletions(bed_.ctx, bed_.env), support::IsOkAndHolds(0));
  EXPECT_THAT(log_.text(), testing::Not(HasSubstr("no more")));

  sidecar_.refuses = false;
  sidecar_.Sync(bed_.api, content);
  EXPECT_THAT(csi::FinishSnapshotDeletions(bed_.ctx, bed_.env), support::IsOkAndHolds(1));
  EXPECT_EQ(Contents(), 0u);
  EXPECT_EQ(sidecar_.snapshots.count("handle-1"), 0u);
}

TEST_F(DeleteActionsTest, SlowDriverIsWaitedForInFullOnlyOnce) {
  sidecar_.refuses = true;
  const auto action = MakeVolumeSnapshotContentAction(bed_.env, MakeGroupDeletions(bed_.env));
  const objects::Object backup(support::MakeBackupObject("nightly", "Deleting"));
  const absl::Time start = bed_.clock.Now();
  EXPECT_THAT(action->Execute(bed_.ctx, objects::Object(Archived("handle-1")), backup), IsOk());
  const absl::Time first = bed_.clock.Now();
  EXPECT_THAT(action->Execute(bed_.ctx, objects::Object(Archived("handle-2")), backup), IsOk());
  EXPECT_GE(first - start, absl::Seconds(30));
  EXPECT_LE(bed_.clock.Now() - first, absl::Seconds(2));
}

TEST_F(DeleteActionsTest, SnapshotsOfADriverThatIsNotInstalledAreRecordedInOneEntry) {
  bed_.api.Remove(objects::CsiDriver::Key("", support::kDriver));
  EXPECT_THAT(Delete(Archived("handle-1")), IsOk());
  EXPECT_THAT(Delete(Archived("handle-2")), IsOk());
  EXPECT_EQ(Contents(), 0u);
  EXPECT_THAT(
      UndeletedTexts(bed_.api),
      ElementsAre(testing::AllOf(HasSubstr("snapshots of driver hostpath.csi.k8s.io"),
                                 HasSubstr("where it is, csi-delta doctor names what stays"))));
}

// As Velero 1.17 and 1.18 take groups: the archive has the members alone, and the sidecar lets
// their contents go without asking the driver.
TEST_F(DeleteActionsTest, AMemberOfAForeignGroupIsNotSaidToBeGone) {
  ActionBed bed;
  bed.clock.SetAutoAdvance(true);
  support::FakeSnapshotCluster cluster(bed.api);
  cluster.driver().AddGroup("group-1", {"handle-1"});
  EXPECT_THAT(MakeVolumeSnapshotContentAction(bed.env, MakeGroupDeletions(bed.env))
                  ->Execute(bed.ctx, objects::Object(Archived()),
                            objects::Object(support::MakeBackupObject("nightly", "Deleting"))),
              IsOk());
  EXPECT_TRUE(cluster.driver().groups().contains("group-1"));
  EXPECT_THAT(bed.api.All(VolumeSnapshotContentType()), testing::IsEmpty());
  EXPECT_THAT(UndeletedTexts(bed.api), ElementsAre(HasSubstr("member of a group")));
  EXPECT_THAT(log_.text(), testing::Not(HasSubstr("no more")));
}

TEST_F(DeleteActionsTest, WithoutTheKindsASnapshotIsRecordedAndTheBackupGoes) {
  bed_.api.RemoveType("volumesnapshotcontents");
  EXPECT_THAT(Delete(Archived()), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api),
              ElementsAre(testing::AllOf(HasSubstr("handle-1"), HasSubstr(support::kDriver))));
}

// The kinds are there: an object that went meanwhile says nothing of the driver's snapshot.
TEST_F(DeleteActionsTest, AnObjectThatWasNotFoundIsAnErrorForAnotherTry) {
  bed_.api.FailNext("create", "volumesnapshotcontents", absl::NotFoundError("gone"));
  EXPECT_THAT(Delete(Archived()), support::StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(UndeletedTexts(bed_.api), testing::IsEmpty());
}

class VolumeSnapshotDeleteTest : public DeleteActionsTest {
 protected:
  absl::Status DeleteSnapshot(const Json& snapshot) {
    return MakeVolumeSnapshotAction(bed_.env)->Execute(
        bed_.ctx, objects::Object(snapshot),
        objects::Object(support::MakeBackupObject("nightly", "Deleting")));
  }
};

TEST_F(VolumeSnapshotDeleteTest, RemovesTheVeryObjectThatWasArchived) {
  const Json snapshot =
      MakeSnapshotObject("shop", "snap", "content", {{objects::kBackupNameLabel, "nightly"}});
  bed_.api.Seed(VolumeSnapshotType(), snapshot);
  bed_.api.Seed(VolumeSnapshotContentType(), Archived());
  EXPECT_THAT(DeleteSnapshot(snapshot), IsOk());
  EXPECT_TRUE(bed_.api.All(VolumeSnapshotType()).empty());
  EXPECT_THAT(DeleteSnapshot(snapshot), IsOk());
}

TEST_F(VolumeSnapshotDeleteTest, LeavesOthersAlone) {
  const support::Strings own = {{objects::kBackupNameLabel, "nightly"}};
  Json other_uid = MakeSnapshotObject("shop", "a", "content", own);
  bed_.api.Seed(VolumeSnapshotType(), other_uid);
  SetJson(other_uid, {"metadata", "uid"}, "another");
  const Json user_made = MakeSnapshotObject("shop", "b", "content");
  const Json foreign =
      MakeSnapshotObject("shop", "c", "content", {{objects::kBackupNameLabel, "weekly"}});
  const Json restored = MakeSnapshotObject(
      "shop", "d", "content",
      {{objects::kBackupNameLabel, "nightly"}, {objects::kRestoreNameLabel, "r1"}});
  for (const Json& snapshot : {user_made, foreign, restored}) {
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
  }
  for (const Json& snapshot : {other_uid, user_made, foreign, restored}) {
    EXPECT_THAT(DeleteSnapshot(snapshot), IsOk());
  }
  EXPECT_EQ(bed_.api.All(VolumeSnapshotType()).size(), 4u);
}

}  // namespace
}  // namespace csidelta::deleteitemactions::delete_actions_test
