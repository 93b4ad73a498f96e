// Deleting the driver's snapshots and groups of a backup: names, errors, and what is gone on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "csi/content_deletion.h"
#include "csi/group/group_deletion.h"
#include "tests/csi/backup_fixture.h"
#include "tests/support/group_objects.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::csi::deletion_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;
using testing::SizeIs;

using DeletionTest = BackupFixture;

TEST_F(DeletionTest, TemporaryContentsAreNamedAfterDriverAndHandle) {
  std::set<std::string> names;
  for (const char* driver : {"d", "d.example.com"}) {
    for (const char* handle : {"h", ".example.comh", "Handle With/Odd Letters"}) {
      names.insert(DeletionContentName(driver, handle));
      names.insert(GroupDeletionContentName(driver, handle));
    }
  }
  EXPECT_THAT(names, SizeIs(12)) << "no two are equal";
  for (const std::string& name : names) {
    EXPECT_THAT(name, testing::MatchesRegex("csi-delta-delete-[a-z0-9-]+"));
    EXPECT_LE(name.size(), 63U);
  }
}

TEST_F(DeletionTest, AFailureNamesTheGroupAndItsDriver) {
  api_.Forbid("list", "volumegroupsnapshotclasses");
  EXPECT_THAT(
      DeleteGroupOfBackup(
          ctx_, env_,
          support::As<objects::VolumeGroupSnapshotContent>(support::MakeGroupContentObject()),
          backup_, absl::Seconds(1)),
      StatusIs(absl::StatusCode::kPermissionDenied,
               HasSubstr("delete group group-1 of driver " + std::string(support::kDriver))));
}

TEST_F(DeletionTest, WithoutPendingDeletionsNothingIsFinished) {
  api_.Seed(VolumeGroupSnapshotContentType("v1"), support::MakeGroupContentObject());
  EXPECT_THAT(FinishSnapshotDeletions(ctx_, env_), IsOkAndHolds(0));
  EXPECT_THAT(FinishGroupDeletions(ctx_, env_), IsOkAndHolds(0));
  EXPECT_THAT(api_.All(VolumeGroupSnapshotContentType("v1")), SizeIs(1));
}

}  // namespace
}  // namespace csidelta::csi::deletion_test
