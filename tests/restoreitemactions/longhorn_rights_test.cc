// deploy/longhorn-rbac.yaml: enough for all that the plugin asks of Longhorn, and nothing in it is
// unused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backupitemactions/actions.h"
#include "backupitemactions/longhorn_sweep.h"
#include "deleteitemactions/actions.h"
#include "objects/backup.h"
#include "restoreitemactions/actions.h"
#include "tests/support/kind_names.h"
#include "tests/support/manifest_rights.h"
#include "tests/support/native_bed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::restoreitemactions::longhorn_rights_test {
namespace {

using support::ApiCall;
using support::As;
using support::IsOk;
using support::StatusIs;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// Longhorn's objects are asked for by the rights of that manifest alone; all else is that of
// deploy/rbac.yaml.
class LonghornPluginRightsTest : public testing::Test {
 protected:
  LonghornPluginRightsTest() {
    bed_.on_call = [this](const ApiCall& call, const Json*) {
      const std::set<std::string> kinds = {"snapshots", "volumes", "engines", "settings"};
      if (call.namespace_name != support::kLonghornNamespace && !kinds.contains(call.plural)) {
        return absl::OkStatus();
      }
      const std::string right = absl::StrCat(call.verb, " ", call.plural, " ", call.namespace_name);
      used_.insert(right);
      return rights_.contains(right) ? absl::OkStatus() : absl::PermissionDeniedError(right);
    };
  }

  // The archived PVC, whose snapshot is ready.
  Json BackUp() {
    const auto action = backupitemactions::MakeLonghornVolumeAction(bed_.env);
    const auto result =
        action->Execute(bed_.ctx, objects::Object(bed_.pvc), objects::Object(bed_.backup));
    EXPECT_THAT(result, IsOk());
    if (!result.ok()) {
      return {};
    }
    bed_.Pass(absl::Seconds(8));
    const auto progress =
        action->Progress(bed_.ctx, result->operation_id, objects::Object(bed_.backup));
    EXPECT_THAT(progress, IsOk());
    EXPECT_TRUE(progress->completed) << progress->description;
    return result->item.value_or(objects::Object()).json();
  }

  void Restore(const Json& archived) {
    bed_.api().Remove(ClaimKey("shop", "data"));
    bed_.api().Seed(StorageClassType(),
                    {{"metadata", {{"name", "longhorn"}}}, {"provisioner", "driver.longhorn.io"}});
    EXPECT_THAT(MakeLonghornRestoreAction(bed_.env)->Execute(
                    bed_.ctx, objects::Object(archived), objects::Object(archived),
                    objects::Object(support::MakeRestoreObject("r1", "nightly"))),
                IsOk());
  }

  void DeleteBackup() {
    for (const Json& snapshot : bed_.Snapshots()) {
      EXPECT_THAT(deleteitemactions::MakeLonghornSnapshotAction(bed_.env)->Execute(
                      bed_.ctx, objects::Object(snapshot), objects::Object(bed_.backup)),
                  IsOk());
    }
  }

  // A backup that gives its snapshot up, and the sweep of the next one.
  void GiveUpAndSweep() {
    SetJson(bed_.backup, {"metadata", "uid"}, "another-uid");
    bed_.passes_per_wait = absl::ZeroDuration();
    EXPECT_THAT(backupitemactions::MakeLonghornVolumeAction(bed_.env)->Execute(
                    bed_.ctx, objects::Object(bed_.pvc), objects::Object(bed_.backup)),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nothing of it is kept")));
    bed_.Do([this] { bed_.api().Seed(BackupType(), bed_.backup); });
    EXPECT_THAT(backupitemactions::SweepNativeSnapshots(bed_.ctx, bed_.env,
                                                        As<objects::Backup>(bed_.backup), {}),
                IsOk());
  }

  support::NativeBed bed_;
  const std::set<std::string> rights_ = support::RightsOfRole(
      "deploy/longhorn-rbac.yaml", "velero-csi-delta", support::kLonghornNamespace);
  std::set<std::string> used_;
};

TEST_F(LonghornPluginRightsTest, AreEnoughFromBackupToDeletionAndAllAreUsed) {
  Restore(BackUp());
  DeleteBackup();
  GiveUpAndSweep();
  if (bed_.api().CallCount("watch", "snapshots") > 0) {  // In a thread of its own.
    used_.insert(absl::StrCat("watch snapshots ", support::kLonghornNamespace));
  }
  EXPECT_THAT(used_, UnorderedElementsAreArray(rights_));
}

}  // namespace
}  // namespace csidelta::restoreitemactions::longhorn_rights_test
