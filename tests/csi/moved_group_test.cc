#include "csi/group/moved_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/base_snapshots.h"
#include "csi/drop.h"
#include "csi/group/group_deletion.h"
#include "csi/group/group_lifecycle.h"
#include "csi/snapshot_lifecycle.h"
#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::moved_group_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kClaims = 3;
constexpr char kTakenAt[] = "2023-11-14T22:13:20Z";
constexpr char kLater[] = "2023-11-14T23:13:20Z";

class MovedGroupTest : public BackupFixture {
 protected:
  MovedGroupTest() {
    SeedClass("first-secret");
    api_.Seed(VolumeSnapshotClassType(),
              {{"metadata", {{"name", "snapshots"}}}, {"driver", "d.example.com"}});
    for (int i = 0; i < kClaims; ++i) {
      SeedClaim(i);
    }
  }

  static std::string Uid(int i) { return Claim(i).pvc_uid; }

  void SeedClass(const std::string& secret) {
    api_.Seed(VolumeGroupSnapshotClassType("v1"),
              {{"metadata", {{"name", "groups"}}},
               {"driver", "d.example.com"},
               {"parameters",
                {{objects::kGroupSnapshotterSecretName, secret},
                 {objects::kGroupSnapshotterSecretNamespace, "storage"}}}});
  }

  GroupRequest Request() const {
    GroupRequest request = RequestOfGroup(kClaims);
    request.to_be_moved = true;
    return request;
  }

  static SnapshotRequest RequestOfMember(const objects::Backup& backup, int i) {
    return {.backup = backup,
            .claim_namespace = "app",
            .claim_name = Claim(i).pvc,
            .claim_uid = Uid(i),
            .class_name = ""};
  }

  absl::StatusOr<std::map<std::string, TakenSnapshot>> Run() {
    const absl::StatusOr<TakenGroup> taken = TakeGroup(ctx_, env_, Request());
    if (!taken.ok()) {
      return taken.status();
    }
    return AdoptGroup(ctx_, env_, Request(), *taken);
  }

  std::map<std::string, std::set<std::string>> DriverGroups() const {
    return cluster_.driver().groups();
  }

  std::vector<Json> Records() const { return api_.All(VolumeGroupSnapshotContentType("v1")); }
  std::vector<Json> Contents() const { return api_.All(VolumeSnapshotContentType()); }

  void ExpectNothingLeft() {
    EXPECT_THAT(support::SnapshotObjects(api_), IsEmpty());
    EXPECT_THAT(DriverGroups(), IsEmpty());
  }

  // What the mover makes of each member: a content of its own that has become a base. Returns their
  // names.
  std::vector<std::string> Move(const std::map<std::string, TakenSnapshot>& members,
                                const std::string& snapshot_taken_at) {
    std::vector<std::string> names;
    for (const auto& [uid, member] : members) {
      const BaseOwner owner{.velero_namespace = "velero",
                            .location = "default",
                            .claim_namespace = "app",
                            .claim = uid,
                            .claim_uid = uid,
                            .cluster = "here"};
      StaticContent content;
      content.name = absl::StrCat("du-", names.size(), "-", k8s::Name(member.content.json()));
      content.driver = "d.example.com";
      content.handle = member.content.handle_or_source();
      content.deletion_policy = "Retain";
      content.labels = MovedGroupLabels(member.content);
      content.annotations = OwnerAnnotations(owner);
      content.annotations.merge(MovedGroupAnnotations(member.content));
      content.annotations["mover.csi-delta.io/group-cut-at"] = snapshot_taken_at;
      api_.Seed(VolumeSnapshotContentType(), MakeStaticContent(content).json());
      const auto bound = api_.Find(VolumeSnapshotKey("app", k8s::Name(member.snapshot.json())));
      EXPECT_THAT(DropSnapshot(ctx_, api_, support::As<objects::VolumeSnapshot>(bound.value()),
                               Data::kRetain),
                  IsOk());
      names.push_back(content.name);
    }
    return names;
  }

  // The same of a group that is taken and adopted first.
  std::vector<std::string> MoveGroup(const std::string& snapshot_taken_at) {
    return Move(Run().value(), snapshot_taken_at);
  }

  using Content = objects::VolumeSnapshotContent;
  Content ContentOf(const std::string& name) const {
    return support::As<Content>(*api_.Find(VolumeSnapshotContentKey(name)));
  }
  bool IsBase(const std::string& name) const {
    return ContentOf(name).Label(objects::kBaseLabel) == "true";
  }
  bool IsGivenUp(const std::string& name) const { return HasBeenGivenUp(ContentOf(name)); }
  void MakeBases(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      api_.SetField(VolumeSnapshotContentKey(name), {"metadata", "labels", objects::kBaseLabel},
                    "true");
    }
  }
  void Drop(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      EXPECT_THAT(DeleteContent(ctx_, api_, ContentOf(name)), IsOk());
    }
  }
  // Whatever protects them, the objects are deleted by another client.
  void DeleteContents(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      EXPECT_THAT(api_.Delete(ctx_, VolumeSnapshotContentKey(name), {}), IsOk());
    }
  }
  void Finalize(const std::string& name) {
    EXPECT_THAT(FinalizeMovedGroup(ctx_, env_, ContentOf(name)), IsOk());
  }
  void FinalizeAll() {
    for (const Json& content : Contents()) {
      EXPECT_THAT(FinalizeMovedGroup(ctx_, env_, support::As<Content>(content)), IsOk());
    }
  }
  void SetBackupUid(const std::string& uid) {
    support::SetField(backup_, {"metadata", "uid"}, uid);
  }
};

TEST_F(MovedGroupTest, AGroupBecomesSingleSnapshotsAndARecordOfAll) {
  const auto members = Run();
  ASSERT_THAT(members, IsOk());
  ASSERT_THAT(*members, SizeIs(kClaims));
  ASSERT_THAT(Records(), SizeIs(1));
  const Json record = Records().front();
  EXPECT_EQ(GetString(record, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(record, {"spec", "volumeGroupSnapshotRef", "uid"}), "");
  const auto content = support::As<objects::VolumeGroupSnapshotContent>(record);
  EXPECT_EQ(content.handle(), content.handle_or_source());
  EXPECT_THAT(content.members(), SizeIs(kClaims));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
  EXPECT_THAT(DriverGroups(), SizeIs(1));
  for (int i = 0; i < kClaims; ++i) {
    const TakenSnapshot& member = members->at(Uid(i));
    EXPECT_TRUE(IsManaged(member.snapshot, backup_));
    EXPECT_EQ(GetString(member.snapshot.json(), {"spec", "volumeSnapshotClassName"}), "snapshots");
    EXPECT_EQ(GetString(member.content.json(), {"spec", "deletionPolicy"}), "Retain");
    EXPECT_EQ(support::RestoreSizeBytes(member.content.json()), 64 << 20);
    EXPECT_EQ(MovedGroupOf(member.content), k8s::Name(record));
    EXPECT_EQ(ReadMovedGroup(member.content),
              (MovedGroup{.name = "app/db",
                          .label = "velero.io/volume-group=db",
                          .snapshot = GroupName(Request()),
                          .snapshot_taken_at = ParseRfc3339(kTakenAt),
                          .members = kClaims}));
  }
}

TEST_F(MovedGroupTest, ARecordIsOfTheVersionThatTheClusterServes) {
  cluster_.group_version = cluster_.controller_version = "v1beta2";
  GroupRequest request = Request();
  request.version = "v1beta2";
  const absl::StatusOr<TakenGroup> taken = TakeGroup(ctx_, env_, request);
  ASSERT_THAT(taken, IsOk());
  ASSERT_THAT(AdoptGroup(ctx_, env_, request, *taken), IsOk());
  const std::vector<Json> records = api_.All(VolumeGroupSnapshotContentType("v1beta2"));
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(GetString(records.front(), {"apiVersion"}), "groupsnapshot.storage.k8s.io/v1beta2");
}

TEST_F(MovedGroupTest, KeptAndMovedGroupsOfALabelHaveDifferentNames) {
  GroupRequest kept = Request();
  kept.to_be_moved = false;
  EXPECT_NE(GroupName(kept), GroupName(Request()));
  EXPECT_NE(GroupMark(kept), GroupMark(Request()));
}

TEST_F(MovedGroupTest, AGroupIsAdoptedOnlyWhenItIsReady) {
  cluster_.driver().AddFault({.method = "CreateVolumeGroupSnapshot", .not_ready = true});
  const auto members = Run();
  EXPECT_THAT(members, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("app/db")));
  ExpectNothingLeft();
  EXPECT_EQ(cluster_.driver().CallCount("DeleteVolumeGroupSnapshot"), 1);
}

TEST_F(MovedGroupTest, AnyFailingCallLeavesNothingOrEverything) {
  for (const Fault fault : {Fault::kRefused, Fault::kAnswerLost}) {
    int n = 1;
    for (bool hit = true; hit; ++n) {
      SCOPED_TRACE(absl::StrCat("call ", n, fault == Fault::kRefused ? " refused" : " lost"));
      SetBackupUid(absl::StrCat("backup-", n, fault == Fault::kRefused ? "r" : "l"));
      const auto taken = TakeGroup(ctx_, env_, Request());
      ASSERT_THAT(taken, IsOk());
      api_.FailCall(n, absl::InternalError("injected"), fault);
      const auto members = AdoptGroup(ctx_, env_, Request(), *taken);
      hit = api_.sweep_hit();
      api_.ClearFaults();
      if (!members.ok()) {
        ExpectNothingLeft();
        continue;
      }
      EXPECT_THAT(*members, SizeIs(kClaims));
      EXPECT_THAT(Records(), SizeIs(1));
      Drop(Move(*members, kTakenAt));
      Finalize(k8s::Name(Contents().front()));
      ExpectNothingLeft();
    }
    EXPECT_GT(n, 20);
  }
}

TEST_F(MovedGroupTest, FindsTheMemberOfAnInterruptedCall) {
  const auto members = Run();
  ASSERT_THAT(members, IsOk());
  const auto found = FindAdopted(ctx_, env_, RequestOfMember(backup_, 1));
  ASSERT_THAT(found, IsOk());
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->content.handle_or_source(), members->at(Uid(1)).content.handle_or_source());
  objects::Backup other = backup_;
  support::SetField(other, {"metadata", "uid"}, "another");
  const auto none = FindAdopted(ctx_, env_, RequestOfMember(other, 1));
  ASSERT_THAT(none, IsOk());
  EXPECT_FALSE(none->has_value());
}

TEST_F(MovedGroupTest, AMissingMemberIsMadeAgainFromTheRecord) {
  absl::StatusOr<TakenGroup> taken = TakeGroup(ctx_, env_, Request());
  ASSERT_THAT(taken, IsOk());
  objects::VolumeSnapshotContent& content = taken->members.at(Uid(1)).content;
  content.SetAnnotation(objects::kDeletionSecretNameAnnotation, "key");
  content.SetAnnotation(objects::kDeletionSecretNamespaceAnnotation, "vault");
  const auto members = AdoptGroup(ctx_, env_, Request(), *taken);
  ASSERT_THAT(members, IsOk());
  const TakenSnapshot first = members->at(Uid(1));
  api_.Remove(VolumeSnapshotKey("app", k8s::Name(first.snapshot.json())));
  api_.Remove(VolumeSnapshotContentKey(k8s::Name(first.content.json())));
  const auto again = ContinueAdoption(ctx_, env_, RequestOfMember(backup_, 1), "v1");
  ASSERT_THAT(again, IsOk());
  ASSERT_TRUE(again->has_value());
  for (const char* part : {"labels", "annotations"}) {
    EXPECT_EQ(*FindJson((*again)->content.json(), {"metadata", part}),
              *FindJson(first.content.json(), {"metadata", part}));
  }
  EXPECT_EQ((*again)->content.json()["spec"], first.content.json()["spec"]);
  EXPECT_EQ((*again)->content.json()["status"], first.content.json()["status"]);
  EXPECT_EQ((*again)->snapshot.json()["spec"], first.snapshot.json()["spec"]);
  EXPECT_EQ(k8s::Annotation((*again)->content.json(), objects::kDeletionSecretNameAnnotation),
            "key");
}

TEST_F(MovedGroupTest, TheDriverIsAskedOnceAndForTheWholeGroup) {
  const std::vector<std::string> names = MoveGroup(kTakenAt);
  SeedClass("rotated-secret");
  for (std::size_t i = 0; i < names.size(); ++i) {
    MakeBases({names[i]});
    Drop({names[i]});
    EXPECT_TRUE(IsGivenUp(names[i]));
    EXPECT_FALSE(IsBase(names[i]));
    EXPECT_THAT(DriverGroups(), SizeIs(1)) << "it was not continued yet";
    if (i + 1 < names.size()) {
      Finalize(names[i]);
      ASSERT_THAT(DriverGroups(), SizeIs(1)) << "a member still stands";
    }
  }
  Finalize(names.back());
  EXPECT_THAT(DriverGroups(), IsEmpty());
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(cluster_.driver().group_secrets(), testing::ElementsAre("rotated-secret"));
  ExpectNothingLeft();
}

TEST_F(MovedGroupTest, ADriverThatRefusesKeepsItsRecordUntilItAgrees) {
  const std::vector<std::string> names = MoveGroup(kTakenAt);
  Drop(names);
  cluster_.driver().Refuse("DeleteVolumeGroupSnapshot", "FailedPrecondition", "busy");
  Finalize(names.front());
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_TRUE(k8s::BeingDeleted(Records().front()));
  EXPECT_THAT(DriverGroups(), SizeIs(1));
  cluster_.LetDriverWork();
  ExpectNothingLeft();
}

TEST_F(MovedGroupTest, ASnapshotThatWasNotMovedIsGivenUpToo) {
  const auto members = Run();
  ASSERT_THAT(members, IsOk());
  for (const auto& [uid, member] : *members) {
    EXPECT_THAT(
        DeleteSnapshot(ctx_, api_, VolumeSnapshotKey("app", k8s::Name(member.snapshot.json())),
                       k8s::Uid(member.snapshot.json())),
        IsOk());
  }
  ASSERT_THAT(Contents(), SizeIs(kClaims));
  Finalize(k8s::Name(Contents().front()));
  EXPECT_THAT(DriverGroups(), IsEmpty());
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
  EXPECT_THAT(Records(), IsEmpty());
}

// The claim that failed in the newer group loses its base, so that the driver holds one group.
TEST_F(MovedGroupTest, ANewerGroupReplacesTheOlderOneWhole) {
  const std::vector<std::string> old_names = MoveGroup(kTakenAt);
  MakeBases(old_names);
  SetBackupUid("second-backup");
  const std::vector<std::string> new_names = MoveGroup(kLater);
  MakeBases({new_names[0]});
  Drop({old_names[0]});
  MakeBases({new_names[1]});
  Drop({old_names[1]});
  Finalize(new_names[1]);
  EXPECT_FALSE(IsGivenUp(old_names[2])) << "the third is on its way";
  Drop({new_names[2]});
  Finalize(new_names[2]);
  EXPECT_TRUE(IsGivenUp(old_names[2]));
  EXPECT_TRUE(IsBase(new_names[0]));
  Finalize(old_names[2]);
  EXPECT_THAT(DriverGroups(), SizeIs(1));
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_THAT(Contents(), SizeIs(kClaims));
}

// Whatever the mover did before it died, the next process releases the rest.
TEST_F(MovedGroupTest, AMoverThatDiesWhileItFinalizesIsFollowedByOneThatContinues) {
  int calls = 0;
  for (bool died = true; died; ++calls) {
    SCOPED_TRACE(absl::StrCat("dead after ", calls, " calls"));
    SetBackupUid(absl::StrCat("old-", calls));
    const std::vector<std::string> old_names = MoveGroup(kTakenAt);
    SetBackupUid(absl::StrCat("new-", calls));
    const std::vector<std::string> new_names = MoveGroup(kLater);
    MakeBases(old_names);
    MakeBases(new_names);
    int left = calls;
    api_.SetInterceptor([&left](const support::ApiCall&, const Json*) {
      return --left < 0 ? absl::UnavailableError("the process is dead") : absl::OkStatus();
    });
    // In the order in which the mover hears of them.
    (void)FinalizeMovedGroup(ctx_, env_, ContentOf(new_names.front()));
    (void)FinalizeMovedGroup(ctx_, env_, ContentOf(old_names.front()));
    died = left < 0;
    api_.ClearFaults();
    FinalizeAll();
    FinalizeAll();
    EXPECT_THAT(Records(), SizeIs(1));
    EXPECT_THAT(Contents(), SizeIs(kClaims));
    EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
    Drop(new_names);
    FinalizeAll();
    ExpectNothingLeft();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(calls, 8);
}

// A claim whose VolumeSnapshot the dead plugin did not make any more, and one whose it did.
TEST_F(MovedGroupTest, AMemberWithoutAVolumeSnapshotIsGivenUpOnceItsBackupIsOver) {
  const auto members = Run();
  ASSERT_THAT(members, IsOk());
  const Json& lost = members->at(Uid(0)).snapshot.json();
  ASSERT_TRUE(api_.Remove(VolumeSnapshotKey("app", k8s::Name(lost))));
  Json backup = {
      {"metadata", {{"name", "nightly"}, {"namespace", "velero"}, {"uid", "backup-uid"}}},
      {"status", {{"phase", "InProgress"}}}};
  api_.Seed(BackupType(), backup);
  EXPECT_THAT(FinishGroupDeletions(ctx_, env_), support::IsOkAndHolds(0));
  EXPECT_FALSE(IsGivenUp(k8s::Name(lost))) << "its backup may make one yet";
  SetJson(backup, {"status", "phase"}, "PartiallyFailed");
  api_.Seed(BackupType(), backup);
  EXPECT_THAT(FinishGroupDeletions(ctx_, env_), support::IsOkAndHolds(0));
  EXPECT_TRUE(IsGivenUp(k8s::Name(lost)));
  EXPECT_FALSE(IsGivenUp(members->at(Uid(1)).snapshot.name())) << "it has a VolumeSnapshot";
}

// A snapshot may take longer than a record may stand without its backup.
TEST_F(MovedGroupTest, ARecordOfARunningBackupStaysHoweverOldItIs) {
  DeleteContents(MoveGroup(kTakenAt));
  const Json record = Records().at(0);
  api_.Seed(BackupType(), {{"metadata",
                            {{"name", k8s::Annotation(record, "mover.csi-delta.io/group-backup")},
                             {"namespace", "velero"},
                             {"uid", k8s::Label(record, objects::kBackupUidLabel)}}},
                           {"status", {{"phase", "InProgress"}}}});
  clock_.Advance(absl::Hours(2));
  EXPECT_THAT(FinishGroupDeletions(ctx_, env_), support::IsOkAndHolds(0));
  EXPECT_THAT(DriverGroups(), SizeIs(1));
}

TEST_F(MovedGroupTest, AnAbandonedRecordIsDeletedLater) {
  const std::vector<std::string> names = MoveGroup(kTakenAt);
  clock_.Advance(absl::Hours(2));
  EXPECT_THAT(FinishGroupDeletions(ctx_, env_), support::IsOkAndHolds(0)) << "it has members";
  DeleteContents(names);
  EXPECT_THAT(FinishGroupDeletions(ctx_, env_), support::IsOkAndHolds(1));
  ExpectNothingLeft();
  ASSERT_THAT(Run(), IsOk());
  ASSERT_THAT(Records(), SizeIs(1));
}

// Another process is at it, and what it took away does not come back by being asked twice.
TEST_F(MovedGroupTest, ARecordThatIsBeingDeletedOrHasNoAgeIsLeftAlone) {
  DeleteContents(MoveGroup(kTakenAt));
  clock_.Advance(absl::Hours(2));
  const Json record = Records().at(0);
  Json going = record;
  SetJson(going, {"metadata", "deletionTimestamp"}, "2023-11-15T00:00:00Z");
  Json ageless = record;
  EraseJson(ageless, {"metadata", "creationTimestamp"});
  for (const Json& object : {going, ageless}) {
    EXPECT_THAT(
        DeleteOrphanedRecord(ctx_, env_, support::As<objects::VolumeGroupSnapshotContent>(object)),
        support::IsOkAndHolds(false));
  }
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_THAT(
      DeleteOrphanedRecord(ctx_, env_, support::As<objects::VolumeGroupSnapshotContent>(record)),
      support::IsOkAndHolds(true));
}

TEST(ReadMovedGroupTest, ASizeThatIsNoNumberIsUnknown) {
  Json content = {{"metadata", {{"labels", {{objects::kMovedGroupLabel, "record"}}}}}};
  for (const auto& [text, members] : std::map<std::string, int>{
           {"", 0}, {"3", 3}, {"3 of 4", 0}, {"many", 0}, {"99999999999999999999", 0}}) {
    SetJson(content, {"metadata", "annotations", objects::kMovedGroupSizeAnnotation}, text);
    const std::optional<MovedGroup> group =
        ReadMovedGroup(support::As<objects::VolumeSnapshotContent>(content));
    ASSERT_TRUE(group.has_value());
    EXPECT_EQ(group->members, members) << text;
  }
  EXPECT_FALSE(
      ReadMovedGroup(support::As<objects::VolumeSnapshotContent>(Json::object())).has_value());
}

TEST_F(MovedGroupTest, AGroupWithoutAMovedMemberReplacesNone) {
  const std::vector<std::string> old_names = MoveGroup(kTakenAt);
  MakeBases(old_names);
  SetBackupUid("second-backup");
  const std::vector<std::string> new_names = MoveGroup(kLater);
  Drop(new_names);
  Finalize(new_names.front());
  for (const std::string& name : old_names) {
    EXPECT_TRUE(IsBase(name));
  }
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_F(MovedGroupTest, AMemberOfNoGroupIsLeftAlone) {
  const std::vector<std::string> names = MoveGroup(kTakenAt);
  MakeBases(names);
  api_.Seed(VolumeSnapshotContentType(),
            {{"metadata",
              {{"name", "odd"},
               {"labels", {{objects::kMovedGroupLabel, ""}, {objects::kBaseLabel, "true"}}}}}});
  Finalize(names.front());
  Finalize("odd");
  EXPECT_TRUE(IsBase("odd"));
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_F(MovedGroupTest, GroupsOfOtherLocationsAreNotReplaced) {
  const std::vector<std::string> old_names = MoveGroup(kTakenAt);
  MakeBases(old_names);
  for (const std::string& name : old_names) {
    api_.Mutate(VolumeSnapshotContentKey(name), [](Json& content) {
      content["metadata"]["annotations"]["mover.csi-delta.io/location"] = "another";
    });
  }
  SetBackupUid("second-backup");
  const std::vector<std::string> new_names = MoveGroup(kLater);
  MakeBases(new_names);
  Finalize(new_names.front());
  for (const std::string& name : old_names) {
    EXPECT_FALSE(IsGivenUp(name));
  }
}

}  // namespace
}  // namespace csidelta::csi::moved_group_test
