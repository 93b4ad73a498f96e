#include "csi/in_place_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/copy_record.h"
#include "csi/restored_volume.h"
#include "csi/snapshot_types.h"
#include "objects/keys.h"
#include "objects/persistent_volume_claim.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::in_place_volume_test {
namespace {

using objects::PersistentVolumeClaim;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kAlias[] = "dd-1";

class InPlaceVolumeTest : public testing::Test {
 protected:
  InPlaceVolumeTest() {
    ctx_.clock = &clock_;
    Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
    pvc["metadata"]["uid"] = "data-uid";
    pvc["spec"] = {{"storageClassName", "fast"}, {"volumeMode", "Block"}, {"volumeName", "pv-1"}};
    pvc["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}};
    api_.Seed(PersistentVolumeClaimType(), pvc);
    Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-1", {},
                                      {{objects::kProvisionedByAnnotation, "d.example.com"}});
    volume["spec"] = {
        {"accessModes", {"ReadWriteOnce"}},
        {"capacity", {{"storage", "1Gi"}}},
        {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", "data-uid"}}},
        {"csi",
         {{"driver", "d.example.com"},
          {"volumeHandle", "v-1"},
          {"volumeAttributes",
           {{"pool", "one"}, {"storage.kubernetes.io/csiProvisionerIdentity", "1-2-d"}}}}},
        {"nodeAffinity", {{"required", {{"nodeSelectorTerms", Json::array()}}}}},
        {"persistentVolumeReclaimPolicy", "Delete"},
        {"storageClassName", "fast"},
        {"volumeMode", "Block"}};
    SetJson(volume, {"status", "phase"}, "Bound");
    api_.Seed(PersistentVolumeType(), volume);
    api_.ClearCalls();
  }

  InPlaceRequest Request() const {
    return {.name = kAlias,
            .mover_namespace = "mover",
            .target_namespace = "shop",
            .target_claim = "data",
            .target_uid = "data-uid",
            .transfer = "velero/nightly-5f3a",
            .transfer_uid = "download-uid",
            .upload = "nightly",
            .labels = {{objects::kMoverTaskLabel, kAlias}},
            .owner = Json()};
  }
  absl::StatusOr<InPlaceVolume> Expose() { return ExposeInPlace(ctx_, api_, Request()); }
  // As often as it takes.
  absl::StatusOr<InPlaceVolume> ExposeToTheEnd() {
    absl::StatusOr<InPlaceVolume> volume = Expose();
    for (int looks = 0; looks < 5 && volume.ok() && !volume->waiting_for.empty(); ++looks) {
      volume = Expose();
    }
    return volume;
  }
  absl::StatusOr<std::string> Hide(const InPlaceEnd& end) {
    return HideInPlace(ctx_, api_, Request(), end);
  }

  void ChangePvc(const std::function<void(Json&)>& change) {
    api_.Mutate(ClaimKey("shop", "data"), change);
  }
  void AddPod() {
    Json pod = support::MakeObject("v1", "Pod", "shop", "app-0");
    pod["spec"]["volumes"] =
        Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
    pod["status"]["phase"] = "Pending";
    api_.Seed(PodType(), pod);
  }
  std::optional<CopyRecord> Record() const {
    return ParseCopyRecord(*PersistentVolumeClaim::Of(*api_.Find(ClaimKey("shop", "data"))));
  }
  std::optional<Json> Alias() const { return api_.Find(VolumeKey(kAlias)); }
  void ExpectNothingMade() {
    EXPECT_EQ(api_.CallCount("create", "*"), 0);
    EXPECT_EQ(Alias(), std::nullopt);
  }
  // The volume and its PVC are as they were.
  void ExpectVolumeUntouched() {
    const auto volume = api_.Find(VolumeKey("pv-1"));
    ASSERT_TRUE(volume.has_value());
    EXPECT_EQ(GetString(*volume, {"spec", "persistentVolumeReclaimPolicy"}), "Delete");
    EXPECT_EQ(GetString(*volume, {"spec", "claimRef", "uid"}), "data-uid");
    EXPECT_EQ(GetString(*api_.Find(ClaimKey("shop", "data")), {"spec", "volumeName"}), "pv-1");
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  support::FakeSnapshotCluster cluster_{api_};
  CallContext ctx_;
};

TEST_F(InPlaceVolumeTest, TheVolumeGetsASecondNameInTheMoversNamespace) {
  const auto ready = ExposeToTheEnd();
  ASSERT_THAT(ready, IsOk());
  EXPECT_EQ(ready->waiting_for, "");
  EXPECT_EQ(ready->volume_name, "pv-1");
  EXPECT_EQ(ready->storage_class, "fast");
  ASSERT_TRUE(Alias().has_value());
  const Json alias = *Alias();
  EXPECT_TRUE(IsAlias(alias));
  EXPECT_EQ(GetString(alias, {"spec", "csi", "volumeHandle"}), "v-1");
  EXPECT_EQ(GetString(alias, {"spec", "csi", "volumeAttributes", "pool"}), "one");
  EXPECT_EQ(FindJson(alias, {"spec", "csi", "volumeAttributes",
                             "storage.kubernetes.io/csiProvisionerIdentity"}),
            nullptr);
  EXPECT_NE(FindJson(alias, {"spec", "nodeAffinity", "required"}), nullptr);
  EXPECT_EQ(GetString(alias, {"spec", "persistentVolumeReclaimPolicy"}), "Retain");
  EXPECT_EQ(alias["spec"]["storageClassName"], "");
  EXPECT_EQ(k8s::Annotation(alias, objects::kProvisionedByAnnotation), "");
  const auto claim = api_.Find(ClaimKey("mover", kAlias));
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(GetString(*claim, {"spec", "volumeName"}), kAlias);
  EXPECT_EQ(GetString(*claim, {"spec", "volumeMode"}), "Block");
  EXPECT_EQ(GetString(*claim, {"status", "phase"}), "Bound");
  ExpectVolumeUntouched();
  ASSERT_TRUE(Record().has_value());
  EXPECT_TRUE(Record()->has_begun);
  EXPECT_TRUE(IsWrittenByMover(*Record(), ""));
  EXPECT_FALSE(IsWrittenByMover(*Record(), "download-uid"));
}

TEST_F(InPlaceVolumeTest, ThePvcSaysWhoWritesBeforeAnythingIsMade) {
  const auto first = Expose();
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(first->waiting_for, HasSubstr("second look"));
  ExpectNothingMade();
  ASSERT_TRUE(Record().has_value());
  EXPECT_EQ(Record()->from, "velero/nightly-5f3a");
  EXPECT_EQ(Record()->upload, "nightly");
  EXPECT_FALSE(Record()->has_begun);
}

TEST_F(InPlaceVolumeTest, APodThatAppearsBetweenTheLooksIsSeen) {
  ASSERT_THAT(Expose(), IsOk());
  AddPod();
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("app-0")));
  ExpectNothingMade();
}

TEST_F(InPlaceVolumeTest, APodThatComesLaterStopsTheNextAttempt) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  AddPod();
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("app-0")));
}

// Half written: the backup gets what it gets, and the restore goes on.
TEST_F(InPlaceVolumeTest, ABackupThatComesLaterStopsNothing) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  api_.Seed(BackupType(), support::MakeBackupObject("nightly", "InProgress"));
  const auto again = Expose();
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->waiting_for, "");
}

TEST_F(InPlaceVolumeTest, ItWaitsUntilNoNodeHasTheVolume) {
  Json attachment = support::MakeObject("storage.k8s.io/v1", "VolumeAttachment", "", "csi-1");
  attachment["spec"] = {{"nodeName", "node-7"}, {"source", {{"persistentVolumeName", "pv-1"}}}};
  api_.Seed(VolumeAttachmentType(), attachment);
  const auto waiting = ExposeToTheEnd();
  ASSERT_THAT(waiting, IsOk());
  EXPECT_THAT(waiting->waiting_for, AllOf(HasSubstr("pv-1"), HasSubstr("node-7")));
  ExpectNothingMade();
  EXPECT_FALSE(Record().has_value());
  api_.Remove({VolumeAttachmentType(), "", "csi-1"});
  const auto ready = ExposeToTheEnd();
  ASSERT_THAT(ready, IsOk());
  EXPECT_EQ(ready->waiting_for, "");
}

// The VolumeSnapshot that was taken for safety says a moment late that it is taken.
TEST_F(InPlaceVolumeTest, ItWaitsWhileASnapshotIsTakenOrAnotherDownloadWrites) {
  Json snapshot = support::MakeSnapshotObject("shop", "safety", "");
  SetJson(snapshot, {"metadata", "creationTimestamp"}, FormatRfc3339Seconds(clock_.Now()));
  cluster_.controller_runs = false;
  api_.Seed(VolumeSnapshotType(), snapshot);
  auto waiting = ExposeToTheEnd();
  ASSERT_THAT(waiting, IsOk());
  EXPECT_THAT(waiting->waiting_for, HasSubstr("VolumeSnapshot safety"));
  ExpectNothingMade();
  api_.Remove(VolumeSnapshotKey("shop", "safety"));
  const CopyRecord other{
      .method = CopyRecord::Method::kMover, .from = "velero/x", .id = "other-uid"};
  ChangePvc([&](Json& pvc) {
    SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
            FormatCopyRecord(other));
  });
  waiting = ExposeToTheEnd();
  ASSERT_THAT(waiting, IsOk());
  EXPECT_THAT(waiting->waiting_for, HasSubstr("DataDownload velero/x"));
  ExpectNothingMade();
  EXPECT_EQ(Record()->id, "other-uid");
}

TEST_F(InPlaceVolumeTest, WhatIsWholeHasNoRecord) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  const auto waiting = Hide({.is_whole = true});
  ASSERT_THAT(waiting, IsOk());
  EXPECT_EQ(*waiting, "");
  EXPECT_EQ(Alias(), std::nullopt);
  EXPECT_EQ(api_.Find(ClaimKey("mover", kAlias)), std::nullopt);
  EXPECT_FALSE(Record().has_value());
  ExpectVolumeUntouched();
}

TEST_F(InPlaceVolumeTest, WhatIsPartlyOldSaysSoOnceNothingWrites) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  // As csi-attacher holds it until it is detached.
  api_.Mutate(VolumeKey(kAlias), [](Json& alias) {
    alias["metadata"]["finalizers"] = Json::array({"external-attacher/d-example-com"});
  });
  const auto waiting = Hide({});
  ASSERT_THAT(waiting, IsOk());
  EXPECT_THAT(*waiting, HasSubstr("detached"));
  EXPECT_TRUE(IsWrittenByMover(*Record(), ""));
  api_.Mutate(VolumeKey(kAlias),
              [](Json& alias) { alias["metadata"]["finalizers"] = Json::array(); });
  api_.Remove(VolumeKey(kAlias));
  const auto done = Hide({});
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(*done, "");
  ASSERT_TRUE(Record().has_value());
  EXPECT_TRUE(Record()->has_ended);
  EXPECT_FALSE(IsWrittenByMover(*Record(), ""));
  ExpectVolumeUntouched();
}

TEST_F(InPlaceVolumeTest, AWorkerThatIsCutOffIsNotWaitedFor) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  api_.Mutate(VolumeKey(kAlias), [](Json& alias) {
    alias["metadata"]["finalizers"] = Json::array({"external-attacher/d-example-com"});
  });
  const auto done = Hide({.is_fenced = true});
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(*done, "");
  EXPECT_TRUE(Record()->has_ended);
}

TEST_F(InPlaceVolumeTest, WhatNobodyWroteIntoIsAsItWas) {
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_TRUE(Record().has_value());
  ASSERT_THAT(Hide({}), IsOk());
  EXPECT_FALSE(Record().has_value());
}

TEST_F(InPlaceVolumeTest, WhatWasPartlyOldBeforeStaysSo) {
  const CopyRecord before{
      .method = CopyRecord::Method::kSnapshot, .from = "monday", .has_begun = true};
  ChangePvc([&](Json& pvc) {
    SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
            FormatCopyRecord(before));
  });
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_THAT(Hide({}), IsOk());
  ASSERT_TRUE(Record().has_value());
  EXPECT_TRUE(Record()->has_ended);
}

TEST_F(InPlaceVolumeTest, TheRecordOfAnotherRestoreIsLeft) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  const CopyRecord other{.method = CopyRecord::Method::kMover, .from = "velero/x", .id = "other"};
  ChangePvc([&](Json& pvc) {
    SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
            FormatCopyRecord(other));
  });
  ASSERT_THAT(Hide({.is_whole = true}), IsOk());
  ASSERT_TRUE(Record().has_value());
  EXPECT_EQ(Record()->id, "other");
}

// What removes volumes that were filled for a PVC must not take this one's data, though one of the
// two annotations that say so is lost.
TEST_F(InPlaceVolumeTest, TheDataIsNeverDeletedWithTheSecondName) {
  const RestoreRequest request{.name = kAlias,
                               .mover_namespace = "mover",
                               .target_namespace = "shop",
                               .target_claim = "data",
                               .target_uid = "",
                               .size_bytes_least = 0,
                               .file_system = "",
                               .ignore_delay_binding = false,
                               .labels = Request().labels,
                               .owner = Json()};
  const k8s::ObjectKey keys[] = {ClaimKey("shop", "none"), ClaimKey("mover", kAlias),
                                 VolumeKey(kAlias)};
  for (const k8s::ObjectKey& without_annotation : keys) {
    for (const char* volume : {"", kAlias, "pv-1"}) {
      SCOPED_TRACE(absl::StrCat(ToString(without_annotation), " ", volume));
      ASSERT_THAT(ExposeToTheEnd(), IsOk());
      api_.Mutate(without_annotation, [](Json& object) {
        EraseJson(object, {"metadata", "annotations", objects::kAliasOfAnnotation});
      });
      EXPECT_THAT(RemoveRestoredVolume(ctx_, api_, request, volume), IsOk());
      ASSERT_TRUE(Alias().has_value());
      EXPECT_EQ(GetString(*Alias(), {"spec", "persistentVolumeReclaimPolicy"}), "Retain");
      ExpectVolumeUntouched();
      api_.Remove(ClaimKey("mover", kAlias));
      api_.Remove(VolumeKey(kAlias));
    }
  }
}

TEST_F(InPlaceVolumeTest, WhatHasTheNameAndIsAnothersIsNotTouched) {
  Json foreign = support::MakeObject("v1", "PersistentVolume", "", kAlias);
  foreign["spec"] = {{"persistentVolumeReclaimPolicy", "Retain"}};
  api_.Seed(PersistentVolumeType(), foreign);
  EXPECT_THAT(ExposeToTheEnd(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(kAlias)));
  ASSERT_THAT(Hide({}), IsOk());
  EXPECT_TRUE(Alias().has_value());
}

// After any call that fails the next look goes on.
TEST_F(InPlaceVolumeTest, AnyCallMayFail) {
  for (int n = 1;; ++n) {
    SCOPED_TRACE(n);
    api_.FailCall(n, absl::UnavailableError("fault"), support::Fault::kAnswerLost);
    ExposeToTheEnd().status().IgnoreError();
    Hide({.is_whole = true}).status().IgnoreError();
    const bool hit = api_.sweep_hit();
    api_.ClearFaults();
    const auto ready = ExposeToTheEnd();
    ASSERT_THAT(ready, IsOk());
    EXPECT_EQ(ready->waiting_for, "");
    const auto hidden = Hide({.is_whole = true});
    ASSERT_THAT(hidden, IsOk());
    EXPECT_EQ(*hidden, "");
    EXPECT_FALSE(Record().has_value());
    EXPECT_THAT(api_.All(PersistentVolumeType()), SizeIs(1));
    EXPECT_THAT(api_.All(PersistentVolumeClaimType()), SizeIs(1));
    if (!hit) {
      EXPECT_GT(n, 20);
      return;
    }
  }
}

// --- Who asks may be anybody who may create a DataDownload.

struct RefusedCase {
  const char* name;
  const char* want;
  void (*change)(support::FakeApiClient& api, InPlaceRequest& request);
};

void ChangeTarget(support::FakeApiClient& api, const std::function<void(Json&)>& change) {
  api.Mutate(ClaimKey("shop", "data"), change);
}

class RefusedInPlaceTest : public InPlaceVolumeTest,
                           public testing::WithParamInterface<RefusedCase> {};

TEST_P(RefusedInPlaceTest, NothingIsWritten) {
  InPlaceRequest request = Request();
  GetParam().change(api_, request);
  const std::optional<Json> before = api_.Find(ClaimKey("shop", "data"));
  api_.ClearCalls();
  for (int looks = 0; looks < 3; ++looks) {
    EXPECT_THAT(ExposeInPlace(ctx_, api_, request),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(GetParam().want)));
  }
  ExpectNothingMade();
  EXPECT_EQ(api_.CallCount("patch", "*"), 0);
  EXPECT_EQ(api_.Find(ClaimKey("shop", "data")), before);
}

const RefusedCase kRefusedCases[] = {
    {"AnotherUid", "not the one that was named",
     [](support::FakeApiClient&, InPlaceRequest& request) { request.target_uid = "before-uid"; }},
    {"NoPvc", "does not exist",
     [](support::FakeApiClient&, InPlaceRequest& request) { request.target_claim = "none"; }},
    {"OfTheMover", "its own",
     [](support::FakeApiClient&, InPlaceRequest& request) { request.target_namespace = "mover"; }},
    {"InUse", "app-0 uses it",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       Json pod = support::MakeObject("v1", "Pod", "shop", "app-0");
       pod["spec"]["volumes"] =
           Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
       api.Seed(PodType(), pod);
     }},
    {"OfFiles", "Filesystem",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       ChangeTarget(api, [](Json& pvc) { pvc["spec"]["volumeMode"] = "Filesystem"; });
     }},
    {"NotBound", "has no volume",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       ChangeTarget(api, [](Json& pvc) {
         pvc["status"]["phase"] = "Pending";
         EraseJson(pvc, {"spec", "volumeName"});
       });
     }},
    {"VolumeOfAnother", "not its own",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       api.Mutate(VolumeKey("pv-1"),
                  [](Json& volume) { volume["spec"]["claimRef"]["uid"] = "another-uid"; });
     }},
    {"NotOfCsi", "not of a CSI driver",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       api.Mutate(VolumeKey("pv-1"), [](Json& volume) { EraseJson(volume, {"spec", "csi"}); });
     }},
    {"InBackup", "backup velero/nightly",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       api.Seed(BackupType(), support::MakeBackupObject("nightly", "InProgress"));
     }},
    {"PodsHidden", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "pods"); }},
    {"StatefulSetsHidden", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "statefulsets"); }},
    {"BackupsHidden", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "backups"); }},
};
INSTANTIATE_TEST_SUITE_P(Cases, RefusedInPlaceTest, testing::ValuesIn(kRefusedCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::csi::in_place_volume_test
