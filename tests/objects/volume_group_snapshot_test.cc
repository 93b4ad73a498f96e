#include "objects/volume_group_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace csidelta::objects::volume_group_snapshot_test {
namespace {

bool Selects(const Json& selector, const std::map<std::string, std::string>& labels) {
  return VolumeGroupSnapshot::Of({{"spec", {{"source", {{"selector", selector}}}}}})
      ->Selects(labels);
}

Json Requirement(const char* how, const Json& values) {
  return {
      {"matchExpressions", Json::array({{{"key", "app"}, {"operator", how}, {"values", values}}})}};
}

TEST(VolumeGroupSnapshotTest, SelectsAsKubernetesDoes) {
  EXPECT_TRUE(Selects({{"matchLabels", {{"app", "db"}}}}, {{"app", "db"}, {"tier", "1"}}));
  EXPECT_FALSE(Selects({{"matchLabels", {{"app", "db"}}}}, {{"app", "web"}}));
  EXPECT_FALSE(Selects({{"matchLabels", {{"app", "db"}}}}, {}));
  EXPECT_TRUE(Selects(Requirement("In", {"db", "web"}), {{"app", "web"}}));
  EXPECT_FALSE(Selects(Requirement("In", {"db"}), {{"app", "web"}}));
  EXPECT_FALSE(Selects(Requirement("In", {"db"}), {}));
  EXPECT_FALSE(Selects(Requirement("NotIn", {"db"}), {{"app", "db"}}));
  EXPECT_TRUE(Selects(Requirement("NotIn", {"db"}), {}));
  EXPECT_TRUE(Selects(Requirement("Exists", Json::array()), {{"app", ""}}));
  EXPECT_FALSE(Selects(Requirement("Exists", Json::array()), {}));
  EXPECT_TRUE(Selects(Requirement("DoesNotExist", Json::array()), {}));
  EXPECT_FALSE(Selects(Requirement("DoesNotExist", Json::array()), {{"app", "db"}}));
  EXPECT_TRUE(Selects(Requirement("Near", Json::array()), {})) << "not understood";
  EXPECT_TRUE(Selects(Json::object(), {})) << "an empty selector takes all";
}

TEST(VolumeGroupSnapshotTest, OneOfAnExistingContentSelectsNothing) {
  const Json json = {
      {"kind", "VolumeGroupSnapshot"},
      {"spec", {{"source", {{"volumeGroupSnapshotContentName", "content-1"}}}}},
      {"status", {{"boundVolumeGroupSnapshotContentName", "content-1"}, {"readyToUse", true}}}};
  const auto group = VolumeGroupSnapshot::Of(json);
  EXPECT_FALSE(group->Selects({{"app", "db"}}));
  EXPECT_EQ(group->bound_content(), "content-1");
  EXPECT_TRUE(group->is_ready());
  EXPECT_THAT(VolumeGroupSnapshot::Of({{"kind", "VolumeSnapshot"}}),
              support::StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace csidelta::objects::volume_group_snapshot_test
