// Which contents of an archive have their group deleted, and how long a slow driver is waited for;
// how groups go: tests/csi.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/group/group_deletion.h"
#include "deleteitemactions/actions.h"
#include "objects/keys.h"
#include "tests/deleteitemactions/undeleted_record.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/group_objects.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"

namespace csidelta::deleteitemactions::group_actions_test {
namespace {

using support::ActionBed;
using support::FakeSnapshotCluster;
using support::IsOk;
using support::IsOkAndHolds;
using support::MakeGroupContentObject;
using testing::IsEmpty;

k8s::ResourceType GroupContents() { return VolumeGroupSnapshotContentType("v1"); }

// What the driver of the backup holds.
void AddGroup(FakeSnapshotCluster& cluster) {
  cluster.driver().AddGroup(support::kGroupHandle, {"handle-1", "handle-2"});
}

class GroupDeletionActionsTest : public testing::Test {
 protected:
  void SetUp() override {
    bed_.clock.SetAutoAdvance(true);
    AddGroup(cluster_);
  }

  bool DriverHoldsGroup() const {
    return cluster_.driver().groups().contains(support::kGroupHandle);
  }

  ActionBed bed_;
  FakeSnapshotCluster cluster_{bed_.api};
};

// Of an archive in which members say nothing of their group.
TEST_F(GroupDeletionActionsTest, MembersAreNotDeletedOneByOne) {
  const auto action = MakeVolumeSnapshotContentAction(bed_.env, MakeGroupDeletions(bed_.env));
  for (const int n : {1, 2}) {
    Json member = support::MakeMemberContentObject(n);
    EraseJson(member, {"metadata", "annotations", objects::kGroupContentOfMemberAnnotation});
    EXPECT_THAT(action->Execute(bed_.ctx, objects::Object(member),
                                objects::Object(support::MakeBackupObject("nightly", "Deleting"))),
                IsOk());
  }
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

// The contents of a group in the archive: its own, and those of its members.
std::vector<Json> ContentsOfGroup() {
  return {MakeGroupContentObject(), support::MakeMemberContentObject(1),
          support::MakeMemberContentObject(2)};
}

// Both kinds of actions, as one process has them.
class PluginProcess {
 public:
  explicit PluginProcess(ActionBed& bed)
      : bed_(bed),
        groups_(MakeVolumeGroupSnapshotContentAction(deletions_)),
        members_(MakeVolumeSnapshotContentAction(bed.env, deletions_)) {}

  absl::Status Delete(const Json& content) {
    const bool is_group = GetString(content, {"kind"}) == "VolumeGroupSnapshotContent";
    return (is_group ? groups_ : members_)
        ->Execute(bed_.ctx, objects::Object(content),
                  objects::Object(support::MakeBackupObject("nightly", "Deleting")));
  }

 private:
  ActionBed& bed_;
  std::shared_ptr<GroupDeletions> deletions_ = MakeGroupDeletions(bed_.env);
  std::unique_ptr<velero::DeleteItemAction> groups_;
  std::unique_ptr<velero::DeleteItemAction> members_;
};

TEST_F(GroupDeletionActionsTest, EachContentOfAGroupIsEnoughAndTheDriverIsAskedOnce) {
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject("a-groups", support::kDriver, "of-another-class"));
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject(
                    "fast-groups", support::kDriver,
                    "${volumegroupsnapshot.namespace}-${volumegroupsnapshotcontent.name}"));
  std::vector<Json> contents = ContentsOfGroup();
  for (size_t first = 0; first < contents.size(); ++first) {
    AddGroup(cluster_);
    const std::size_t deletions = cluster_.driver().group_secrets().size();
    PluginProcess process(bed_);
    EXPECT_THAT(process.Delete(contents[0]), IsOk());
    EXPECT_FALSE(DriverHoldsGroup()) << first;
    for (const Json& content : contents) {
      EXPECT_THAT(process.Delete(content), IsOk());
    }
    const std::vector<std::string> secrets = cluster_.driver().group_secrets();
    ASSERT_EQ(secrets.size(), deletions + 1) << first;
    EXPECT_EQ(secrets.back(), "shop-groupsnapcontent-1") << first;
    EXPECT_THAT(bed_.api.All(GroupContents()), IsEmpty());
    std::rotate(contents.begin(), contents.begin() + 1, contents.end());
  }
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
}

// Such as a cluster with the bucket alone: Velero 1.19 repeats what returns an error.
TEST_F(GroupDeletionActionsTest, WithoutTheKindsAGroupIsRecordedOnceAndTheBackupGoes) {
  for (const char* plural :
       {"volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses"}) {
    bed_.api.RemoveType(plural);
  }
  PluginProcess process(bed_);
  for (const Json& content : ContentsOfGroup()) {
    EXPECT_THAT(process.Delete(content), IsOk());
  }
  EXPECT_THAT(UndeletedTexts(bed_.api),
              testing::ElementsAre(testing::AllOf(testing::HasSubstr(support::kGroupHandle),
                                                  testing::HasSubstr("serves no"))));
}

TEST_F(GroupDeletionActionsTest, WithoutTheDriverItsSnapshotsAreRecordedAndTheBackupGoes) {
  bed_.api.Remove(objects::CsiDriver::Key("", support::kDriver));
  EXPECT_THAT(PluginProcess(bed_).Delete(MakeGroupContentObject()), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api),
              testing::ElementsAre(testing::AllOf(
                  testing::HasSubstr(absl::StrCat("snapshots of driver ", support::kDriver)),
                  testing::HasSubstr("does not have the driver"))));
  EXPECT_THAT(bed_.api.All(GroupContents()), IsEmpty());
}

TEST_F(GroupDeletionActionsTest, AGroupWhoseArchiveNamesNoMemberIsRecorded) {
  Json content = MakeGroupContentObject();
  SetJson(content, {"status", "volumeSnapshotInfoList"}, 7);
  EXPECT_THAT(PluginProcess(bed_).Delete(content), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api), testing::ElementsAre(testing::HasSubstr("no member")));
}

TEST_F(GroupDeletionActionsTest, RightsThatAreMissingAreAnError) {
  bed_.api.Forbid("list", "volumegroupsnapshotclasses");
  EXPECT_THAT(PluginProcess(bed_).Delete(MakeGroupContentObject()),
              support::StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(UndeletedTexts(bed_.api), IsEmpty());
}

// Velero logs that the plugin died, starts another one for the next item, and forgets the backup.
TEST_F(GroupDeletionActionsTest, APluginThatDiesOverOneContentLeavesTheGroupToTheOthers) {
  std::vector<Json> contents = ContentsOfGroup();
  for (size_t first = 0; first < contents.size(); ++first) {
    for (int call = 1;; ++call) {
      ActionBed bed;
      bed.clock.SetAutoAdvance(true);
      FakeSnapshotCluster cluster(bed.api);
      AddGroup(cluster);
      int calls = 0;
      bed.api.SetInterceptor([&](const support::ApiCall&, const Json*) {
        return ++calls < call ? absl::OkStatus() : absl::PermissionDeniedError("dead");
      });
      PluginProcess dying(bed);
      const absl::Status status = dying.Delete(contents[0]);
      const bool died = calls >= call;
      EXPECT_TRUE(died || status.ok()) << status;
      bed.api.SetInterceptor(nullptr);
      PluginProcess next(bed);
      for (size_t rest = 1; rest < contents.size(); ++rest) {
        EXPECT_THAT(next.Delete(contents[rest]), IsOk());
      }
      EXPECT_THAT(cluster.driver().groups(), IsEmpty()) << first << " " << call;
      EXPECT_THAT(bed.api.All(GroupContents()), IsEmpty()) << first << " " << call;
      EXPECT_EQ(cluster.driver().CallCount("DeleteSnapshot"), 0);
      if (!died) {
        EXPECT_GT(call, 8);
        break;
      }
    }
    std::rotate(contents.begin(), contents.begin() + 1, contents.end());
  }
}

TEST_F(GroupDeletionActionsTest, WhatAMemberNotesMayBeAnything) {
  for (const char* noted : {"", "7", "[]", "{", "{}", R"({"spec": 5, "metadata": [], "status": 1})",
                            R"({"status": {"volumeGroupSnapshotHandle": "group-1"}})"}) {
    Json member = support::MakeMemberContentObject(1);
    SetJson(member, {"metadata", "annotations", objects::kGroupContentOfMemberAnnotation}, noted);
    EXPECT_THAT(PluginProcess(bed_).Delete(member), IsOk()) << noted;
  }
  EXPECT_TRUE(DriverHoldsGroup());
  EXPECT_EQ(bed_.api.CallCount("create", "volumegroupsnapshotcontents"), 0);
}

TEST_F(GroupDeletionActionsTest, ASlowDriverIsWaitedForInFullOnlyOnce) {
  cluster_.driver().AddGroup("group-2", {"handle-1", "handle-2"});
  Json second = MakeGroupContentObject();
  SetJson(second, {"metadata", "annotations", objects::kGroupSnapshotHandleAnnotation}, "group-2");
  SetJson(second, {"status", "volumeGroupSnapshotHandle"}, "group-2");
  const auto waited = [this](const Json& archived, velero::DeleteItemAction& action) {
    const absl::Time start = bed_.clock.Now();
    EXPECT_THAT(action.Execute(bed_.ctx, objects::Object(archived),
                               objects::Object(support::MakeBackupObject("nightly", "Deleting"))),
                IsOk());
    return bed_.clock.Now() - start;
  };
  const auto action = MakeVolumeGroupSnapshotContentAction(MakeGroupDeletions(bed_.env));
  EXPECT_LE(waited(second, *action), absl::Seconds(10)) << "it is quick";
  cluster_.driver().Refuse("*", "FailedPrecondition", "volume is busy");
  EXPECT_GE(waited(MakeGroupContentObject(), *action), absl::Seconds(30));
  SetJson(second, {"metadata", "annotations", objects::kGroupSnapshotHandleAnnotation}, "group-3");
  SetJson(second, {"status", "volumeGroupSnapshotHandle"}, "group-3");
  EXPECT_LE(waited(second, *action), absl::Seconds(10)) << "it was slow before";
}

TEST_F(GroupDeletionActionsTest, WithoutASidecarTheContentStandsForWhatIsToBeDone) {
  cluster_.sidecar_runs = false;
  const auto action = MakeVolumeGroupSnapshotContentAction(MakeGroupDeletions(bed_.env));
  const objects::Object backup(support::MakeBackupObject("nightly", "Deleting"));
  const absl::Time start = bed_.clock.Now();
  EXPECT_THAT(action->Execute(bed_.ctx, objects::Object(MakeGroupContentObject()), backup), IsOk());
  const absl::Time first = bed_.clock.Now();
  EXPECT_THAT(action->Execute(bed_.ctx, objects::Object(MakeGroupContentObject()), backup), IsOk());
  EXPECT_GE(first - start, absl::Seconds(30));
  EXPECT_LE(bed_.clock.Now() - first, absl::Seconds(10)) << "a slow driver is waited for once";
  EXPECT_TRUE(DriverHoldsGroup());

  cluster_.sidecar_runs = true;
  cluster_.Resync();
  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_THAT(csi::FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(1));
  EXPECT_THAT(bed_.api.All(GroupContents()), IsEmpty());
}

}  // namespace
}  // namespace csidelta::deleteitemactions::group_actions_test
