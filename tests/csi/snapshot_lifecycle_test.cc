#include "csi/snapshot_lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "csi/lock.h"
#include "csi/volume_lease.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/kind_names.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::snapshot_lifecycle_test {
namespace {

using support::IsOk;
using testing::Le;
using testing::SizeIs;

class SnapshotLifecycleTest : public BackupFixture {
 protected:
  SnapshotRequest Request(const std::string& claim = "data") const {
    return {.backup = backup_,
            .claim_namespace = "app",
            .claim_name = claim,
            .claim_uid = claim + "-uid",
            .class_name = "fast"};
  }

  absl::StatusOr<TakenSnapshot> Take() { return TakeSnapshot(ctx_, env_, Request()); }

  k8s::ObjectKey Key() const { return VolumeSnapshotKey("app", SnapshotName(Request())); }
};

TEST_F(SnapshotLifecycleTest, NamesAreLabelsAndDependOnBackupAndClaim) {
  SnapshotRequest request = Request("a.long.name-" + std::string(241, 'x'));
  const std::string name = SnapshotName(request);
  EXPECT_THAT(name, SizeIs(Le(63)));
  EXPECT_THAT(name, testing::MatchesRegex("[a-z0-9]([a-z0-9-]*[a-z0-9])?"));
  EXPECT_EQ(SnapshotName(request), name);
  request.claim_uid = "another";
  EXPECT_NE(SnapshotName(request), name);
  request.claim_name = "x-";
  EXPECT_THAT(SnapshotName(request), testing::MatchesRegex("velero-x--[0-9a-f]+"));
}

TEST_F(SnapshotLifecycleTest, ACopyOfAManagedObjectIsNotManaged) {
  ASSERT_THAT(Take(), IsOk());
  Json copy = *api_.Find(Key());
  EXPECT_TRUE(IsMadeByUs(support::As<objects::VolumeSnapshot>(copy)));
  SetJson(copy, {"metadata", "name"}, "my-copy");
  EXPECT_FALSE(IsManaged(support::As<objects::VolumeSnapshot>(copy), backup_));
  EXPECT_FALSE(IsMadeByUs(support::As<objects::VolumeSnapshot>(copy)));
  copy = *api_.Find(Key());
  copy["spec"]["source"] = {{"volumeSnapshotContentName", "c"}};
  EXPECT_FALSE(IsMadeByUs(support::As<objects::VolumeSnapshot>(copy)));
}

}  // namespace
}  // namespace csidelta::csi::snapshot_lifecycle_test
