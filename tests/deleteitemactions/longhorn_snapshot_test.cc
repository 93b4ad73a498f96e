#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "deleteitemactions/actions.h"
#include "k8s/object.h"
#include "longhorn/native_snapshot.h"
#include "objects/keys.h"
#include "tests/deleteitemactions/undeleted_record.h"
#include "tests/support/action_log.h"
#include "tests/support/native_bed.h"
#include "tests/support/status_matchers.h"

// On the stand-in of Longhorn; no Longhorn was here.
namespace csidelta::deleteitemactions::longhorn_snapshot_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kName[] = "csd-0123";

class LonghornSnapshotDeletionTest : public testing::Test {
 protected:
  LonghornSnapshotDeletionTest() {
    const longhorn::NativeRequest request{.namespace_name = support::kLonghornNamespace,
                                          .volume = support::kLonghornVolume,
                                          .velero_namespace = "velero",
                                          .backup_name = "nightly",
                                          .backup_uid = "backup-uid",
                                          .pvc_namespace = "shop",
                                          .pvc_name = "data",
                                          .pvc_uid = "pvc-uid"};
    EXPECT_THAT(longhorn::CreateNative(bed_.ctx, bed_.api(), request, kName), IsOk());
    bed_.Pass(absl::Seconds(8));
    archived_ = There();
    bed_.calls.clear();
  }
  ~LonghornSnapshotDeletionTest() override { bed_.ExpectNoWritesToLonghorn(); }

  absl::Status Delete() {
    return action_->Execute(bed_.ctx, objects::Object(archived_), objects::Object(backup_));
  }
  Json There() { return bed_.api().Find(support::NativeBed::SnapshotKey(kName)).value_or(Json()); }

  support::NativeBed bed_;
  std::unique_ptr<velero::DeleteItemAction> action_ = MakeLonghornSnapshotAction(bed_.env);
  Json archived_;
  Json backup_ = support::MakeBackupObject("nightly", "Deleting", "uid-of-a-backup-read-again");
};

TEST_F(LonghornSnapshotDeletionTest, IsAskedForNativeSnapshotsAlone) {
  EXPECT_THAT(action_->AppliesTo().included_resources, ElementsAre("snapshots.longhorn.io"));
  EXPECT_EQ(action_->AppliesTo().label_selector, "longhorn.csi-delta.io/made-by");
}

TEST_F(LonghornSnapshotDeletionTest, AsksOnceAndDoesNotWaitForTheNewestThatLingers) {
  const absl::Time asked_at = bed_.clock.Now();
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_EQ(bed_.clock.Now(), asked_at);
  EXPECT_EQ(bed_.Count("delete", "snapshots"), 1);
  EXPECT_EQ(bed_.Count("list", "volumes"), 1);
  EXPECT_EQ(bed_.calls.size(), 2u);
  bed_.Pass(absl::Minutes(1));
  EXPECT_TRUE(k8s::BeingDeleted(There())) << "until there is a newer one";
  bed_.AddSnapshot("newer");
  bed_.Pass(absl::Minutes(1));
  EXPECT_TRUE(There().is_null());
  EXPECT_THAT(Delete(), IsOk()) << "gone already";
}

TEST_F(LonghornSnapshotDeletionTest, OfADetachedVolumeItIsDoneAtOnceAndSaidThatLonghornKeepsIt) {
  bed_.AddSnapshot("newer");
  bed_.Do([&] { bed_.longhorn.Detach(support::kLonghornVolume); });
  bed_.Pass(absl::Seconds(10));
  const support::ActionLog log;
  const absl::Time asked_at = bed_.clock.Now();
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_EQ(bed_.clock.Now(), asked_at);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("whose volume is detached"), HasSubstr(kName)));
  bed_.Pass(absl::Minutes(1));
  EXPECT_TRUE(k8s::BeingDeleted(There()));
  bed_.Do([&] { bed_.longhorn.Attach(support::kLonghornVolume); });
  bed_.Pass(absl::Seconds(30));
  EXPECT_TRUE(There().is_null());
}

TEST_F(LonghornSnapshotDeletionTest, OneWithAnotherUidIsLeftAlone) {
  SetJson(archived_, {"metadata", "uid"}, "another");
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_FALSE(k8s::BeingDeleted(There()));
  EraseJson(archived_, {"metadata", "uid"});
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_THAT(UndeletedTexts(bed_.api()), ElementsAre(HasSubstr("does not tell its uid")));
  EXPECT_FALSE(k8s::BeingDeleted(There()));
}

// Its snapshots went with it, or are in another cluster.
TEST_F(LonghornSnapshotDeletionTest, WithoutLonghornNothingIsThereToDelete) {
  bed_.api().RemoveType("snapshots");
  bed_.api().RemoveType("volumes");
  EXPECT_THAT(Delete(), IsOk());
}

TEST_F(LonghornSnapshotDeletionTest, WhatIsNotOfThisBackupIsLeftAlone) {
  const Json whole = archived_;
  SetJson(archived_, {"metadata", "labels", objects::kBackupNameLabel}, "weekly");
  EXPECT_THAT(Delete(), IsOk());
  archived_ = whole;
  EraseJson(archived_, {"metadata", "labels", objects::kLonghornMadeByLabel});
  EXPECT_THAT(Delete(), IsOk());
  EXPECT_FALSE(k8s::BeingDeleted(There()));
}

TEST_F(LonghornSnapshotDeletionTest, AManagerThatIsAwayIsAnErrorThatNamesTheCommand) {
  bed_.longhorn.StopManager();
  const absl::Time asked_at = bed_.clock.Now();
  EXPECT_THAT(Delete(), StatusIs(absl::StatusCode::kUnavailable,
                                 AllOf(HasSubstr("does longhorn-manager run?"),
                                       HasSubstr("later: kubectl -n longhorn-system delete "
                                                 "snapshots.longhorn.io csd-0123"))));
  EXPECT_LE(bed_.clock.Now() - asked_at, absl::Seconds(30));
}

}  // namespace
}  // namespace csidelta::deleteitemactions::longhorn_snapshot_test
