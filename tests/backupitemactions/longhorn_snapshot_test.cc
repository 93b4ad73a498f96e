#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "base/json.h"
#include "objects/keys.h"
#include "tests/support/action_log.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::backupitemactions::longhorn_snapshot_test {
namespace {

using support::IsOk;
using support::MakeObject;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using velero::BackupItemResult;

Json LonghornSnapshot(const std::string& name, const support::Strings& labels = {}) {
  Json snapshot =
      MakeObject("longhorn.io/v1beta2", "Snapshot", "longhorn-system", name, labels, {{"a", "b"}});
  SetJson(snapshot, {"spec"}, Json{{"volume", "pvc-1"}, {"createSnapshot", true}});
  return snapshot;
}

class LonghornSnapshotActionTest : public testing::Test {
 protected:
  ~LonghornSnapshotActionTest() override { EXPECT_THAT(log_.warnings(), IsEmpty()); }

  BackupItemResult Run(const Json& item, const std::string& phase = "InProgress") {
    const auto result =
        action_->Execute(bed_.ctx, objects::Object(item),
                         objects::Object(support::MakeBackupObject("nightly", phase)));
    EXPECT_THAT(result, IsOk());
    const BackupItemResult found = result.value_or(BackupItemResult());
    EXPECT_THAT(found.additional_items, IsEmpty());
    EXPECT_THAT(found.post_operation_items, IsEmpty());
    EXPECT_EQ(found.operation_id, "");
    return found;
  }

  support::ActionLog log_;
  support::ActionBed bed_;
  std::unique_ptr<velero::BackupItemAction> action_ = MakeLonghornSnapshotAction(bed_.env);
};

TEST_F(LonghornSnapshotActionTest, AppliesToLonghornsSnapshotsAlone) {
  EXPECT_THAT(action_->AppliesTo().included_resources, ElementsAre("snapshots.longhorn.io"));
  EXPECT_EQ(action_->AppliesTo().label_selector, "");
}

TEST_F(LonghornSnapshotActionTest, MarksOtherSnapshotsToBeLeftOut) {
  for (const char* phase : {"InProgress", "Finalizing"}) {
    const BackupItemResult result = Run(LonghornSnapshot("nightly-1"), phase);
    ASSERT_TRUE(result.item.has_value()) << phase;
    Json want = LonghornSnapshot("nightly-1");
    SetJson(want, {"metadata", "annotations", "velero.io/skip-from-backup"}, "true");
    EXPECT_EQ(result.item->json(), want) << phase;
  }
  EXPECT_THAT(
      log_.told(),
      ElementsAre(HasSubstr("snapshots.longhorn.io longhorn-system/nightly-1 is left out: ")));
}

TEST_F(LonghornSnapshotActionTest, KeepsTheNativeSnapshotsOfThisBackup) {
  const support::Strings labels = {{objects::kLonghornMadeByLabel, "csi-delta"},
                                   {objects::kBackupUidLabel, "backup-uid"}};
  for (const char* phase : {"InProgress", "Finalizing"}) {
    EXPECT_FALSE(Run(LonghornSnapshot("csd-1", labels), phase).item.has_value()) << phase;
  }
  EXPECT_THAT(log_.told(), IsEmpty());
  EXPECT_THAT(bed_.api.calls(),
              ElementsAre(support::ApiCall{"delete", "leases", "velero", "csi-delta-csd-1", ""}))
      << "its record, once";
}

// Else the next backup would take it for one that no archive has.
TEST_F(LonghornSnapshotActionTest, ANativeSnapshotWhoseRecordStaysIsNotArchived) {
  bed_.api.FailNext("delete", "leases", absl::InternalError("etcd is full"));
  EXPECT_THAT(
      action_->Execute(
          bed_.ctx,
          objects::Object(LonghornSnapshot("csd-1", {{objects::kLonghornMadeByLabel, "x"},
                                                     {objects::kBackupUidLabel, "backup-uid"}})),
          objects::Object(support::MakeBackupObject("nightly", "InProgress"))),
      StatusIs(
          absl::StatusCode::kInternal,
          AllOf(HasSubstr("record that Snapshot csd-1 is archived"), HasSubstr("etcd is full"))));
}

TEST_F(LonghornSnapshotActionTest, LeavesOutTheNativeSnapshotsOfOtherBackups) {
  EXPECT_TRUE(Run(LonghornSnapshot("csd-1", {{objects::kLonghornMadeByLabel, "csi-delta"},
                                             {objects::kBackupUidLabel, "other-uid"}}))
                  .item.has_value());
  EXPECT_TRUE(
      Run(LonghornSnapshot("x", {{objects::kBackupUidLabel, "backup-uid"}})).item.has_value())
      << "made by another";
}

TEST_F(LonghornSnapshotActionTest, KeepsAllWhereTheSettingsSaySo) {
  support::SetPluginConfig({{"longhornItems", "keep"}}, bed_.api);
  EXPECT_FALSE(Run(LonghornSnapshot("nightly-1")).item.has_value());
  EXPECT_THAT(log_.told(), IsEmpty());
}

TEST_F(LonghornSnapshotActionTest, ActsWithoutEnableCsi) {
  bed_.env.enable_csi = false;
  action_ = MakeLonghornSnapshotAction(bed_.env);
  EXPECT_TRUE(Run(LonghornSnapshot("nightly-1")).item.has_value());
}

TEST_F(LonghornSnapshotActionTest, HundredsCostOneRequestAndThreeLines) {
  for (int i = 0; i < 150; ++i) {
    EXPECT_TRUE(Run(LonghornSnapshot(absl::StrCat("nightly-", i))).item.has_value());
  }
  EXPECT_THAT(bed_.api.calls(), SizeIs(1)) << "that for the settings";
  EXPECT_THAT(log_.told(),
              ElementsAre(HasSubstr("is left out"), HasSubstr(": 10 are"), HasSubstr(": 100 are")));
}

TEST_F(LonghornSnapshotActionTest, ABackupThatCannotBeReadIsAnError) {
  EXPECT_THAT(
      action_->Execute(bed_.ctx, objects::Object(LonghornSnapshot("nightly-1")), objects::Object()),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace csidelta::backupitemactions::longhorn_snapshot_test
