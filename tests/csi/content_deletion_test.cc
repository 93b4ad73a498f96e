#include "csi/content_deletion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/group/group_deletion.h"
#include "csi/static_content.h"
#include "inplace/restore_guard.h"
#include "k8s/cached_client.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/swap_record.h"
#include "tests/csi/deletion_sidecar.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/manifest_rights.h"
#include "tests/support/snapshot_fields.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::content_deletion_test {
namespace {

using support::ActionBed;
using support::FakeApiClient;
using support::IsOk;
using support::IsOkAndHolds;
using support::MakeContentObject;
using support::MakeSnapshotObject;

constexpr char kLateDriver[] = "late.example.com";  // binds before it copies, perhaps

absl::StatusOr<DeletionResult> DeleteContent(const ActionBed& bed, const Environment& env,
                                             const Json& archived) {
  const auto backup =
      support::As<objects::Backup>(support::MakeBackupObject("nightly", "Deleting"));
  return DeleteSnapshotOfBackup(bed.ctx, env, support::As<objects::VolumeSnapshotContent>(archived),
                                backup, absl::Seconds(30));
}

class ContentDeletionTest : public testing::Test {
 protected:
  ContentDeletionTest() { bed_.clock.SetAutoAdvance(true); }

  static Json Archived(const std::string& handle = "handle-1") {
    return MakeContentObject("content", "shop", "snap", handle,
                             {{objects::kBackupNameLabel, "nightly"}});
  }

  // A content that a restore of the backup made, with its VolumeSnapshot.
  void SeedRestored() {
    Json snapshot = MakeSnapshotObject(
        "shop-2", "restored", "restored",
        {{objects::kBackupNameLabel, "nightly"}, {objects::kRestoreNameLabel, "r1"}});
    SetJson(snapshot, {"spec", "source"}, Json{{"volumeSnapshotContentName", "restored"}});
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    Json content = MakeContentObject(
        "restored", "shop-2", "restored", "handle-1",
        {{objects::kBackupNameLabel, "nightly"}, {objects::kRestoreNameLabel, "r1"}});
    SetJson(content, {"spec", "source"}, Json{{"snapshotHandle", "handle-1"}});
    SetJson(content, {"spec", "deletionPolicy"}, "Retain");
    SetJson(content, {"metadata", "finalizers"},
            Json::array({objects::kContentBoundProtectionFinalizer}));
    bed_.api.Seed(VolumeSnapshotContentType(), content);
  }

  void SeedClaim(const std::string& phase) {
    Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop-2", "data");
    SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "restored"}});
    SetJson(claim, {"status", "phase"}, phase);
    bed_.api.Seed(PersistentVolumeClaimType(), claim);
  }

  absl::StatusOr<DeletionResult> Delete(const Json& content) {
    return DeleteContent(bed_, bed_.env, content);
  }

  std::size_t Contents() { return bed_.api.All(VolumeSnapshotContentType()).size(); }

  ActionBed bed_;
  Sidecar sidecar_{bed_.api};
};

TEST_F(ContentDeletionTest, DeletesTheDriversSnapshot) {
  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_EQ(sidecar_.snapshots, std::set<std::string>{"handle-2"});
  EXPECT_EQ(Contents(), 0u);
}

// A standby cluster that reads the bucket, for example.
TEST_F(ContentDeletionTest, WithoutTheDriverNoContentIsLeft) {
  bed_.api.Remove(objects::CsiDriver::Key("", support::kDriver));
  EXPECT_THAT(Delete(Archived("handle-1")), IsOkAndHolds(DeletionResult::kNoDriver));
  EXPECT_THAT(Delete(Archived("handle-2")), IsOkAndHolds(DeletionResult::kNoDriver));
  EXPECT_EQ(Contents(), 0u);
  EXPECT_EQ(sidecar_.snapshots.size(), 2u);
}

TEST_F(ContentDeletionTest, ADriverIsKnownByItsClassAsWellOrWhereItMayNotBeRead) {
  bed_.api.Forbid("get", "csidrivers");
  EXPECT_THAT(Delete(Archived("handle-1")), IsOkAndHolds(DeletionResult::kGone));
  bed_.api.ClearFaults();
  bed_.api.Remove(objects::CsiDriver::Key("", support::kDriver));
  bed_.api.Seed(VolumeSnapshotClassType(),
                {{"metadata", {{"name", "class"}}}, {"driver", support::kDriver}});
  EXPECT_THAT(Delete(Archived("handle-2")), IsOkAndHolds(DeletionResult::kGone));
  // A restore that was tried once in a standby brought the class, and no driver.
  bed_.api.SetField({VolumeSnapshotClassType(), "", "class"},
                    {"metadata", "labels", objects::kRestoreNameLabel}, "drill");
  EXPECT_THAT(Delete(Archived("handle-3")), IsOkAndHolds(DeletionResult::kNoDriver));
}

// A backup that died after it deleted a content and before the VolumeSnapshot: whatever removes the
// content first has the controller make another one for the VolumeSnapshot.
class DeletedContentTest : public testing::Test {
 protected:
  void SetUp() override {
    bed_.clock.SetAutoAdvance(true);
    cluster_.driver_name = support::kDriver;
    cluster_.strict = true;
    const Json rest = {{"driver", support::kDriver}, {"deletionPolicy", "Delete"}};
    for (const auto& type : {VolumeSnapshotClassType(), VolumeGroupSnapshotClassType("v1")}) {
      Json object = rest;
      object["metadata"]["name"] = "class";
      bed_.api.Seed(type, object);
    }
    bed_.api.Seed(PersistentVolumeType(),
                  {{"metadata", {{"name", "pv"}}},
                   {"spec",
                    {{"csi", {{"driver", support::kDriver}, {"volumeHandle", "volume"}}},
                     {"claimRef", {{"name", "data"}}}}}});
    Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data",
                                     {{"velero.io/volume-group", "db"}});
    SetJson(claim, {"spec", "volumeName"}, "pv");
    SetJson(claim, {"status", "phase"}, "Bound");
    bed_.api.Seed(PersistentVolumeClaimType(), claim);
  }

  void Create(const k8s::ResourceType& type, const std::string& api_version, const Json& spec) {
    Json object = support::MakeObject(api_version, type.kind, "shop", "snap");
    object["spec"] = spec;
    ASSERT_THAT(bed_.api.Create(bed_.ctx, type, "shop", object).status(), IsOk());
  }

  // What the archive has of the content, which is being deleted then.
  Json ArchivedAndDeleted(const k8s::ResourceType& type) {
    const Json change = {
        {"spec", {{"deletionPolicy", "Retain"}}},
        {"metadata",
         {{"labels",
           {{objects::kBackupNameLabel, "nightly"},
            {objects::kGroupNameLabel,
             type.group == objects::kGroupSnapshotGroup ? Json("db") : Json()}}}}}};
    const k8s::ObjectKey key = {type, "", k8s::Name(bed_.api.All(type).at(0))};
    Json archived = bed_.api.Patch(bed_.ctx, key, k8s::PatchKind::kMerge, change, "").value();
    EXPECT_THAT(bed_.api.Delete(bed_.ctx, key, {}), IsOk());
    EXPECT_TRUE(k8s::BeingDeleted(bed_.api.Find(key).value_or(Json())));
    return archived;
  }

  Json backup_ = support::MakeBackupObject("nightly", "Deleting");
  ActionBed bed_;
  support::FakeSnapshotCluster cluster_{bed_.api};
};

TEST_F(DeletedContentTest, IsDeletedAfterItsVolumeSnapshot) {
  Create(
      VolumeSnapshotType(), "snapshot.storage.k8s.io/v1",
      {{"source", {{"persistentVolumeClaimName", "data"}}}, {"volumeSnapshotClassName", "class"}});
  const Json archived = ArchivedAndDeleted(VolumeSnapshotContentType());
  EXPECT_THAT(DeleteContent(bed_, bed_.env, archived), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_EQ(cluster_.driver().CallCount("CreateSnapshot"), 1);
  EXPECT_THAT(cluster_.driver().snapshots(), testing::IsEmpty());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotType()), testing::IsEmpty());
  EXPECT_THAT(bed_.api.All(VolumeSnapshotContentType()), testing::IsEmpty());
}

TEST_F(DeletedContentTest, OfAGroupIsDeletedAfterItsVolumeGroupSnapshot) {
  Create(VolumeGroupSnapshotType("v1"), "groupsnapshot.storage.k8s.io/v1",
         {{"source", {{"selector", {{"matchLabels", {{"velero.io/volume-group", "db"}}}}}}},
          {"volumeGroupSnapshotClassName", "class"}});
  ASSERT_EQ(cluster_.driver().groups().size(), 1u);
  const Json archived = ArchivedAndDeleted(VolumeGroupSnapshotContentType("v1"));
  EXPECT_THAT(DeleteGroupOfBackup(bed_.ctx, bed_.env,
                                  support::As<objects::VolumeGroupSnapshotContent>(archived),
                                  support::As<objects::Backup>(backup_), absl::Seconds(10))
                  .status(),
              IsOk());
  EXPECT_EQ(cluster_.driver().CallCount("CreateVolumeGroupSnapshot"), 1);
  EXPECT_THAT(cluster_.driver().groups(), testing::IsEmpty());
  EXPECT_THAT(bed_.api.All(VolumeGroupSnapshotContentType("v1")), testing::IsEmpty());
}

// An error of the sidecar's first look replaces the whole status, whatever others wrote meanwhile.
TEST_F(ContentDeletionTest, AnErrorInTheSidecarsFirstReportKeepsTheHandle) {
  const std::string name = DeletionContentName(support::kDriver, "handle-1");
  bool spoken = false;
  bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (!spoken && (call.verb == "watch" || (call.verb == "delete" && call.name == name))) {
      spoken = bed_.api.Mutate(VolumeSnapshotContentKey(name), [](Json& content) {
        content["status"] = {{"readyToUse", false}, {"error", {{"message", "conflict"}}}};
      });
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Delete(Archived()), IsOk());
  EXPECT_TRUE(spoken);
  EXPECT_FALSE(sidecar_.snapshots.contains("handle-1"));
}

// The same look, of a driver that takes longer than we wait for the sidecar's first word.
class LostHandleTest : public ContentDeletionTest {
 protected:
  // The handle is lost just before the content is deleted, and no call is answered after `last`.
  void LoseHandle(const std::string& last_verb) {
    bed_.api.SetInterceptor([this, last_verb](const support::ApiCall& call, const Json*) {
      if (dead_) {
        return absl::UnavailableError("dead");
      }
      if (call.verb == "delete" && call.name == name_ && !lost_) {
        lost_ = bed_.api.Mutate(VolumeSnapshotContentKey(name_), [](Json& content) {
          content["status"] = {{"readyToUse", false}, {"error", {{"message", "deadline"}}}};
        });
      }
      return absl::OkStatus();
    });
    bed_.api.OnEvent("volumesnapshotcontents",
                     [this, last_verb](FakeApiClient&, const k8s::WatchEvent& event) {
                       dead_ = dead_ || (last_verb == "delete" && k8s::BeingDeleted(event.object));
                     });
  }

  const std::string name_ = DeletionContentName(support::kDriver, "handle-1");
  bool lost_ = false;
  bool dead_ = false;
};

TEST_F(LostHandleTest, IsWrittenAgain) {
  LoseHandle("");
  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_TRUE(lost_);
  EXPECT_FALSE(sidecar_.snapshots.contains("handle-1"));
  EXPECT_EQ(Contents(), 0u);
}

TEST_F(LostHandleTest, IsWrittenAgainByALaterBackupWhenThePluginDied) {
  LoseHandle("delete");
  EXPECT_FALSE(Delete(Archived()).ok());
  EXPECT_TRUE(lost_);
  EXPECT_TRUE(sidecar_.snapshots.contains("handle-1"));
  bed_.api.SetInterceptor(nullptr);
  EXPECT_EQ(Contents(), 1u) << "what says that the snapshot is still to be deleted";
  EXPECT_THAT(FinishSnapshotDeletions(bed_.ctx, bed_.env), IsOkAndHolds(1));
  EXPECT_FALSE(sidecar_.snapshots.contains("handle-1"));
  EXPECT_EQ(Contents(), 0u);
  EXPECT_THAT(FinishSnapshotDeletions(bed_.ctx, bed_.env), IsOkAndHolds(0));
}

TEST_F(ContentDeletionTest, ManyThatADriverRefusesDelayNoBackupAndTakeTurns) {
  constexpr std::size_t kRefused = 20;
  sidecar_.refuses = true;
  for (std::size_t i = 0; i < kRefused; ++i) {
    EXPECT_THAT(Delete(Archived(absl::StrCat("refused-", i))),
                IsOkAndHolds(DeletionResult::kInProgress));
  }
  std::set<std::string> looked_at;
  bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "get" && call.plural == "volumesnapshotcontents") {
      looked_at.insert(call.name);
      bed_.clock.Advance(absl::Seconds(1));
    }
    return absl::OkStatus();
  });
  for (std::size_t call = 0; call < kRefused && looked_at.size() < kRefused; ++call) {
    const absl::Time begun = bed_.clock.Now();
    EXPECT_THAT(FinishSnapshotDeletions(bed_.ctx, bed_.env), IsOkAndHolds(0));
    EXPECT_LT(bed_.clock.Now() - begun, absl::Seconds(10)) << looked_at.size();
  }
  EXPECT_EQ(looked_at.size(), kRefused);
}

TEST_F(ContentDeletionTest, TemporaryContentCarriesAllThatDeletionNeeds) {
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("slow", "other.driver"));
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", support::kDriver));
  Json archived = Archived();
  SetJson(archived, {"metadata", "annotations", objects::kSnapshotterSecretName}, "key");
  SetJson(archived, {"metadata", "annotations", objects::kSnapshotterSecretNamespace}, "vault");
  SetJson(archived, {"metadata", "labels", objects::kManagedByLabel}, "node-7");
  Json made;
  bed_.api.OnCreate("volumesnapshotcontents",
                    [&made](FakeApiClient&, const Json& object) { made = object; });

  EXPECT_THAT(Delete(archived), IsOk());

  EXPECT_EQ(k8s::Name(made), DeletionContentName(support::kDriver, "handle-1"));
  EXPECT_EQ(GetString(made, {"spec", "deletionPolicy"}), "Delete");
  EXPECT_EQ(GetString(made, {"spec", "source", "snapshotHandle"}), "handle-1");
  EXPECT_EQ(GetString(made, {"spec", "volumeSnapshotClassName"}), "fast");
  EXPECT_EQ(GetString(made, {"spec", "volumeSnapshotRef", "uid"}), "");
  EXPECT_EQ(k8s::Annotation(made, objects::kDeletionSecretNameAnnotation), "key");
  EXPECT_EQ(k8s::Annotation(made, objects::kDeletionSecretNamespaceAnnotation), "vault");
  EXPECT_EQ(k8s::Label(made, objects::kManagedByLabel), "node-7");
  EXPECT_EQ(*FindJson(made, {"metadata", "finalizers"}),
            Json::array({objects::kContentBoundProtectionFinalizer, objects::kDeletionFinalizer}));
}

// The PVC that a VolumeSnapshot is restored into in place is made of another object, and only its
// PersistentVolume tells of the copy. The plugin has the rights of deploy/rbac.yaml.
TEST_F(ContentDeletionTest, AnUnfinishedInPlaceRestoreKeepsItsSourceWithThePluginsRights) {
  const std::set<std::string> rights =
      support::RightsOfRole("deploy/rbac.yaml", "velero-csi-delta", "");
  bed_.api.SetInterceptor([&rights](const support::ApiCall& call, const Json*) {
    const std::string right = absl::StrCat(call.verb, " ", call.plural, " ");
    return call.namespace_name == support::kVeleroNamespace || rights.contains(right)
               ? absl::OkStatus()
               : absl::PermissionDeniedError(right);
  });
  SeedRestored();
  ASSERT_TRUE(bed_.api.Mutate(VolumeSnapshotContentKey("restored"),
                              [](Json& content) { content["spec"]["driver"] = kLateDriver; }));
  Json archived = Archived();
  archived["spec"]["driver"] = kLateDriver;
  bed_.api.Seed(objects::CsiDriver::Type(), {{"metadata", {{"name", kLateDriver}}}});
  const std::string snapshot_uid =
      k8s::Uid(*bed_.api.Find(VolumeSnapshotKey("shop-2", "restored")));
  bed_.api.Seed(
      PersistentVolumeType(),
      support::MakeObject("v1", "PersistentVolume", "", "pv-new",
                          {{objects::kInPlaceLabel, inplace::RestoreLabelValue("shop-2", "data")}},
                          {{objects::kInPlaceRecordAnnotation,
                            objects::FormatSwapRecord({.side = objects::SwapSide::kRestored,
                                                       .namespace_name = "shop-2",
                                                       .pvc = "data",
                                                       .snapshot = "restored",
                                                       .snapshot_uid = snapshot_uid,
                                                       .policy = "Delete",
                                                       .peer = "pv-old"})}}));
  EXPECT_THAT(Delete(archived), IsOkAndHolds(DeletionResult::kDeferred));
  EXPECT_TRUE(sidecar_.snapshots.contains("handle-1"));
  bed_.api.FailNext("list", "persistentvolumes", absl::PermissionDeniedError("no"));
  EXPECT_THAT(Delete(archived),
              support::StatusIs(absl::StatusCode::kPermissionDenied,
                                testing::HasSubstr("PVCs restored in place cannot be found")));
  EXPECT_TRUE(sidecar_.snapshots.contains("handle-1"));
  bed_.api.Remove(VolumeKey("pv-new"));
  EXPECT_THAT(Delete(archived), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_FALSE(sidecar_.snapshots.contains("handle-1"));
}

// Counts the contents that it is given.
class ListingClient : public k8s::ForwardingClient {
 public:
  using k8s::ForwardingClient::ForwardingClient;
  absl::StatusOr<k8s::ObjectList> List(const CallContext& ctx, const k8s::ResourceType& type,
                                       absl::string_view namespace_name,
                                       const k8s::ListOptions& options) override {
    absl::StatusOr<k8s::ObjectList> list =
        ForwardingClient::List(ctx, type, namespace_name, options);
    listed += list.ok() && type == VolumeSnapshotContentType() ? list->items.size() : 0;
    return list;
  }
  std::size_t listed = 0;
};

TEST_F(ContentDeletionTest, ContentsOfOtherBackupsAndThoseOfADriverThatIsSlowAreNotListed) {
  sidecar_.refuses = true;
  for (int i = 0; i < 100; ++i) {
    bed_.api.Seed(VolumeSnapshotContentType(),
                  MakeContentObject(absl::StrCat("other-", i), "shop", "other", "other",
                                    {{objects::kBackupNameLabel, "other"}}));
  }
  ListingClient api(bed_.api);
  const Environment env{.api = api,
                        .clock = bed_.env.clock,
                        .random = bed_.env.random,
                        .velero_namespace = bed_.env.velero_namespace};
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(DeleteContent(bed_, env, Archived(absl::StrCat("handle-", i))),
                IsOkAndHolds(DeletionResult::kInProgress));
  }
  EXPECT_LE(api.listed, 20U);
}

TEST_F(ContentDeletionTest, IgnoresContentsThatAreNotTheBackups) {
  Json foreign = Archived();
  SetJson(foreign, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
  Json unlabelled = Archived();
  EraseJson(unlabelled, {"metadata", "labels"});
  const Json without_handle = Archived("");
  for (const Json& content : {foreign, unlabelled, without_handle}) {
    EXPECT_THAT(Delete(content), IsOkAndHolds(DeletionResult::kNothing));
  }
  EXPECT_EQ(sidecar_.snapshots.size(), 2u);
  EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
}

TEST_F(ContentDeletionTest, DeletesAnOriginalThatIsLeft) {
  bed_.api.Seed(VolumeSnapshotContentType(), Archived());
  bed_.api.Seed(VolumeSnapshotType(), MakeSnapshotObject("shop", "snap", "content"));
  EXPECT_THAT(Delete(Archived()), IsOk());
  EXPECT_EQ(sidecar_.snapshots.count("handle-1"), 0u);
  EXPECT_EQ(Contents(), 0u);
  EXPECT_TRUE(bed_.api.All(VolumeSnapshotType()).empty());
}

TEST_F(ContentDeletionTest, DeletesRestoredContentsToo) {
  SeedRestored();
  SeedClaim("Bound");
  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_EQ(sidecar_.snapshots.count("handle-1"), 0u);
  EXPECT_EQ(Contents(), 0u);
  EXPECT_TRUE(bed_.api.All(VolumeSnapshotType()).empty());
}

// Of the same driver, as those of another cluster on the same storage are.
TEST_F(ContentDeletionTest, RestoredContentsOfOtherBackupsStay) {
  SeedRestored();
  ASSERT_TRUE(bed_.api.Mutate(VolumeSnapshotContentKey("restored"), [](Json& content) {
    SetJson(content, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
    SetJson(content, {"spec", "source", "snapshotHandle"}, "handle-2");
    SetJson(content, {"status", "snapshotHandle"}, "handle-2");
  }));
  EXPECT_THAT(Delete(Archived()), IsOk());
  EXPECT_EQ(sidecar_.snapshots, std::set<std::string>{"handle-2"});
  ASSERT_EQ(Contents(), 1u);
  EXPECT_EQ(GetString(bed_.api.All(VolumeSnapshotContentType())[0], {"spec", "deletionPolicy"}),
            "Retain");
}

TEST_F(ContentDeletionTest, AForeignContentOfTheSameHandleStays) {
  Json other = MakeContentObject("mine", "shop", "mine", "handle-1");
  SetJson(other, {"spec", "source"}, Json{{"snapshotHandle", "handle-1"}});
  bed_.api.Seed(VolumeSnapshotContentType(), other);
  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_TRUE(bed_.api.Find(VolumeSnapshotContentKey("mine")).has_value());
}

TEST_F(ContentDeletionTest, ClaimBeingFilledKeepsItsSnapshotForNow) {
  SeedRestored();
  SeedClaim("Pending");
  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kDeferred));
  EXPECT_EQ(sidecar_.snapshots.count("handle-1"), 1u);
  const Json snapshot = *bed_.api.Find(VolumeSnapshotKey("shop-2", "restored"));
  EXPECT_EQ(k8s::Annotation(snapshot, objects::kDeleteWhenFilledAnnotation), "true");
  EXPECT_EQ(k8s::Label(snapshot, objects::kCsiDeltaLabel), support::kVeleroNamespace);
  EXPECT_EQ(
      GetString(*bed_.api.Find(VolumeSnapshotContentKey("restored")), {"spec", "deletionPolicy"}),
      "Delete");
}

TEST_F(ContentDeletionTest, OtherContentsAreRetainedWhileAClaimIsBeingFilled) {
  bed_.api.Seed(VolumeSnapshotContentType(), Archived());
  bed_.api.Seed(VolumeSnapshotType(), MakeSnapshotObject("shop", "snap", "content"));
  SeedRestored();
  SeedClaim("Pending");
  std::map<std::string, std::string> policies;  // of the contents that went, at their end
  bed_.api.OnEvent("volumesnapshotcontents", [&](FakeApiClient&, const k8s::WatchEvent& event) {
    if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
      policies[k8s::Name(event.object)] = GetString(event.object, {"spec", "deletionPolicy"});
    }
  });

  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kDeferred));

  EXPECT_EQ(sidecar_.snapshots.count("handle-1"), 1u);
  EXPECT_EQ(policies, (std::map<std::string, std::string>{{"content", "Retain"}}));
  const std::vector<Json> left = bed_.api.All(VolumeSnapshotType());
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(k8s::Annotation(left[0], objects::kDeleteWhenFilledAnnotation), "true");
}

// Velero's may lose its handle and go without the snapshot.
TEST_F(ContentDeletionTest, RunsAlongsideAStuckDeletionOfVelero) {
  sidecar_.refuses = true;
  Json in_tree = MakeContentObject("vsc-1234", "ns-uid", "name-uid", "handle-1",
                                   {{objects::kBackupNameLabel, "nightly"}});
  SetJson(in_tree, {"spec", "source"}, Json{{"snapshotHandle", "handle-1"}});
  EraseJson(in_tree, {"spec", "volumeSnapshotRef", "uid"});
  SetJson(in_tree, {"metadata", "finalizers"},
          Json::array({objects::kContentBoundProtectionFinalizer}));
  SetJson(in_tree, {"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  bed_.api.Seed(VolumeSnapshotContentType(), in_tree);

  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kInProgress));

  EXPECT_EQ(bed_.api.CallCount("delete", "volumesnapshotcontents"), 1);
  ASSERT_EQ(Contents(), 2u);
  const auto own =
      bed_.api.Find(VolumeSnapshotContentKey(DeletionContentName(support::kDriver, "handle-1")));
  ASSERT_TRUE(own.has_value());
  EXPECT_TRUE(k8s::BeingDeleted(*own));
  EXPECT_EQ(support::SnapshotHandle(*own), "handle-1");
}

TEST_F(ContentDeletionTest, WithoutTheRightToWriteStatusWaitsForTheSidecar) {
  bed_.api.SetInterceptor([](const support::ApiCall& call, const Json*) {
    return call.subresource == "status" ? absl::PermissionDeniedError("no") : absl::OkStatus();
  });
  bed_.api.OnCreate("volumesnapshotcontents", [](FakeApiClient& api, const Json& object) {
    api.SetField(VolumeSnapshotContentKey(k8s::Name(object)), {"status", "snapshotHandle"},
                 "handle-1");
  });
  EXPECT_THAT(Delete(Archived()), IsOkAndHolds(DeletionResult::kGone));
  EXPECT_EQ(sidecar_.snapshots.count("handle-1"), 0u);
}

// Whatever call fails, the snapshot is deleted at once or when Velero asks again.
TEST_F(ContentDeletionTest, SurvivesAnyFailingCall) {
  for (const support::Fault fault : {support::Fault::kRefused, support::Fault::kAnswerLost}) {
    for (int call = 1;; ++call) {
      ActionBed bed;
      bed.clock.SetAutoAdvance(true);
      Sidecar sidecar(bed.api);
      bed.api.Seed(VolumeSnapshotContentType(), Archived());
      bed.api.FailCall(call, absl::UnavailableError("connection lost"), fault);
      const auto status = DeleteContent(bed, bed.env, Archived());
      if (!bed.api.sweep_hit()) {
        EXPECT_GT(call, 7);
        break;
      }
      bed.api.ClearFaults();
      if (!status.ok()) {
        EXPECT_THAT(DeleteContent(bed, bed.env, Archived()), IsOk()) << call;
      }
      EXPECT_EQ(sidecar.snapshots.count("handle-1"), 0u) << call;
      EXPECT_TRUE(bed.api.All(VolumeSnapshotContentType()).empty()) << call;
    }
  }
}

}  // namespace
}  // namespace csidelta::csi::content_deletion_test
