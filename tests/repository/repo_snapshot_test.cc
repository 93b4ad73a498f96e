#include "repository/repo_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/rfc3339.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository::repo_snapshot_test {
namespace {

using support::IsOk;
using support::StatusIs;

RepoSnapshot TestSnapshot() {
  RepoSnapshot snapshot;
  snapshot.time = absl::FromUnixMillis(1'700'000'000'120);
  snapshot.parent = Id::Of("parent");
  snapshot.tree = Id::Of("tree");
  snapshot.paths = {"/shop/db-0"};
  snapshot.hostname = "cluster";
  snapshot.username = "csi-delta";
  snapshot.tags = {"vol-uid=1", "kind=full"};
  snapshot.program_version = "csi-delta 0.1.0";
  snapshot.summary = SnapshotSummary{
      .backup_start = snapshot.time, .backup_end = snapshot.time, .total_bytes_processed = 4096};
  return snapshot;
}

TEST(RepoSnapshotTest, HasResticsOrder) {
  EXPECT_EQ(EncodeSnapshot(TestSnapshot()),
            absl::StrCat("{\"time\":\"2023-11-14T22:13:20.12Z\",\"parent\":\"",
                         Id::Of("parent").Hex(), "\",\"tree\":\"", Id::Of("tree").Hex(),
                         "\",\"paths\":[\"/shop/db-0\"],\"hostname\":\"cluster\",\"username\":"
                         "\"csi-delta\",\"tags\":[\"vol-uid=1\",\"kind=full\"],"
                         "\"program_version\":\"csi-delta 0.1.0\",\"summary\":{"
                         "\"backup_start\":\"2023-11-14T22:13:20.12Z\","
                         "\"backup_end\":\"2023-11-14T22:13:20.12Z\",\"files_new\":0,"
                         "\"files_changed\":0,\"files_unmodified\":0,\"dirs_new\":0,"
                         "\"dirs_changed\":0,\"dirs_unmodified\":0,\"data_blobs\":0,"
                         "\"tree_blobs\":0,\"data_added\":0,\"data_added_packed\":0,"
                         "\"total_files_processed\":0,\"total_bytes_processed\":4096}}"));
}

TEST(RepoSnapshotTest, ComesBackWithWhatWeDoNotKnow) {
  std::string text = EncodeSnapshot(TestSnapshot());
  text.pop_back();
  absl::StrAppend(&text, ",\"later\":{\"a\":[1,2]}}");
  const absl::StatusOr<RepoSnapshot> read = DecodeSnapshot(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(EncodeSnapshot(*read), text);
  EXPECT_EQ(TagValue(*read, "vol-uid"), "1");
  EXPECT_EQ(TagValue(*read, "vol"), "");
  EXPECT_EQ(TagValue(*read, "kind"), "full");
}

TEST(RepoSnapshotTest, KeepsWhatTheBackupOfAVolumeDid) {
  RepoSnapshot snapshot = TestSnapshot();
  snapshot.volume =
      VolumeSummary{.mode = "full", .reason = "no-parent", .changed_bytes = std::nullopt};
  std::string text = EncodeSnapshot(snapshot);
  EXPECT_TRUE(absl::EndsWith(text, ",\"csi_delta\":{\"mode\":\"full\",\"reason\":\"no-parent\"}}"))
      << text;
  snapshot.volume = VolumeSummary{.mode = "incremental", .reason = "", .changed_bytes = 0};
  text = EncodeSnapshot(snapshot);
  EXPECT_TRUE(
      absl::EndsWith(text, ",\"csi_delta\":{\"mode\":\"incremental\",\"changed_bytes\":0}}"))
      << text;
  const absl::StatusOr<RepoSnapshot> read = DecodeSnapshot(text);
  ASSERT_THAT(read, IsOk());
  ASSERT_TRUE(read->volume.has_value());
  EXPECT_EQ(read->volume->changed_bytes, 0);
  EXPECT_EQ(EncodeSnapshot(*read), text);
}

TEST(RepoSnapshotTest, FiguresOfABackupMayBeMissingOrMalformed) {
  EXPECT_FALSE(DecodeSnapshot(EncodeSnapshot(TestSnapshot()))->volume.has_value());
  std::string text = EncodeSnapshot(TestSnapshot());
  text.pop_back();
  EXPECT_FALSE(DecodeSnapshot(absl::StrCat(text, ",\"csi_delta\":[1]}"))->volume.has_value());
  const absl::StatusOr<RepoSnapshot> read =
      DecodeSnapshot(absl::StrCat(text, ",\"csi_delta\":{\"mode\":7,\"changed_bytes\":-1}}"));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->volume->mode, "");
  EXPECT_EQ(read->volume->changed_bytes, std::nullopt);
}

// Hours of the snapshots, and on which of them each builds (-1: none): which is the newest.
TEST(NewestTest, IsTheEndOfTheChainAndNotOfTheFutureBesideAnother) {
  const absl::Time now = absl::FromUnixSeconds(100 * 3600);
  struct Case {
    std::vector<std::pair<int, int>> snapshots;
    int newest;
  };
  for (const Case& one :
       {Case{{}, -1}, Case{{{1, -1}, {3, -1}, {2, -1}}, 1},
        Case{{{5000, -1}, {10, 0}, {11, 1}}, 2},  // The clock was wrong, then not.
        Case{{{10, -1}, {5000, -1}}, 0}, Case{{{10, -1}, {5000, 0}}, 1},  // Or it is wrong now.
        Case{{{4000, -1}, {5000, -1}}, 1}}) {
    std::vector<StoredSnapshot> all;
    for (const auto& [hour, base] : one.snapshots) {
      StoredSnapshot stored = {.id = Id::Of(absl::StrCat(all.size())), .snapshot = TestSnapshot()};
      stored.snapshot.time = absl::FromUnixSeconds(hour * 3600);
      stored.snapshot.parent = std::nullopt;
      if (base >= 0) {
        stored.snapshot.parent = all[static_cast<std::size_t>(base)].id;
      }
      all.push_back(std::move(stored));
    }
    const StoredSnapshot* newest = NewestOf(
        all, [](const RepoSnapshot&) { return true; }, now);
    EXPECT_EQ(newest == nullptr ? -1 : static_cast<int>(newest - all.data()), one.newest);
  }
}

TEST(RepoSnapshotTest, TakesTheLeastThatResticWrites) {
  const absl::StatusOr<RepoSnapshot> read = DecodeSnapshot(
      absl::StrCat("{\"time\":\"2026-08-01T10:00:00.123456789+02:00\",\"parent\":null,\"tree\":\"",
                   Id::Of("t").Hex(), "\",\"paths\":null,\"uid\":1000}"));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(FormatRfc3339(read->time), "2026-08-01T08:00:00.123456789Z");
  EXPECT_EQ(read->uid, 1000U);
  EXPECT_FALSE(read->parent.has_value());
  EXPECT_TRUE(read->paths.empty());
}

TEST(RepoSnapshotTest, RefusesWhatIsMalformed) {
  const std::string good = EncodeSnapshot(TestSnapshot());
  const std::string tree = Id::Of("tree").Hex();
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {tree, tree.substr(1)},
           {tree, std::string(64, '0')},
           {"\"tree\":\"" + tree + "\",", ""},
           {"\"" + tree + "\"", "7"},
           {Id::Of("parent").Hex(), "x"},
           {"2023-11-14T22:13:20.12Z\",\"parent", "yesterday at noon maybe\",\"parent"},
           {"2023-11-14T22:13:20.12Z\",\"parent", "\",\"parent"},
           {"{\"time\"", "{\"tyme\""}}) {
    const std::string text = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(text, good) << from;
    EXPECT_THAT(DecodeSnapshot(text), StatusIs(absl::StatusCode::kInvalidArgument)) << to;
  }
  EXPECT_FALSE(DecodeSnapshot("").ok());
  EXPECT_FALSE(DecodeSnapshot("[]").ok());
}

}  // namespace
}  // namespace csidelta::repository::repo_snapshot_test
