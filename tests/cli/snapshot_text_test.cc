#include "cli/snapshot/snapshot_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "tests/support/status_matchers.h"

namespace csidelta::cli::snapshot_text_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

TEST(SnapshotTextTest, NamesMayCarryTheirKind) {
  for (const char* word : {"monday", "vs/monday", "volumesnapshot/monday", "volumesnapshots/monday",
                           "volumesnapshot.snapshot.storage.k8s.io/monday",
                           "volumesnapshots.snapshot.storage.k8s.io/monday"}) {
    EXPECT_THAT(SnapshotNameOf(word), IsOkAndHolds("monday")) << word;
  }
  for (const char* word : {"", "vs/", "/monday", "pvc/monday", "vs/a/b"}) {
    EXPECT_THAT(SnapshotNameOf(word), StatusIs(absl::StatusCode::kInvalidArgument)) << word;
  }
}

TEST(SnapshotTextTest, AQuotedArgumentIsOneArgumentForAShell) {
  EXPECT_EQ(ShellQuoted("snap-0a1b:/pool@x"), "snap-0a1b:/pool@x");
  EXPECT_EQ(ShellQuoted(""), "''");
  EXPECT_EQ(ShellQuoted("a b"), "'a b'");
  EXPECT_EQ(ShellQuoted("it's $(x)"), "'it'\\''s $(x)'");
}

TEST(SnapshotTextTest, ADeletionWhoseAnswerWasLostIsNotCalledRefused) {
  EXPECT_EQ(NotDeletedText(absl::PermissionDeniedError("no")), "was not deleted: no");
  EXPECT_EQ(NotDeletedText(absl::UnavailableError("gone")), "may be deleted or not: gone");
  EXPECT_EQ(NotDeletedText(absl::CancelledError("stop")), "may be deleted or not: stop");
}

TEST(SnapshotTextTest, EachActionIsPrinted) {
  snapshots::SnapshotEntry entry;
  entry.content = "c";
  entry.content_names = "bank/gold";
  entry.driver = "d.example.com";
  EXPECT_THAT(DataActionText(entry, snapshots::DataAction::kNone), HasSubstr("no data yet"));
  EXPECT_THAT(DataActionText(entry, snapshots::DataAction::kUnknown),
              HasSubstr("c cannot be read"));
  EXPECT_THAT(DataActionText(entry, snapshots::DataAction::kContentGone),
              HasSubstr("c does not exist"));
  EXPECT_THAT(DataActionText(entry, snapshots::DataAction::kNotItsOwn),
              HasSubstr("belongs to bank/gold"));
  EXPECT_THAT(DataActionText(entry, snapshots::DataAction::kDeleted), HasSubstr("gone for good"));
  EXPECT_EQ(DataActionText(entry, snapshots::DataAction::kKept),
            "the storage keeps its data; the driver has not given VolumeSnapshotContent c a handle "
            "yet");
  entry.handle = "h";
  EXPECT_EQ(DataActionText(entry, snapshots::DataAction::kKept),
            "the storage keeps its data: handle h; csi-delta snapshot import --driver "
            "d.example.com h brings it back");
}

}  // namespace
}  // namespace csidelta::cli::snapshot_text_test
