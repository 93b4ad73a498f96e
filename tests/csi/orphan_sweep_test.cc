#include "csi/orphan_sweep.h"

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>

#include "base/rfc3339.h"
#include "csi/drop.h"
#include "csi/group/group_lifecycle.h"
#include "csi/snapshot_lifecycle.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "velero/labels.h"

namespace csidelta::csi::orphan_sweep_test {
namespace {

using support::ActionBed;
using support::IsOk;
using support::MakeBackupObject;
using support::MakeContentObject;
using support::MakeSnapshotObject;
using support::StatusIs;

// What the store holds about one backup called "nightly", and what the sweep must do.
struct SweepCase {
  const char* name;
  std::string phase;  // of the Backup; "" when none exists
  std::string backup_uid = "uid-1";
  bool archived = true;  // the VolumeSnapshot entered the archive
  bool unseen_before = false;
  bool owned_before = false;
  absl::Duration unseen_for = absl::ZeroDuration();
  std::string policy = "Delete";
  bool swept = false;
  bool finished = false;
};
std::ostream& operator<<(std::ostream& out, const SweepCase& test) { return out << test.name; }

// Of the VolumeSnapshot that a backup with uid-1 takes of the claim "data".
std::string OurName() {
  const auto backup =
      support::As<objects::Backup>(MakeBackupObject("nightly", "InProgress", "uid-1"));
  return SnapshotName({.backup = backup,
                       .claim_namespace = "shop",
                       .claim_name = "data",
                       .claim_uid = "data-uid",
                       .class_name = ""});
}

class OrphanSweepTest : public testing::TestWithParam<SweepCase> {
 protected:
  support::Strings LabelsOf(const std::string& backup) const {
    return {{objects::kCsiDeltaLabel, support::kVeleroNamespace},
            {objects::kBackupNameLabel, velero::ValidLabelValue(backup)},
            {objects::kBackupUidLabel, "uid-1"},
            {objects::kPvcUidLabel, "data-uid"}};
  }

  // The backup that calls is one of this Velero's.
  void SetUp() override {
    bed_.api.Seed(BackupType(), MakeBackupObject("today", "InProgress", "today-uid"));
  }

  void SeedSnapshot(const support::Strings& labels, const support::Strings& annotations,
                    const std::string& policy = "Delete") {
    bed_.api.Seed(VolumeSnapshotType(),
                  MakeSnapshotObject("shop", OurName(), "content", labels, annotations));
    Json content = MakeContentObject("content", "shop", OurName(), "handle-1");
    SetJson(content, {"spec", "deletionPolicy"}, policy);
    const auto backup = labels.find(objects::kBackupNameLabel);
    if (annotations.contains(objects::kVolumeSnapshotHandleAnnotation) && backup != labels.end()) {
      SetJson(content, {"metadata", "labels", objects::kBackupNameLabel}, backup->second);
    }
    bed_.api.Seed(VolumeSnapshotContentType(), content);
  }

  SweepResult Sweep(const velero::PluginConfig& config = {}) {
    const auto running = objects::Backup::Make(support::kVeleroNamespace, "today");
    const absl::StatusOr<SweepResult> result = SweepOrphans(bed_.ctx, bed_.env, running, config);
    EXPECT_THAT(result, IsOk());
    return result.value_or(SweepResult());
  }

  bool SnapshotStands() const {
    return bed_.api.Find(VolumeSnapshotKey("shop", OurName())).has_value();
  }
  std::string ContentPolicy() const {
    return GetString(*bed_.api.Find(VolumeSnapshotContentKey("content")),
                     {"spec", "deletionPolicy"});
  }

  std::optional<std::string> policy_at_the_end_;  // of a content that was deleted
  ActionBed bed_;
};

TEST_P(OrphanSweepTest, FollowsTheTable) {
  const SweepCase& test = GetParam();
  support::Strings annotations;
  if (test.archived) {
    annotations[objects::kVolumeSnapshotHandleAnnotation] = "handle-1";
  }
  if (test.unseen_before) {
    annotations[objects::kBackupMissingSinceAnnotation] =
        FormatRfc3339(bed_.clock.Now() - test.unseen_for);
  }
  if (test.owned_before) {
    annotations[objects::kOwnedByBackupAnnotation] = "true";
  }
  SeedSnapshot(LabelsOf("nightly"), annotations, test.policy);
  if (!test.phase.empty()) {
    bed_.api.Seed(BackupType(), MakeBackupObject("nightly", test.phase, test.backup_uid));
  }
  bed_.api.OnEvent("volumesnapshotcontents",
                   [this](support::FakeApiClient&, const k8s::WatchEvent& event) {
                     if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
                       policy_at_the_end_ = GetString(event.object, {"spec", "deletionPolicy"});
                     }
                   });

  const SweepResult result = Sweep();

  EXPECT_EQ(SnapshotStands(), !test.swept && !test.finished);
  EXPECT_EQ(result.swept, test.swept ? 1 : 0);
  EXPECT_EQ(result.finished, test.finished ? 1 : 0);
  EXPECT_EQ(result.kept, test.swept || test.finished ? 0 : 1);
  const std::string kept_policy = test.finished ? "Retain" : test.policy;
  EXPECT_EQ(policy_at_the_end_.value_or(kept_policy), kept_policy);
  if (!test.finished) {
    EXPECT_EQ(ContentPolicy(), test.swept ? "Delete" : test.policy);
  }
}

const SweepCase kCases[] = {
    {.name = "CompletedOwns", .phase = "Completed", .finished = true},
    {.name = "PartiallyFailedOwns", .phase = "PartiallyFailed", .finished = true},
    {.name = "CompletedUnderANewUid", .phase = "Completed", .backup_uid = "uid-2"},
    {.name = "CompletedOwnsRetained", .phase = "Completed", .policy = "Retain", .finished = true},
    {.name = "ItemDiedInAPartialBackup",
     .phase = "PartiallyFailed",
     .archived = false,
     .swept = true},
    {.name = "Failed", .phase = "Failed", .swept = true},
    {.name = "FailedWithRetainingClass", .phase = "Failed", .policy = "Retain", .swept = true},
    {.name = "FailedUnarchived", .phase = "Failed", .archived = false, .swept = true},
    {.name = "FailedSameNameOtherUid", .phase = "Failed", .backup_uid = "uid-2"},
    {.name = "FailedOtherUidUnarchived",
     .phase = "Failed",
     .backup_uid = "uid-2",
     .archived = false,
     .swept = true},
    {.name = "StillRunning", .phase = "InProgress", .archived = false},
    {.name = "StillWaiting", .phase = "WaitingForPluginOperations"},
    {.name = "StillFinalizing", .phase = "Finalizing"},
    {.name = "BeingDeleted", .phase = "Deleting"},
    {.name = "PhaseOfTheFuture", .phase = "Dreaming"},
    {.name = "UnseenForTheFirstTime", .phase = ""},
    {.name = "UnseenForAnHour", .phase = "", .unseen_before = true, .unseen_for = absl::Hours(1)},
    {.name = "UnseenForADay",
     .phase = "",
     .unseen_before = true,
     .unseen_for = absl::Hours(24),
     .swept = true},
    {.name = "UnseenButOwned",
     .phase = "",
     .unseen_before = true,
     .owned_before = true,
     .unseen_for = absl::Hours(100)},
    {.name = "UnseenButRetained",
     .phase = "",
     .unseen_before = true,
     .unseen_for = absl::Hours(100),
     .policy = "Retain"},
};
INSTANTIATE_TEST_SUITE_P(Table, OrphanSweepTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(OrphanSweepTest, NamespaceOfVeleroDeletedAndCreatedAgain) {
  SeedSnapshot(LabelsOf("nightly"), {{objects::kVolumeSnapshotHandleAnnotation, "handle-1"}});
  bed_.clock.Advance(absl::Hours(100));  // Old, but its Backup was not missed yet.

  Sweep();
  EXPECT_TRUE(SnapshotStands());

  // The Backup is read again from the object store, under a new uid.
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Completed", "uid-2"));
  bed_.clock.Advance(absl::Hours(100));
  Sweep();
  EXPECT_TRUE(SnapshotStands());

  // From now on it is known as owned, even if the store is lost for good.
  bed_.api.Remove({BackupType(), support::kVeleroNamespace, "nightly"});
  for (int day = 0; day < 5; ++day) {
    bed_.clock.Advance(absl::Hours(100));
    Sweep();
  }
  EXPECT_TRUE(SnapshotStands());
}

// Velero 1.14 to 1.16 write the annotation on what any backup meets, and so may every tenant. What
// entered no archive would stay in the storage for good, named by nothing.
TEST_F(OrphanSweepTest, AnAnnotationAloneDoesNotProveThatTheArchiveHasIt) {
  SeedSnapshot(LabelsOf("nightly"), {{objects::kVolumeSnapshotHandleAnnotation, "handle-1"}});
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Completed", "uid-1"));
  const auto label = [&](const char* backup) {
    bed_.api.SetField(VolumeSnapshotContentKey("content"),
                      {"metadata", "labels", objects::kBackupNameLabel}, backup);
  };
  label("of-a-later-backup");  // Velero 1.17 and newer label what any backup meets.
  ASSERT_EQ(Sweep().kept, 1);
  EXPECT_EQ(ContentPolicy(), "Delete");
  label("");
  const SweepResult result = Sweep();
  EXPECT_EQ(result.swept, 1);
  EXPECT_EQ(result.finished, 0);
  EXPECT_FALSE(SnapshotStands());
}

TEST_F(OrphanSweepTest, ASeenBackupRestartsTheGracePeriod) {
  SeedSnapshot(LabelsOf("nightly"), {});
  Sweep();
  bed_.clock.Advance(absl::Hours(23));
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "InProgress", "uid-1"));
  Sweep();
  bed_.api.Remove({BackupType(), support::kVeleroNamespace, "nightly"});
  bed_.clock.Advance(absl::Hours(2));
  Sweep();
  EXPECT_TRUE(SnapshotStands());
  bed_.clock.Advance(absl::Hours(24));
  Sweep();
  EXPECT_FALSE(SnapshotStands());
}

TEST_F(OrphanSweepTest, GracePeriodIsASetting) {
  SeedSnapshot(LabelsOf("nightly"), {});
  velero::PluginConfig config;
  config.orphan_grace_period = absl::Minutes(5);
  Sweep(config);
  bed_.clock.Advance(absl::Minutes(6));
  Sweep(config);
  EXPECT_FALSE(SnapshotStands());
}

TEST_F(OrphanSweepTest, CanBeSwitchedOff) {
  SeedSnapshot(LabelsOf("nightly"), {});
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
  velero::PluginConfig config;
  config.sweep_orphans = false;
  Sweep(config);
  EXPECT_TRUE(SnapshotStands());
  EXPECT_TRUE(bed_.api.calls().empty());
}

TEST_F(OrphanSweepTest, LongBackupNameIsFoundByItsHash) {
  const std::string name(80, 'n');
  SeedSnapshot(LabelsOf(name), {{objects::kVolumeSnapshotHandleAnnotation, "handle-1"}});
  bed_.api.Seed(BackupType(), MakeBackupObject(name, "Completed", "uid-2"));
  bed_.clock.Advance(absl::Hours(100));
  Sweep();
  EXPECT_EQ(k8s::Annotation(*bed_.api.Find(VolumeSnapshotKey("shop", OurName())),
                            objects::kOwnedByBackupAnnotation),
            "true");
}

TEST_F(OrphanSweepTest, ABackupThatCannotBeReadStillExists) {
  Json backup = MakeBackupObject("nightly", "Failed", "uid-1");
  SetJson(backup, {"spec", "csiSnapshotTimeout"}, "for ever");
  bed_.api.Seed(BackupType(), backup);
  SeedSnapshot(LabelsOf("nightly"), {});
  Sweep();
  ASSERT_TRUE(SnapshotStands());
  EXPECT_EQ(k8s::Annotation(*bed_.api.Find(VolumeSnapshotKey("shop", OurName())),
                            objects::kBackupMissingSinceAnnotation),
            "");
}

TEST_F(OrphanSweepTest, LeavesTheRunningBackupAlone) {
  SeedSnapshot(LabelsOf("today"), {});
  Sweep();
  EXPECT_TRUE(SnapshotStands());
  EXPECT_EQ(bed_.api.calls().size(), 3u) << "VolumeSnapshots, groups and labels of groups";
  EXPECT_EQ(bed_.api.CallCount("list", "*"), 3);
}

// A second cluster on the same storage, and a second Velero in the same cluster: what they hold is
// restored, or labelled for another namespace.
TEST_F(OrphanSweepTest, LeavesRestoredAndForeignSnapshotsAlone) {
  support::Strings restored = LabelsOf("nightly");
  restored[objects::kRestoreNameLabel] = "r1";
  support::Strings foreign = LabelsOf("nightly");
  foreign[objects::kCsiDeltaLabel] = "velero-2";
  support::Strings by_velero = LabelsOf("nightly");
  by_velero.erase(objects::kCsiDeltaLabel);
  int number = 0;
  for (const support::Strings& labels : {restored, foreign, by_velero}) {
    bed_.api.Seed(VolumeSnapshotType(),
                  MakeSnapshotObject(absl::StrCat("s", number++), OurName(), "content", labels));
  }
  // As a user makes by editing a copy of a managed one.
  bed_.api.Seed(VolumeSnapshotType(),
                MakeSnapshotObject("shop", "my-copy", "content", LabelsOf("nightly")));
  Json bound_statically = MakeSnapshotObject("shop", OurName(), "content", LabelsOf("nightly"));
  SetJson(bound_statically, {"spec", "source"}, Json{{"volumeSnapshotContentName", "content"}});
  bed_.api.Seed(VolumeSnapshotType(), bound_statically);
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));

  const SweepResult result = Sweep();

  EXPECT_EQ(result.swept, 0);
  EXPECT_EQ(bed_.api.All(VolumeSnapshotType()).size(), 5u);
}

TEST_F(OrphanSweepTest, ContentWithoutItsVolumeSnapshotIsNeverTouched) {
  bed_.api.Seed(VolumeSnapshotContentType(),
                MakeContentObject("content", "shop", OurName(), "handle-1", LabelsOf("nightly")));
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
  Sweep();
  EXPECT_EQ(ContentPolicy(), "Delete");
  EXPECT_EQ(bed_.api.CallCount("patch", "volumesnapshotcontents"), 0);
}

// It was never bound, or its content is gone: there is nothing that the archive could need.
TEST_F(OrphanSweepTest, AnUnseenVolumeSnapshotWithoutAContentGoesAfterTheGracePeriod) {
  for (const bool is_bound : {false, true}) {
    SeedSnapshot(LabelsOf("nightly"), {{objects::kBackupMissingSinceAnnotation,
                                        FormatRfc3339(bed_.clock.Now() - absl::Hours(25))}});
    bed_.api.Remove(VolumeSnapshotContentKey("content"));
    if (!is_bound) {
      bed_.api.Mutate(VolumeSnapshotKey("shop", OurName()),
                      [](Json& snapshot) { snapshot.erase("status"); });
    }
    EXPECT_EQ(Sweep().swept, 1) << is_bound;
    EXPECT_FALSE(SnapshotStands()) << is_bound;
  }
}

TEST_F(OrphanSweepTest, DeletesARestoredSnapshotOnceItsClaimIsFilled) {
  SeedSnapshot(
      {{objects::kCsiDeltaLabel, support::kVeleroNamespace}, {objects::kRestoreNameLabel, "r1"}},
      {{objects::kDeleteWhenFilledAnnotation, "true"}});
  Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
  SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", OurName()}});
  SetJson(claim, {"status", "phase"}, "Pending");
  bed_.api.Seed(PersistentVolumeClaimType(), claim);
  EXPECT_EQ(Sweep().kept, 1);
  EXPECT_TRUE(SnapshotStands());

  bed_.api.SetField({PersistentVolumeClaimType(), "shop", "data"}, {"status", "phase"}, "Bound");
  bed_.api.FailNext("list", "persistentvolumeclaims", absl::UnavailableError("away"), 2);
  EXPECT_EQ(Sweep().kept, 1) << "what is not known ends no sweep, and deletes nothing";
  EXPECT_TRUE(SnapshotStands());
  EXPECT_EQ(Sweep().deleted_late, 1);
  EXPECT_FALSE(SnapshotStands());
}

TEST_F(OrphanSweepTest, AMarkAloneDeletesNothing) {
  SeedSnapshot(
      {{objects::kCsiDeltaLabel, support::kVeleroNamespace}, {objects::kRestoreNameLabel, "r1"}},
      {{objects::kDeleteWhenFilledAnnotation, "true"}}, "Retain");
  EXPECT_EQ(Sweep().kept, 1);
  EXPECT_TRUE(SnapshotStands());
  EXPECT_EQ(ContentPolicy(), "Retain");
}

// An administrator made it of a snapshot that no tenant may delete.
TEST_F(OrphanSweepTest, AMarkDeletesNoRetainedContentThatIsNotBoundYet) {
  SeedSnapshot({{objects::kCsiDeltaLabel, support::kVeleroNamespace}},
               {{objects::kDeleteWhenFilledAnnotation, "true"}}, "Retain");
  bed_.api.Mutate(VolumeSnapshotKey("shop", OurName()), [](Json& snapshot) {
    snapshot["spec"]["source"] = {{"volumeSnapshotContentName", "content"}};
    snapshot.erase("status");
  });
  bed_.api.Mutate(VolumeSnapshotContentKey("content"), [](Json& content) {
    content["spec"]["source"] = {{"snapshotHandle", "handle-1"}};
    content["spec"]["volumeSnapshotRef"].erase("uid");
  });
  EXPECT_EQ(Sweep().kept, 1);
  EXPECT_TRUE(SnapshotStands());
  EXPECT_EQ(ContentPolicy(), "Retain");
}

TEST_F(OrphanSweepTest, DeletesNothingWhileAnotherClaimIsFilledFromTheSameHandle) {
  const support::Strings labels = {{objects::kCsiDeltaLabel, support::kVeleroNamespace},
                                   {objects::kRestoreNameLabel, "r1"}};
  const support::Strings marks = {{objects::kDeleteWhenFilledAnnotation, "true"},
                                  {objects::kVolumeSnapshotHandleAnnotation, "handle-1"}};
  for (const std::string space : {"a", "b"}) {
    bed_.api.Seed(VolumeSnapshotType(),
                  MakeSnapshotObject(space, OurName(), "content-" + space, labels, marks));
    bed_.api.Seed(VolumeSnapshotContentType(),
                  MakeContentObject("content-" + space, space, OurName(), "handle-1"));
  }
  Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "b", "data");
  SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", OurName()}});
  bed_.api.Seed(PersistentVolumeClaimType(), claim);
  EXPECT_EQ(Sweep().kept, 2);

  // A tenant names the snapshot of another one.
  bed_.api.SetField(VolumeSnapshotContentKey("content-b"), {"status", "snapshotHandle"}, "other");
  EXPECT_EQ(Sweep().deleted_late, 1);
  bed_.api.Remove({PersistentVolumeClaimType(), "b", "data"});
  EXPECT_EQ(Sweep().deleted_late, 1);
  EXPECT_TRUE(bed_.api.All(VolumeSnapshotType()).empty());
}

TEST_F(OrphanSweepTest, DecidesAgainAfterTheBackupsWereListed) {
  SeedSnapshot(LabelsOf("nightly"), {});
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Completed", "uid-2"));
  bed_.api.SetInterceptor([this](const support::ApiCall& call, const Json*) {
    if (call.verb == "list" && call.plural == "backups") {
      bed_.api.Mutate(VolumeSnapshotKey("shop", OurName()), [](Json& snapshot) {
        SetJson(snapshot, {"metadata", "annotations", objects::kVolumeSnapshotHandleAnnotation},
                "handle-1");
      });
      bed_.api.SetField(VolumeSnapshotContentKey("content"),
                        {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(Sweep().kept, 1);
  EXPECT_TRUE(SnapshotStands());
}

TEST_F(OrphanSweepTest, FailsIfTheRunningBackupIsNotListed) {
  SeedSnapshot(LabelsOf("nightly"), {});
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
  bed_.api.Remove({BackupType(), support::kVeleroNamespace, "today"});
  const auto running = objects::Backup::Make(support::kVeleroNamespace, "today");
  EXPECT_THAT(SweepOrphans(bed_.ctx, bed_.env, running, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(SnapshotStands());
}

// Whatever call fails, nothing that must stay is lost, and the next sweep finishes the work.
TEST_F(OrphanSweepTest, SurvivesAnyFailingCall) {
  for (int call = 1;; ++call) {
    ActionBed bed;
    bed.api.Seed(VolumeSnapshotType(),
                 MakeSnapshotObject("shop", OurName(), "content", LabelsOf("nightly")));
    Json content = MakeContentObject("content", "shop", OurName(), "handle-1");
    SetJson(content, {"spec", "deletionPolicy"}, "Retain");
    bed.api.Seed(VolumeSnapshotContentType(), content);
    bed.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
    bed.api.Seed(BackupType(), MakeBackupObject("today", "InProgress"));
    const auto running = objects::Backup::Make(support::kVeleroNamespace, "today");
    bed.api.FailCall(call, absl::PermissionDeniedError("not allowed"));
    (void)SweepOrphans(bed.ctx, bed.env, running, {});
    if (!bed.api.sweep_hit()) {
      EXPECT_GT(call, 4);
      return;
    }
    bed.api.ClearFaults();
    EXPECT_THAT(SweepOrphans(bed.ctx, bed.env, running, {}), IsOk());
    EXPECT_FALSE(bed.api.Find(VolumeSnapshotKey("shop", OurName())).has_value()) << call;
    EXPECT_EQ(
        GetString(*bed.api.Find(VolumeSnapshotContentKey("content")), {"spec", "deletionPolicy"}),
        "Delete");
  }
}

TEST_F(OrphanSweepTest, AClusterWithoutSnapshotsHasNoOrphans) {
  bed_.api.RemoveType("volumesnapshots");
  EXPECT_EQ(Sweep().swept, 0);
}

TEST_F(OrphanSweepTest, FailedListingIsReturned) {
  SeedSnapshot(LabelsOf("nightly"), {});
  bed_.api.Forbid("list", "backups");
  const auto running = objects::Backup::Make(support::kVeleroNamespace, "today");
  EXPECT_THAT(SweepOrphans(bed_.ctx, bed_.env, running, {}),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(SnapshotStands());
}

// A group of two claims that the backup "nightly" with uid-1 made before it ended.
class GroupSweepTest : public OrphanSweepTest {
 protected:
  void SetUp() override {
    OrphanSweepTest::SetUp();
    bed_.clock.SetAutoAdvance(true);
    GroupRequest request{.backup = backup_,
                         .namespace_name = "shop",
                         .label_key = "velero.io/volume-group",
                         .label_value = "db",
                         .class_name = "groups",
                         .version = "v1",
                         .members = {}};
    for (const std::string number : {"1", "2"}) {
      bed_.api.Seed(PersistentVolumeType(),
                    {{"metadata", {{"name", "pv-" + number}}},
                     {"spec", {{"csi", {{"volumeHandle", "volume-" + number}}}}}});
      bed_.api.Seed(PersistentVolumeClaimType(),
                    {{"metadata",
                      {{"name", "data-" + number}, {"namespace", "shop"}, {"uid", "c-" + number}}},
                     {"spec", {{"volumeName", "pv-" + number}}}});
      request.members.push_back(
          {.pvc = "data-" + number, .pvc_uid = "c-" + number, .volume_handle = "volume-" + number});
    }
    const auto taken = TakeGroup(bed_.ctx, bed_.env, request);
    ASSERT_THAT(taken, IsOk());
    mark_ = GroupMark(request);
    group_ = taken->group.json();
  }

  void EnterArchive() {
    bed_.api.SetField(support::As<objects::VolumeGroupSnapshot>(group_).key(),
                      {"metadata", "annotations", objects::kGroupSnapshotHandleAnnotation}, "g");
    for (const Json& member : bed_.api.All(VolumeSnapshotType())) {
      bed_.api.Mutate(VolumeSnapshotKey("shop", k8s::Name(member)), [](Json& snapshot) {
        SetJson(snapshot, {"metadata", "annotations", objects::kVolumeSnapshotHandleAnnotation},
                "s");
      });
    }
  }

  std::string MarkOf(const std::string& claim) {
    return k8s::Label(*bed_.api.Find(ClaimKey("shop", claim)), objects::kGroupMarkLabel);
  }

  support::FakeSnapshotCluster cluster_{bed_.api};
  const objects::Backup backup_ =
      support::As<objects::Backup>(MakeBackupObject("nightly", "InProgress", "uid-1"));
  std::string mark_;
  Json group_;
};

TEST_F(GroupSweepTest, AGroupOfAFailedBackupGoesWithItsMembers) {
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
  const SweepResult result = Sweep();
  EXPECT_EQ(result.swept, 1);
  EXPECT_TRUE(support::SnapshotObjects(bed_.api).empty());
  EXPECT_TRUE(cluster_.driver().groups().empty());
}

TEST_F(GroupSweepTest, AGroupThatEnteredTheArchiveIsFinished) {
  EnterArchive();
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Completed", "uid-1"));
  ASSERT_EQ(Sweep().kept, 1) << "an annotation alone proves nothing";
  bed_.api.SetField(ContentKeyOf(support::As<objects::VolumeGroupSnapshot>(group_)),
                    {"metadata", "labels", objects::kBackupNameLabel}, "nightly");
  const SweepResult result = Sweep();
  EXPECT_EQ(result.finished, 1);
  EXPECT_EQ(result.swept, 0);
  EXPECT_TRUE(support::SnapshotObjects(bed_.api).empty());
  EXPECT_EQ(cluster_.driver().groups().size(), 1u);
}

TEST_F(GroupSweepTest, MembersStayIfGroupsCannotBeListed) {
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
  bed_.api.Forbid("list", "volumegroupsnapshots");
  const SweepResult result = Sweep();
  EXPECT_EQ(result.swept + result.kept, 0);
  EXPECT_EQ(bed_.api.All(VolumeSnapshotType()).size(), 2u);
}

TEST_F(GroupSweepTest, AGroupOfARunningBackupStays) {
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "InProgress", "uid-1"));
  Sweep();
  EXPECT_EQ(cluster_.driver().groups().size(), 1u);
  EXPECT_EQ(bed_.api.All(VolumeSnapshotType()).size(), 2u);
}

TEST_F(GroupSweepTest, LabelsOfABackupThatEndedAreTakenOff) {
  const auto mark = [this](const std::string& claim, const std::string& value) {
    bed_.api.SetField(ClaimKey("shop", claim), {"metadata", "labels", objects::kGroupMarkLabel},
                      value);
  };
  mark("data-1", mark_);
  mark("data-2", "another-uid.12345678");
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "InProgress", "uid-1"));
  EXPECT_EQ(Sweep().unmarked, 0);
  bed_.api.Seed(BackupType(), MakeBackupObject("nightly", "Failed", "uid-1"));
  EXPECT_EQ(Sweep().unmarked, 1);
  EXPECT_EQ(MarkOf("data-1"), "");
  EXPECT_NE(MarkOf("data-2"), "") << "maybe of another Velero, which is making a group of it";

  bed_.api.Mutate(ClaimKey("shop", "data-2"), [&](Json& object) {
    const Json labels = {{"f:velero.io/csi-delta-group", Json::object()}};
    object["metadata"]["managedFields"] =
        Json::array({{{"time", "2023-11-14T22:13:20Z"},
                      {"fieldsV1", {{"f:metadata", {{"f:labels", labels}}}}}}});
  });
  EXPECT_EQ(Sweep().unmarked, 0);
  bed_.clock.Advance(absl::Hours(25));
  EXPECT_EQ(Sweep().unmarked, 1);
  EXPECT_EQ(MarkOf("data-2"), "");
}

}  // namespace
}  // namespace csidelta::csi::orphan_sweep_test
