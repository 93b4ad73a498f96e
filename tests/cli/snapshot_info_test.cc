#include "cli/repository/snapshot_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace csidelta::cli::snapshot_info_test {
namespace {

using repository::StoredSnapshot;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

StoredSnapshot Snapshot() {
  StoredSnapshot stored{.id = repository::Id::Of("snapshot"), .snapshot = {}};
  stored.snapshot.hostname = "alpha";
  stored.snapshot.paths = {"/orders"};
  stored.snapshot.tags = {"daily", "mode=block", "kind=incr", "layout=1"};
  return stored;
}

TEST(SnapshotInfoTest, UnrecordedFiguresAreADash) {
  const StoredSnapshot stored = Snapshot();
  EXPECT_EQ(ModeOf(stored.snapshot), "incremental");
  EXPECT_EQ(DurationOf(stored.snapshot), std::nullopt);
  EXPECT_EQ(GivenTags(stored.snapshot), std::vector<std::string>{"daily"});
  EXPECT_THAT(SnapshotTables({stored}, 80, {}, {}), ContainsRegex("incr  - +- +- +-\n"));
  StoredSnapshot other = Snapshot();
  other.snapshot.tags.clear();
  EXPECT_EQ(ModeOf(other.snapshot), "");
}

TEST(SnapshotInfoTest, AReasonThatAnotherVersionWroteFitsItsColumn) {
  StoredSnapshot stored = Snapshot();
  stored.snapshot.volume = repository::VolumeSummary{
      .mode = "full", .reason = "a-reason-of-a-later-version", .changed_bytes = (1 << 30) - 1};
  stored.snapshot.summary =
      repository::SnapshotSummary{.backup_start = absl::FromUnixSeconds(1'800'000'000),
                                  .backup_end = absl::FromUnixSeconds(1'800'086'399),
                                  .data_added_packed = (1 << 20) * 1000};
  const std::string table = SnapshotTables({stored}, 119, {}, {});
  EXPECT_THAT(table, HasSubstr("  a-reason-of-a  "));
  EXPECT_THAT(table, Not(HasSubstr("daily")));
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(table, '\n'))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(SnapshotTables({stored}, 120, {}, {}), HasSubstr("daily"));
}

}  // namespace
}  // namespace csidelta::cli::snapshot_info_test
