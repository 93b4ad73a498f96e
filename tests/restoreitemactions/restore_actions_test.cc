#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/keys.h"
#include "restoreitemactions/actions.h"
#include "tests/support/action_log.h"
#include "tests/support/event_texts.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"
#include "velero/labels.h"

namespace csidelta::restoreitemactions::restore_actions_test {
namespace {

using support::ActionBed;
using support::IsOk;
using support::MakeContentObject;
using support::MakeRestoreObject;
using support::MakeSnapshotObject;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using velero::ResourceIdentifier;
using velero::RestoreItemResult;

constexpr char kSnapshotGroup[] = "snapshot.storage.k8s.io";

std::string Restored(const std::string& snapshot) {
  return velero::RestoredSnapshotName("restore-uid", snapshot);
}

// The claim as the backup's actions left it in the archive.
Json ArchivedClaim() {
  Json claim = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data",
                                   {{"app", "db"}, {objects::kVolumeSnapshotNameLabel, "snap"}},
                                   {{objects::kVolumeSnapshotNameAnnotation, "snap"},
                                    {objects::kBindCompletedAnnotation, "yes"},
                                    {"mine", "kept"}});
  SetJson(claim, {"spec"},
          Json{{"storageClassName", "fast"},
               {"volumeName", "pv-1"},
               {"resources", {{"requests", {{"storage", "1Gi"}}}}}});
  return claim;
}

// Its volume, which is retained.
Json ArchivedVolume() {
  Json volume = support::MakeObject("v1", "PersistentVolume", "", "pv-1");
  SetJson(volume, {"spec"},
          Json{{"persistentVolumeReclaimPolicy", "Retain"},
               {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", "data-uid"}}}});
  return volume;
}

class RestoreTest : public testing::Test {
 protected:
  void SetUp() override {
    bed_.clock.SetAutoAdvance(true);
    restore_ = MakeRestoreObject("r1", "nightly");
  }

  absl::StatusOr<RestoreItemResult> Execute(velero::RestoreItemAction& action, const Json& item,
                                            const Json& from_backup) {
    return action.Execute(bed_.ctx, objects::Object(item), objects::Object(from_backup),
                          objects::Object(restore_));
  }
  RestoreItemResult Run(velero::RestoreItemAction& action, const Json& item,
                        const Json& from_backup) {
    const auto result = Execute(action, item, from_backup);
    EXPECT_THAT(result, IsOk());
    return result.value_or(RestoreItemResult());
  }

  // The restored VolumeSnapshot and its content stand in `namespace_name`.
  void SeedRestored(const std::string& namespace_name, const std::string& restore_size = "",
                    const std::string& error = "", bool ready = true) {
    const std::string name = Restored("snap");
    Json snapshot = MakeSnapshotObject(namespace_name, name, "");
    SetJson(snapshot, {"spec", "source"}, Json{{"volumeSnapshotContentName", name}});
    if (!restore_size.empty()) {
      SetJson(snapshot, {"metadata", "annotations", objects::kRestoreSizeAnnotation}, restore_size);
    }
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    Json content = MakeContentObject(name, namespace_name, name, "");
    SetJson(content, {"spec", "source"}, Json{{"snapshotHandle", "handle-1"}});
    SetJson(content, {"status", "readyToUse"}, ready);
    if (!error.empty()) {
      SetJson(content, {"status", "error", "message"}, error);
    }
    bed_.api.Seed(VolumeSnapshotContentType(), content);
  }

  support::ActionLog log_;
  ActionBed bed_;
  Json restore_;
};

// --- Claims

class PvcRestoreTest : public RestoreTest {
 protected:
  std::unique_ptr<velero::RestoreItemAction> action_ = MakePvcAction(bed_.env);
};

TEST_F(PvcRestoreTest, DoesEverythingWhereVeleroDoesNothing) {
  SeedRestored("shop", "3Gi");
  Json item = ArchivedClaim();
  SetJson(item, {"spec", "selector", "matchLabels", "a"}, "b");
  SetJson(item, {"spec", "dataSourceRef"}, Json{{"kind", "VolumePopulator"}});
  SetJson(item, {"metadata", "annotations", objects::kSelectedNodeAnnotation},
          "of-the-old-cluster");

  const RestoreItemResult result = Run(*action_, item, ArchivedClaim());

  ASSERT_TRUE(result.item.has_value());
  const Json expected_source = {
      {"apiGroup", kSnapshotGroup}, {"kind", "VolumeSnapshot"}, {"name", Restored("snap")}};
  EXPECT_EQ(*FindJson(result.item->json(), {"spec", "dataSource"}), expected_source);
  for (const char* field : {"dataSourceRef", "volumeName", "selector"}) {
    EXPECT_EQ(FindJson(result.item->json(), {"spec", field}), nullptr) << field;
  }
  EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "3Gi");
  EXPECT_EQ(GetStringMap(result.item->json(), {"metadata", "annotations"}),
            (support::Strings{{"mine", "kept"}, {objects::kRestoreMustIncludeAnnotation, "true"}}));
  EXPECT_THAT(result.additional_items,
              ElementsAre(ResourceIdentifier{kSnapshotGroup, "volumesnapshots", "shop", "snap"}));
  EXPECT_EQ(result.operation_id, "claim/shop/data/" + Restored("snap"));
  EXPECT_FALSE(result.wait_for_additional_items);
}

// It would be bound to any volume that comes free, and its data would be foreign.
TEST_F(PvcRestoreTest, RefusesAClassThatFillsNoClaimFromTheSnapshot) {
  Json other = support::MakeObject("storage.k8s.io/v1", "StorageClass", "", "fast");
  SetJson(other, {"provisioner"}, "other.driver");
  bed_.api.Seed(StorageClassType(), other);
  Json archived = ArchivedClaim();
  SetJson(archived, {"metadata", "annotations", objects::kStorageProvisionerAnnotation},
          support::kDriver);
  EXPECT_THAT(Execute(*action_, archived, archived),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::AllOf(HasSubstr("shop/data"), HasSubstr("of driver other.driver"),
                                      HasSubstr("change-storage-class"))));
  SetJson(archived, {"spec", "storageClassName"}, "");
  EXPECT_THAT(Execute(*action_, archived, archived),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::AllOf(HasSubstr("no provisioner"), HasSubstr("resource modifier"),
                                      testing::Not(HasSubstr("change-storage-class")))));
  SeedRestored("shop", "3Gi");
  EXPECT_THAT(Execute(*action_, archived, archived),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no provisioner")));
}

// Velero applies them after all actions: what is seen here is not what is made.
TEST_F(PvcRestoreTest, AClassThatAResourceModifierMayReplaceIsJudgedByTheOperation) {
  SeedRestored("shop", "3Gi");
  SetJson(restore_, {"spec", "resourceModifier"},
          Json{{"kind", "configmap"}, {"name", "other-class"}});
  Json other = support::MakeObject("storage.k8s.io/v1", "StorageClass", "", "fast");
  SetJson(other, {"provisioner"}, "other.driver");
  bed_.api.Seed(StorageClassType(), other);
  bed_.api.SetField(VolumeSnapshotKey("shop", Restored("snap")),
                    {"metadata", "annotations", objects::kDriverNameAnnotation}, support::kDriver);
  for (const char* storage_class : {"fast", ""}) {
    Json archived = ArchivedClaim();
    SetJson(archived, {"spec", "storageClassName"}, storage_class);
    EXPECT_EQ(Run(*action_, archived, archived).operation_id,
              "claim/shop/data/" + Restored("snap"));
  }
}

TEST_F(PvcRestoreTest, LeavesWhatVeleroDidAsItIs) {
  SeedRestored("shop", "1Gi");
  Json item = ArchivedClaim();
  SetJson(item, {"metadata", "annotations"}, Json{{"mine", "kept"}});
  SetJson(item, {"spec", "volumeName"}, "");
  SetJson(
      item, {"spec", "dataSource"},
      Json{{"apiGroup", kSnapshotGroup}, {"kind", "VolumeSnapshot"}, {"name", Restored("snap")}});
  const RestoreItemResult result = Run(*action_, item, ArchivedClaim());
  EXPECT_FALSE(result.item.has_value());
  EXPECT_THAT(result.additional_items, IsEmpty());
  EXPECT_EQ(result.operation_id, "claim/shop/data/" + Restored("snap"));
}

TEST_F(PvcRestoreTest, OldNameThatVelero114GaveStays) {
  Json item = ArchivedClaim();
  SetJson(item, {"metadata", "annotations"}, Json::object());
  EraseJson(item, {"spec", "volumeName"});
  SetJson(item, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "snap"}});
  const RestoreItemResult result = Run(*action_, item, ArchivedClaim());
  EXPECT_FALSE(result.item.has_value());
  EXPECT_EQ(result.operation_id, "claim/shop/data/snap");
}

TEST_F(PvcRestoreTest, RaisesTheRequestThatAnOldBackupLeftTooSmall) {
  SeedRestored("shop");
  bed_.api.SetField(VolumeSnapshotKey("shop", Restored("snap")),
                    {"metadata", "annotations", objects::kMisspeltRestoreSizeAnnotation}, "2Gi");
  Json item = ArchivedClaim();
  EraseJson(item, {"spec", "volumeName"});
  SetJson(item, {"spec", "dataSource"},
          Json{{"kind", "VolumeSnapshot"}, {"name", Restored("snap")}});
  const RestoreItemResult result = Run(*action_, item, ArchivedClaim());
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}), "2Gi");
}

// Some drivers make a volume of the snapshot's own size alone.
TEST_F(PvcRestoreTest, ARequestThatWasPendingInTheBackupIsLoweredToTheSnapshot) {
  const struct {
    const char* capacity;
    const char* restore_size;
    const char* requests;
  } kCases[] = {{"1Gi", "1Gi", "1Gi"}, {"1Gi", "2Gi", "2Gi"}, {"1Gi", "4Gi", "4Gi"},
                {"1Gi", "", "3Gi"},    {"", "1Gi", "3Gi"},    {"3Gi", "1Gi", "3Gi"},
                {"5Gi", "1Gi", "3Gi"}};
  for (const auto& one : kCases) {
    SCOPED_TRACE(absl::StrCat(one.capacity, " ", one.restore_size));
    SeedRestored("shop", one.restore_size);
    Json item = ArchivedClaim();
    SetJson(item, {"spec", "resources", "requests", "storage"}, "3Gi");
    Json archived = item;
    if (one.capacity[0] != '\0') {
      SetJson(archived, {"status", "capacity", "storage"}, one.capacity);
    }
    const RestoreItemResult result = Run(*action_, item, archived);
    ASSERT_TRUE(result.item.has_value());
    EXPECT_EQ(GetString(result.item->json(), {"spec", "resources", "requests", "storage"}),
              one.requests);
  }
  EXPECT_THAT(support::EventTexts(bed_.api),
              testing::Contains(testing::AllOf(HasSubstr("Restore r1 Warning ResizeWasPending: "),
                                               HasSubstr("PVC shop/data is restored with 1Gi"),
                                               HasSubstr("bound, request 3Gi again"))));
}

TEST_F(PvcRestoreTest, MappedNamespace) {
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
  SeedRestored("shop-2");
  const RestoreItemResult result = Run(*action_, ArchivedClaim(), ArchivedClaim());
  EXPECT_EQ(result.operation_id, "claim/shop-2/data/" + Restored("snap"));
  EXPECT_EQ(result.additional_items[0].namespace_name, "shop");
}

TEST_F(PvcRestoreTest, WaitsForAVolumeSnapshotThatIsNotThereYet) {
  const RestoreItemResult result = Run(*action_, ArchivedClaim(), ArchivedClaim());
  EXPECT_TRUE(result.wait_for_additional_items);
  EXPECT_GT(result.additional_items_ready_timeout, absl::ZeroDuration());

  const auto ready = [&] {
    return action_->AreAdditionalItemsReady(bed_.ctx, result.additional_items,
                                            objects::Object(restore_));
  };
  SeedRestored("shop", "", "", false);
  EXPECT_THAT(ready(), support::IsOkAndHolds(false));
  SeedRestored("shop", "", "can not find snapshot for snapshotID handle-1", false);
  EXPECT_THAT(ready(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("handle-1")));
  SeedRestored("shop");
  EXPECT_THAT(ready(), support::IsOkAndHolds(true));
}

TEST_F(PvcRestoreTest, FailsWhenTheDriverHasNoSuchSnapshot) {
  SeedRestored("shop", "",
               "Failed to check and update snapshot content: failed to list snapshot for content "
               "x: \"can not find snapshot for snapshotID handle-1\"",
               false);
  const auto result = Execute(*action_, ArchivedClaim(), ArchivedClaim());
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound,
                               testing::AllOf(HasSubstr("shop/data"), HasSubstr("handle-1"))));
  EXPECT_EQ(bed_.api.CallCount("create", "events"), 1);
  EXPECT_EQ(bed_.api.CallCount("delete", "volumesnapshots"), 0);
}

TEST_F(PvcRestoreTest, GoesOnWhenTheDriverSaysNothingInTime) {
  SeedRestored("shop", "", "rpc error: code = Unavailable desc = busy", false);
  const absl::Time start = bed_.clock.Now();
  bed_.api.Forbid("watch", "volumesnapshotcontents");  // Polls, so that the clock moves.
  const RestoreItemResult result = Run(*action_, ArchivedClaim(), ArchivedClaim());
  EXPECT_TRUE(result.item.has_value());
  EXPECT_FALSE(result.operation_id.empty());
  EXPECT_GE(bed_.clock.Now() - start, absl::Seconds(30));
}

// --- Claims that exist

// GitOps made the PVC before the restore came.
class ExistingClaimTest : public PvcRestoreTest {
 protected:
  void SetUp() override {
    PvcRestoreTest::SetUp();
    SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
    bed_.api.Seed(objects::Restore::Type(), restore_);
    existing_ = support::MakeObject("v1", "PersistentVolumeClaim", "shop-2", "data");
    SetJson(existing_, {"metadata", "uid"}, "existing-uid");
    SetJson(existing_, {"spec"}, Json{{"storageClassName", "slow"}, {"volumeName", "pv-new"}});
  }
  // What the record on the Restore has as the next step.
  std::string NextStep() {
    bed_.api.Seed(PersistentVolumeClaimType(), existing_);
    const RestoreItemResult result = Run(*action_, ArchivedClaim(), ArchivedClaim());
    EXPECT_FALSE(result.item.has_value());
    EXPECT_TRUE(result.operation_id.empty());
    const std::vector<objects::PvcWithoutData> all = Recorded();
    EXPECT_EQ(all.size(), 1U);
    return all.size() == 1 ? all[0].command : "";
  }
  std::vector<objects::PvcWithoutData> Recorded() {
    return objects::Restore::Of(*bed_.api.Find({objects::Restore::Type(), "velero", "r1"}))
        ->pvcs_without_data();
  }

  const std::string kCommand =
      absl::StrCat("csi-delta snapshot restore ", Restored("snap"), " --into data -n shop-2 --yes");
  Json existing_;
};

TEST_F(ExistingClaimTest, IsReportedOnRestoreAndPvcWithTheCommandThatBringsItsData) {
  SeedRestored("shop-2");
  EXPECT_EQ(NextStep(), kCommand);
  const std::string text = absl::StrCat(
      " Warning DataNotRestored: the data of backup nightly was not restored: PVC shop-2/data "
      "existed before, and is left as it is; next: without a Pod that uses the PVC: ",
      kCommand);
  EXPECT_THAT(
      support::EventTexts(bed_.api),
      testing::UnorderedElementsAre("Restore r1" + text, "PersistentVolumeClaim data" + text));
  EXPECT_EQ(Recorded()[0].uid, "existing-uid");
  EXPECT_THAT(log_.text(), HasSubstr("exists already"));
  NextStep();  // It may run twice.
}

TEST_F(ExistingClaimTest, AVolumeSnapshotThatKeptItsNameCountsIfTheRestoreMadeIt) {
  bed_.api.Seed(VolumeSnapshotType(), MakeSnapshotObject("shop-2", "snap", ""));
  EXPECT_THAT(NextStep(), HasSubstr("velero restore create"));
  bed_.api.Seed(VolumeSnapshotType(),
                MakeSnapshotObject("shop-2", "snap", "", {{objects::kRestoreNameLabel, "r1"}}));
  EXPECT_EQ(NextStep(), "csi-delta snapshot restore snap --into data -n shop-2 --yes");
}

// Its volume may hold the very snapshot: what deletes it is not advised.
TEST_F(ExistingClaimTest, WithoutAVolumeSnapshotItsDataComesBesideIt) {
  EXPECT_EQ(NextStep(),
            "velero restore create --from-backup nightly --include-namespaces shop "
            "--namespace-mappings shop:shop-2-restored");
}

TEST_F(ExistingClaimTest, OneWithoutAVolumeIsMadeAgain) {
  SeedRestored("shop-2");
  EraseJson(existing_, {"spec", "volumeName"});
  EXPECT_EQ(NextStep(),
            "kubectl delete pvc data -n shop-2 && velero restore create --from-backup nightly "
            "--include-namespaces shop --namespace-mappings shop:shop-2");
}

// Velero's patch would else name a volume in a PVC that has none, or remove what keeps restores
// away.
TEST_F(ExistingClaimTest, AnUpdateChangesNothingOfItsVolume) {
  for (const bool is_without_data : {false, true}) {
    bed_.api.Seed(objects::Restore::Type(), restore_);
    Json restore = restore_;
    SetJson(restore, {"spec", "existingResourcePolicy"}, "update");
    SetJson(restore, {"spec", "restorePVs"}, !is_without_data);
    EraseJson(existing_, {"spec", "volumeName"});
    SetJson(existing_, {"metadata", "annotations"},
            Json{{objects::kCopyRecordAnnotation, "{}"}, {objects::kSelectedNodeAnnotation, "n1"}});
    bed_.api.Seed(PersistentVolumeClaimType(), existing_);
    const auto result =
        action_->Execute(bed_.ctx, objects::Object(ArchivedClaim()),
                         objects::Object(ArchivedClaim()), objects::Object(restore));
    ASSERT_THAT(result, IsOk());
    ASSERT_TRUE(result->item.has_value());
    EXPECT_EQ(result->item->json().at("spec"), existing_.at("spec"));
    EXPECT_EQ(result->item->annotations(),
              existing_.at("metadata").at("annotations").get<support::Strings>());
    EXPECT_EQ(Recorded().size(), is_without_data ? 0U : 1U);
  }
}

TEST_F(ExistingClaimTest, IsLeftAloneWhateverCallFails) {
  SeedRestored("shop-2");
  bed_.api.Seed(PersistentVolumeClaimType(), existing_);
  for (int call = 2;; ++call) {  // The first one tells that it exists.
    bed_.api.FailCall(call, absl::UnavailableError("connection lost"));
    const RestoreItemResult result = Run(*action_, ArchivedClaim(), ArchivedClaim());
    EXPECT_FALSE(result.item.has_value());
    EXPECT_TRUE(result.operation_id.empty());
    if (!bed_.api.sweep_hit()) {
      EXPECT_GT(call, 5);
      return;
    }
    bed_.api.ClearFaults();
  }
}

// Kubernetes takes a PVC that says it is bound, and names no volume, for one that lost its volume.
TEST_F(PvcRestoreTest, WithoutVolumesOnRequest) {
  SetJson(restore_, {"spec", "restorePVs"}, false);
  Json item = ArchivedClaim();
  SetJson(item, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "x"}});
  SetJson(item, {"spec", "dataSourceRef"}, Json{{"kind", "VolumeSnapshot"}, {"name", "x"}});
  SetJson(item, {"spec", "selector", "matchLabels", "a"}, "b");
  for (const char* key : {objects::kBoundByControllerAnnotation, objects::kSelectedNodeAnnotation,
                          objects::kStorageProvisionerAnnotation}) {
    SetJson(item, {"metadata", "annotations", key}, "x");
  }
  const RestoreItemResult result = Run(*action_, item, ArchivedClaim());
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(*FindJson(result.item->json(), {"spec"}),
            (Json{{"storageClassName", "fast"},
                  {"resources", {{"requests", {{"storage", "1Gi"}}}}},
                  {"selector", {{"matchLabels", {{"a", "b"}}}}}}));
  EXPECT_EQ(GetStringMap(result.item->json(), {"metadata", "annotations"}),
            (support::Strings{{"mine", "kept"}}));
  EXPECT_TRUE(result.operation_id.empty());
  SetJson(item, {"spec", "selector", "matchLabels", objects::kDynamicPvRestoreLabel}, "shop.data");
  EXPECT_EQ(FindJson(Run(*action_, item, item).item->json(), {"spec", "selector"}), nullptr);
}

// They would be bound to each other, and the application would have what the volume holds now.
TEST_F(PvcRestoreTest, RefusesAClaimWhoseOldVolumeIsReservedForIt) {
  SeedRestored("shop", "1Gi");
  bed_.api.Seed(PersistentVolumeType(), ArchivedVolume());
  EXPECT_TRUE(Run(*action_, ArchivedClaim(), ArchivedClaim()).item.has_value()) << "bound before";
  bed_.api.Mutate({PersistentVolumeType(), "", "pv-1"}, [](Json& volume) {
    EraseJson(volume, {"spec", "claimRef", "uid"});
  });
  for (const char* annotation : {"other", objects::kDataUploadNameAnnotation}) {
    Json archived = ArchivedClaim();
    SetJson(archived, {"metadata", "annotations", annotation}, "velero/du-1");
    EXPECT_THAT(Execute(*action_, archived, archived),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         testing::AllOf(HasSubstr("shop/data"), HasSubstr("pv-1 is reserved"))));
  }
}

TEST_F(PvcRestoreTest, ClaimWithoutSnapshotIsNotTouchedAndCostsNothing) {
  Json claim = ArchivedClaim();
  EraseJson(claim, {"metadata", "annotations"});
  const RestoreItemResult result = Run(*action_, claim, claim);
  EXPECT_FALSE(result.item.has_value());
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

TEST_F(PvcRestoreTest, ASourceThatMayBeMissingIsSaid) {
  Json claim = ArchivedClaim();
  EraseJson(claim, {"metadata", "annotations"});
  SetJson(claim, {"spec", "dataSource"}, Json{{"kind", "VolumeSnapshot"}, {"name", "monday"}});
  bed_.api.Seed(VolumeSnapshotType(), MakeSnapshotObject("shop", "monday", "content"));
  EXPECT_FALSE(Run(*action_, claim, claim).item.has_value());
  EXPECT_THAT(log_.text(), IsEmpty());

  bed_.api.Remove(objects::VolumeSnapshot::Key("shop", "monday"));
  EXPECT_FALSE(Run(*action_, claim, claim).item.has_value());
  SetJson(claim, {"spec", "dataSourceRef"},
          Json{{"apiGroup", "cdi.kubevirt.io"}, {"kind", "VolumeImportSource"}, {"name", "disk"}});
  EXPECT_FALSE(Run(*action_, claim, claim).item.has_value());
  EXPECT_THAT(support::EventTexts(bed_.api),
              testing::UnorderedElementsAre(
                  HasSubstr("no data of PVC shop/data, whose source is VolumeSnapshot monday: if "),
                  HasSubstr("VolumeImportSource disk: if neither")));
}

// Its Pod would refuse it.
TEST_F(PvcRestoreTest, AGenericEphemeralVolumeIsLeftToItsPod) {
  Json claim = ArchivedClaim();
  SetJson(claim, {"metadata", "name"}, "db-0-scratch");
  Json item = claim;  // Velero takes owners off.
  SetJson(claim, {"metadata", "ownerReferences"},
          Json::array({{{"kind", "Pod"}, {"name", "db-0"}, {"uid", "p"}, {"controller", true}}}));
  EXPECT_TRUE(Run(*action_, item, claim).skip_restore);
  EXPECT_THAT(log_.text(), HasSubstr("its Pod gets a new one"));

  Json of_another = claim;
  SetJson(of_another, {"metadata", "name"}, "executor-pvc");
  EXPECT_FALSE(Run(*action_, item, of_another).skip_restore);
  SetJson(restore_, {"spec", "includedResources"}, Json::array({"persistentvolumeclaims"}));
  EXPECT_FALSE(Run(*action_, item, claim).skip_restore) << "the data is asked for";
}

TEST_F(PvcRestoreTest, AnnotationOfAnEarlierBackupDoesNotCount) {
  Json item = ArchivedClaim();
  SetJson(item, {"metadata", "labels", objects::kBackupNameLabel}, "long-ago");
  const RestoreItemResult result = Run(*action_, item, item);
  EXPECT_EQ(result.operation_id, "");
  EXPECT_THAT(result.additional_items, IsEmpty());
}

TEST_F(PvcRestoreTest, ContentThatSaysNothingIsNotWaitedForToTheHostsError) {
  SeedRestored("shop", "", "", false);
  const std::vector<ResourceIdentifier> items = {
      {kSnapshotGroup, "volumesnapshots", "shop", "snap"}};
  const auto ready = [&] {
    return action_->AreAdditionalItemsReady(bed_.ctx, items, objects::Object(restore_));
  };
  EXPECT_THAT(ready(), support::IsOkAndHolds(false));
  bed_.clock.Advance(absl::Minutes(1));
  EXPECT_THAT(ready(), support::IsOkAndHolds(true));
}

TEST_F(PvcRestoreTest, MarksOfTheBackupDoNotComeBack) {
  Json claim = ArchivedClaim();
  EraseJson(claim, {"metadata", "annotations", objects::kVolumeSnapshotNameAnnotation});
  SetJson(claim, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
  SetJson(claim, {"metadata", "annotations", objects::kCopyRecordAnnotation}, "{}");
  SetJson(claim, {"metadata", "annotations", objects::kMayWriteAnnotation}, "velero/x");
  SetJson(claim, {"metadata", "annotations", objects::kRestoreMustIncludeAnnotation}, "true");
  SetJson(claim, {"metadata", "labels", objects::kVolumeSnapshotNameLabel}, std::string(64, 'x'));
  const RestoreItemResult result = Run(*action_, claim, claim);
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kMustIncludeAnnotation), "");
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kCopyRecordAnnotation), "");
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kMayWriteAnnotation), "");
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kRestoreMustIncludeAnnotation), "");
  EXPECT_EQ(k8s::Label(result.item->json(), objects::kVolumeSnapshotNameLabel), "");
  EXPECT_EQ(k8s::Label(result.item->json(), "app"), "db");
}

// --- PersistentVolumes

class VolumeRestoreTest : public RestoreTest {
 protected:
  // A VolumeSnapshot that a restore made, of a PVC with this uid.
  void SeedSnapshot(const std::string& space, const char* restore, const char* pvc_uid) {
    bed_.api.Seed(VolumeSnapshotType(), MakeSnapshotObject(space, Restored("snap"), "",
                                                           {{objects::kRestoreNameLabel, restore},
                                                            {objects::kPvcUidLabel, pvc_uid}}));
  }
  bool IsSkipped() {
    return Run(*MakePersistentVolumeAction(bed_.env), ArchivedVolume(), ArchivedVolume())
        .skip_restore;
  }
};

// Velero restores a retained one as it was: its PVC would have what the volume holds now.
TEST_F(VolumeRestoreTest, IsLeftOutIfItsClaimComesFromASnapshotOfTheBackup) {
  EXPECT_FALSE(IsSkipped());
  SeedSnapshot("shop", "another-restore", "data-uid");
  EXPECT_FALSE(IsSkipped());
  SeedSnapshot("shop", "r1", "another-uid");
  EXPECT_FALSE(IsSkipped());
  SeedSnapshot("shop", "r1", "data-uid");
  EXPECT_TRUE(IsSkipped());
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
  EXPECT_FALSE(IsSkipped());
  SeedSnapshot("shop-2", "r1", "data-uid");
  EXPECT_TRUE(IsSkipped());
  SetJson(restore_, {"spec", "restorePVs"}, false);
  EXPECT_FALSE(IsSkipped());
  bed_.api.RemoveType("volumesnapshots");
  SetJson(restore_, {"spec", "restorePVs"}, true);
  EXPECT_FALSE(IsSkipped());
}

// --- VolumeSnapshots

class SnapshotRestoreTest : public RestoreTest {
 protected:
  static Json Archived() {
    return MakeSnapshotObject("shop", "snap", "content",
                              {{objects::kBackupNameLabel, "nightly"},
                               {objects::kBackupUidLabel, "u"},
                               {objects::kCsiDeltaLabel, "velero"}},
                              {{objects::kVolumeSnapshotHandleAnnotation, "handle-1"},
                               {objects::kDriverNameAnnotation, support::kDriver}});
  }
  void SeedContent() {
    bed_.api.Seed(VolumeSnapshotContentType(),
                  MakeContentObject(Restored("snap"), "shop", Restored("snap"), "handle-1"));
  }
  std::unique_ptr<velero::RestoreItemAction> action_ = MakeVolumeSnapshotAction(bed_.env);
};

TEST_F(SnapshotRestoreTest, BindsToTheRestoredContent) {
  SeedContent();
  const RestoreItemResult result = Run(*action_, Archived(), Archived());
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(k8s::Name(result.item->json()), Restored("snap"));
  EXPECT_EQ(*FindJson(result.item->json(), {"spec"}),
            (Json{{"source", {{"volumeSnapshotContentName", Restored("snap")}}}}));
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kDeletionPolicyAnnotation), "Retain");
  EXPECT_EQ(k8s::Label(result.item->json(), objects::kCsiDeltaLabel), "");
  EXPECT_EQ(k8s::Label(result.item->json(), objects::kBackupUidLabel), "");
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kRestoreMustIncludeAnnotation), "true");
  EXPECT_THAT(
      result.additional_items,
      ElementsAre(ResourceIdentifier{kSnapshotGroup, "volumesnapshotcontents", "", "content"}));
}

TEST_F(SnapshotRestoreTest, LeavesOutWhatADeadBackupLeft) {
  Json of_another = Archived();
  SetJson(of_another, {"metadata", "labels", objects::kBackupNameLabel}, "died");
  Json early_member = Archived();
  EraseJson(early_member, {"metadata", "labels"});
  SetJson(early_member, {"metadata", "ownerReferences"},
          Json::array({{{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                        {"kind", "VolumeGroupSnapshot"},
                        {"name", "velero-db-3baf1f8d8d1133e46fa9"},
                        {"uid", "u"}}}));
  for (const Json& archived : {of_another, early_member}) {
    EXPECT_TRUE(Run(*action_, archived, archived).skip_restore);
  }
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
  SetJson(early_member, {"metadata", "ownerReferences"},
          Json::array({{{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                        {"kind", "VolumeGroupSnapshot"},
                        {"name", "of-a-user"},
                        {"uid", "u"}}}));
  EXPECT_FALSE(Run(*action_, early_member, early_member).skip_restore);
  const auto contents = MakeVolumeSnapshotContentAction(bed_.env);
  const Json content = MakeContentObject("content", "shop", "snap", "handle-1",
                                         {{objects::kBackupNameLabel, "died"}});
  EXPECT_TRUE(Run(*contents, content, content).skip_restore);
}

TEST_F(SnapshotRestoreTest, LeavesWhatVeleroDidAsItIs) {
  SeedContent();
  Json item = MakeSnapshotObject("shop", Restored("snap"), "");
  SetJson(item, {"spec"}, Json{{"source", {{"volumeSnapshotContentName", Restored("snap")}}}});
  const RestoreItemResult result = Run(*action_, item, Archived());
  EXPECT_FALSE(result.item.has_value());
  EXPECT_THAT(result.additional_items, IsEmpty());
  EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
}

// An archive of older Velero, or a restore whose filters leave the content out.
TEST_F(SnapshotRestoreTest, MakesTheContentWhereNoneExists) {
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", support::kDriver));
  Json archived = Archived();
  SetJson(archived, {"metadata", "annotations", objects::kDeleteSecretNameAnnotation}, "key");
  SetJson(archived, {"metadata", "annotations", objects::kDeleteSecretNamespaceAnnotation},
          "vault");

  const RestoreItemResult result = Run(*action_, archived, archived);

  const Json content = *bed_.api.Find(VolumeSnapshotContentKey(Restored("snap")));
  EXPECT_EQ(GetString(content, {"spec", "source", "snapshotHandle"}), "handle-1");
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotClassName"}), "fast");
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotRef", "namespace"}), "shop-2");
  EXPECT_EQ(GetString(content, {"spec", "volumeSnapshotRef", "name"}), Restored("snap"));
  EXPECT_EQ(k8s::Label(content, objects::kRestoreNameLabel), "r1");
  EXPECT_EQ(k8s::Label(content, objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(k8s::Annotation(content, objects::kDeletionSecretNameAnnotation), "key");
  EXPECT_THAT(result.additional_items, IsEmpty());
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kRestoreMustIncludeAnnotation), "");
}

TEST_F(SnapshotRestoreTest, NoContentIsMadeOfAHandleThatNothingProved) {
  Json archived = Archived();
  SetJson(archived, {"metadata", "annotations", objects::kHandleUnprovenAnnotation}, "true");
  const RestoreItemResult result = Run(*action_, archived, archived);
  EXPECT_THAT(
      result.additional_items,
      ElementsAre(ResourceIdentifier{kSnapshotGroup, "volumesnapshotcontents", "", "content"}));
  EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
  EXPECT_EQ(k8s::Annotation(result.item->json(), objects::kHandleUnprovenAnnotation), "");
}

TEST_F(SnapshotRestoreTest, WithoutAnnotationsTheArchivedContentIsAskedFor) {
  Json archived = Archived();
  EraseJson(archived, {"metadata", "annotations"});
  const RestoreItemResult result = Run(*action_, archived, archived);
  EXPECT_TRUE(result.item.has_value());
  EXPECT_EQ(result.additional_items.size(), 1u);
  EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
}

TEST_F(SnapshotRestoreTest, NoContentIsMadeOfHalfOfWhatItTakes) {
  for (const char* missing :
       {objects::kVolumeSnapshotHandleAnnotation, objects::kDriverNameAnnotation}) {
    Json archived = Archived();
    EraseJson(archived, {"metadata", "annotations", missing});
    const RestoreItemResult result = Run(*action_, archived, archived);
    EXPECT_EQ(result.additional_items.size(), 1u) << missing;
    EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0) << missing;
  }
}

TEST_F(SnapshotRestoreTest, SnapshotThatNeverHadAContentIsLeftOut) {
  const Json archived = MakeSnapshotObject("shop", "snap", "");
  EXPECT_TRUE(Run(*action_, archived, archived).skip_restore);
  EXPECT_THAT(log_.text(), HasSubstr("left out"));
}

TEST_F(SnapshotRestoreTest, SnapshotStillInCreationIsLeftOut) {
  Json archived = Archived();
  EraseJson(archived, {"metadata", "annotations"});
  SetJson(archived, {"status", "readyToUse"}, false);
  EXPECT_TRUE(Run(*action_, archived, archived).skip_restore);
  SetJson(archived, {"status", "creationTime"}, "2024-01-02T03:04:05Z");
  EXPECT_FALSE(Run(*action_, archived, archived).skip_restore);
}

TEST_F(SnapshotRestoreTest, PreProvisionedOneOfAUserIsBoundAgain) {
  Json archived = MakeSnapshotObject("shop", "snap", "content");
  SetJson(archived, {"spec", "source"}, Json{{"volumeSnapshotContentName", "content"}});
  const RestoreItemResult result = Run(*action_, archived, archived);
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(GetString(result.item->json(), {"spec", "source", "volumeSnapshotContentName"}),
            Restored("snap"));
}

TEST_F(SnapshotRestoreTest, WithoutVolumesOnRequest) {
  SetJson(restore_, {"spec", "restorePVs"}, false);
  EXPECT_TRUE(Run(*action_, Archived(), Archived()).skip_restore);
}

// --- Contents

class ContentRestoreTest : public RestoreTest {
 protected:
  static Json Archived() {
    return MakeContentObject("content", "shop", "snap", "handle-1",
                             {{objects::kBackupNameLabel, "nightly"}});
  }
  std::unique_ptr<velero::RestoreItemAction> action_ = MakeVolumeSnapshotContentAction(bed_.env);
};

TEST_F(ContentRestoreTest, IsMadeForTheDriversExistingSnapshot) {
  SetJson(restore_, {"spec", "namespaceMapping"}, Json{{"shop", "shop-2"}});
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("other", "x.driver"));
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("slow", support::kDriver));
  Json item = Archived();
  EraseJson(item, {"status"});
  SetJson(
      item,
      {"metadata", "annotations", "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"},
      "yes");

  const RestoreItemResult result = Run(*action_, item, Archived());

  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(k8s::Name(result.item->json()), Restored("snap"));
  const Json expected = {
      {"deletionPolicy", "Retain"},
      {"driver", support::kDriver},
      {"source", {{"snapshotHandle", "handle-1"}}},
      {"volumeSnapshotClassName", "slow"},
      {"volumeSnapshotRef", {{"namespace", "shop-2"}, {"name", Restored("snap")}}}};
  EXPECT_EQ(*FindJson(result.item->json(), {"spec"}), expected);
  EXPECT_TRUE(GetStringMap(result.item->json(), {"metadata", "annotations"}).empty());
}

TEST_F(ContentRestoreTest, LeavesWhatVeleroDidAsItIs) {
  Json item = MakeContentObject(Restored("snap"), "shop", Restored("snap"), "");
  SetJson(item, {"spec", "source"}, Json{{"snapshotHandle", "handle-1"}});
  const RestoreItemResult result = Run(*action_, item, Archived());
  EXPECT_FALSE(result.item.has_value());
  EXPECT_THAT(bed_.api.calls(), IsEmpty());
}

TEST_F(ContentRestoreTest, GivesBackTheClassThatVelero1180TookAway) {
  bed_.api.Seed(VolumeSnapshotClassType(), support::MakeClassObject("fast", support::kDriver));
  Json item = MakeContentObject(Restored("snap"), "shop", Restored("snap"), "");
  EraseJson(item, {"spec", "volumeSnapshotClassName"});
  const RestoreItemResult result = Run(*action_, item, Archived());
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(GetString(result.item->json(), {"spec", "volumeSnapshotClassName"}), "fast");
}

TEST_F(ContentRestoreTest, ClassThatIsNotInThisClusterIsDropped) {
  const RestoreItemResult result = Run(*action_, Archived(), Archived());
  ASSERT_TRUE(result.item.has_value());
  EXPECT_EQ(FindJson(result.item->json(), {"spec", "volumeSnapshotClassName"}), nullptr);
}

TEST_F(ContentRestoreTest, CopyThatOlderVeleroMadeIsNotTakenForIt) {
  Json item = Archived();
  SetJson(item, {"metadata", "managedFields"}, Json::array({Json::object()}));
  bed_.api.Seed(VolumeSnapshotContentType(), Archived());

  const RestoreItemResult result = Run(*action_, item, Archived());

  EXPECT_TRUE(result.skip_restore);
  const Json made = *bed_.api.Find(VolumeSnapshotContentKey(Restored("snap")));
  EXPECT_EQ(GetString(made, {"spec", "source", "snapshotHandle"}), "handle-1");
  EXPECT_EQ(GetString(made, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(k8s::Label(made, objects::kRestoreNameLabel), "r1");
  EXPECT_EQ(k8s::Label(made, objects::kBackupNameLabel), "nightly");
  EXPECT_EQ(FindJson(made, {"metadata", "managedFields"}), nullptr);
  EXPECT_TRUE(Run(*action_, item, Archived()).skip_restore);
}

TEST_F(ContentRestoreTest, ParkedContentOfOlderVeleroIsLeftOut) {
  Json parked = Archived();
  SetJson(parked, {"spec", "volumeSnapshotRef"},
          Json{{"namespace", "ns-1234"}, {"name", "name-1234"}});
  EXPECT_TRUE(Run(*action_, parked, parked).skip_restore);
}

TEST_F(ContentRestoreTest, HandleLostIsAnErrorForABackupsContentOnly) {
  Json archived =
      MakeContentObject("content", "shop", "snap", "", {{objects::kBackupNameLabel, "nightly"}});
  EXPECT_THAT(Execute(*action_, archived, archived),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("content")));
  EraseJson(archived, {"metadata", "labels"});
  EXPECT_TRUE(Run(*action_, archived, archived).skip_restore);
}

TEST_F(ContentRestoreTest, SecretsComeAlongWhenTheArchiveHasThem) {
  Json archived = Archived();
  SetJson(archived, {"metadata", "annotations", objects::kDeletionSecretNameAnnotation}, "key");
  SetJson(archived, {"metadata", "annotations", objects::kDeletionSecretNamespaceAnnotation},
          "vault");
  EXPECT_THAT(Run(*action_, archived, archived).additional_items, IsEmpty());
  SetJson(archived, {"metadata", "annotations", objects::kMustIncludeAnnotation}, "true");
  EXPECT_THAT(Run(*action_, archived, archived).additional_items,
              ElementsAre(ResourceIdentifier{"", "secrets", "vault", "key"}));
}

// --- Classes

class ClassRestoreTest : public RestoreTest {
 protected:
  std::unique_ptr<velero::RestoreItemAction> action_ = MakeVolumeSnapshotClassAction(bed_.env);
};

TEST_F(ClassRestoreTest, PassesThroughWithItsSecrets) {
  Json archived = support::MakeClassObject("fast", support::kDriver);
  EXPECT_FALSE(Run(*action_, archived, archived).item.has_value());
  SetJson(archived, {"metadata", "annotations", objects::kSnapshotterListSecretName}, "key");
  SetJson(archived, {"metadata", "annotations", objects::kSnapshotterListSecretNamespace}, "vault");
  EXPECT_THAT(Run(*action_, archived, archived).additional_items,
              ElementsAre(ResourceIdentifier{"", "secrets", "vault", "key"}));
  SetJson(restore_, {"spec", "restorePVs"}, false);
  EXPECT_TRUE(Run(*action_, archived, archived).skip_restore);
}

// --- All of them

// Whatever call fails: an error, or a result as good as without the failure; a second try succeeds.
TEST_F(RestoreTest, ClaimSurvivesAnyFailingCall) {
  for (int call = 1;; ++call) {
    SeedRestored("shop", "3Gi");
    const auto action = MakePvcAction(bed_.env);
    bed_.api.FailCall(call, absl::UnavailableError("connection lost"));
    const auto result = Execute(*action, ArchivedClaim(), ArchivedClaim());
    if (!bed_.api.sweep_hit()) {
      EXPECT_GT(call, 2);
      return;
    }
    bed_.api.ClearFaults();
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable)) << call;
    EXPECT_TRUE(Run(*action, ArchivedClaim(), ArchivedClaim()).item.has_value()) << call;
  }
}

TEST_F(RestoreTest, HostileItemsAreErrorsOrEchoes) {
  const Json odd[] = {
      Json::object(),
      Json{{"metadata", 7}},
      Json{{"metadata", {{"annotations", {{objects::kVolumeSnapshotNameAnnotation, 7}}}}}},
      Json{{"metadata", {{"name", "a"}, {"labels", Json::array({1})}}}, {"spec", "text"}},
      Json{{"spec", {{"source", Json::array()}, {"dataSource", 3}}}, {"status", "x"}},
  };
  for (const auto make : {MakePvcAction, MakePersistentVolumeAction, MakeVolumeSnapshotAction,
                          MakeVolumeSnapshotContentAction, MakeVolumeSnapshotClassAction}) {
    const auto action = make(bed_.env);
    for (const Json& item : odd) {
      (void)action->Execute(bed_.ctx, objects::Object(item), objects::Object(item),
                            objects::Object(restore_));
      EXPECT_THAT(action->Execute(bed_.ctx, objects::Object(item), objects::Object(item),
                                  objects::Object(Json(3))),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
}

}  // namespace
}  // namespace csidelta::restoreitemactions::restore_actions_test
