#include "incremental/mover/volume_group_tags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace csidelta::incremental::volume_group_tags_test {
namespace {

using testing::ElementsAre;
using testing::Optional;

repository::RepoSnapshot Tagged(std::vector<std::string> tags) {
  repository::RepoSnapshot snapshot;
  snapshot.tags = std::move(tags);
  return snapshot;
}

TEST(VolumeGroupTagsTest, WrittenTagsAreRead) {
  const VolumeGroupTags tags = {.group = "shop/db",
                                .snapshot = "velero-db-0123",
                                .snapshot_taken_at = "2026-11-23T05:00:00Z",
                                .members = 3};
  EXPECT_THAT(FormatGroupTags(tags),
              ElementsAre("volume-group=shop/db", "volume-group-snapshot=velero-db-0123",
                          "volume-group-cut=2026-11-23T05:00:00Z", "volume-group-members=3"));
  EXPECT_THAT(ParseGroupTags(Tagged(FormatGroupTags(tags))), Optional(tags));
}

TEST(VolumeGroupTagsTest, UnknownTagsAreLeftOut) {
  const VolumeGroupTags tags = {
      .group = "shop/db", .snapshot = "velero-db-0123", .snapshot_taken_at = ""};
  EXPECT_THAT(FormatGroupTags(tags),
              ElementsAre("volume-group=shop/db", "volume-group-snapshot=velero-db-0123"));
  EXPECT_THAT(ParseGroupTags(Tagged(FormatGroupTags(tags))), Optional(tags));
}

TEST(VolumeGroupTagsTest, ForeignTagsSayNothing) {
  EXPECT_EQ(ParseGroupTags(Tagged({"mode=block", "volume-group-members=3"})), std::nullopt);
  const auto tags = ParseGroupTags(Tagged({"volume-group=shop/db", "volume-group-members=-7"}));
  ASSERT_TRUE(tags.has_value());
  EXPECT_EQ(tags->members, 0);
}

}  // namespace
}  // namespace csidelta::incremental::volume_group_tags_test
