#include "csi/expose/exposed_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "k8s/cached_client.h"
#include "k8s/object.h"
#include "k8s/object_cache.h"
#include "objects/keys.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::exposed_snapshot_test {
namespace {

using support::Fault;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kClaimBytes = 96 << 20;
constexpr char kTaskName[] = "du-7";

class ExposedSnapshotTest : public support::ClusterFixture {
 protected:
  ExposedSnapshotTest() {
    api_.Seed(VolumeSnapshotClassType(),
              {{"metadata", {{"name", "fast"}}}, {"driver", "d.example.com"}});
    SeedStorageClass("shop-class", "Immediate");
    Json claim = {{"metadata", {{"name", "data"}, {"namespace", "shop"}, {"uid", "claim-uid"}}}};
    claim["spec"] = {{"storageClassName", "shop-class"},
                     {"volumeName", "pv-of-data"},
                     {"accessModes", Json::array({"ReadWriteOnce"})}};
    SetJson(claim, {"status", "capacity", "storage"}, absl::StrCat(kClaimBytes));
    SetJson(claim, {"status", "phase"}, "Bound");
    api_.Seed(PersistentVolumeClaimType(), claim);
    Json volume = {{"metadata", {{"name", "pv-of-data"}}}};
    SetJson(volume, {"spec", "nodeAffinity", "required"}, affinity_);
    api_.Seed(PersistentVolumeType(), volume);
    cluster_.driver().size_bytes = kClaimBytes;
    TakeSource();
  }

  void SeedStorageClass(const std::string& name, const std::string& binding_mode,
                        const std::string& provisioner = "d.example.com") {
    support::SeedStorageClass(api_, name, provisioner, binding_mode);
  }

  // A VolumeSnapshot of the claim, as Velero takes it.
  void TakeSource() {
    Json source = {{"apiVersion", "snapshot.storage.k8s.io/v1"},
                   {"kind", "VolumeSnapshot"},
                   {"metadata", {{"name", "velero-data-x"}, {"namespace", "shop"}}},
                   {"spec",
                    {{"source", {{"persistentVolumeClaimName", "data"}}},
                     {"volumeSnapshotClassName", "fast"}}}};
    const auto made = api_.Create(ctx_, VolumeSnapshotType(), "shop", source);
    ASSERT_THAT(made, IsOk());
    source_content_ = absl::StrCat("snapcontent-", k8s::Uid(*made));
    api_.ClearCalls();
  }

  static ExposeRequest Request(const std::string& name = kTaskName) {
    return {.name = name,
            .source_namespace = "shop",
            .source_snapshot = "velero-data-x",
            .source_claim = "data",
            .mover_namespace = "mover",
            .storage_class = "",
            .labels = {{"mover.csi-delta.io/task", name},
                       {"mover.csi-delta.io/velero-namespace", "velero"}},
            .annotations = {},
            .owner = objects::OwnerReference{.kind = "VolumeTask", .name = name, .uid = "task-uid"},
            .read_only_many = false};
  }

  // Looks again where the first look ended with something that was just made.
  absl::StatusOr<Exposure> ExposeFully(const ExposeRequest& request) {
    for (int made = 0; made < 2; ++made) {  // The VolumeSnapshot, the PVC.
      RETURN_IF_ERROR(ExposeSnapshot(ctx_, api_, request).status());
    }
    return ExposeSnapshot(ctx_, api_, request);
  }
  absl::StatusOr<Exposure> Expose() { return ExposeFully(Request()); }
  void ExpectReady(const absl::StatusOr<Exposure>& exposure) {
    ASSERT_THAT(exposure, IsOk());
    EXPECT_EQ(exposure->state, Exposure::State::kReady) << exposure->waiting_for;
  }
  absl::Status Remove(SnapshotAction action) {
    return RemoveExposure(ctx_, api_, Request(), action);
  }

  std::optional<Json> Content() { return api_.Find(VolumeSnapshotContentKey(kTaskName)); }
  std::optional<Json> Claim() { return api_.Find(ClaimKey("mover", kTaskName)); }
  std::optional<Json> ManagedSnapshot() { return api_.Find(VolumeSnapshotKey("mover", kTaskName)); }

  // Nothing but the claim, its volume and the classes is there, and what the driver holds.
  void ExpectOnlyTheBase() {
    EXPECT_TRUE(Content().has_value());
    EXPECT_FALSE(Claim().has_value());
    EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
    EXPECT_THAT(api_.All(VolumeSnapshotContentType()), SizeIs(1));
    EXPECT_THAT(api_.All(PersistentVolumeType()), SizeIs(1));
    EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  }
  void ExpectNothing() {
    EXPECT_THAT(api_.All(VolumeSnapshotType()), IsEmpty());
    EXPECT_THAT(api_.All(VolumeSnapshotContentType()), IsEmpty());
    EXPECT_THAT(api_.All(PersistentVolumeClaimType()), SizeIs(1));
    EXPECT_THAT(api_.All(PersistentVolumeType()), SizeIs(1));
    EXPECT_THAT(cluster_.driver().snapshots(), IsEmpty());
  }

  const Json affinity_ = {
      {"nodeSelectorTerms",
       Json::array({{{"matchExpressions", Json::array({{{"key", "topology/zone"},
                                                        {"operator", "In"},
                                                        {"values", Json::array({"z1"})}}})}}})}};
  std::string source_content_;
};

TEST_F(ExposedSnapshotTest, BecomesABlockDeviceInAnotherNamespace) {
  const auto exposure = Expose();
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kReady) << exposure->waiting_for;
  EXPECT_EQ(exposure->driver, "d.example.com");
  EXPECT_THAT(cluster_.driver().snapshots(), ElementsAre(exposure->snapshot_handle));
  EXPECT_EQ(exposure->size_bytes, kClaimBytes);
  EXPECT_EQ(exposure->storage_class, "shop-class");
  EXPECT_EQ(exposure->snapshot_taken_at, absl::FromUnixNanos(cluster_.driver().cut_at_nanoseconds));
  EXPECT_TRUE(exposure->ready_at.has_value());
  EXPECT_TRUE(exposure->node_affinity.selects_all());

  const Json claim = *Claim();
  EXPECT_EQ(GetString(claim, {"spec", "volumeMode"}), "Block");
  EXPECT_EQ(GetString(claim, {"spec", "dataSource", "name"}), kTaskName);
  EXPECT_EQ(GetString(claim, {"spec", "storageClassName"}), "shop-class");
  EXPECT_EQ(claim["spec"]["accessModes"], Json::array({"ReadWriteOnce"}));
  EXPECT_EQ(claim["metadata"]["ownerReferences"][0]["uid"], "task-uid");
  EXPECT_EQ((*ManagedSnapshot())["metadata"]["ownerReferences"][0]["uid"], "task-uid");

  const Json content = *Content();
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotClassName"}), "fast");
  EXPECT_EQ(GetString(*ManagedSnapshot(), {"spec", "volumeSnapshotClassName"}), "fast");
  EXPECT_EQ(k8s::Annotation(content, "snapshot.storage.kubernetes.io/allow-volume-mode-change"),
            "true");
  EXPECT_EQ(GetString(content, {"spec", "sourceVolumeMode"}), "");
  EXPECT_EQ(content["metadata"].contains("ownerReferences"), false);
  EXPECT_EQ(GetInt(content, {"status", "creationTime"}), cluster_.driver().cut_at_nanoseconds);
  // The source is gone, the driver's snapshot is not.
  EXPECT_FALSE(api_.Find(VolumeSnapshotKey("shop", "velero-data-x")).has_value());
  EXPECT_FALSE(api_.Find(VolumeSnapshotContentKey(source_content_)).has_value());
}

// Who takes it over may be killed before a sidecar sees it, and the driver delete nothing then.
TEST_F(ExposedSnapshotTest, WritesTheHandleWithoutASidecar) {
  cluster_.sidecar_runs = false;
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_TRUE(Content().has_value());
  EXPECT_EQ(GetString(*Content(), {"status", "snapshotHandle"}),
            GetString(*Content(), {"spec", "source", "snapshotHandle"}));
  EXPECT_EQ(GetInt(*Content(), {"status", "creationTime"}), cluster_.driver().cut_at_nanoseconds);
}

TEST_F(ExposedSnapshotTest, ContentHasTheSecretAndTheNodeForItsDeletion) {
  api_.Mutate(VolumeSnapshotContentKey(source_content_), [](Json& content) {
    SetJson(content, {"metadata", "annotations", objects::kDeletionSecretNameAnnotation}, "s");
    SetJson(content, {"metadata", "annotations", objects::kDeletionSecretNamespaceAnnotation}, "n");
    SetJson(content, {"metadata", "labels", objects::kManagedByLabel}, "node-a");
  });
  ASSERT_THAT(Expose(), IsOk());
  EXPECT_EQ(k8s::Annotation(*Content(), objects::kDeletionSecretNameAnnotation), "s");
  EXPECT_EQ(k8s::Annotation(*Content(), objects::kDeletionSecretNamespaceAnnotation), "n");
  EXPECT_EQ(k8s::Label(*Content(), objects::kManagedByLabel), "node-a");
}

TEST_F(ExposedSnapshotTest, WaitsForTheSourceAndReportsTheDriversError) {
  api_.Mutate(VolumeSnapshotKey("shop", "velero-data-x"), [](Json& source) {
    source["status"]["readyToUse"] = false;
    SetJson(source, {"status", "error", "message"}, "still uploading");
  });
  const auto exposure = Expose();
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kWaiting);
  EXPECT_THAT(exposure->waiting_for,
              AllOf(HasSubstr("shop/velero-data-x"), HasSubstr("still uploading")));
  EXPECT_EQ(api_.CallCount("patch", "volumesnapshotcontents"), 0);
  EXPECT_EQ(api_.CallCount("create", "volumesnapshotcontents"), 0);
}

TEST_F(ExposedSnapshotTest, WithoutRetainNothingIsMadeOrDeleted) {
  api_.Forbid("patch", "volumesnapshotcontents");
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(api_.CallCount("delete", "*"), 0);
  EXPECT_EQ(api_.CallCount("create", "*"), 0);
  EXPECT_TRUE(api_.Find(VolumeSnapshotKey("shop", "velero-data-x")).has_value());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

// What was read of it a moment ago is the condition of its deletion.
TEST_F(ExposedSnapshotTest, ASourceSetBackToDeleteIsRetainedAgain) {
  const std::string source = source_content_;
  api_.OnCreate("volumesnapshotcontents", [source](support::FakeApiClient& api, const Json&) {
    api.SetField(VolumeSnapshotContentKey(source), {"spec", "deletionPolicy"}, "Delete");
  });
  ASSERT_THAT(Expose(), IsOk());
  EXPECT_FALSE(api_.Find(VolumeSnapshotContentKey(source_content_)).has_value());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_F(ExposedSnapshotTest, AVolumeIsExaminedOnce) {
  ExaminedClaims examined;
  ExposeRequest request = Request();
  request.examined = &examined;
  ASSERT_THAT(ExposeFully(request), IsOk());
  api_.ClearCalls();
  ASSERT_THAT(ExposeSnapshot(ctx_, api_, request), IsOk());
  EXPECT_EQ(api_.CallCount("get", "persistentvolumes"), 0);
  api_.SetField(ClaimKey("mover", kTaskName), {"metadata", "uid"}, "new");
  EXPECT_THAT(ExposeSnapshot(ctx_, api_, request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another claim")));
}

TEST_F(ExposedSnapshotTest, AFileSystemDriverIsRefusedWithItsPolicyRule) {
  api_.SetField(VolumeSnapshotContentKey(source_content_), {"spec", "driver"},
                "rook-ceph.cephfs.csi.ceph.com");
  EXPECT_THAT(
      Expose(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("rook-ceph.cephfs.csi.ceph.com"), HasSubstr("file systems only"),
                     HasSubstr("{conditions: {csi: {driver: rook-ceph.cephfs.csi.ceph.com}}, "
                               "action: {type: fs-backup}}"))));
  EXPECT_EQ(api_.CallCount("patch", "*"), 0);
  ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
  ExpectNothing();
}

struct RefusalCase {
  const char* name;
  const char* code;
  const char* advice;
};

class RefusedExposureTest : public ExposedSnapshotTest,
                            public testing::WithParamInterface<RefusalCase> {};

TEST_P(RefusedExposureTest, NamesWhatWasAskedForAndWhatHelps) {
  cluster_.driver().Refuse("CreateVolume", GetParam().code, "it is so");
  EXPECT_THAT(ExposeFully(Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("d.example.com"), HasSubstr("shop/velero-data-x"),
                             HasSubstr("96Mi, ReadWriteOnce, mode Block"), HasSubstr("it is so"),
                             HasSubstr(GetParam().advice))));
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedExposureTest,
                         testing::Values(RefusalCase{"Request", "InvalidArgument", "fs-backup"},
                                         RefusalCase{"Call", "Unimplemented", "fs-backup"},
                                         RefusalCase{"Size", "OutOfRange", "resized"},
                                         RefusalCase{"Gone", "NotFound", "back up again"}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(ExposedSnapshotTest, ATransientErrorIsWaitedFor) {
  cluster_.driver().Refuse("CreateVolume", "ResourceExhausted", "pool is full");
  const auto exposure = Expose();
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kWaiting);
  EXPECT_THAT(exposure->waiting_for, HasSubstr("pool is full"));
}

TEST_F(ExposedSnapshotTest, AClassThatWaitsForItsConsumerIsReadyAndPinnedToTheSourcesNodes) {
  SeedStorageClass("shop-class", "WaitForFirstConsumer");
  cluster_.provisioner_runs = false;
  const auto exposure = Expose();
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kReady) << exposure->waiting_for;
  EXPECT_EQ(exposure->node_affinity.json(), affinity_);
  // The Pod is there, and now the driver refuses, for a while and for good.
  const auto fail = [&](const char* message) {
    api_.Seed({"", "v1", "events", "Event", true},
              {{"metadata", {{"name", "e"}, {"namespace", "mover"}}},
               {"involvedObject", {{"uid", k8s::Uid(*Claim())}}},
               {"reason", "ProvisioningFailed"},
               {"message", message}});
  };
  EXPECT_EQ(exposure->waiting_for, "");
  fail("rpc error: code = ResourceExhausted desc = pool is full");
  const auto refused = Expose();
  ASSERT_THAT(refused, IsOk());
  EXPECT_EQ(refused->state, Exposure::State::kReady);
  EXPECT_THAT(refused->waiting_for, HasSubstr("pool is full"));
  fail("rpc error: code = Unimplemented desc = no");
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ExposedSnapshotTest, AVolumeOfManyWritersIsReadWhereNoBlockDeviceIsShared) {
  cluster_.driver().habits.shares_block_mode = false;
  cluster_.driver().habits.shares_files = true;
  api_.SetField(ClaimKey("shop", "data"), {"spec", "accessModes"}, Json::array({"ReadWriteMany"}));
  ExpectReady(Expose());
  EXPECT_THAT(cluster_.driver().PublishVolume((*Claim())["spec"]["accessModes"], true), IsOk());
}

TEST_F(ExposedSnapshotTest, UsesTheRequestedClass) {
  SeedStorageClass("cheap", "Immediate");
  ExposeRequest request = Request();
  request.storage_class = "cheap";
  const auto exposure = ExposeFully(request);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->storage_class, "cheap");
  EXPECT_EQ(GetString(*Claim(), {"spec", "storageClassName"}), "cheap");
}

// The API server writes the default class into a claim without one.
TEST_F(ExposedSnapshotTest, WithoutAClassTheDefaultClassMustBeOfTheSnapshotsDriver) {
  api_.Mutate(ClaimKey("shop", "data"), [](Json& claim) {
    EraseJson(claim, {"spec", "storageClassName"});
  });
  SeedStorageClass("default", "Immediate", "other.driver");
  cluster_.provisioner_runs = false;
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("there is no default class")));
  api_.SetField(ClaimKey("mover", k8s::Name(*Claim())), {"spec", "storageClassName"}, "default");
  EXPECT_THAT(Expose(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of driver other.driver")));
  SeedStorageClass("default", "Immediate");
  const auto exposure = Expose();
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->storage_class, "default");
}

TEST_F(ExposedSnapshotTest, AClassThatCannotFillItsClaimIsRefusedAtOnce) {
  ExposeRequest request = Request();
  request.storage_class = "gone";
  EXPECT_THAT(ExposeFully(request), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             AllOf(HasSubstr("there is no storage class gone"),
                                                   HasSubstr("intermediateClass"))));
  SeedStorageClass("foreign", "Immediate", "other.driver");
  request.storage_class = "foreign";
  EXPECT_THAT(ExposeFully(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of driver other.driver")));
  EXPECT_FALSE(Claim().has_value());
}

// What it holds would be saved for the data of the volume snapshot.
TEST_F(ExposedSnapshotTest, AVolumeThatWasThereBeforeIsNotRead) {
  cluster_.provisioner_runs = false;
  ASSERT_THAT(Expose(), IsOk());
  BindToOldVolume(ClaimKey("mover", kTaskName));
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("volume old is older than the claim")));
}

TEST_F(ExposedSnapshotTest, ManyReadersFallBackToOneAndThatIsRemembered) {
  cluster_.driver().habits.shares_reads = false;
  ExposeRequest request = Request();
  request.read_only_many = true;
  auto exposure = ExposeFully(request);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kWaiting);
  exposure = ExposeFully(request);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kReady);
  EXPECT_EQ((*Claim())["spec"]["accessModes"], Json::array({"ReadWriteOnce"}));
}

TEST_F(ExposedSnapshotTest, RemovalThatKeepsTheSnapshotLeavesTheBaseAlone) {
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_THAT(
      KeepAsBase(ctx_, env_, kTaskName, {"velero", "default", "shop", "data", "claim-uid", "c"}),
      IsOk());
  ASSERT_THAT(Remove(SnapshotAction::kKeep), IsOk());
  ExpectOnlyTheBase();
  ASSERT_THAT(Remove(SnapshotAction::kKeep), IsOk());
  ExpectOnlyTheBase();
}

TEST_F(ExposedSnapshotTest, RemovalThatDeletesLeavesNothingEvenIfTheClassRetainsVolumes) {
  for (const char* const policy : {"Delete", "Retain"}) {
    cluster_.reclaim_policy = policy;
    ASSERT_THAT(Expose(), IsOk());
    ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
    ExpectNothing();
    ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
    TakeSource();
  }
}

TEST_F(ExposedSnapshotTest, AnUnreadySourceIsDeletedWithItsSnapshot) {
  api_.SetField(VolumeSnapshotKey("shop", "velero-data-x"), {"status", "readyToUse"}, false);
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
  ExpectNothing();
}

TEST_F(ExposedSnapshotTest, ForeignObjectsStay) {
  api_.Seed(
      PersistentVolumeClaimType(),
      {{"metadata", {{"name", kTaskName}, {"namespace", "mover"}}}, {"spec", Json::object()}});
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("mover/du-7")));
  ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
  EXPECT_TRUE(Claim().has_value());
}

TEST_F(ExposedSnapshotTest, AContentThatBelongsToAnotherSnapshotIsNotTouched) {
  api_.SetField(VolumeSnapshotContentKey(source_content_), {"spec", "volumeSnapshotRef", "uid"},
                "another");
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another")));
  EXPECT_EQ(api_.CallCount("patch", "*"), 0);
}

TEST_F(ExposedSnapshotTest, AMissingSourceIsReported) {
  api_.Remove(VolumeSnapshotKey("shop", "velero-data-x"));
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deleted")));
}

// Sizes in MiB; 0: not known. `taken`: the only one that the driver takes; 0: it takes any.
struct SizeCase {
  const char* name;
  int restore_size, of_volume, requested, taken;
  int want;  // 0: refused
};

class ExposedSizeTest : public ExposedSnapshotTest, public testing::WithParamInterface<SizeCase> {};

TEST_P(ExposedSizeTest, IsThatOfTheSnapshotElseThatOfThePvc) {
  const SizeCase& sizes = GetParam();
  const auto bytes = [](int mebibytes) { return int64_t{mebibytes} << 20; };
  if (sizes.taken > 0) {
    cluster_.driver().habits.exact_size_only = true;
    cluster_.driver().size_bytes = bytes(sizes.taken);
    ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
    TakeSource();
  }
  for (const auto& key :
       {VolumeSnapshotKey("shop", "velero-data-x"), VolumeSnapshotContentKey(source_content_)}) {
    api_.Mutate(key, [&](Json& object) {
      object["status"].erase("restoreSize");
      if (sizes.restore_size > 0) {
        object["status"]["restoreSize"] = bytes(sizes.restore_size);
      }
    });
  }
  api_.SetField(VolumeKey("pv-of-data"), {"spec", "capacity", "storage"},
                absl::StrCat(bytes(sizes.of_volume)));
  api_.Mutate(ClaimKey("shop", "data"), [&](Json& claim) {
    SetJson(claim, {"status", "capacity", "storage"}, absl::StrCat(bytes(sizes.of_volume)));
    SetJson(claim, {"spec", "resources", "requests", "storage"},
            absl::StrCat(bytes(sizes.requested)));
  });
  absl::StatusOr<Exposure> exposure = Expose();
  for (int looks = 0; looks < 3 && exposure.ok() && exposure->state != Exposure::State::kReady;
       ++looks) {
    exposure = Expose();
  }
  if (sizes.want == 0) {
    EXPECT_THAT(exposure, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("resized")));
    return;
  }
  ASSERT_THAT(exposure, IsOk());
  EXPECT_EQ(exposure->state, Exposure::State::kReady) << exposure->waiting_for;
  EXPECT_EQ(exposure->size_bytes, bytes(sizes.want));
  EXPECT_EQ(GetString(*Claim(), {"spec", "resources", "requests", "storage"}),
            absl::StrCat(bytes(sizes.want)));
}

const SizeCase kSizeCases[] = {
    {"RequestAlone", 0, 0, 97, 0, 97},
    {"OfTheVolume", 0, 98, 97, 0, 98},
    {"OfTheSnapshot", 99, 98, 97, 0, 99},
    {"PendingResize", 64, 64, 128, 64, 64},
    {"PendingResizeOfUnknownSnapshot", 0, 64, 128, 64, 64},
    {"GrownSince", 64, 128, 128, 64, 64},
    {"RestoreSizeOfBytesInUse", 64, 128, 128, 0, 128},
    {"RestoreSizeOfBytesInUseWhileResized", 64, 128, 256, 0, 128},
    {"GrownSinceAndNotShrunk", 64, 128, 128, 128, 128},
    {"NeverSmallerThanTheSnapshot", 99, 64, 64, 64, 0},
    {"NeitherIsTaken", 64, 128, 128, 96, 0},
};
INSTANTIATE_TEST_SUITE_P(Table, ExposedSizeTest, testing::ValuesIn(kSizeCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(ExposedSnapshotTest, ASnapshotOfUnknownSizeIsRefused) {
  api_.Remove(ClaimKey("shop", "data"));
  api_.Mutate(VolumeSnapshotKey("shop", "velero-data-x"),
              [](Json& snapshot) { snapshot["status"].erase("restoreSize"); });
  api_.Mutate(VolumeSnapshotContentKey(source_content_),
              [](Json& content) { content["status"].erase("restoreSize"); });
  EXPECT_THAT(Expose(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has no known size")));
}

// Each write of an exposure fails, or its answer is lost; another client carries on.
class InterruptedExposureTest : public ExposedSnapshotTest,
                                public testing::WithParamInterface<Fault> {
 protected:
  // For each call of `interrupted`, of which there are more than that: it follows `prepare`,
  // `go_on` sees what it left, and then all is removed.
  void FailEachCall(int calls_least, const std::function<void()>& prepare,
                    const std::function<absl::Status()>& interrupted,
                    const std::function<void()>& go_on) {
    bool was_hit = true;
    int call = 0;
    while (was_hit) {
      SCOPED_TRACE(++call);
      prepare();
      api_.FailCall(call, absl::UnavailableError("cut off"), GetParam());
      const absl::Status status = interrupted();
      was_hit = api_.sweep_hit();
      api_.ClearFaults();
      EXPECT_TRUE(was_hit || status.ok()) << status;
      go_on();
      ASSERT_THAT(Remove(SnapshotAction::kDelete), IsOk());
      ExpectNothing();
      TakeSource();
    }
    EXPECT_GT(call, calls_least);
  }
};

TEST_P(InterruptedExposureTest, IsFinishedByAnother) {
  FailEachCall(
      12, [] {}, [this] { return Expose().status(); },
      [this] {
        ExpectReady(Expose());
        EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
        EXPECT_THAT(api_.All(VolumeSnapshotContentType()), SizeIs(1));
        EXPECT_THAT(api_.All(PersistentVolumeType()), SizeIs(2));
      });
}

TEST_P(InterruptedExposureTest, IsRemovedByAnother) {
  FailEachCall(
      12, [] {}, [this] { return Expose().status(); }, [] {});
}

TEST_P(InterruptedExposureTest, RemovalIsFinishedByAnother) {
  for (const SnapshotAction action : {SnapshotAction::kDelete, SnapshotAction::kKeep}) {
    FailEachCall(
        4, [this] { ASSERT_THAT(Expose(), IsOk()); }, [&] { return Remove(action); },
        [&] {
          ASSERT_THAT(Remove(action), IsOk());
          if (action == SnapshotAction::kKeep) {
            ExpectOnlyTheBase();
          }
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, InterruptedExposureTest,
                         testing::Values(Fault::kRefused, Fault::kAnswerLost),
                         [](const auto& fault) {
                           return fault.param == Fault::kRefused ? "Refused" : "AnswerLost";
                         });

// --- With a cache, whose informers are late

class CachedExposureTest : public ExposedSnapshotTest {
 protected:
  CachedExposureTest() {
    for (const auto& [type, space] :
         {std::pair(VolumeSnapshotContentType(), ""), std::pair(VolumeSnapshotType(), "mover"),
          std::pair(PersistentVolumeClaimType(), "mover")}) {
      Deliver(cache_, {.type = type,
                       .namespace_name = space,
                       .label_selector = std::string(objects::kMoverTaskLabel)});
    }
    Deliver(cache_, SourceSnapshots());
  }
  // These are all that there are, a moment ago.
  void Deliver(k8s::ObjectCache& cache, const k8s::WatchedObjects& which,
               const std::vector<Json>& objects = {}) {
    cache.Add(informers_.emplace_back(which));
    informers_.back().OnAll(objects);
  }
  absl::StatusOr<Exposure> ExposeCached(k8s::ObjectCache& cache) {
    ExposeRequest request = Request();
    request.cache = &cache;
    k8s::RecordingClient client(api_, cache);
    return ExposeSnapshot(ctx_, client, request);
  }

  std::deque<k8s::Informer> informers_;
  k8s::ObjectCache cache_;
};

TEST_F(CachedExposureTest, MakesAllObjectsInOneCall) {
  absl::StatusOr<Exposure> exposure = ExposeCached(cache_);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_THAT(exposure->waiting_for, HasSubstr("mover/du-7 to be ready to use"));
  EXPECT_FALSE(exposure->awaits_snapshot) << "what is usual for the snapshot controller";
  EXPECT_FALSE(api_.Find(VolumeSnapshotKey("shop", "velero-data-x")).has_value());
}

TEST_F(CachedExposureTest, ASnapshotThatStaysUnboundCountsAsWaiting) {
  cluster_.sidecar_runs = false;
  ASSERT_THAT(ExposeCached(cache_), IsOk());
  clock_.Advance(absl::Seconds(10));
  const auto exposure = ExposeCached(cache_);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_TRUE(exposure->awaits_snapshot) << exposure->waiting_for;
}

TEST_F(CachedExposureTest, ASourceThatIsNotReadyCostsNoRequest) {
  k8s::ObjectCache cache;
  Json source = *api_.Find(VolumeSnapshotKey("shop", "velero-data-x"));
  source["metadata"]["labels"][objects::kCsiDeltaLabel] = "velero";
  source["status"]["readyToUse"] = false;
  Deliver(cache, SourceSnapshots(), {source});
  Deliver(cache, {.type = VolumeSnapshotContentType(),
                  .namespace_name = "",
                  .label_selector = std::string(objects::kMoverTaskLabel)});
  const auto exposure = ExposeCached(cache);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_THAT(exposure->waiting_for, HasSubstr("shop/velero-data-x to be ready to use"));
  EXPECT_TRUE(exposure->awaits_snapshot);
  EXPECT_THAT(api_.calls(), IsEmpty());
}

TEST_F(CachedExposureTest, ASourceWithAnErrorIsReadFromTheApiServer) {
  k8s::ObjectCache cache;
  const k8s::ObjectKey key = VolumeSnapshotKey("shop", "velero-data-x");
  api_.Mutate(key, [](Json& source) {
    source["metadata"]["labels"][objects::kCsiDeltaLabel] = "velero";
    source["status"]["readyToUse"] = false;
    source["status"]["error"] = {{"message", "VolumeSnapshotContent is missing"}};
  });
  Deliver(cache, SourceSnapshots(), {*api_.Find(key)});
  api_.Remove(VolumeSnapshotContentKey(source_content_));
  EXPECT_THAT(ExposeCached(cache), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("lost its VolumeSnapshotContent")));
}

TEST_F(CachedExposureTest, ASourceThatIsReadyIsNotReadAgain) {
  k8s::ObjectCache cache;
  const k8s::ObjectKey key = VolumeSnapshotKey("shop", "velero-data-x");
  api_.Mutate(
      key, [](Json& source) { source["metadata"]["labels"][objects::kCsiDeltaLabel] = "velero"; });
  Deliver(cache, SourceSnapshots(), {*api_.Find(key)});
  api_.ClearCalls();
  ASSERT_THAT(ExposeCached(cache), IsOk());
  EXPECT_TRUE(Content().has_value());
  EXPECT_FALSE(api_.Find(key).has_value());
  for (const support::ApiCall& call : api_.calls()) {
    EXPECT_FALSE(call.verb == "get" && call.name == key.name) << "it was delivered";
  }
}

// Another controller has just taken it over.
TEST_F(CachedExposureTest, AContentThatIsNotDeliveredYetIsNoLostSource) {
  ASSERT_THAT(ExposeSnapshot(ctx_, api_, Request()), IsOk());
  ASSERT_FALSE(api_.Find(VolumeSnapshotKey("shop", "velero-data-x")).has_value());
  ASSERT_THAT(ExposeCached(cache_), IsOk());
  const auto exposure = ExposeCached(cache_);
  ASSERT_THAT(exposure, IsOk());
  EXPECT_THAT(exposure->snapshot_handle, testing::Not(IsEmpty()));
  EXPECT_THAT(api_.All(VolumeSnapshotType()), SizeIs(1));
}

TEST_F(CachedExposureTest, ObjectsNotYetInTheCacheAreNotMadeTwice) {
  ASSERT_THAT(Expose(), IsOk());
  ExpectReady(ExposeCached(cache_));
}

// Else the driver's snapshot could be lost with the source, of which nothing is left then.
TEST_F(CachedExposureTest, TheSourceIsDeletedBeforeTheOwnVolumeSnapshotIsMade) {
  api_.FailNext("create", "volumesnapshots", absl::UnavailableError("away"));
  EXPECT_FALSE(ExposeCached(cache_).ok());
  EXPECT_TRUE(Content().has_value());
  EXPECT_FALSE(api_.Find(VolumeSnapshotKey("shop", "velero-data-x")).has_value());
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
  ASSERT_THAT(ExposeCached(cache_), IsOk());
  EXPECT_TRUE(ManagedSnapshot().has_value());
}

// --- Bases

class BaseSnapshotsTest : public ExposedSnapshotTest {
 protected:
  static BaseOwner Owner() { return {"velero", "default", "shop", "data", "claim-uid", "cluster"}; }

  // A whole upload of the claim.
  void Upload(const std::string& base_name, const BaseOwner& owner) {
    ExposeRequest request = Request(base_name);
    request.annotations = OwnerAnnotations(owner);
    ASSERT_THAT(ExposeSnapshot(ctx_, api_, request), IsOk());
    ASSERT_THAT(KeepAsBase(ctx_, env_, base_name, owner), IsOk());
    ASSERT_THAT(RemoveExposure(ctx_, api_, Request(base_name), SnapshotAction::kKeep), IsOk());
    cluster_.driver().cut_at_nanoseconds += 1'000'000'000;
    TakeSource();
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto bases = ListBases(ctx_, env_, "");
    for (const BaseSnapshot& base : bases.value()) {
      names.push_back(base.content_name);
    }
    return names;
  }
};

TEST_F(BaseSnapshotsTest, TheNewestReplacesTheOlderWithTheDriversSnapshot) {
  Upload("du-1", Owner());
  const auto base = FindBase(ctx_, env_, Owner());
  ASSERT_THAT(base, IsOk());
  ASSERT_TRUE(base->has_value());
  EXPECT_EQ((*base)->content_name, "du-1");
  EXPECT_EQ((*base)->owner, Owner());
  EXPECT_EQ((*base)->driver, "d.example.com");
  Upload("du-2", Owner());
  EXPECT_THAT(Names(), ElementsAre("du-2"));
  // That of the base, and that of the source which waits for its turn.
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(2));
}

// A driver that counts clones, as one with a trash does, is never full of what uploads read.
TEST_F(BaseSnapshotsTest, NoCloneOutlivesTheUploadThatReadIt) {
  cluster_.driver().habits.clones_max = 1;
  for (int i = 0; i < 20; ++i) {
    Upload(absl::StrCat("du-", i), Owner());
    EXPECT_THAT(cluster_.driver().volumes(), SizeIs(0)) << i;
  }
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(2)) << "of the base and of the source";
}

TEST_F(BaseSnapshotsTest, OtherVolumesLocationsAndClustersKeepTheirs) {
  BaseOwner elsewhere = Owner();
  elsewhere.location = "second";
  BaseOwner again = Owner();
  again.claim_uid = "made-again";
  BaseOwner other_velero = Owner();
  other_velero.velero_namespace = "velero-2";
  BaseOwner other_cluster = Owner();
  other_cluster.cluster = "another";
  Upload("du-1", elsewhere);
  Upload("du-2", again);
  Upload("du-3", other_velero);
  Upload("du-4", Owner());
  Upload("du-5", other_cluster);
  EXPECT_THAT(Names(), ElementsAre("du-1", "du-2", "du-3", "du-4", "du-5"));
  EXPECT_THAT(*ListBases(ctx_, env_, "velero-2"), SizeIs(1));
}

TEST_F(BaseSnapshotsTest, AFailedUploadLeavesTheOldBase) {
  Upload("du-1", Owner());
  ASSERT_THAT(ExposeSnapshot(ctx_, api_, Request("du-2")), IsOk());
  ASSERT_THAT(RemoveExposure(ctx_, api_, Request("du-2"), SnapshotAction::kDelete), IsOk());
  EXPECT_THAT(Names(), ElementsAre("du-1"));
  EXPECT_THAT(cluster_.driver().snapshots(), SizeIs(1));
}

TEST_F(BaseSnapshotsTest, ABaseRemembersThatItsDriverNeedsBases) {
  Upload("du-1", Owner());
  EXPECT_FALSE(NeedsBases(ctx_, env_, "d.example.com").value());
  ASSERT_THAT(KeepAsBase(ctx_, env_, "du-1", Owner(), /*is_needed=*/true), IsOk());
  EXPECT_TRUE(NeedsBases(ctx_, env_, "d.example.com").value());
  EXPECT_FALSE(NeedsBases(ctx_, env_, "another.example.com").value());
}

// The snapshot controller, when the exposed VolumeSnapshot is deleted, writes what it remembers.
TEST_F(BaseSnapshotsTest, TheBaseIsReadThoughLaterAnnotationsAreLost) {
  ExposeRequest request = Request("du-1");
  request.annotations = OwnerAnnotations(Owner());
  ASSERT_THAT(ExposeSnapshot(ctx_, api_, request), IsOk());
  Json remembered = api_.Get(ctx_, VolumeSnapshotContentKey("du-1")).value();
  ASSERT_THAT(KeepAsBase(ctx_, env_, "du-1", Owner(), /*is_needed=*/true), IsOk());
  Json forgotten;
  const Json content = api_.Get(ctx_, VolumeSnapshotContentKey("du-1")).value();
  for (const auto& [key, value] : content["metadata"]["annotations"].items()) {
    if (!remembered["metadata"]["annotations"].contains(key)) {
      SetJson(forgotten, {"metadata", "annotations", key}, nullptr);
    }
  }
  if (!forgotten.is_null()) {
    ASSERT_THAT(
        api_.Patch(ctx_, VolumeSnapshotContentKey("du-1"), k8s::PatchKind::kMerge, forgotten, ""),
        IsOk());
  }
  const auto base = FindBase(ctx_, env_, Owner());
  ASSERT_THAT(base, IsOk());
  ASSERT_TRUE(base->has_value());
  EXPECT_EQ((*base)->owner, Owner());
  EXPECT_TRUE((*base)->is_needed);
}

TEST_F(BaseSnapshotsTest, DropBasesDropsThoseOfOneVolumeAndLocation) {
  BaseOwner elsewhere = Owner();
  elsewhere.location = "second";
  Upload("du-1", elsewhere);
  Upload("du-2", Owner());
  ASSERT_THAT(DropBases(ctx_, env_, Owner()), IsOk());
  EXPECT_THAT(Names(), ElementsAre("du-1"));
}

// It is read for a restore at that moment, say, or by another client who took its handle for a PVC.
TEST_F(BaseSnapshotsTest, ABaseThatAPvcIsBeingFilledFromStays) {
  cluster_.provisioner_runs = false;
  ExposeRequest request = Request();
  request.annotations = OwnerAnnotations(Owner());
  ASSERT_THAT(ExposeFully(request), IsOk());
  ASSERT_THAT(KeepAsBase(ctx_, env_, kTaskName, Owner()), IsOk());
  ASSERT_THAT(DropBases(ctx_, env_, Owner()), IsOk());
  EXPECT_FALSE(DropBaseForRoom(ctx_, env_, Owner().claim_uid, "no room").value());
  EXPECT_THAT(Names(), ElementsAre(kTaskName));
  EXPECT_EQ(GetString(*Content(), {"spec", "deletionPolicy"}), "Retain");

  api_.SetField(ClaimKey("mover", kTaskName), {"status", "phase"}, "Bound");
  ASSERT_THAT(DropBases(ctx_, env_, Owner()), IsOk());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(BaseSnapshotsTest, OnlyBasesAreDropped) {
  EXPECT_THAT(DropBase(ctx_, env_, source_content_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(source_content_)));
  EXPECT_THAT(DropBase(ctx_, env_, "nothing"), IsOk());
  EXPECT_THAT(KeepAsBase(ctx_, env_, "nothing", Owner()), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace csidelta::csi::exposed_snapshot_test
