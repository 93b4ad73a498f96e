#include "csi/group/group_deletion.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/action_log.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/group_objects.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::group_deletion_test {
namespace {

using support::ActionBed;
using support::FakeApiClient;
using support::FakeSnapshotCluster;
using support::IsOk;
using support::IsOkAndHolds;
using support::MakeGroupContentObject;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

k8s::ResourceType GroupContents() { return VolumeGroupSnapshotContentType("v1"); }
k8s::ResourceType Groups() { return VolumeGroupSnapshotType("v1"); }

const support::Strings kOfRestore = {{objects::kBackupNameLabel, "nightly"},
                                     {objects::kRestoreNameLabel, "r1"}};

// What a restore made of member `n`: bound, in namespace "shop-2".
void SeedRestoredMember(FakeApiClient& api, int n) {
  const std::string name = absl::StrCat("restored-", n);
  Json snapshot = support::MakeSnapshotObject("shop-2", name, name, kOfRestore);
  SetJson(snapshot, {"spec", "source"}, Json{{"volumeSnapshotContentName", name}});
  api.Seed(VolumeSnapshotType(), snapshot);
  Json content =
      support::MakeContentObject(name, "shop-2", name, absl::StrCat("handle-", n), kOfRestore);
  SetJson(content, {"spec", "source"}, Json{{"snapshotHandle", absl::StrCat("handle-", n)}});
  SetJson(content, {"spec", "deletionPolicy"}, "Retain");
  api.Seed(VolumeSnapshotContentType(), content);
}

// What a restore made of the group, with the settings that ask for it.
void SeedRestoredGroup(FakeApiClient& api) {
  Json group = support::MakeObject("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot",
                                   "shop-2", "restored", kOfRestore);
  SetJson(group, {"metadata", "uid"}, "restored-uid");
  SetJson(group, {"spec", "source", "volumeGroupSnapshotContentName"}, "restored");
  api.Seed(Groups(), group);
  Json content = MakeGroupContentObject();
  SetJson(content, {"metadata", "name"}, "restored");
  SetJson(content, {"metadata", "uid"}, "restored-content-uid");
  SetJson(content, {"metadata", "labels"},
          support::Strings{{objects::kBackupNameLabel, "nightly"},
                           {objects::kRestoreUidLabel, "restore-uid"}});
  SetJson(content, {"metadata", "finalizers"},
          Json::array({objects::kGroupContentBoundProtectionFinalizer}));
  SetJson(content, {"spec", "source"},
          Json{{"groupSnapshotHandles",
                {{"volumeGroupSnapshotHandle", support::kGroupHandle},
                 {"volumeSnapshotHandles", {"handle-1", "handle-2"}}}}});
  SetJson(content, {"spec", "deletionPolicy"}, "Retain");
  SetJson(content, {"spec", "volumeGroupSnapshotRef"},
          Json{{"namespace", "shop-2"}, {"name", "restored"}, {"uid", "restored-uid"}});
  api.Seed(GroupContents(), content);
}

void SeedClaim(FakeApiClient& api, const std::string& phase, const std::string& source) {
  Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop-2", "data");
  SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", source}});
  SetJson(claim, {"status", "phase"}, phase);
  api.Seed(PersistentVolumeClaimType(), claim);
}

// What the driver of the backup holds.
void AddGroup(FakeSnapshotCluster& cluster) {
  cluster.driver().AddGroup(support::kGroupHandle, {"handle-1", "handle-2"});
}

absl::StatusOr<DeletionResult> DeleteGroup(ActionBed& bed, const Json& archived) {
  const auto backup =
      support::As<objects::Backup>(support::MakeBackupObject("nightly", "Deleting"));
  return DeleteGroupOfBackup(bed.ctx, bed.env,
                             support::As<objects::VolumeGroupSnapshotContent>(archived), backup,
                             absl::Seconds(30));
}

// A bed of its own for each round of a loop: a cluster whose driver holds the group.
struct GroupBed : ActionBed {
  GroupBed() {
    clock.SetAutoAdvance(true);
    AddGroup(cluster);
  }
  absl::StatusOr<DeletionResult> Delete(const Json& archived = MakeGroupContentObject()) {
    return DeleteGroup(*this, archived);
  }
  FakeSnapshotCluster cluster{api};
};

class GroupDeletionTest : public testing::Test {
 protected:
  void SetUp() override {
    bed_.clock.SetAutoAdvance(true);
    AddGroup(cluster_);
    cluster_.driver().AddGroup("other", {"x"});
  }

  absl::StatusOr<DeletionResult> Delete(const Json& archived) {
    return DeleteGroup(bed_, archived);
  }

  static Json ArchivedWithSecret() {
    Json archived = MakeGroupContentObject();
    Json& annotations = archived["metadata"]["annotations"];
    annotations[objects::kGroupDeletionSecretNameAnnotation] = "old";
    annotations[objects::kGroupDeletionSecretNamespaceAnnotation] = "vault";
    return archived;
  }

  bool DriverHoldsGroup() const {
    return cluster_.driver().groups().contains(support::kGroupHandle);
  }

  // What was deleted through the API, in order.
  std::vector<std::string> Deleted() {
    std::vector<std::string> names;
    for (const support::ApiCall& call : bed_.api.calls()) {
      if (call.verb == "delete") {
        names.push_back(call.plural + " " + call.name);
      }
    }
    return names;
  }

  ActionBed bed_;
  support::ActionLog log_;
  FakeSnapshotCluster cluster_{bed_.api};
};

TEST_F(GroupDeletionTest, DeletesTheDriversGroup) {
  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());
  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_TRUE(cluster_.driver().groups().contains("other"));
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(bed_.api.All(GroupContents()), IsEmpty());
}

TEST_F(GroupDeletionTest, TheTemporaryContentCarriesAllThatDeletionNeeds) {
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject("other", "other.driver", "foreign"));
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject("fast-groups", support::kDriver));
  Json made;
  Json at_its_end;
  bed_.api.OnCreate("volumegroupsnapshotcontents",
                    [&made](FakeApiClient&, const Json& object) { made = object; });
  bed_.api.OnEvent("volumegroupsnapshotcontents",
                   [&at_its_end](FakeApiClient&, const k8s::WatchEvent& event) {
                     if (k8s::BeingDeleted(event.object) && at_its_end.is_null()) {
                       at_its_end = event.object;
                     }
                   });

  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());

  EXPECT_EQ(k8s::Name(made), GroupDeletionContentName(support::kDriver, support::kGroupHandle));
  const Json source = {{"groupSnapshotHandles",
                        {{"volumeGroupSnapshotHandle", support::kGroupHandle},
                         {"volumeSnapshotHandles", {"handle-1", "handle-2"}}}}};
  EXPECT_EQ(*FindJson(made, {"spec", "source"}), source);
  EXPECT_EQ(GetString(made, {"spec", "deletionPolicy"}), "Delete");
  EXPECT_EQ(GetString(made, {"spec", "volumeGroupSnapshotClassName"}), "fast-groups");
  EXPECT_EQ(GetString(made, {"spec", "volumeGroupSnapshotRef", "uid"}), "");
  EXPECT_EQ(GetString(made, {"spec", "volumeGroupSnapshotRef", "namespace"}),
            support::kVeleroNamespace);
  EXPECT_EQ(
      *FindJson(made, {"metadata", "finalizers"}),
      Json::array({objects::kGroupContentBoundProtectionFinalizer, objects::kDeletionFinalizer}));
  EXPECT_EQ(GetString(at_its_end, {"status", "volumeGroupSnapshotHandle"}), support::kGroupHandle);
}

TEST_F(GroupDeletionTest, TheSecretIsThatOfTheClassThatFitsNow) {
  const Json archived = ArchivedWithSecret();
  EXPECT_THAT(Delete(archived), IsOk());

  AddGroup(cluster_);
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject("a-groups", support::kDriver, "of-another-class"));
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject("fast-groups", support::kDriver,
                                              "${volumegroupsnapshot.namespace}-key"));
  EXPECT_THAT(Delete(archived), IsOk());
  EXPECT_THAT(cluster_.driver().group_secrets(), ElementsAre("old", "shop-key"));
}

TEST_F(GroupDeletionTest, ACorrectedClassFinishesAPendingDeletion) {
  const Json archived = ArchivedWithSecret();
  cluster_.driver().Refuse("DeleteVolumeGroupSnapshot", "Unauthenticated",
                           "the key is not valid any more");
  EXPECT_THAT(Delete(archived), IsOk());
  ASSERT_TRUE(DriverHoldsGroup());
  cluster_.driver().ClearFaults();
  bed_.api.Seed(VolumeGroupSnapshotClassType("v1"),
                support::MakeGroupClassObject("fast-groups", support::kDriver, "new"));
  EXPECT_THAT(Delete(archived), IsOk());
  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_THAT(cluster_.driver().group_secrets(), ElementsAre("new"));
}

TEST_F(GroupDeletionTest, DeletesRestoredObjectsFirstAndTheGroupBeforeItsMembers) {
  SeedRestoredGroup(bed_.api);
  SeedRestoredMember(bed_.api, 1);
  SeedRestoredMember(bed_.api, 2);
  SeedClaim(bed_.api, "Bound", "restored-1");

  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());

  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(Deleted(),
              ElementsAre("volumegroupsnapshots restored", "volumegroupsnapshotcontents restored",
                          "volumesnapshots restored-1", "volumesnapshotcontents restored-1",
                          "volumesnapshots restored-2", "volumesnapshotcontents restored-2",
                          "volumegroupsnapshotcontents " +
                              GroupDeletionContentName(support::kDriver, support::kGroupHandle)));
  EXPECT_THAT(support::SnapshotObjects(bed_.api), IsEmpty());
}

TEST_F(GroupDeletionTest, DeletesOriginalsThatAreLeft) {
  Json group = support::MakeGroupObject();
  SetJson(group, {"status", "readyToUse"}, true);
  bed_.api.Seed(Groups(), group);
  bed_.api.Seed(GroupContents(), MakeGroupContentObject());
  for (const int n : {1, 2}) {
    Json snapshot = support::MakeMemberObject(n);
    SetJson(snapshot, {"status", "readyToUse"}, true);
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    bed_.api.Seed(VolumeSnapshotContentType(), support::MakeMemberContentObject(n));
  }
  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());
  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_EQ(cluster_.driver().group_secrets().size(), 1u) << "the driver is asked once";
  EXPECT_THAT(support::SnapshotObjects(bed_.api), IsEmpty());
}

TEST_F(GroupDeletionTest, ForeignContentsOfTheSameHandlesStay) {
  Json mine = MakeGroupContentObject();
  SetJson(mine, {"metadata", "name"}, "mine");
  SetJson(mine, {"metadata", "labels"}, support::Strings{});
  bed_.api.Seed(GroupContents(), mine);
  Json of_another_backup = support::MakeContentObject(
      "theirs", "shop-2", "theirs", "handle-1",
      {{objects::kBackupNameLabel, "weekly"}, {objects::kRestoreNameLabel, "r2"}});
  bed_.api.Seed(VolumeSnapshotContentType(), of_another_backup);
  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());
  EXPECT_EQ(bed_.api.All(GroupContents()).size(), 1u);
  EXPECT_EQ(bed_.api.All(VolumeSnapshotContentType()).size(), 1u);
}

TEST_F(GroupDeletionTest, IgnoresGroupsThatTheBackupDidNotMake) {
  Json foreign = MakeGroupContentObject();
  SetJson(foreign, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
  Json of_a_user = MakeGroupContentObject();
  EraseJson(of_a_user, {"metadata", "labels", objects::kGroupNameLabel});
  Json restored = MakeGroupContentObject();
  SetJson(restored, {"metadata", "labels", objects::kRestoreNameLabel}, "r1");
  Json without_handle = MakeGroupContentObject();
  EraseJson(without_handle, {"status"});
  EraseJson(without_handle, {"metadata", "annotations"});
  Json wrong_types = MakeGroupContentObject();
  SetJson(wrong_types, {"spec"}, "text");
  SetJson(wrong_types, {"status"}, Json::array());
  for (const Json& content : {foreign, of_a_user, restored, without_handle, wrong_types}) {
    EXPECT_THAT(Delete(content), IsOk());
  }
  Json without_members = MakeGroupContentObject();
  SetJson(without_members, {"status", "volumeSnapshotInfoList"}, 7);
  EXPECT_THAT(Delete(without_members),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("names no member")));
  EXPECT_TRUE(DriverHoldsGroup());
  EXPECT_EQ(bed_.api.CallCount("create", "volumegroupsnapshotcontents"), 0);
}

TEST_F(GroupDeletionTest, ReadsTheMembersFromTheAnnotation) {
  Json archived = MakeGroupContentObject();
  EraseJson(archived, {"status"});
  SetJson(archived, {"metadata", "annotations", objects::kGroupMembersAnnotation},
          R"([{"snapshotHandle": "handle-1"}, {"snapshotHandle": "handle-2"}, 5, {}])");
  EXPECT_THAT(Delete(archived), IsOk());
  EXPECT_FALSE(DriverHoldsGroup());
}

TEST_F(GroupDeletionTest, AClaimBeingFilledKeepsTheGroupForNow) {
  SeedRestoredGroup(bed_.api);
  SeedRestoredMember(bed_.api, 1);
  SeedRestoredMember(bed_.api, 2);
  SeedClaim(bed_.api, "Pending", "restored-2");

  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());
  EXPECT_THAT(Deleted(), IsEmpty());
  EXPECT_THAT(FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(0));
  EXPECT_TRUE(DriverHoldsGroup());

  SeedClaim(bed_.api, "Bound", "restored-2");
  EXPECT_THAT(FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(1));
  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_THAT(support::SnapshotObjects(bed_.api), IsEmpty());
}

TEST_F(GroupDeletionTest, FinishesOnlyManagedContents) {
  Json namesake = MakeGroupContentObject();
  SetJson(namesake, {"metadata", "name"}, "csi-delta-delete-group-1");
  SetJson(namesake, {"metadata", "labels", objects::kCsiDeltaLabel}, support::kVeleroNamespace);
  bed_.api.Seed(GroupContents(), namesake);
  Json of_another_velero = MakeGroupContentObject();
  SetJson(of_another_velero, {"metadata", "name"},
          GroupDeletionContentName(support::kDriver, support::kGroupHandle));
  SetJson(of_another_velero, {"metadata", "labels", objects::kCsiDeltaLabel}, "velero-2");
  bed_.api.Seed(GroupContents(), of_another_velero);
  EXPECT_THAT(FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(0));
  EXPECT_EQ(bed_.api.All(GroupContents()).size(), 2u);
}

TEST_F(GroupDeletionTest, WithoutTheKindsThereIsNothingToFinishAndNothingCanBeDeleted) {
  for (const char* plural :
       {"volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses"}) {
    bed_.api.RemoveType(plural);
  }
  EXPECT_THAT(FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(0));
  EXPECT_THAT(Delete(MakeGroupContentObject()),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr(support::kGroupHandle)));
}

// The sidecar tells in a content what the driver said when it was asked about the group, and never
// what it said when it was asked to delete it.
TEST_F(GroupDeletionTest, ADriverThatRefusesIsNamedAndFinishesLater) {
  cluster_.driver().Refuse("*", "FailedPrecondition", "volume is busy");
  EXPECT_THAT(Delete(MakeGroupContentObject()), IsOk());
  ASSERT_EQ(bed_.api.All(GroupContents()).size(), 1u);
  EXPECT_TRUE(k8s::BeingDeleted(bed_.api.All(GroupContents())[0]));
  for (const char* part : {support::kGroupHandle, support::kDriver, "volume is busy"}) {
    EXPECT_THAT(log_.text(), HasSubstr(part));
  }
  EXPECT_THAT(FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(0));
  EXPECT_THAT(log_.text(), testing::Not(HasSubstr("no more")));
  cluster_.LetDriverWork();
  EXPECT_FALSE(DriverHoldsGroup());
  EXPECT_THAT(FinishGroupDeletions(bed_.ctx, bed_.env), IsOkAndHolds(1));
  EXPECT_THAT(bed_.api.All(GroupContents()), IsEmpty());
}

TEST_F(GroupDeletionTest, AnArchiveOfOneVersionIsDeletedWhereAnotherIsServed) {
  struct Crossing {
    const char* archived;
    const char* served;
  };
  for (const Crossing& crossing : {Crossing{"v1beta1", "v1"}, Crossing{"v1beta2", "v1"},
                                   Crossing{"v1", "v1beta1"}, Crossing{"v1", "v1beta2"}}) {
    GroupBed bed;
    bed.cluster.group_version = crossing.served;
    for (const char* plural :
         {"volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses"}) {
      bed.api.ServeVersion(plural, crossing.served);
    }
    EXPECT_THAT(bed.Delete(MakeGroupContentObject(crossing.archived)), IsOk())
        << crossing.archived << " to " << crossing.served;
    EXPECT_THAT(bed.cluster.driver().groups(), IsEmpty())
        << crossing.archived << " to " << crossing.served;
    EXPECT_THAT(FinishGroupDeletions(bed.ctx, bed.env), IsOkAndHolds(0));
  }
}

TEST_F(GroupDeletionTest, TwoProcessesAtOnceAgree) {
  // The other process runs from beginning to end while this one is between two calls.
  const int calls = [] {
    GroupBed bed;
    SeedRestoredGroup(bed.api);
    SeedRestoredMember(bed.api, 1);
    EXPECT_THAT(bed.Delete(), IsOk());
    return static_cast<int>(bed.api.calls().size());
  }();
  for (int at = 1; at <= calls; ++at) {
    GroupBed bed;
    SeedRestoredGroup(bed.api);
    SeedRestoredMember(bed.api, 1);
    int count = 0;
    bed.api.SetInterceptor([&](const support::ApiCall&, const Json*) {
      if (++count == at) {
        EXPECT_THAT(bed.Delete(), IsOk());
      }
      return absl::OkStatus();
    });
    EXPECT_THAT(bed.Delete(), IsOk()) << at;
    EXPECT_THAT(bed.cluster.driver().groups(), IsEmpty()) << at;
    EXPECT_THAT(support::SnapshotObjects(bed.api), IsEmpty()) << at;
  }
}

// Whatever call fails, the group is deleted at once or when Velero asks again.
TEST_F(GroupDeletionTest, SurvivesAnyFailingCall) {
  for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
    for (int call = 1;; ++call) {
      GroupBed bed;
      SeedRestoredGroup(bed.api);
      SeedRestoredMember(bed.api, 1);
      SeedRestoredMember(bed.api, 2);
      bed.api.FailCall(call, absl::UnavailableError("connection lost"), fault);
      const auto status = bed.Delete();
      if (!bed.api.sweep_hit()) {
        EXPECT_GT(call, 15);
        break;
      }
      bed.api.ClearFaults();
      if (!status.ok()) {
        EXPECT_THAT(bed.Delete(), IsOk()) << call;
      }
      EXPECT_THAT(bed.cluster.driver().groups(), IsEmpty()) << call;
      EXPECT_THAT(support::SnapshotObjects(bed.api), IsEmpty()) << call;
    }
  }
}

// A call that died before it deleted what it had made, and Velero, which never asks again.
TEST_F(GroupDeletionTest, ALaterBackupFinishesTheDeletionOfADeadCall) {
  for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
    bool made = false;
    for (int call = 1; call < 12; ++call) {
      GroupBed bed;
      bed.api.FailCall(call, absl::UnavailableError("connection lost"), fault);
      const auto status = bed.Delete();
      bed.api.ClearFaults();
      if (!status.ok() && !bed.api.All(GroupContents()).empty()) {
        made = true;
        EXPECT_THAT(FinishGroupDeletions(bed.ctx, bed.env), IsOk());
        EXPECT_THAT(bed.cluster.driver().groups(), IsEmpty()) << call;
      }
    }
    EXPECT_TRUE(made);
  }
}

}  // namespace
}  // namespace csidelta::csi::group_deletion_test
