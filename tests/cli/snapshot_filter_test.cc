#include "cli/repository/snapshot_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::cli::snapshot_filter_test {
namespace {

using repository::RepoSnapshot;
using testing::ElementsAre;

RepoSnapshot Example() {
  RepoSnapshot snapshot;
  snapshot.hostname = "alpha";
  snapshot.paths = {"/one", "/two"};
  snapshot.tags = {"daily", "db"};
  return snapshot;
}

TEST(SnapshotFilterTest, MatchesAsResticDoes) {
  const RepoSnapshot snapshot = Example();
  EXPECT_TRUE(SnapshotFilter{}.Matches(snapshot));
  EXPECT_TRUE((SnapshotFilter{.hosts = {"beta", "alpha"}}.Matches(snapshot)));
  EXPECT_FALSE((SnapshotFilter{.hosts = {"beta"}}.Matches(snapshot)));
  EXPECT_TRUE((SnapshotFilter{.paths = {"/one", "/two"}}.Matches(snapshot)));
  EXPECT_FALSE((SnapshotFilter{.paths = {"/one", "/three"}}.Matches(snapshot)));
  EXPECT_TRUE((SnapshotFilter{.tags = {"daily,db"}}.Matches(snapshot)));
  EXPECT_TRUE((SnapshotFilter{.tags = {"weekly", "db"}}.Matches(snapshot)));
  EXPECT_FALSE((SnapshotFilter{.tags = {"daily,weekly"}}.Matches(snapshot)));
  EXPECT_FALSE((SnapshotFilter{.hosts = {"alpha"}, .paths = {"/x"}}.Matches(snapshot)));
}

TEST(SnapshotFilterTest, SplitsTags) {
  EXPECT_THAT(SplitTags({"a,b", "b", ",c,"}), ElementsAre("a", "b", "c"));
}

TEST(SnapshotFilterTest, PrintsSnapshotsAsResticDoes) {
  repository::StoredSnapshot stored{.id = repository::Id::Of("x"), .snapshot = Example()};
  stored.snapshot.tree = repository::Id::Of("tree");
  const absl::StatusOr<Json> json = ParseJsonObject(SnapshotJsonText(stored));
  ASSERT_THAT(json, support::IsOk());
  EXPECT_EQ(GetString(*json, {"id"}), stored.id.Hex());
  EXPECT_EQ(GetString(*json, {"short_id"}), stored.id.Hex().substr(0, 8));
  EXPECT_EQ(GetString(*json, {"hostname"}), "alpha");
  EXPECT_EQ(GetString(*json, {"tree"}), stored.snapshot.tree.Hex());
}

}  // namespace
}  // namespace csidelta::cli::snapshot_filter_test
