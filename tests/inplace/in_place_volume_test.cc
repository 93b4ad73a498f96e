#include "inplace/in_place_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "csi/expose/restored_volume.h"
#include "inplace/restore_guard.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/swap_record.h"
#include "tests/support/cluster_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::inplace::in_place_volume_test {
namespace {

using objects::PersistentVolumeClaim;
using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kAlias[] = "dd-1";

class InPlaceVolumeTest : public support::ClusterFixture {
 protected:
  InPlaceVolumeTest() {
    cluster_.ProtectVolumes();
    support::SeedBlockPvc(api_, "d.example.com");
    SetConsent();
    api_.Mutate(VolumeKey("pv-1"), [](Json& volume) {
      SetJson(volume, {"metadata", "annotations", objects::kProvisionedByAnnotation},
              "d.example.com");
      Json& spec = volume["spec"];
      spec["accessModes"] = Json::array({"ReadWriteOnce"});
      spec["csi"]["volumeAttributes"] = {{"pool", "one"},
                                         {"storage.kubernetes.io/csiProvisionerIdentity", "1-2-d"}};
      spec["nodeAffinity"] = {{"required", {{"nodeSelectorTerms", Json::array()}}}};
      spec["persistentVolumeReclaimPolicy"] = "Delete";
      spec["storageClassName"] = "fast";
      spec["volumeMode"] = "Block";
    });
    api_.ClearCalls();
  }

  InPlaceRequest Request() const {
    return {.name = kAlias,
            .mover_namespace = "mover",
            .target_namespace = "shop",
            .target_claim = "data",
            .target_uid = "data-uid",
            .target_volume = "pv-1",
            .transfer = "velero/nightly-5f3a",
            .transfer_uid = "download-uid",
            .upload = "nightly",
            .consent_before = start_,
            .start_before = start_ + absl::Minutes(30),
            .owner = std::nullopt};
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
  // After those looks; "" once it is exposed.
  std::string WaitsFor() {
    const auto volume = ExposeToTheEnd();
    EXPECT_THAT(volume, IsOk());
    return volume.ok() ? volume->waiting_for : "";
  }
  absl::StatusOr<std::string> Hide(const InPlaceEnd& end) {
    return HideInPlace(ctx_, api_, Request(), end);
  }

  void ChangePvc(const std::function<void(Json&)>& change) {
    api_.Mutate(ClaimKey("shop", "data"), change);
  }
  void AddPod() { api_.Seed(PodType(), support::MakePodObject("data", "Pending")); }
  std::optional<objects::CopyRecord> Record() const {
    return ParseCopyRecord(*PersistentVolumeClaim::Of(*api_.Find(ClaimKey("shop", "data"))));
  }
  std::string Consent() const {
    return k8s::Annotation(*api_.Find(ClaimKey("shop", "data")), objects::kMayWriteAnnotation);
  }
  void SetConsent(const std::string& uid = "download-uid") {
    ChangePvc([&](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kMayWriteAnnotation}, uid);
    });
  }
  void SetRecord(const objects::CopyRecord& record) {
    ChangePvc([&](Json& pvc) {
      SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation},
              FormatCopyRecord(record));
    });
  }
  std::optional<Json> Alias() const { return api_.Find(VolumeKey(kAlias)); }
  // As csi-attacher holds it until it is detached.
  void AttachAlias() {
    api_.SetField(VolumeKey(kAlias), {"metadata", "finalizers"},
                  Json::array({"external-attacher/d-example-com"}));
  }
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

  const absl::Time start_ = clock_.Now();
};

TEST_F(InPlaceVolumeTest, TheVolumeGetsASecondNameInTheMoversNamespace) {
  const auto ready = ExposeToTheEnd();
  ASSERT_THAT(ready, IsOk());
  EXPECT_EQ(ready->waiting_for, "");
  EXPECT_EQ(ready->volume_name, "pv-1");
  EXPECT_EQ(ready->storage_class, "fast");
  ASSERT_TRUE(Alias().has_value());
  const Json alias = *Alias();
  EXPECT_TRUE(objects::IsAlias(objects::Object(alias)));
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
  EXPECT_EQ(k8s::Label(*claim, objects::kMoverTaskLabel), "");
  EXPECT_EQ(GetString(*claim, {"status", "phase"}), "Bound");
  ExpectVolumeUntouched();
  ASSERT_TRUE(Record().has_value());
  EXPECT_TRUE(Record()->has_begun);
  EXPECT_TRUE(objects::IsWrittenByMover(*Record(), ""));
  EXPECT_FALSE(objects::IsWrittenByMover(*Record(), "download-uid"));
}

// The mover sees the blocks below a file system.
TEST_F(InPlaceVolumeTest, AVolumeOfFilesHasASecondNameInModeBlock) {
  ChangePvc([](Json& pvc) { pvc["spec"]["volumeMode"] = "Filesystem"; });
  api_.Mutate(VolumeKey("pv-1"), [](Json& volume) {
    volume["spec"]["volumeMode"] = "Filesystem";
    volume["spec"]["mountOptions"] = {"noatime"};
    volume["spec"]["accessModes"] = {"ReadWriteOncePod", "ReadOnlyMany"};
  });
  const auto ready = ExposeToTheEnd();
  ASSERT_THAT(ready, IsOk());
  EXPECT_EQ(ready->waiting_for, "");
  EXPECT_EQ(GetString(*Alias(), {"spec", "volumeMode"}), "Block");
  EXPECT_EQ(FindJson(*Alias(), {"spec", "mountOptions"}), nullptr);
  const Json claim = *api_.Find(ClaimKey("mover", kAlias));
  EXPECT_EQ(GetString(claim, {"spec", "volumeMode"}), "Block");
  EXPECT_EQ(claim["spec"]["accessModes"], Json::array({"ReadWriteOnce"}));
  EXPECT_EQ((*Alias())["spec"]["accessModes"], Json::array({"ReadWriteOnce"}));
  ASSERT_THAT(Hide({.is_whole = true}), IsOk());
  EXPECT_EQ(GetString(*api_.Find(VolumeKey("pv-1")), {"spec", "volumeMode"}), "Filesystem");
  ExpectVolumeUntouched();
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
  EXPECT_THAT(WaitsFor(), AllOf(HasSubstr("pv-1"), HasSubstr("node-7")));
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
  EXPECT_THAT(WaitsFor(), HasSubstr("VolumeSnapshot safety"));
  ExpectNothingMade();
  api_.Remove(VolumeSnapshotKey("shop", "safety"));
  api_.Seed(DataDownloadType(),
            {{"metadata", {{"name", "x"}, {"namespace", "velero"}, {"uid", "other-uid"}}},
             {"status", {{"phase", "InProgress"}}}});
  SetRecord({.from = "velero/x", .id = "other-uid"});
  EXPECT_THAT(WaitsFor(), HasSubstr("DataDownload velero/x"));
  ExpectNothingMade();
  EXPECT_EQ(Record()->id, "other-uid");
  // Nothing that anybody still has to wait for: the DataDownload of the record is over.
  api_.SetField({DataDownloadType(), "velero", "x"}, {"status", "phase"}, "Failed");
  EXPECT_EQ(WaitsFor(), "");
  EXPECT_EQ(Record()->id, "download-uid");
}

TEST_F(InPlaceVolumeTest, WhatIsWholeHasNoRecord) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  EXPECT_THAT(Hide({.is_whole = true}), support::IsOkAndHolds(""));
  EXPECT_EQ(Alias(), std::nullopt);
  EXPECT_EQ(api_.Find(ClaimKey("mover", kAlias)), std::nullopt);
  EXPECT_FALSE(Record().has_value());
  EXPECT_EQ(Consent(), "");
  ExpectVolumeUntouched();
}

TEST_F(InPlaceVolumeTest, WhatIsPartlyOldSaysSoOnceNothingWrites) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  AttachAlias();
  EXPECT_THAT(Hide({}), support::IsOkAndHolds(HasSubstr("detached")));
  EXPECT_TRUE(objects::IsWrittenByMover(*Record(), ""));
  api_.SetField(VolumeKey(kAlias), {"metadata", "finalizers"}, Json::array());
  api_.Remove(VolumeKey(kAlias));
  EXPECT_THAT(Hide({}), support::IsOkAndHolds(""));
  ASSERT_TRUE(Record().has_value());
  EXPECT_TRUE(Record()->has_ended);
  EXPECT_FALSE(objects::IsWrittenByMover(*Record(), ""));
  ExpectVolumeUntouched();
}

// A Pod that was asked to go has its volume until its kubelet has detached it.
TEST_F(InPlaceVolumeTest, TheSecondNameStaysAsLongAsItsPod) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  Json worker = support::MakeObject("v1", "Pod", "mover", kAlias);
  worker["spec"] = {
      {"nodeName", "node-1"},
      {"volumes",
       Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", kAlias}}}}})}};
  worker["status"]["phase"] = "Failed";
  api_.Seed(PodType(), worker);
  for (int looks = 0; looks < 3; ++looks) {
    EXPECT_THAT(Hide({}), support::IsOkAndHolds(HasSubstr(
                              "persistentvolumeclaims mover/dd-1 to be detached and gone")));
    EXPECT_TRUE(Alias().has_value());
    EXPECT_TRUE(objects::IsWrittenByMover(*Record(), ""));
    EXPECT_EQ(Consent(), "download-uid");
    // Nothing restarts with what is going.
    EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deleted")));
  }
  api_.Remove(VolumeKey(kAlias));  // By force.
  EXPECT_THAT(*Hide({}), HasSubstr("persistentvolumeclaims mover/dd-1 to be detached and gone"));
  ASSERT_THAT(api_.Delete(ctx_, {PodType(), "mover", kAlias}, {}), IsOk());
  EXPECT_EQ(*Hide({}), "");
  EXPECT_TRUE(Record()->has_ended);
  EXPECT_EQ(Consent(), "");
  ExpectVolumeUntouched();
}

TEST_F(InPlaceVolumeTest, AWorkerThatIsCutOffIsNotWaitedFor) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  AttachAlias();
  EXPECT_THAT(Hide({.is_fenced = true}), support::IsOkAndHolds(""));
  EXPECT_TRUE(Record()->has_ended);
}

TEST_F(InPlaceVolumeTest, AVolumeThatWasNotWrittenIsUnchanged) {
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_TRUE(Record().has_value());
  ASSERT_THAT(Hide({}), IsOk());
  EXPECT_FALSE(Record().has_value());
}

TEST_F(InPlaceVolumeTest, WhatWasPartlyOldBeforeStaysSo) {
  SetRecord({.from = "monday", .has_begun = true, .has_ended = true});
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_THAT(Hide({}), IsOk());
  ASSERT_TRUE(Record().has_value());
  EXPECT_TRUE(Record()->has_ended);
}

TEST_F(InPlaceVolumeTest, RecordAndConsentOfAnotherRestoreAreLeft) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  SetRecord({.from = "velero/x", .id = "other"});
  SetConsent("other");
  ASSERT_THAT(Hide({.is_whole = true}), IsOk());
  ASSERT_TRUE(Record().has_value());
  EXPECT_EQ(Record()->id, "other");
  EXPECT_EQ(Consent(), "other");
  // Nor one without an id, by what is left of a DataDownload whose uid is lost.
  SetRecord({.from = "monday", .has_begun = true});
  InPlaceRequest lost = Request();
  lost.transfer_uid = "";
  EXPECT_THAT(HideInPlace(ctx_, api_, lost, {}), IsOk());
  ASSERT_TRUE(Record().has_value());
  EXPECT_FALSE(Record()->has_ended);
}

// What removes volumes that were filled for a PVC must not take this one's data, though one of the
// two annotations that say so is lost.
TEST_F(InPlaceVolumeTest, TheDataIsNeverDeletedWithTheSecondName) {
  const csi::RestoreRequest request{.name = kAlias,
                                    .mover_namespace = "mover",
                                    .target_namespace = "shop",
                                    .target_claim = "data",
                                    .target_uid = "",
                                    .size_bytes_least = 0,
                                    .file_system = "",
                                    .ignore_delay_binding = false,
                                    // Those by which an older data mover finds what it filled.
                                    .labels = {{objects::kMoverTaskLabel, kAlias}},
                                    .owner = std::nullopt};
  const k8s::ObjectKey keys[] = {ClaimKey("shop", "none"), ClaimKey("mover", kAlias),
                                 VolumeKey(kAlias)};
  for (const k8s::ObjectKey& without_annotation : keys) {
    for (const char* volume : {"", kAlias, "pv-1"}) {
      SCOPED_TRACE(absl::StrCat(ToString(without_annotation), " ", volume));
      ASSERT_THAT(ExposeToTheEnd(), IsOk());
      api_.Mutate(without_annotation, [](Json& object) {
        EraseJson(object, {"metadata", "annotations", objects::kAliasOfAnnotation});
      });
      EXPECT_THAT(csi::RemoveRestoredVolume(ctx_, api_, request, volume), IsOk());
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

TEST_F(InPlaceVolumeTest, WhileAWorkerMayWriteEverythingKeepsOthersAway) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  EXPECT_THAT(Hide({.may_still_write = true}), support::IsOkAndHolds(HasSubstr("may still write")));
  EXPECT_TRUE(Alias().has_value());
  EXPECT_TRUE(objects::IsWrittenByMover(*Record(), ""));
  EXPECT_THAT(Hide({}), IsOk());
  EXPECT_FALSE(Alias().has_value());
  EXPECT_EQ(Consent(), "");
}

TEST_F(InPlaceVolumeTest, ThePvcIsTheSameAndUnusedAsLongAsAWorkerWrites) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  EXPECT_THAT(CheckInPlace(ctx_, api_, Request()), IsOk());
  const Json before = *api_.Find(ClaimKey("shop", "data"));
  ChangePvc([](Json& pvc) {
    pvc["metadata"]["finalizers"] = Json::array({"kubernetes.io/pvc-protection"});
    pvc["metadata"]["deletionTimestamp"] = "2026-11-21T13:00:00Z";
  });
  for (const absl::Status& look :
       {CheckInPlace(ctx_, api_, Request()), CheckSameTarget(ctx_, api_, Request())}) {
    EXPECT_THAT(look, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("being deleted")));
  }
  api_.Seed(PersistentVolumeClaimType(), before);
  AddPod();
  EXPECT_THAT(CheckInPlace(ctx_, api_, Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("a Pod started to use it"), HasSubstr("app-0"))));
  EXPECT_THAT(CheckSameTarget(ctx_, api_, Request()), IsOk());
  api_.Forbid("list", "pods");
  EXPECT_THAT(CheckInPlace(ctx_, api_, Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("may not be read")));
  ChangePvc([](Json& pvc) { pvc["spec"]["volumeName"] = "pv-2"; });
  EXPECT_THAT(CheckSameTarget(ctx_, api_, Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("pv-2")));
  api_.Remove(ClaimKey("shop", "data"));
  EXPECT_THAT(CheckSameTarget(ctx_, api_, Request()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not exist")));
}

TEST_F(InPlaceVolumeTest, ItWaitsWhileTheVolumeHasAnotherPersistentVolume) {
  const auto add = [this] {
    Json other = *api_.Find(VolumeKey("pv-1"));
    other["metadata"] = {{"name", "pv-by-hand"}};
    api_.Seed(PersistentVolumeType(), other);
  };
  add();
  EXPECT_THAT(WaitsFor(), HasSubstr("pv-by-hand"));
  ExpectNothingMade();
  api_.Remove(VolumeKey("pv-by-hand"));
  EXPECT_EQ(WaitsFor(), "");
  add();  // Before another attempt, too.
  EXPECT_THAT(Expose()->waiting_for, HasSubstr("pv-by-hand"));
}

// Whichever process made the second name, nothing was written through it yet.
TEST_F(InPlaceVolumeTest, ASecondNameAloneSkipsNoCheck) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  SetRecord({.from = "velero/nightly-5f3a", .id = "download-uid", .upload = "nightly"});
  api_.Seed(BackupType(), support::MakeBackupObject("nightly", "InProgress"));
  EXPECT_THAT(Expose(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("backup velero/nightly")));
}

// That the volume is partly old by an earlier restore skips none either.
TEST_F(InPlaceVolumeTest, WhatWasPartlyOldBeforeSkipsNoCheck) {
  SetRecord({.from = "monday", .has_begun = true, .has_ended = true});
  ASSERT_THAT(Expose(), IsOk());
  ASSERT_TRUE(Record()->has_begun);
  Json alias = support::MakeObject("v1", "PersistentVolume", "", kAlias);
  api_.Seed(PersistentVolumeType(), alias);
  api_.Seed(BackupType(), support::MakeBackupObject("nightly", "InProgress"));
  EXPECT_THAT(Expose(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("backup velero/nightly")));
}

// The DataDownload, which has a uid only once it is made, is there first.
TEST_F(InPlaceVolumeTest, TheConsentIsWaitedForAMoment) {
  ChangePvc([](Json& pvc) { EraseJson(pvc, {"metadata", "annotations"}); });
  InPlaceRequest request = Request();
  request.consent_before = clock_.Now() + absl::Seconds(1);
  const std::optional<Json> before = api_.Find(ClaimKey("shop", "data"));
  const auto waiting = ExposeInPlace(ctx_, api_, request);
  ASSERT_THAT(waiting, IsOk());
  EXPECT_THAT(waiting->waiting_for, AllOf(HasSubstr("may-write"), HasSubstr("nightly-5f3a")));
  ExpectNothingMade();
  EXPECT_EQ(api_.Find(ClaimKey("shop", "data")), before);
  SetConsent();
  EXPECT_THAT(ExposeInPlace(ctx_, api_, request)->waiting_for, HasSubstr("second look"));
  EXPECT_TRUE(Record().has_value());
  // Who takes it back before anything was written is heard.
  ChangePvc([](Json& pvc) {
    EraseJson(pvc, {"metadata", "annotations", objects::kMayWriteAnnotation});
  });
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(ExposeInPlace(ctx_, api_, request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("may-write")));
  ExpectNothingMade();
}

TEST_F(InPlaceVolumeTest, ItDoesNotBeginTooLateButGoesOn) {
  InPlaceRequest late = Request();
  late.start_before = clock_.Now();
  EXPECT_THAT(ExposeInPlace(ctx_, api_, late),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("too late")));
  EXPECT_FALSE(Record().has_value());
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  EXPECT_THAT(ExposeInPlace(ctx_, api_, late), IsOk());
}

// What was written into once is not written into again without a look at all of it, where what
// kept others away is gone.
TEST_F(InPlaceVolumeTest, WithoutTheSecondNameAllIsCheckedAgain) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  api_.Remove(ClaimKey("mover", kAlias));
  api_.Remove(VolumeKey(kAlias));
  api_.Seed(BackupType(), support::MakeBackupObject("nightly", "InProgress"));
  EXPECT_THAT(Expose(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("backup velero/nightly")));
  EXPECT_EQ(Alias(), std::nullopt);
}

// Who ended it by hand, or wrote so, has it announced again.
TEST_F(InPlaceVolumeTest, WhatHasEndedIsAnnouncedAgain) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  objects::CopyRecord record = *Record();
  record.has_ended = true;
  SetRecord(record);
  EXPECT_THAT(Expose()->waiting_for, HasSubstr("second look"));
  EXPECT_FALSE(Record()->has_ended);
}

TEST_F(InPlaceVolumeTest, APvcThatChangesUnderTheLookIsLookedAtAgain) {
  bool has_changed = false;
  api_.SetInterceptor([&](const support::ApiCall& call, const Json*) -> absl::Status {
    if (call.verb == "list" && call.plural == "statefulsets" && !has_changed) {
      has_changed = true;
      ChangePvc([](Json& pvc) { SetJson(pvc, {"metadata", "labels", "app"}, "db"); });
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kAborted, HasSubstr("just changed")));
  EXPECT_FALSE(Record().has_value());
  EXPECT_EQ(WaitsFor(), "");
}

// Handles are names within a driver.
TEST_F(InPlaceVolumeTest, OtherVolumesAreNotWaitedFor) {
  for (const auto& [field, value] :
       {std::pair("driver", "e.example.com"), std::pair("volumeHandle", "v-2")}) {
    Json other = *api_.Find(VolumeKey("pv-1"));
    other["metadata"] = {{"name", absl::StrCat("pv-of-", value)}};
    other["spec"]["csi"][field] = value;
    api_.Seed(PersistentVolumeType(), other);
  }
  Json attachment = support::MakeObject("storage.k8s.io/v1", "VolumeAttachment", "", "csi-2");
  attachment["spec"] = {{"nodeName", "node-7"},
                        {"source", {{"persistentVolumeName", "pv-of-v-2"}}}};
  api_.Seed(VolumeAttachmentType(), attachment);
  EXPECT_EQ(WaitsFor(), "");
}

TEST_F(InPlaceVolumeTest, ItWaitsUntilTheSecondNameIsBound) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  api_.SetField(ClaimKey("mover", kAlias), {"status", "phase"}, "Pending");
  EXPECT_THAT(Expose()->waiting_for, HasSubstr("to be bound"));
}

TEST_F(InPlaceVolumeTest, AClaimThatAnotherClientDeletedIsMadeAgain) {
  ASSERT_THAT(ExposeToTheEnd(), IsOk());
  ASSERT_THAT(api_.Delete(ctx_, ClaimKey("mover", kAlias), {}), IsOk());
  ASSERT_FALSE(api_.Find(ClaimKey("mover", kAlias)).has_value());
  EXPECT_EQ(WaitsFor(), "");
  EXPECT_TRUE(api_.Find(ClaimKey("mover", kAlias)).has_value());
  ExpectVolumeUntouched();
}

// A name alone proves nothing: neither is used unless it is all of what this restore makes.
TEST_F(InPlaceVolumeTest, WhatHasChangedUnderTheNameIsNotUsed) {
  const std::function<void(Json&)> of_another = [](Json& object) {
    SetJson(object, {"metadata", "annotations", objects::kMoverClaimAnnotation}, "other");
  };
  const std::function<void(Json&)> no_alias = [](Json& object) {
    EraseJson(object, {"metadata", "annotations", objects::kAliasOfAnnotation});
  };
  const std::function<void(Json&)> being_deleted = [](Json& object) {
    object["metadata"]["finalizers"] = Json::array({"x/y"});
    object["metadata"]["deletionTimestamp"] = "2026-11-21T13:00:00Z";
  };
  const std::function<void(Json&)> of_other_volume = [](Json& object) {
    SetJson(object, {"metadata", "annotations", objects::kAliasOfAnnotation}, "pv-2");
  };
  const std::function<void(Json&)> takes_data_along = [](Json& object) {
    object["spec"]["persistentVolumeReclaimPolicy"] = "Delete";
  };
  const std::function<void(Json&)> through_another = [](Json& object) {
    object["spec"]["volumeName"] = "pv-2";
  };
  const k8s::ObjectKey volume = VolumeKey(kAlias);
  const k8s::ObjectKey claim = ClaimKey("mover", kAlias);
  const std::vector<std::pair<k8s::ObjectKey, std::function<void(Json&)>>> cases = {
      {volume, of_another},      {volume, no_alias},         {volume, being_deleted},
      {volume, of_other_volume}, {volume, takes_data_along}, {claim, of_another},
      {claim, no_alias},         {claim, being_deleted},     {claim, through_another}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_THAT(ExposeToTheEnd(), IsOk());
    api_.Mutate(cases[i].first, cases[i].second);
    EXPECT_THAT(Expose(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("is not one of this restore")));
    api_.Remove(claim);
    api_.Remove(volume);
  }
}

// Of what keeps others away either is enough.
TEST_F(InPlaceVolumeTest, WhileAWorkerMayWriteNothingEndsThoughHalfOfItIsGone) {
  const Json pvc = *api_.Find(ClaimKey("shop", "data"));
  for (const bool is_without_record : {true, false}) {
    SCOPED_TRACE(is_without_record);
    api_.Seed(PersistentVolumeClaimType(), pvc);
    ASSERT_THAT(ExposeToTheEnd(), IsOk());
    if (is_without_record) {
      ChangePvc([](Json& marked) {
        EraseJson(marked, {"metadata", "annotations", objects::kCopyRecordAnnotation});
      });
    } else {
      api_.Remove(ClaimKey("mover", kAlias));
      api_.Remove(VolumeKey(kAlias));
    }
    EXPECT_THAT(*Hide({.may_still_write = true}), HasSubstr("may still write"));
    EXPECT_EQ(Alias().has_value(), is_without_record);
    EXPECT_EQ(Consent(), "download-uid");
    EXPECT_EQ(*Hide({}), "");
  }
  // Nor is it waited for where nothing was begun, where all has ended, or for what is another's.
  const objects::CopyRecord own{.from = "velero/x", .id = "download-uid"};
  SetRecord(own);
  EXPECT_EQ(*Hide({.may_still_write = true}), "");
  objects::CopyRecord ended = own;
  ended.has_begun = ended.has_ended = true;
  SetRecord(ended);
  EXPECT_EQ(*Hide({.may_still_write = true}), "");
  api_.Seed(PersistentVolumeType(), support::MakeObject("v1", "PersistentVolume", "", kAlias));
  EXPECT_EQ(*Hide({.may_still_write = true}), "");
}

// After any call that fails the next look goes on.
TEST_F(InPlaceVolumeTest, AnyCallMayFail) {
  for (int n = 1;; ++n) {
    SCOPED_TRACE(n);
    SetConsent();
    api_.FailCall(n, absl::UnavailableError("fault"), support::Fault::kAnswerLost);
    ExposeToTheEnd().status().IgnoreError();
    Hide({.is_whole = true}).status().IgnoreError();
    const bool hit = api_.sweep_hit();
    api_.ClearFaults();
    SetConsent();
    EXPECT_EQ(WaitsFor(), "");
    EXPECT_THAT(Hide({.is_whole = true}), support::IsOkAndHolds(""));
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
       api.Seed(PodType(), support::MakePodObject("data", "Pending"));
     }},
    {"SharedFiles", "ReadWriteMany",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       ChangeTarget(api, [](Json& pvc) {
         pvc["spec"]["volumeMode"] = "Filesystem";
         pvc["spec"]["accessModes"] = {"ReadWriteMany"};
       });
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
       api.SetField(VolumeKey("pv-1"), {"spec", "claimRef", "uid"}, "another-uid");
     }},
    {"VolumeOfAnotherRestore", "not its own",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       api.SetField(VolumeKey("pv-1"), {"metadata", "annotations", objects::kAliasOfAnnotation},
                    "pv-0");
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
    {"NoConsent", "may-write",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       ChangeTarget(api, [](Json& pvc) { EraseJson(pvc, {"metadata", "annotations"}); });
     }},
    {"ConsentToAnotherOfTheSameName", "may-write",
     [](support::FakeApiClient&, InPlaceRequest& request) { request.transfer_uid = "later-uid"; }},
    {"ConsentByName", "may-write",
     [](support::FakeApiClient& api, InPlaceRequest& request) {
       ChangeTarget(api, [&](Json& pvc) {
         SetJson(pvc, {"metadata", "annotations", objects::kMayWriteAnnotation}, request.transfer);
       });
     }},
    {"AnotherVolume", "spec.targetVolume.pv",
     [](support::FakeApiClient&, InPlaceRequest& request) { request.target_volume = "pv-2"; }},
    {"NoVolumeNamed", "spec.targetVolume.pv",
     [](support::FakeApiClient&, InPlaceRequest& request) { request.target_volume = ""; }},
    {"BeingDeleted", "being deleted",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       ChangeTarget(api, [](Json& pvc) {
         pvc["metadata"]["finalizers"] = Json::array({"kubernetes.io/pvc-protection"});
         pvc["metadata"]["deletionTimestamp"] = "2026-11-21T13:00:00Z";
       });
     }},
    {"StatefulSetMakesIt", "statefulset/db",
     [](support::FakeApiClient& api, InPlaceRequest& request) {
       request.target_claim = "data-db-0";
       Json pvc = *api.Find(ClaimKey("shop", "data"));
       pvc["metadata"]["name"] = "data-db-0";
       api.Seed(PersistentVolumeClaimType(), pvc);
       Json set = support::MakeObject("apps/v1", "StatefulSet", "shop", "db");
       set["spec"] = {{"replicas", 1},
                      {"volumeClaimTemplates", Json::array({{{"metadata", {{"name", "data"}}}}})}};
       api.Seed(StatefulSetType(), set);
     }},
    {"UnfinishedSwap", "--finish",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       Json old =
           support::MakeObject("v1", "PersistentVolume", "", "pv-old",
                               {{objects::kInPlaceLabel, RestoreLabelValue("shop", "data")}},
                               {{objects::kInPlaceRecordAnnotation,
                                 objects::FormatSwapRecord({.side = objects::SwapSide::kRestored,
                                                            .namespace_name = "shop",
                                                            .pvc = "data",
                                                            .snapshot = "monday",
                                                            .policy = "Delete",
                                                            .peer = "pv-1"})}});
       api.Seed(PersistentVolumeType(), old);
     }},
    {"DeregisteringDriver", "csi.vsphere.vmware.com",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       api.SetField(VolumeKey("pv-1"), {"spec", "csi", "driver"}, "csi.vsphere.vmware.com");
     }},
    {"SnapshotsHidden", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "volumesnapshots"); }},
    {"LeasesHidden", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("get", "leases"); }},
    {"VolumesHidden", "intoExistingVolumes",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "persistentvolumes"); }},
    {"AttachmentsHidden", "volumeattachments",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "volumeattachments"); }},
    {"BackupUnreadable", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) {
       api.Seed(BackupType(), {{"metadata", {{"name", "odd"}, {"namespace", "velero"}}},
                               {"spec", {{"includedNamespaces", 7}}}});
     }},
    {"BackupsHidden", "may not be read",
     [](support::FakeApiClient& api, InPlaceRequest&) { api.Forbid("list", "backups"); }},
};
INSTANTIATE_TEST_SUITE_P(Cases, RefusedInPlaceTest, testing::ValuesIn(kRefusedCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::inplace::in_place_volume_test
