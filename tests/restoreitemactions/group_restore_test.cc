#include "restoreitemactions/group_restore.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "k8s/object.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "tests/support/action_log.h"
#include "tests/support/group_objects.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions::group_restore_test {
namespace {

using support::ActionBed;
using support::IsOk;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using velero::ResourceIdentifier;
using velero::RestoreItemResult;

constexpr char kGroupApi[] = "groupsnapshot.storage.k8s.io";
constexpr const char* kPlurals[] = {"volumegroupsnapshots", "volumegroupsnapshotcontents",
                                    "volumegroupsnapshotclasses"};

class GroupRestoreTest : public testing::Test {
 protected:
  void SetUp() override {
    bed_.clock.SetAutoAdvance(true);
    restore_ = support::MakeRestoreObject("r1", "nightly");
    SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
  }

  RestoreItemResult Run(velero::RestoreItemAction& action, const Json& from_backup) {
    return Run(action, from_backup, from_backup);
  }
  RestoreItemResult Run(velero::RestoreItemAction& action, Json item, const Json& from_backup) {
    EraseJson(item, {"status"});
    const auto result = action.Execute(bed_.ctx, objects::Object(item),
                                       objects::Object(from_backup), objects::Object(restore_));
    EXPECT_THAT(result, IsOk());
    return result.value_or(RestoreItemResult());
  }

  void AskForGroups() { support::SetPluginConfig({{"groupRestore", "preprovisioned"}}, bed_.api); }

  void Serve(const std::string& version) {
    for (const char* plural : kPlurals) {
      bed_.api.ServeVersion(plural, version);
    }
  }

  std::vector<Json> GroupContents() { return bed_.api.All(VolumeGroupSnapshotContentType("v1")); }
  void SeedClass(const Json& group_class) {
    bed_.api.Seed(VolumeGroupSnapshotClassType("v1"), group_class);
  }

  static std::string RestoredName() {
    return RestoredGroupName("restore-uid", "shop", support::kGroupName);
  }
  static std::string PlaceholderName() {
    return velero::RestoredSnapshotName("restore-uid", support::kGroupHandle);
  }

  // The group as a user made it.
  static Json UsersGroup() {
    Json group = support::MakeGroupObject();
    SetJson(group, {"metadata", "name"}, "mine");
    SetJson(group, {"metadata", "labels"}, support::Strings{{"app", "db"}});
    return group;
  }
  static Json UsersContent() {
    Json content = support::MakeGroupContentObject();
    EraseJson(content, {"metadata", "labels"});
    SetJson(content, {"spec", "volumeGroupSnapshotRef", "name"}, "mine");
    return content;
  }

  support::ActionLog log_;
  ActionBed bed_;
  Json restore_;
  std::unique_ptr<velero::RestoreItemAction> snapshots_ = MakeVolumeSnapshotAction(bed_.env);
  std::unique_ptr<velero::RestoreItemAction> contents_ = MakeVolumeSnapshotContentAction(bed_.env);
  std::unique_ptr<velero::RestoreItemAction> groups_ = MakeVolumeGroupSnapshotAction(bed_.env);
  std::unique_ptr<velero::RestoreItemAction> group_contents_ =
      MakeVolumeGroupSnapshotContentAction(bed_.env);
  std::unique_ptr<velero::RestoreItemAction> classes_ =
      MakeVolumeGroupSnapshotClassAction(bed_.env);
};

// --- Members as single volume snapshots

TEST_F(GroupRestoreTest, NothingOfTheGroupStandsOnAMemberThatComesBackAlone) {
  const RestoreItemResult snapshot = Run(*snapshots_, support::MakeMemberObject(1));
  ASSERT_TRUE(snapshot.item.has_value());
  EXPECT_EQ(k8s::Name(snapshot.item->json()),
            velero::RestoredSnapshotName("restore-uid", "snap-1"));
  for (const char* key : {objects::kGroupNameLabel, objects::kGroupSnapshotHandleAnnotation}) {
    EXPECT_EQ(k8s::Annotation(snapshot.item->json(), key), "") << key;
  }
  EXPECT_EQ(*FindJson(snapshot.item->json(), {"metadata", "finalizers"}),
            Json::array({objects::kSnapshotBoundProtectionFinalizer}));

  const RestoreItemResult content = Run(*contents_, support::MakeMemberContentObject(1));
  ASSERT_TRUE(content.item.has_value());
  EXPECT_EQ(k8s::Label(content.item->json(), objects::kGroupNameLabel), "");
  for (const char* key :
       {objects::kGroupHandleOfMemberAnnotation, objects::kGroupContentOfMemberAnnotation}) {
    EXPECT_EQ(k8s::Annotation(content.item->json(), key), "") << key;
  }
  EXPECT_EQ(GetString(content.item->json(), {"spec", "source", "snapshotHandle"}), "handle-1");
  EXPECT_FALSE(content.skip_restore);
}

// Velero's own action ran first and left the marks.
TEST_F(GroupRestoreTest, AMemberThatVeleroHasBoundLosesItsMarksToo) {
  Json item = support::MakeMemberObject(1);
  const std::string name = velero::RestoredSnapshotName("restore-uid", "snap-1");
  SetJson(item, {"metadata", "name"}, name);
  SetJson(item, {"spec"}, Json{{"source", {{"volumeSnapshotContentName", name}}}});
  const RestoreItemResult result = Run(*snapshots_, item, support::MakeMemberObject(1));
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(*FindJson(result.item->json(), {"metadata", "finalizers"}),
            Json::array({objects::kSnapshotBoundProtectionFinalizer}));
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kGroupNameLabel), "");
}

TEST_F(GroupRestoreTest, ManagedGroupsAreLeftOut) {
  EXPECT_TRUE(Run(*groups_, support::MakeGroupObject()).skip_restore);
  EXPECT_TRUE(Run(*group_contents_, support::MakeGroupContentObject()).skip_restore);
  EXPECT_THAT(GroupContents(), IsEmpty());
}

TEST_F(GroupRestoreTest, AContentStandsInForTheGroupThatADriverTellsOf) {
  SeedClass(support::MakeGroupClassObject("groups", support::kDriver));
  EXPECT_FALSE(Run(*snapshots_, support::MakeMemberObject(1)).skip_restore);
  EXPECT_FALSE(Run(*snapshots_, support::MakeMemberObject(2)).skip_restore);

  ASSERT_EQ(GroupContents().size(), 1u) << "one for all members";
  const Json stand_in = GroupContents()[0];
  EXPECT_EQ(k8s::Name(stand_in), PlaceholderName());
  EXPECT_EQ(GetString(stand_in, {"status", "volumeGroupSnapshotHandle"}), support::kGroupHandle);
  EXPECT_EQ(GetString(stand_in, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(stand_in, {"spec", "driver"}), support::kDriver);
  EXPECT_EQ(GetString(stand_in, {"spec", "volumeGroupSnapshotClassName"}), "groups");
  EXPECT_EQ(GetString(stand_in, {"spec", "volumeGroupSnapshotRef", "namespace"}), "shop-2");
  EXPECT_EQ(k8s::Label(stand_in, objects::kRestoreNameLabel), "r1");
  EXPECT_EQ(k8s::Label(stand_in, objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(FindJson(stand_in, {"metadata", "finalizers"}), nullptr);
}

TEST_F(GroupRestoreTest, ThePlaceholderOfVelerosActionIsUsed) {
  Json stub = support::MakeObject(support::GroupApiVersion("v1"), "VolumeGroupSnapshotContent", "",
                                  PlaceholderName(), {{objects::kRestoreNameLabel, "r1"}});
  SetJson(stub, {"status", "volumeGroupSnapshotHandle"}, support::kGroupHandle);
  bed_.api.Seed(VolumeGroupSnapshotContentType("v1"), stub);
  Run(*snapshots_, support::MakeMemberObject(1));
  EXPECT_EQ(bed_.api.CallCount("create", "volumegroupsnapshotcontents"), 0);
  EXPECT_EQ(bed_.api.CallCount("patch", "volumegroupsnapshotcontents"), 0);
}

// The sidecar had asked the driver already: its complaint takes the place of what was written.
TEST_F(GroupRestoreTest, AComplaintThatComesLateDoesNotTakeTheHandleAway) {
  int complaints = 0;
  bed_.api.OnEvent("volumegroupsnapshotcontents", [&](support::FakeApiClient& api,
                                                      const k8s::WatchEvent& event) {
    if (event.kind == k8s::WatchEvent::Kind::kModified && ++complaints == 1) {
      api.Mutate({VolumeGroupSnapshotContentType("v1"), "", k8s::Name(event.object)},
                 [](Json& content) {
                   content["status"] = {{"error", {{"message", "a member is missing"}}}};
                 });
    }
  });
  Run(*snapshots_, support::MakeMemberObject(1));
  ASSERT_EQ(GroupContents().size(), 1u);
  EXPECT_GT(complaints, 1);
  EXPECT_EQ(GetString(GroupContents()[0], {"status", "volumeGroupSnapshotHandle"}),
            support::kGroupHandle);
  EXPECT_EQ(FindJson(GroupContents()[0], {"status", "error"}), nullptr);
}

TEST_F(GroupRestoreTest, AVolumeSnapshotOfNoGroupCostsNothingMore) {
  Json single = support::MakeMemberObject(1);
  EraseJson(single, {"metadata", "annotations", objects::kGroupSnapshotHandleAnnotation});
  EraseJson(single, {"metadata", "annotations", objects::kGroupNameLabel});
  Run(*snapshots_, single);
  for (const char* plural : kPlurals) {
    EXPECT_EQ(bed_.api.CallCount("list", plural), 0);
  }
  EXPECT_EQ(bed_.api.CallCount("list", "configmaps"), 0);
}

// What Velero 1.18.1 leaves in an archive: the group's handle on each member, nothing of the group.
TEST_F(GroupRestoreTest, AMemberOfAGroupThatVeleroTookComesBackAlone) {
  AskForGroups();
  Json archived = support::MakeMemberObject(1);
  EraseJson(archived, {"metadata", "annotations", objects::kGroupNameLabel});
  EraseJson(archived, {"metadata", "labels", objects::kCsiDeltaLabel});
  const RestoreItemResult result = Run(*snapshots_, archived);
  ASSERT_TRUE(result.item.has_value());
  EXPECT_THAT(result.additional_items, IsEmpty()) << "the content is made from the annotations";
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kGroupSnapshotHandleAnnotation), "");
  const Json content = *bed_.api.Find(
      VolumeSnapshotContentKey(velero::RestoredSnapshotName("restore-uid", "snap-1")));
  EXPECT_EQ(GetString(content, {"spec", "source", "snapshotHandle"}), "handle-1");
  EXPECT_EQ(GroupContents().size(), 1u);
}

TEST_F(GroupRestoreTest, WithoutTheKindsMembersComeBackAllTheSame) {
  for (const char* plural : kPlurals) {
    bed_.api.RemoveType(plural);
  }
  EXPECT_TRUE(Run(*snapshots_, support::MakeMemberObject(1)).item.has_value());
  EXPECT_TRUE(Run(*groups_, UsersGroup()).skip_restore);
  EXPECT_TRUE(Run(*group_contents_, UsersContent()).skip_restore);
  EXPECT_TRUE(
      Run(*classes_, support::MakeGroupClassObject("groups", support::kDriver)).skip_restore);
  EXPECT_THAT(log_.text(), HasSubstr("serves no VolumeGroupSnapshots"));
}

TEST_F(GroupRestoreTest, APlaceholderThatCannotBeMadeDoesNotStopTheRestore) {
  bed_.api.Forbid("create", "volumegroupsnapshotcontents");
  EXPECT_TRUE(Run(*snapshots_, support::MakeMemberObject(1)).item.has_value());
  EXPECT_THAT(log_.text(), HasSubstr("may not become ready"));
}

TEST_F(GroupRestoreTest, WithoutVolumesOnRequest) {
  SetJson(restore_, {"spec", "restorePVs"}, false);
  EXPECT_TRUE(Run(*groups_, UsersGroup()).skip_restore);
  EXPECT_TRUE(Run(*group_contents_, UsersContent()).skip_restore);
  EXPECT_TRUE(
      Run(*classes_, support::MakeGroupClassObject("groups", support::kDriver)).skip_restore);
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

// --- The group itself

TEST_F(GroupRestoreTest, OnRequestTheGroupComesBackBeforeItsMembers) {
  AskForGroups();
  SeedClass(support::MakeGroupClassObject("fast-groups", support::kDriver, "key"));
  bed_.api.Seed(VolumeGroupSnapshotContentType("v1"),
                support::MakeObject(support::GroupApiVersion("v1"), "VolumeGroupSnapshotContent",
                                    "", PlaceholderName(), {{objects::kRestoreNameLabel, "r1"}}));

  const RestoreItemResult member = Run(*snapshots_, support::MakeMemberObject(1));
  ASSERT_FALSE(member.additional_items.empty());
  EXPECT_EQ(member.additional_items[0],
            (ResourceIdentifier{kGroupApi, "volumegroupsnapshots", "shop", support::kGroupName}));
  EXPECT_THAT(GroupContents(), IsEmpty()) << "what Velero's action made would take the members";

  const RestoreItemResult group = Run(*groups_, support::MakeGroupObject());
  ASSERT_TRUE(group.item.has_value());
  EXPECT_EQ(k8s::Name(group.item->json()), RestoredName());
  EXPECT_EQ(*FindJson(group.item->json(), {"spec"}),
            (Json{{"source", {{"volumeGroupSnapshotContentName", RestoredName()}}},
                  {"volumeGroupSnapshotClassName", "fast-groups"}}));
  EXPECT_EQ(k8s::Label(group.item->json(), objects::kCsiDeltaLabel), "");
  EXPECT_EQ(k8s::Annotation(group.item->json(), objects::kGroupMembersAnnotation), "");
  EXPECT_EQ(k8s::Annotation(group.item->json(), objects::kRestoreMustIncludeAnnotation), "true");
  EXPECT_THAT(
      group.additional_items,
      ElementsAre(
          ResourceIdentifier{kGroupApi, "volumegroupsnapshotclasses", "", "fast-groups"},
          ResourceIdentifier{kGroupApi, "volumegroupsnapshotcontents", "", "groupsnapcontent-1"}));

  EXPECT_TRUE(Run(*group_contents_, support::MakeGroupContentObject()).skip_restore)
      << "made by us: Velero deletes those that it restores";
  ASSERT_EQ(GroupContents().size(), 1u);
  const Json content = GroupContents()[0];
  EXPECT_EQ(k8s::Name(content), RestoredName());
  const Json source = {{"groupSnapshotHandles",
                        {{"volumeGroupSnapshotHandle", support::kGroupHandle},
                         {"volumeSnapshotHandles", {"handle-1", "handle-2"}}}}};
  EXPECT_EQ(*FindJson(content, {"spec", "source"}), source);
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(content, {"spec", "volumeGroupSnapshotClassName"}), "fast-groups");
  EXPECT_EQ(GetString(content, {"spec", "volumeGroupSnapshotRef", "namespace"}), "shop-2");
  EXPECT_EQ(GetString(content, {"spec", "volumeGroupSnapshotRef", "name"}), RestoredName());
  EXPECT_EQ(GetString(content, {"spec", "volumeGroupSnapshotRef", "uid"}), "");
  EXPECT_EQ(GetString(content, {"status", "volumeGroupSnapshotHandle"}), support::kGroupHandle);
  EXPECT_EQ(k8s::Annotation(content, objects::kGroupDeletionSecretNameAnnotation), "key");
  EXPECT_EQ(k8s::Label(content, objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(k8s::Label(content, objects::kRestoreUidLabel), "restore-uid");
  EXPECT_EQ(k8s::Label(content, objects::kRestoreNameLabel), "");
  EXPECT_EQ(k8s::Label(content, objects::kGroupNameLabel), "");
}

TEST_F(GroupRestoreTest, AUsersGroupComesBackUnderItsName) {
  const RestoreItemResult group = Run(*groups_, UsersGroup());
  ASSERT_TRUE(group.item.has_value());
  const std::string content_name = RestoredGroupName("restore-uid", "shop", "mine");
  EXPECT_EQ(k8s::Name(group.item->json()), "mine");
  EXPECT_EQ(k8s::Label(group.item->json(), "app"), "db");
  EXPECT_EQ(GetString(group.item->json(), {"spec", "source", "volumeGroupSnapshotContentName"}),
            content_name);
  EXPECT_EQ(FindJson(group.item->json(), {"spec", "source", "selector"}), nullptr);
  EXPECT_TRUE(Run(*group_contents_, UsersContent()).skip_restore);
  ASSERT_EQ(GroupContents().size(), 1u);
  EXPECT_EQ(k8s::Name(GroupContents()[0]), content_name);
  EXPECT_EQ(GetString(GroupContents()[0], {"spec", "volumeGroupSnapshotRef", "name"}), "mine");
}

TEST_F(GroupRestoreTest, AGroupThatExistsIsLeftAlone) {
  Json existing = UsersGroup();
  SetJson(existing, {"metadata", "namespace"}, "shop-2");
  bed_.api.Seed(VolumeGroupSnapshotType("v1"), existing);
  EXPECT_TRUE(Run(*group_contents_, UsersContent()).skip_restore);
  EXPECT_THAT(GroupContents(), IsEmpty());
  EXPECT_THAT(log_.text(), HasSubstr("exists already"));
}

TEST_F(GroupRestoreTest, WhatWasNeverCutOrCannotBeReadIsLeftOut) {
  Json unbound = UsersGroup();
  EraseJson(unbound, {"status"});
  EXPECT_TRUE(Run(*groups_, unbound).skip_restore);
  Json uncut = UsersContent();
  EraseJson(uncut, {"status"});
  EraseJson(uncut, {"metadata", "annotations"});
  Json wrong_types = UsersContent();
  SetJson(wrong_types, {"spec"}, 5);
  Json without_members = UsersContent();
  SetJson(without_members, {"status", "volumeSnapshotInfoList"}, "x");
  for (const Json& content : {uncut, wrong_types, without_members}) {
    EXPECT_TRUE(Run(*group_contents_, content).skip_restore);
  }
  EXPECT_THAT(GroupContents(), IsEmpty());
}

TEST_F(GroupRestoreTest, ArchivesOfOneVersionComeBackWhereAnotherIsServed) {
  struct Crossing {
    const char* archived;
    const char* served;
  };
  AskForGroups();
  for (const Crossing& crossing : {Crossing{"v1beta1", "v1"}, Crossing{"v1beta2", "v1"},
                                   Crossing{"v1", "v1beta1"}, Crossing{"v1", "v1beta2"}}) {
    Serve(crossing.served);
    const std::string wanted = support::GroupApiVersion(crossing.served);
    const RestoreItemResult group = Run(*groups_, support::MakeGroupObject(crossing.archived));
    ASSERT_TRUE(group.item.has_value());
    EXPECT_EQ(GetString(group.item->json(), {"apiVersion"}), wanted);
    const RestoreItemResult group_class =
        Run(*classes_,
            support::MakeGroupClassObject("groups", support::kDriver, "", crossing.archived));
    ASSERT_TRUE(group_class.item.has_value());
    EXPECT_EQ(GetString(group_class.item->json(), {"apiVersion"}), wanted);

    Run(*group_contents_, support::MakeGroupContentObject(crossing.archived));
    ASSERT_EQ(GroupContents().size(), 1u) << crossing.archived << " to " << crossing.served;
    const Json content = GroupContents()[0];
    EXPECT_EQ(GetString(content, {"apiVersion"}), wanted);
    EXPECT_EQ(
        *FindJson(content, {"spec", "source", "groupSnapshotHandles", "volumeSnapshotHandles"}),
        Json::array({"handle-1", "handle-2"}));
    bed_.api.Remove({VolumeGroupSnapshotContentType("v1"), "", k8s::Name(content)});
  }
}

TEST_F(GroupRestoreTest, AClassBringsTheSecretsThatTheArchiveHolds) {
  Json group_class = support::MakeGroupClassObject("groups", support::kDriver, "key");
  SetJson(group_class, {"parameters", objects::kGroupSnapshotterGetSecretName}, "get-key");
  SetJson(group_class, {"parameters", objects::kGroupSnapshotterGetSecretNamespace}, "vault");
  EXPECT_FALSE(Run(*classes_, group_class).item.has_value());
  EXPECT_THAT(Run(*classes_, group_class).additional_items, IsEmpty());
  SetJson(group_class, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
  const RestoreItemResult result = Run(*classes_, group_class);
  EXPECT_THAT(result.additional_items,
              ElementsAre(ResourceIdentifier{"", "secrets", "vault", "key"},
                          ResourceIdentifier{"", "secrets", "vault", "get-key"}));
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kMustIncludeAnnotation), "");
}

// Whatever call fails, the group is there when the restore asks again, once.
TEST_F(GroupRestoreTest, ContentsAndMembersSurviveAnyFailingCall) {
  for (const auto& [is_member, fault] :
       {std::pair(false, support::Fault::kRefused), std::pair(false, support::Fault::kAnswerLost),
        std::pair(true, support::Fault::kRefused), std::pair(true, support::Fault::kAnswerLost)}) {
    const objects::Object item(is_member ? support::MakeMemberObject(1) : UsersContent());
    for (int call = 1;; ++call) {
      ActionBed bed;
      bed.clock.SetAutoAdvance(true);
      const auto action = is_member ? MakeVolumeSnapshotAction(bed.env)
                                    : MakeVolumeGroupSnapshotContentAction(bed.env);
      bed.api.FailCall(call, absl::UnavailableError("connection lost"), fault);
      const auto first = action->Execute(bed.ctx, item, item, objects::Object(restore_));
      if (!bed.api.sweep_hit()) {
        EXPECT_GT(call, is_member ? 5 : 3);
        break;
      }
      bed.api.ClearFaults();
      if (is_member || !first.ok()) {
        EXPECT_THAT(action->Execute(bed.ctx, item, item, objects::Object(restore_)), IsOk())
            << call;
      }
      const auto made = bed.api.All(VolumeGroupSnapshotContentType("v1"));
      ASSERT_EQ(made.size(), 1u) << call;
      EXPECT_EQ(GetString(made[0], {"status", "volumeGroupSnapshotHandle"}), support::kGroupHandle)
          << call;
      EXPECT_EQ(bed.api.All(VolumeSnapshotContentType()).size(), is_member ? 1u : 0u) << call;
    }
  }
}

}  // namespace
}  // namespace csidelta::restoreitemactions::group_restore_test
