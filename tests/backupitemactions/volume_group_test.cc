// Claims that belong to a volume group: who is a member, what becomes of those that are none, and
// what the actions on the group kinds make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "csi/base_snapshots.h"
#include "csi/drop.h"
#include "csi/group/group_deletion.h"
#include "csi/group/group_lifecycle.h"
#include "csi/group/moved_group.h"
#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/backupitemactions/action_fixture.h"
#include "tests/support/action_log.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/status_matchers.h"
#include "tests/support/sweep_sample.h"
#include "tests/support/typed.h"

namespace csidelta::backupitemactions::volume_group_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::SizeIs;

using Result = absl::StatusOr<velero::BackupItemResult>;

class VolumeGroupTest : public ActionTest {
 protected:
  VolumeGroupTest() : action_(MakePvcAction(env_)) {
    SeedClass("groups");
    for (int i = 0; i < 3; ++i) {
      SeedMember(i);
    }
  }

  void SeedClass(const std::string& name) {
    api_.Seed(VolumeGroupSnapshotClassType("v1"), {{"metadata", {{"name", name}}},
                                                   {"driver", "d.example.com"},
                                                   {"deletionPolicy", "Delete"}});
  }

  Json SeedMember(int i, const std::string& driver = "d.example.com",
                  const std::string& phase = "Bound") {
    const std::string volume = absl::StrCat("pv-", i);
    api_.Seed(PersistentVolumeType(),
              {{"metadata", {{"name", volume}}},
               {"spec",
                {{"capacity", {{"storage", "1Gi"}}},
                 {"csi", {{"driver", driver}, {"volumeHandle", absl::StrCat("member-", i)}}}}}});
    Json claim = {{"metadata",
                   {{"name", Name(i)},
                    {"namespace", "app"},
                    {"uid", Uid(i)},
                    {"labels", {{"velero.io/volume-group", "db"}}}}},
                  {"spec",
                   {{"volumeName", volume},
                    {"storageClassName", "std"},
                    {"resources", {{"requests", {{"storage", "16Mi"}}}}}}},
                  {"status", {{"phase", phase}}}};
    return api_.Seed(PersistentVolumeClaimType(), claim);
  }

  static std::string Name(int i) { return absl::StrCat("data-", i); }
  static std::string Uid(int i) { return absl::StrCat("uid-", i); }
  Json Claim(int i) const { return *api_.Find({PersistentVolumeClaimType(), "app", Name(i)}); }
  void Change(int i, const std::function<void(Json&)>& change) {
    api_.Mutate(ClaimKey("app", Name(i)), change);
  }
  Result Execute(int i) { return RunAction(*action_, Claim(i)); }
  velero::BackupItemResult Run(int i) { return Succeed(*action_, Claim(i)); }

  Json Group() const { return api_.All(VolumeGroupSnapshotType("v1")).front(); }
  // Saves the group, as the host does when the first claim was.
  Result Save() { return RunAction(*MakeVolumeGroupSnapshotAction(env_), Group()); }
  Json Content() const { return api_.All(VolumeGroupSnapshotContentType("v1")).front(); }

  // Every claim is snapshotted alone, and nothing of a group is there.
  void ExpectAlone() {
    for (int i = 0; i < 3; ++i) {
      const velero::BackupItemResult result = Run(i);
      EXPECT_THAT(result.additional_items, SizeIs(1));
    }
    EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(3));
    EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
    EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
  }

  void ExpectNoMarks() {
    for (const Json& claim : api_.All(PersistentVolumeClaimType())) {
      EXPECT_EQ(k8s::Label(claim, objects::kGroupMarkLabel), "");
    }
  }

  std::unique_ptr<velero::BackupItemAction> action_;
};

TEST_F(VolumeGroupTest, ClaimsThatShareTheLabelAreCutTogether) {
  for (int i = 0; i < 3; ++i) {
    const velero::BackupItemResult result = Run(i);
    ASSERT_TRUE(result.item.has_value());
    ASSERT_THAT(api_.All(VolumeGroupSnapshotType("v1")), SizeIs(1));
    const std::string snapshot = result.item->Annotation(objects::kVolumeSnapshotNameAnnotation);
    EXPECT_THAT(result.item->Label(objects::kVolumeSnapshotNameLabel), SizeIs(Le(63)));
    EXPECT_THAT(
        result.additional_items,
        ElementsAre(velero::ResourceIdentifier{"groupsnapshot.storage.k8s.io",
                                               "volumegroupsnapshots", "app", k8s::Name(Group())},
                    velero::ResourceIdentifier{"snapshot.storage.k8s.io", "volumesnapshots", "app",
                                               snapshot}));
    EXPECT_EQ(support::SourceClaimName(*api_.Find(VolumeSnapshotKey("app", snapshot))), Name(i));
    EXPECT_EQ(result.item->Label("velero.io/volume-group"), "db");
    EXPECT_EQ(result.item->Label(objects::kGroupMarkLabel), "");
    EXPECT_EQ(result.item->Annotation(objects::kMustIncludeAnnotation), "true");
    EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "64Mi");
  }
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 1);
  ExpectNoMarks();
}

// What the first claim's turn read and made is not asked for again; but whether the group is there.
TEST_F(VolumeGroupTest, LaterMembersCostOneRequestEach) {
  ASSERT_THAT(Execute(0), IsOk());
  api_.ClearCalls();
  ASSERT_THAT(Execute(1), IsOk());
  ASSERT_THAT(Execute(2), IsOk());
  EXPECT_THAT(api_.calls(), SizeIs(2));
  EXPECT_EQ(api_.CallCount("get", "volumegroupsnapshots"), 2);
}

// Velero passes over additional items that are not there.
TEST_F(VolumeGroupTest, AGroupThatWasRemovedIsInNoClaim) {
  ASSERT_THAT(Execute(0), IsOk());
  const Json group = Group();
  ASSERT_THAT(csi::DropSnapshot(ctx_, api_, support::As<objects::VolumeGroupSnapshot>(group),
                                csi::Data::kDelete),
              IsOk());
  const auto fails = StatusIs(absl::StatusCode::kFailedPrecondition,
                              AllOf(HasSubstr("app/data-1"), HasSubstr(k8s::Name(group))));
  EXPECT_THAT(Execute(1), fails);
  Json another = group;
  SetJson(another, {"metadata", "uid"}, "another");
  api_.Seed(VolumeGroupSnapshotType("v1"), another);
  EXPECT_THAT(Execute(1), fails);
}

TEST_F(VolumeGroupTest, AnEventTellsTheFreezeWindow) {
  ASSERT_THAT(Execute(0), IsOk());
  ASSERT_THAT(Execute(1), IsOk());
  const std::vector<Json> events = api_.All({"", "v1", "events", "Event", true});
  ASSERT_THAT(events, SizeIs(1));
  const Json& event = events.front();
  EXPECT_EQ(k8s::Namespace(event), "app");
  EXPECT_EQ(GetString(event, {"involvedObject", "name"}), k8s::Name(Group()));
  EXPECT_EQ(GetString(event, {"reason"}), "VolumeGroupCut");
  EXPECT_EQ(GetString(event, {"message"}),
            "took snapshots of 3 PVCs at one instant, freeze window 0: asked at "
            "2023-11-14T22:13:20Z, the "
            "driver had answered at 2023-11-14T22:13:20Z");
}

TEST_F(VolumeGroupTest, AnEventThatMayNotBeWrittenFailsNothing) {
  api_.Forbid("create", "events");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Execute(i), IsOk());
  }
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
}

TEST_F(VolumeGroupTest, AProcessThatStartsAgainFindsTheGroup) {
  ASSERT_THAT(Execute(0), IsOk());
  ASSERT_THAT(Save(), IsOk());
  action_ = MakePvcAction(env_);
  ASSERT_THAT(Execute(1), IsOk());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

TEST_F(VolumeGroupTest, TheBackupMayNameAnotherLabel) {
  SetJson(backup_, {"spec", "volumeGroupSnapshotLabelKey"}, "team/group");
  Change(0, [](Json& claim) { SetJson(claim, {"metadata", "labels", "team/group"}, "x"); });
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())), SizeIs(1));
  EXPECT_EQ(k8s::Annotation(Group(), objects::kGroupOfAnnotation), "team/group=x");
  ASSERT_THAT(Execute(1), IsOk());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1)) << "data-1 has no such label";
}

TEST_F(VolumeGroupTest, OtherNamespacesAndGroupsAreNotTouched) {
  Json other = Claim(2);
  SetJson(other, {"metadata", "namespace"}, "elsewhere");
  api_.Seed(PersistentVolumeClaimType(), other);
  Change(2, [](Json& claim) {
    SetJson(claim, {"metadata", "labels", "velero.io/volume-group"}, "web");
  });
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())), SizeIs(2));
}

struct LeftOutCase {
  const char* name;
  void (*change)(Json& claim);
};
// --- Claims that a data mover moves

class MovedVolumeGroupTest : public VolumeGroupTest {
 protected:
  MovedVolumeGroupTest() { SetPolicy("{csi-delta: move}"); }
};

TEST_F(MovedVolumeGroupTest, ClaimsAreSnapshottedByOneCallAndMovedOneByOne) {
  for (int i = 0; i < 3; ++i) {
    const velero::BackupItemResult result = Run(i);
    EXPECT_THAT(result.additional_items, IsEmpty());
    EXPECT_FALSE(result.operation_id.empty());
  }
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 1);
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty()) << "adopted";
  ASSERT_THAT(api_.All(DataUploadType()), SizeIs(3));
  for (const Json& upload : api_.All(DataUploadType())) {
    const std::string snapshot = GetString(upload, {"spec", "csiSnapshot", "volumeSnapshot"});
    const auto found = api_.Find(VolumeSnapshotKey("app", snapshot));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(k8s::Annotation(*found, objects::kMemberClaimAnnotation),
              GetString(upload, {"spec", "sourcePVC"}));
  }
  ExpectNoMarks();
}

TEST_F(MovedVolumeGroupTest, AProcessThatRestartsFindsWhatWasAdopted) {
  ASSERT_THAT(Execute(0), IsOk());
  action_ = MakePvcAction(env_);
  ASSERT_THAT(Execute(1), IsOk());
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 1);
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
}

// The plugin dies after so many calls while it takes the first claim: after each number of them, or
// after every sixth from one of the day on. The other claims go on in a process that restarts,
// the mover moves them, and so it does what the next backup takes.
constexpr int kStepOfSample = 6;

class DyingPluginTest : public MovedVolumeGroupTest, public testing::WithParamInterface<int> {
 protected:
  void Begin(const std::string& name) {
    SetJson(backup_, {"metadata", "name"}, name);
    SetJson(backup_, {"metadata", "uid"}, absl::StrCat(name, "-uid"));
    SetJson(backup_, {"status", "phase"}, "InProgress");
    api_.Seed(BackupType(), backup_);
    action_ = MakePvcAction(env_);
  }

  void End(const std::string& phase) {
    SetJson(backup_, {"status", "phase"}, phase);
    api_.Seed(BackupType(), backup_);
  }

  // Returns whether it died before it had an answer for the claim.
  bool ExecuteAndDie(int claim, int calls) {
    std::stop_source death;
    api_.SetInterceptor([&](const support::ApiCall&, const Json*) {
      if (--calls >= 0) {
        return absl::OkStatus();
      }
      death.request_stop();
      return absl::UnavailableError("the process is dead");
    });
    ctx_.stop = death.get_token();
    const Result result = Execute(claim);
    ctx_.stop = {};
    api_.ClearFaults();
    action_ = MakePvcAction(env_);
    return !result.ok();
  }

  // The mover makes a base of what each DataUpload of the backup names, and releases the last.
  void Move() {
    for (const Json& upload : api_.All(DataUploadType())) {
      const std::string claim = GetString(upload, {"spec", "sourcePVC"});
      const std::string name = GetString(upload, {"spec", "csiSnapshot", "volumeSnapshot"});
      const auto snapshot = api_.Find(VolumeSnapshotKey("app", name));
      ASSERT_TRUE(snapshot.has_value()) << "for " << claim;
      const Json source = *api_.Find(VolumeSnapshotContentKey(name));
      csi::StaticContent content;
      content.name = absl::StrCat("du-", name);
      content.driver = "d.example.com";
      content.handle = support::As<objects::VolumeSnapshotContent>(source).handle_or_source();
      content.deletion_policy = "Retain";
      content.labels = csi::MovedGroupLabels(support::As<objects::VolumeSnapshotContent>(source));
      content.annotations = csi::OwnerAnnotations({.velero_namespace = "velero",
                                                   .location = "default",
                                                   .claim_namespace = "app",
                                                   .claim = claim,
                                                   .claim_uid = claim,
                                                   .cluster = "here"});
      content.annotations.merge(
          csi::MovedGroupAnnotations(support::As<objects::VolumeSnapshotContent>(source)));
      api_.Seed(VolumeSnapshotContentType(), csi::MakeStaticContent(content).json());
      EXPECT_THAT(csi::DropSnapshot(ctx_, api_, support::As<objects::VolumeSnapshot>(*snapshot),
                                    csi::Data::kRetain),
                  IsOk());
      EXPECT_THAT(
          csi::KeepAsBase(
              ctx_, env_, content.name,
              csi::ReadBase(support::As<objects::VolumeSnapshotContent>(Content(content.name)))
                  .owner),
          IsOk());
      api_.Remove({DataUploadType(), "velero", k8s::Name(upload)});
    }
  }

  // The mover looks at all contents of groups until nothing changes.
  void Settle() {
    for (int round = 0; round < 4; ++round) {
      for (const Json& content : api_.All(VolumeSnapshotContentType())) {
        if (!csi::MovedGroupOf(objects::Object(content)).empty()) {
          EXPECT_THAT(csi::FinalizeMovedGroup(ctx_, env_,
                                              support::As<objects::VolumeSnapshotContent>(content)),
                      IsOk());
        }
      }
    }
  }

  Json Content(const std::string& name) const { return *api_.Find(VolumeSnapshotContentKey(name)); }

  // One group, whose members are the bases of all claims, and nothing else.
  void ExpectOneGroupAndNothingElse() {
    EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
    const std::vector<Json> records = api_.All(VolumeGroupSnapshotContentType("v1"));
    EXPECT_THAT(records, SizeIs(1));
    const std::vector<Json> contents = api_.All(VolumeSnapshotContentType());
    EXPECT_THAT(contents, SizeIs(3));
    for (const Json& content : contents) {
      EXPECT_EQ(k8s::Label(content, objects::kBaseLabel), "true") << k8s::Name(content);
      EXPECT_EQ(csi::MovedGroupOf(objects::Object(content)), k8s::Name(records.front()))
          << k8s::Name(content);
    }
    EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
    EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
    ExpectNoMarks();
  }
};

TEST_P(DyingPluginTest, WhereverItDiesTheOthersAreMovedAndTheNextBackupLeavesOneGroup) {
  const support::SweepSample sample;
  const int step = sample.is_everything() ? 1 : kStepOfSample;
  int calls = static_cast<int>(sample.seed() % static_cast<uint64_t>(step)), points = 0;
  for (bool died = true; died; calls += step, ++points) {
    SCOPED_TRACE(absl::StrCat("dead after ", calls, " calls"));
    Begin(absl::StrCat("dies-", calls));
    died = ExecuteAndDie(0, calls);
    for (int claim = 1; claim < GetParam(); ++claim) {
      EXPECT_THAT(Execute(claim), IsOk());
    }
    Move();
    Settle();
    End("PartiallyFailed");
    Begin(absl::StrCat("after-", calls));
    for (int claim = 0; claim < 3; ++claim) {
      EXPECT_THAT(Execute(claim), IsOk());
    }
    Settle();
    Move();
    Settle();
    End("Completed");
    ExpectOneGroupAndNothingElse();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(calls, 30);
  EXPECT_GT(points, 30 / kStepOfSample);
  RecordProperty("points", points);
}

// How many claims of the group the backup has, with that at which the plugin dies.
INSTANTIATE_TEST_SUITE_P(Claims, DyingPluginTest, testing::Values(1, 3),
                         [](const auto& test) { return absl::StrCat("Of", test.param); });

TEST_F(MovedVolumeGroupTest, ThoseThatAreKeptAreAGroupByThemselves) {
  SetPolicyRules(
      "- conditions: {storageClass: [kept]}\n"
      "  action: {type: custom, parameters: {csi-delta: snapshot}}\n"
      "- conditions: {csi: {}}\n"
      "  action: {type: custom, parameters: {csi-delta: move}}\n");
  for (int i = 0; i < 2; ++i) {
    api_.SetField(VolumeKey(absl::StrCat("pv-", i)), {"spec", "storageClassName"}, "kept");
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(Execute(i), IsOk());
  }
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(2));
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())),
              ElementsAre(objects::PlannedGroupMember{"data-0", "uid-0", "member-0"},
                          objects::PlannedGroupMember{"data-1", "uid-1", "member-1"}));
  EXPECT_THAT(api_.All(DataUploadType()), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

class LeftOutTest : public VolumeGroupTest, public testing::WithParamInterface<LeftOutCase> {};

TEST_P(LeftOutTest, TheOthersAreCutWithoutIt) {
  Change(1, GetParam().change);
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())),
              ElementsAre(objects::PlannedGroupMember{"data-0", "uid-0", "member-0"},
                          objects::PlannedGroupMember{"data-2", "uid-2", "member-2"}));
  EXPECT_THAT(cluster_.driver().groups().begin()->second, SizeIs(2));
  ExpectNoMarks();
}

const LeftOutCase kLeftOutCases[] = {
    {"Unbound",
     [](Json& claim) {
       SetJson(claim, {"status", "phase"}, "Pending");
     }},
    {"WithoutVolume",
     [](Json& claim) {
       EraseJson(claim, {"spec", "volumeName"});
     }},
    {"ExcludedByLabel",
     [](Json& claim) {
       SetJson(claim, {"metadata", "labels", "velero.io/exclude-from-backup"}, "true");
     }},
    {"BeingDeleted",
     [](Json& claim) {
       claim["metadata"]["finalizers"] = Json::array({"kubernetes.io/pvc-protection"});
       SetJson(claim, {"metadata", "deletionTimestamp"}, "2023-11-14T22:13:20Z");
     }},
    {"TakenByVelero",
     [](Json& claim) {
       SetJson(claim, {"metadata", "labels", "velero.io/volume-snapshot-name"}, "x");
       SetJson(claim, {"metadata", "labels", "velero.io/backup-name"}, "nightly");
     }},
};
INSTANTIATE_TEST_SUITE_P(Table, LeftOutTest, testing::ValuesIn(kLeftOutCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(VolumeGroupTest, AClaimOfAnotherDriverIsTakenAlone) {
  api_.Seed(VolumeSnapshotClassType(),
            {{"metadata", {{"name", "other"}}}, {"driver", "other.example.com"}});
  SeedMember(1, "other.example.com");
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(Execute(i), IsOk());
  }
  EXPECT_THAT(cluster_.driver().groups().begin()->second, SizeIs(2));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_F(VolumeGroupTest, VolumePoliciesDecideWhoIsAMember) {
  SetPolicyRules(
      "- conditions: {storageClass: [scratch]}\n  action: {type: skip}\n"
      "- conditions: {csi: {}}\n"
      "  action: {type: custom, parameters: {csi-delta: snapshot}}\n");
  api_.SetField(VolumeKey("pv-1"), {"spec", "storageClassName"}, "scratch");
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())), SizeIs(2));
  const velero::BackupItemResult skipped = Run(1);
  EXPECT_FALSE(skipped.item.has_value());
}

// Velero's own action takes what a rule of type `snapshot`, or none, is for.
TEST_F(VolumeGroupTest, AClaimThatVelerosOwnActionMayTakeIsNoMember) {
  SetPolicyRules(
      "- conditions: {storageClass: [ours]}\n"
      "  action: {type: custom, parameters: {csi-delta: snapshot}}\n"
      "- conditions: {csi: {}}\n"
      "  action: {type: snapshot}\n");
  api_.SetField(VolumeKey("pv-0"), {"spec", "storageClassName"}, "ours");
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())),
              ElementsAre(objects::PlannedGroupMember{"data-0", "uid-0", "member-0"}));
  for (int i = 1; i < 3; ++i) {
    ASSERT_THAT(Execute(i), IsOk());
  }
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(2));
}

TEST_F(VolumeGroupTest, AClaimThatGainsTheLabelMeanwhileIsTakenAlone) {
  ASSERT_THAT(Execute(0), IsOk());
  SeedMember(3);
  const velero::BackupItemResult late = Run(3);
  EXPECT_THAT(late.additional_items, SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  support::SetPluginConfig({{"groupFallback", "fail"}}, api_);
  action_ = MakePvcAction(env_);
  EXPECT_THAT(Execute(3), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("app/data-3"), HasSubstr("group app/db"))));
}

TEST_F(VolumeGroupTest, AClaimThatLostTheLabelMeanwhileIsTakenAlone) {
  const Json as_listed = Claim(1);
  Change(1, [](Json& claim) {
    EraseJson(claim, {"metadata", "labels", "velero.io/volume-group"});
  });
  const velero::BackupItemResult result = Succeed(*action_, as_listed);
  EXPECT_THAT(result.additional_items, SizeIs(1));
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())), SizeIs(2));
}

// It is of the group, which stands, and nothing says so any more when its own turn comes.
TEST_F(VolumeGroupTest, AClaimThatLosesTheLabelLaterIsTakenAloneToo) {
  ASSERT_THAT(Execute(0), IsOk());
  Change(1, [](Json& claim) {
    EraseJson(claim, {"metadata", "labels", "velero.io/volume-group"});
  });
  const velero::BackupItemResult result = Run(1);
  EXPECT_THAT(result.additional_items, SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())), SizeIs(3));
}

TEST_F(VolumeGroupTest, AnUnusedLabelMakesNoGroup) {
  const Json as_listed = Claim(0);
  for (int i = 0; i < 3; ++i) {
    Change(i, [](Json& claim) {
      EraseJson(claim, {"metadata", "labels", "velero.io/volume-group"});
    });
  }
  ASSERT_THAT(RunAction(*action_, as_listed), IsOk());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 0);
  support::SetPluginConfig({{"groupFallback", "fail"}}, api_);
  action_ = MakePvcAction(env_);
  EXPECT_THAT(RunAction(*action_, as_listed),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("group app/db"), HasSubstr("no claim"))));
}

TEST_F(VolumeGroupTest, AnUnboundClaimIsNeitherAMemberNorTakenAlone) {
  SeedMember(1, "d.example.com", "Pending");
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(Execute(i), IsOk());
  }
  EXPECT_THAT(cluster_.driver().groups().begin()->second, SizeIs(2));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

TEST_F(VolumeGroupTest, TheOnlyClaimOfItsLabelIsAGroupOfOne) {
  Change(2, [](Json& claim) {
    SetJson(claim, {"metadata", "labels", "velero.io/volume-group"}, "web");
  });
  ASSERT_THAT(Execute(2), IsOk());
  ASSERT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_EQ(csi::PlannedMembers(objects::Object(Group())),
            (std::vector<objects::PlannedGroupMember>{{"data-2", "uid-2", "member-2"}}));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

// Groups of deleted backups whose deletion could not be finished then.
TEST_F(VolumeGroupTest, TheFirstClaimOfABackupFinishesDeletionsOfGroups) {
  const std::string name = csi::GroupDeletionContentName("d.example.com", "old-group");
  const auto seed = [&] {
    api_.Seed(VolumeGroupSnapshotContentType("v1"),
              {{"metadata", {{"name", name}, {"labels", {{"velero.io/csi-delta", "velero"}}}}},
               {"spec",
                {{"driver", "d.example.com"},
                 {"deletionPolicy", "Delete"},
                 {"source",
                  {{"groupSnapshotHandles",
                    {{"volumeGroupSnapshotHandle", "old-group"},
                     {"volumeSnapshotHandles", Json::array({"old-member"})}}}}}}}});
  };
  const auto stands = [&] { return api_.Find(GroupContentKey("v1", name)).has_value(); };
  seed();
  ASSERT_THAT(Execute(0), IsOk());
  ASSERT_THAT(Save(), IsOk());
  EXPECT_FALSE(stands());
  seed();
  ASSERT_THAT(Execute(1), IsOk());
  EXPECT_TRUE(stands()) << "once for each backup";
  support::SetPluginConfig({{"sweepOrphans", "false"}}, api_);
  action_ = MakePvcAction(env_);
  ASSERT_THAT(Execute(1), IsOk());
  EXPECT_TRUE(stands());
  support::SetPluginConfig({}, api_);
  action_ = MakePvcAction(env_);
  api_.FailNext("list", "volumegroupsnapshotcontents", absl::InternalError("injected"));
  EXPECT_THAT(Execute(1), IsOk());
  EXPECT_TRUE(stands());
}

TEST_F(VolumeGroupTest, AHundredAreAGroupAndAHundredAndOneAreNot) {
  for (int i = 3; i < 100; ++i) {
    SeedMember(i);
  }
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_THAT(csi::PlannedMembers(objects::Object(Group())), SizeIs(100));
  ASSERT_THAT(Execute(99), IsOk());
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());

  SeedMember(100);
  backup_["metadata"]["uid"] = "another";
  ASSERT_THAT(Execute(100), IsOk());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  support::SetPluginConfig({{"groupFallback", "fail"}}, api_);
  action_ = MakePvcAction(env_);
  EXPECT_THAT(Execute(0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("101 members"), HasSubstr("group app/db"))));
}

struct FallbackCase {
  const char* name;
  void (*prepare)(support::FakeApiClient& api, support::FakeSnapshotCluster& cluster);
  const char* reason;
};
class GroupFallbackTest : public VolumeGroupTest,
                          public testing::WithParamInterface<FallbackCase> {};

TEST_P(GroupFallbackTest, EachClaimAlone) {
  GetParam().prepare(api_, cluster_);
  ExpectAlone();
  ExpectNoMarks();
}

TEST_P(GroupFallbackTest, OrAnErrorThatNamesTheGroup) {
  support::SetPluginConfig({{"groupFallback", "fail"}}, api_);
  GetParam().prepare(api_, cluster_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Execute(i),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("claim app/" + Name(i)), HasSubstr("group app/db"),
                               HasSubstr(GetParam().reason), HasSubstr("groupFallback"))));
  }
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  ExpectNoMarks();
}

const FallbackCase kFallbackCases[] = {
    {"NoKinds",
     [](support::FakeApiClient& api, support::FakeSnapshotCluster&) {
       api.RemoveType("volumegroupsnapshotclasses");
       api.RemoveType("volumegroupsnapshots");
     },
     "CSIVolumeGroupSnapshot"},
    {"NoRight",
     [](support::FakeApiClient& api, support::FakeSnapshotCluster&) {
       api.Forbid("list", "volumegroupsnapshotclasses");
     },
     "volumegroupsnapshotclasses"},
    {"NoClass",
     [](support::FakeApiClient& api, support::FakeSnapshotCluster&) {
       api.Remove({VolumeGroupSnapshotClassType("v1"), "", "groups"});
     },
     "no VolumeGroupSnapshotClass for driver d.example.com"},
    {"LabelRefused",
     [](support::FakeApiClient& api, support::FakeSnapshotCluster&) {
       api.SetInterceptor([](const support::ApiCall& call, const Json* body) -> absl::Status {
         return call.verb == "patch" && call.name == "data-2" && body->is_object()
                    ? absl::PermissionDeniedError("a webhook says no")
                    : absl::OkStatus();
       });
     },
     "a webhook says no"},
    {"DriverWithoutGroups",
     [](support::FakeApiClient&, support::FakeSnapshotCluster& cluster) {
       cluster.driver().Refuse("CreateVolumeGroupSnapshot", "Unimplemented", "no groups here");
     },
     "no groups here"},
};
INSTANTIATE_TEST_SUITE_P(Table, GroupFallbackTest, testing::ValuesIn(kFallbackCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(VolumeGroupTest, TwoClassesAreAnErrorThatNamesBoth) {
  SeedClass("other-groups");
  EXPECT_THAT(Execute(0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   AllOf(HasSubstr("groups"), HasSubstr("other-groups"),
                                         HasSubstr("volume group app/db"))));
  EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
}

TEST_F(VolumeGroupTest, BackupAndClaimMayNameTheClass) {
  SeedClass("b");
  SeedClass("c");
  SetJson(backup_,
          {"metadata", "annotations", "velero.io/csi-volumegroupsnapshot-class_d.example.com"},
          "b");
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_EQ(GetString(Group(), {"spec", "volumeGroupSnapshotClassName"}), "b");
  EXPECT_THAT(csi::DropSnapshot(ctx_, api_, support::As<objects::VolumeGroupSnapshot>(Group()),
                                csi::Data::kDelete),
              IsOk());
  Change(2, [](Json& claim) {
    SetJson(claim, {"metadata", "annotations", "velero.io/csi-volume-group-snapshot-class"}, "c");
  });
  action_ = MakePvcAction(env_);
  ASSERT_THAT(Execute(0), IsOk());
  EXPECT_EQ(GetString(Group(), {"spec", "volumeGroupSnapshotClassName"}), "c");
}

// It is waited for once, not once for each claim: for a driver that refuses, and for a controller
// whose gate is off, which does not read the CRDs that are there.
TEST_F(VolumeGroupTest, AGroupThatFailsFailsForEveryMemberAndNothingIsLeft) {
  cluster_.driver().Refuse("CreateVolumeGroupSnapshot", "Internal", "member-1 is offline");
  for (const char* const error : {"claim app/data-1", "the driver reported no error"}) {
    const absl::Time before = clock_.Now();
    api_.ClearCalls();
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(Execute(i), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                       AllOf(HasSubstr("app/" + Name(i)), HasSubstr("group app/db"),
                                             HasSubstr(error))));
    }
    EXPECT_LT(clock_.Now() - before, absl::Minutes(11));
    EXPECT_EQ(api_.CallCount("create", "volumegroupsnapshots"), 1);
    EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
    EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
    ExpectNoMarks();
    cluster_.groups_run = false;
    action_ = MakePvcAction(env_);
  }
}

// The host may have read the claim while another backup was making a group of it.
TEST_F(VolumeGroupTest, TheTemporaryLabelIsInNoArchive) {
  Json seen = Claim(0);
  SetJson(seen, {"metadata", "labels", objects::kGroupMarkLabel}, "u.12345678");
  const velero::BackupItemResult result = Succeed(*action_, seen);
  EXPECT_EQ(result.item->Label(objects::kGroupMarkLabel), "");
  SetPolicy("{another: plugin}");
  action_ = MakePvcAction(env_);
  const velero::BackupItemResult left_alone = Succeed(*action_, seen);
  ASSERT_TRUE(left_alone.item.has_value());
  EXPECT_EQ(left_alone.item->Label(objects::kGroupMarkLabel), "");
}

// Whatever call fails, a claim that fails leaves nothing in driver or API.
TEST_F(VolumeGroupTest, NoFailingCallLeavesAnythingBehind) {
  int n = 1;
  for (bool hit = true; hit; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    action_ = MakePvcAction(env_);
    api_.FailCall(n, absl::UnavailableError("injected"));
    const Result result = Execute(0);
    hit = api_.sweep_hit();
    api_.ClearFaults();
    if (!result.ok()) {
      EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
      EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
      EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
      EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
    }
    EXPECT_THAT(api_.All(LeaseType()), IsEmpty());
    ExpectNoMarks();
    for (const Json& group : api_.All(VolumeGroupSnapshotType("v1"))) {
      EXPECT_THAT(csi::DropSnapshot(ctx_, api_, support::As<objects::VolumeGroupSnapshot>(group),
                                    csi::Data::kDelete),
                  IsOk());
    }
  }
  EXPECT_GT(n, 20);
}

// --- The actions on the group kinds

class GroupActionsTest : public VolumeGroupTest {
 protected:
  GroupActionsTest()
      : group_action_(MakeVolumeGroupSnapshotAction(env_)),
        content_action_(MakeVolumeGroupSnapshotContentAction(env_)),
        snapshot_action_(MakeVolumeSnapshotAction(env_)) {
    EXPECT_THAT(Execute(0), IsOk());
  }

  Result Adopt() { return RunAction(*group_action_, Group()); }

  std::unique_ptr<velero::BackupItemAction> group_action_;
  std::unique_ptr<velero::BackupItemAction> content_action_;
  std::unique_ptr<velero::BackupItemAction> snapshot_action_;
};

TEST_F(GroupActionsTest, AManagedGroupBringsContentAndClassAndAnOperation) {
  const Result result = Adopt();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->additional_items,
              ElementsAre(velero::ResourceIdentifier{"groupsnapshot.storage.k8s.io",
                                                     "volumegroupsnapshotclasses", "", "groups"},
                          velero::ResourceIdentifier{"groupsnapshot.storage.k8s.io",
                                                     "volumegroupsnapshotcontents", "",
                                                     k8s::Name(Content())}));
  EXPECT_THAT(result->operation_id, testing::StartsWith("g1/app/velero-db-"));
  EXPECT_THAT(result->post_operation_items, SizeIs(2));
  const objects::Object& archived = *result->item;
  EXPECT_EQ(archived.Annotation(objects::kGroupSnapshotHandleAnnotation),
            support::As<objects::VolumeGroupSnapshotContent>(Content()).handle_or_source());
  EXPECT_EQ(archived.Annotation(objects::kDriverNameAnnotation), "d.example.com");
  EXPECT_EQ(archived.Annotation(objects::kAskedAtAnnotation), "2023-11-14T22:13:20Z");
  EXPECT_EQ(archived.Annotation(objects::kTakenAtAnnotation), "2023-11-14T22:13:20Z");
  EXPECT_EQ(archived.Annotation(objects::kAnsweredAtAnnotation), "2023-11-14T22:13:20Z");
  EXPECT_EQ(archived.Annotation("velero.io/csi-delta-finalize"), "");
  EXPECT_EQ(k8s::Label(Content(), objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(k8s::Label(Content(), objects::kGroupNameLabel), k8s::Name(Group()));
}

TEST_F(GroupActionsTest, TheOperationWaitsForTheGroupAndEveryMember) {
  const Result result = Adopt();
  ASSERT_THAT(result, IsOk());
  const auto progress = [&] { return *AskProgress(*group_action_, result->operation_id); };
  EXPECT_TRUE(progress().completed);
  EXPECT_EQ(progress().error, "");
  EXPECT_EQ(progress().description, "taken, freeze window 0, 3 members ready");
  const Json member = api_.All(VolumeSnapshotContentType()).front();
  api_.SetField(VolumeSnapshotContentKey(k8s::Name(member)), {"status", "readyToUse"}, false);
  EXPECT_FALSE(progress().completed);
  EXPECT_THAT(progress().description, HasSubstr("2 of 3"));
  api_.SetField(support::As<objects::VolumeGroupSnapshot>(Group()).key(), {"status", "readyToUse"},
                false);
  EXPECT_FALSE(progress().completed);
  api_.SetField(support::As<objects::VolumeGroupSnapshot>(Group()).key(),
                {"status", "error", "message"}, "no space");
  EXPECT_FALSE(progress().completed);
  EXPECT_THAT(progress().description, HasSubstr("no space"));
  clock_.Advance(absl::Minutes(11));
  EXPECT_TRUE(progress().completed);
  EXPECT_THAT(progress().error, HasSubstr("no space"));
  api_.FailNext("get", "volumegroupsnapshots", absl::UnavailableError("injected"));
  EXPECT_FALSE(progress().completed);
  api_.Remove(support::As<objects::VolumeGroupSnapshot>(Group()).key());
  EXPECT_THAT(progress().error, HasSubstr("deleted before it was ready"));
}

// Velero cancels when its --item-operation-timeout is over.
TEST_F(GroupActionsTest, AGroupThatNeverBecomesReadyIsVelerosToCancel) {
  const Result result = Adopt();
  ASSERT_THAT(result, IsOk());
  api_.SetField(support::As<objects::VolumeGroupSnapshot>(Group()).key(), {"status", "readyToUse"},
                false);
  clock_.Advance(absl::Hours(4));
  const auto progress = AskProgress(*group_action_, result->operation_id);
  ASSERT_THAT(progress, IsOk());
  EXPECT_FALSE(progress->completed);
  EXPECT_EQ(progress->description, "taken, freeze window 0, not ready");
  EXPECT_THAT(RunCancel(*group_action_, result->operation_id), IsOk());
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
}

TEST_F(GroupActionsTest, OperationsAreToldApart) {
  const Result result = Adopt();
  ASSERT_THAT(result, IsOk());
  const auto mistaken = AskProgress(*snapshot_action_, result->operation_id);
  ASSERT_THAT(mistaken, IsOk());
  EXPECT_THAT(mistaken->error, HasSubstr("not an operation id of csi-delta"));
  for (const char* odd : {"", "g1/a/b/c", "1/app/x/u/2023-11-14T22:13:20Z", "g1////"}) {
    const auto progress = AskProgress(*group_action_, odd);
    ASSERT_THAT(progress, IsOk());
    EXPECT_TRUE(progress->completed);
    EXPECT_NE(progress->error, "");
  }
}

TEST_F(GroupActionsTest, ACancelledGroupIsRemovedUnlessItIsReady) {
  const Result result = Adopt();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(RunCancel(*group_action_, result->operation_id), IsOk());
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  api_.SetField(support::As<objects::VolumeGroupSnapshot>(Group()).key(), {"status", "readyToUse"},
                false);
  EXPECT_THAT(RunCancel(*group_action_, result->operation_id), IsOk());
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(RunCancel(*group_action_, result->operation_id), IsOk());
}

TEST_F(GroupActionsTest, AtTheEndTheDriverKeepsTheGroupAndNothingElseIsLeft) {
  ASSERT_THAT(Adopt(), IsOk());
  std::vector<Json> members = api_.All(VolumeSnapshotType());
  for (Json& member : members) {
    ASSERT_THAT(RunAction(*snapshot_action_, member), IsOk());
  }
  members = api_.All(VolumeSnapshotType());
  const Json group = Group();
  Finalizing();
  for (const Json& member : members) {
    Succeed(*snapshot_action_, member);
  }
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(3)) << "members go with their group";
  const velero::BackupItemResult finalized = Succeed(*group_action_, group);
  EXPECT_EQ(
      finalized.item.value_or(objects::Object(group)).Annotation("velero.io/csi-delta-finalize"),
      "");
  EXPECT_EQ(finalized.operation_id, "");
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
  EXPECT_THAT(api_.All(VolumeGroupSnapshotContentType("v1")), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
  EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
}

TEST_F(GroupActionsTest, AGroupThatCannotBeArchivedIsRemoved) {
  api_.FailNext("patch", "volumegroupsnapshots", absl::InternalError("injected"));
  EXPECT_THAT(Adopt(), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(cluster_.driver().groups(), IsEmpty());
  EXPECT_THAT(api_.All(VolumeGroupSnapshotType("v1")), IsEmpty());
}

// The plugin may be killed while it saves the group, which Velero does not ask for again.
TEST_F(GroupActionsTest, ClaimsOfAGroupThatIsNotInTheArchiveFail) {
  action_ = MakePvcAction(env_);
  const std::string group = k8s::Name(Group());
  for (int i = 1; i < 3; ++i) {
    EXPECT_THAT(Execute(i), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr("app/" + Name(i)), HasSubstr("app/" + group),
                                           HasSubstr("back up again"))));
  }
  EXPECT_THAT(cluster_.driver().groups(), SizeIs(1))
      << "another of its name would not be saved, too";
  ASSERT_THAT(Adopt(), IsOk());
  action_ = MakePvcAction(env_);
  EXPECT_THAT(Execute(1), IsOk());
}

TEST_F(GroupActionsTest, AMemberIsNotRemovedAlone) {
  const Json member = api_.All(VolumeSnapshotType()).front();
  api_.FailNext("patch", "volumesnapshots", absl::InternalError("injected"));
  EXPECT_FALSE(RunAction(*snapshot_action_, member).ok());
  EXPECT_FALSE(k8s::BeingDeleted(*api_.Find(VolumeSnapshotKey("app", k8s::Name(member)))));
  const velero::BackupItemResult adopted = Succeed(*snapshot_action_, member);
  api_.SetField(VolumeSnapshotKey("app", k8s::Name(member)), {"status", "readyToUse"}, false);
  EXPECT_THAT(RunCancel(*snapshot_action_, adopted.operation_id), IsOk());
  EXPECT_FALSE(k8s::BeingDeleted(*api_.Find(VolumeSnapshotKey("app", k8s::Name(member)))));
}

TEST_F(GroupActionsTest, AContentIsArchivedWithTheMembersOfItsGroup) {
  api_.Mutate(GroupContentKey("v1", k8s::Name(Content())), [](Json& content) {
    SetJson(content, {"metadata", "annotations", objects::kGroupDeletionSecretNameAnnotation},
            "key");
    SetJson(content, {"metadata", "annotations", objects::kGroupDeletionSecretNamespaceAnnotation},
            "vault");
  });
  ASSERT_THAT(Adopt(), IsOk());
  const velero::BackupItemResult result = Succeed(*content_action_, Content());
  EXPECT_THAT(result.additional_items,
              ElementsAre(velero::ResourceIdentifier{"", "secrets", "vault", "key"}));
  const auto members = ParseJson(result.item->Annotation(objects::kGroupMembersAnnotation));
  ASSERT_THAT(members, IsOk());
  ASSERT_THAT(*members, SizeIs(3));
  EXPECT_EQ((*members)[1],
            (Json{{"claim", "data-1"},
                  {"claimUid", "uid-1"},
                  {"volumeHandle", "member-1"},
                  {"snapshotHandle", cluster_.MemberHandle(k8s::Uid(Group()), "member-1")}}));
  EXPECT_EQ(result.item->Annotation(objects::kDeletionPolicyAnnotation), "Delete");
  EXPECT_EQ(result.item->Annotation(objects::kDriverNameAnnotation), "d.example.com");

  // What is archived at the end says the same, though the group is gone by then.
  const Json collected = Content();
  Finalizing();
  ASSERT_THAT(RunAction(*group_action_, Group()), IsOk());
  const velero::BackupItemResult finalized = Succeed(*content_action_, collected);
  EXPECT_EQ(finalized.item->Annotation(objects::kGroupMembersAnnotation),
            result.item->Annotation(objects::kGroupMembersAnnotation));
  EXPECT_THAT(finalized.additional_items, IsEmpty());
}

TEST_F(GroupActionsTest, MembersThatTheContentHidesAreArchivedAsTheGroupNotedThem) {
  ASSERT_THAT(Adopt(), IsOk());
  const Json members = {{{"claim", "data-0"},
                         {"claimUid", "uid-0"},
                         {"volumeHandle", "member-0"},
                         {"snapshotHandle", "cut-0"}}};
  Json content = Content();
  EraseJson(content, {"status", "volumeSnapshotInfoList"});
  SetJson(content, {"metadata", "annotations", objects::kGroupMembersAnnotation},
          DumpJson(members));
  const velero::BackupItemResult result = Succeed(*content_action_, content);
  const objects::Object archived = result.item.value_or(objects::Object(content));
  EXPECT_EQ(ParseJson(archived.Annotation(objects::kGroupMembersAnnotation)).value(), members);
}

// A tenant writes the group's annotations: the driver would be asked to restore, and to delete, the
// snapshot of another one.
TEST_F(GroupActionsTest, OfMembersThatTheContentHidesOnlyThoseAreArchivedThatContentsProve) {
  const std::string own = cluster_.MemberHandle(k8s::Uid(Group()), "member-0");
  auto planned = csi::PlannedMembers(objects::Object(Group()));
  planned[0].snapshot_handle = own;
  planned[1].snapshot_handle = "handle-of-the-bank";
  api_.Seed(
      VolumeSnapshotContentType(),
      {{"metadata",
        {{"name", "of-the-bank"}, {"labels", {{objects::kGroupNameLabel, k8s::Name(Group())}}}}},
       {"spec",
        {{"source", {{"snapshotHandle", "handle-of-the-bank"}}},
         {"volumeSnapshotRef", {{"namespace", "bank"}, {"name", "gold"}}}}}});
  api_.SetField(support::As<objects::VolumeGroupSnapshot>(Group()).key(),
                {"metadata", "annotations", objects::kGroupMembersAnnotation},
                objects::FormatGroupPlan(planned));
  ASSERT_THAT(Adopt(), IsOk());
  for (const bool is_annotated : {true, false}) {
    Json content = Content();
    EraseJson(content, {"status", "volumeSnapshotInfoList"});
    if (!is_annotated) {
      EraseJson(content, {"metadata", "annotations"});
    }
    const auto archived = support::As<objects::VolumeGroupSnapshotContent>(
        Succeed(*content_action_, content).item.value_or(objects::Object(content)).json());
    ASSERT_THAT(archived.archived_members(), SizeIs(1));
    EXPECT_EQ(archived.archived_members().front().snapshot_handle, own);
  }
}

TEST_F(GroupActionsTest, TheClaimsAreKnownWithoutTheContentsAnnotation) {
  ASSERT_THAT(Adopt(), IsOk());
  api_.Mutate(GroupContentKey("v1", k8s::Name(Content())), [](Json& content) {
    EraseJson(content, {"metadata", "annotations"});
  });
  const velero::BackupItemResult result = Succeed(*content_action_, Content());
  EXPECT_THAT(result.item->Annotation(objects::kGroupMembersAnnotation),
              HasSubstr("\"claim\":\"data-2\""));
}

TEST_F(GroupActionsTest, AUsersGroupIsArchivedWithContentAndClassAndStays) {
  api_.Mutate(support::As<objects::VolumeGroupSnapshot>(Group()).key(), [](Json& group) {
    EraseJson(group, {"metadata", "labels"});
  });
  const Json group = Group();
  const int writes = Writes();
  const Result result = Adopt();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->additional_items, SizeIs(2));
  EXPECT_THAT(
      result->additional_items,
      Not(Contains(testing::Field(&velero::ResourceIdentifier::resource, "volumesnapshots"))));
  EXPECT_EQ(result->operation_id, "");
  EXPECT_EQ(result->item->uid(), k8s::Uid(group));
  EXPECT_NE(result->item->Annotation(objects::kGroupSnapshotHandleAnnotation), "");
  Finalizing();
  const Result finalized = Adopt();
  ASSERT_THAT(finalized, IsOk());
  EXPECT_FALSE(finalized->item.has_value());
  ASSERT_THAT(api_.All(VolumeGroupSnapshotType("v1")), SizeIs(1));
  EXPECT_EQ(Group(), group);
  EXPECT_EQ(Writes(), writes);
}

TEST_F(GroupActionsTest, ClassesBringTheirSecrets) {
  const auto action = MakeVolumeGroupSnapshotClassAction(env_);
  const Json item = {
      {"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
      {"kind", "VolumeGroupSnapshotClass"},
      {"metadata", {{"name", "groups"}}},
      {"parameters",
       {{"csi.storage.k8s.io/group-snapshotter-secret-name", "cut"},
        {"csi.storage.k8s.io/group-snapshotter-secret-namespace", "vault"},
        {"csi.storage.k8s.io/group-snapshotter-get-secret-name", "${volumegroupsnapshot.name}"},
        {"csi.storage.k8s.io/group-snapshotter-get-secret-namespace", "vault"}}}};
  const velero::BackupItemResult result = Succeed(*action, item);
  EXPECT_THAT(result.additional_items,
              ElementsAre(velero::ResourceIdentifier{"", "secrets", "vault", "cut"}));
}

TEST_F(GroupActionsTest, HandsOffWithoutTheFeature) {
  env_.enable_csi = false;
  for (const auto& action : {MakeVolumeGroupSnapshotAction, MakeVolumeGroupSnapshotContentAction,
                             MakeVolumeGroupSnapshotClassAction}) {
    const velero::BackupItemResult result = Succeed(*action(env_), Group());
    EXPECT_FALSE(result.item.has_value());
    EXPECT_THAT(result.additional_items, IsEmpty());
  }
}

TEST_F(GroupActionsTest, GarbageIsNoGroup) {
  for (const auto& action : {MakeVolumeGroupSnapshotAction, MakeVolumeGroupSnapshotContentAction,
                             MakeVolumeGroupSnapshotClassAction}) {
    for (const Json& item :
         {Json::object(), Json{{"metadata", "x"}}, Json{{"status", 7}}, Json{{"spec", "y"}}}) {
      EXPECT_THAT(RunAction(*action(env_), item), IsOk());
    }
    EXPECT_THAT(action(env_)->Execute(ctx_, objects::Object(Group()), objects::Object(Json(5))),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace csidelta::backupitemactions::volume_group_test
