#include "objects/volume_group_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::objects::volume_group_snapshot_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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
              StatusIs(absl::StatusCode::kInvalidArgument));
}

Json Owner(const std::string& api_version, const std::string& kind, const std::string& uid) {
  return {{"apiVersion", api_version}, {"kind", kind}, {"name", "g"}, {"uid", uid}};
}

VolumeSnapshot OwnedBy(const Json& owner) {
  return support::As<VolumeSnapshot>({{"metadata", {{"ownerReferences", Json::array({owner})}}}});
}

TEST(VolumeGroupSnapshotTest, MembersAreToldByOwnerInWhicheverVersion) {
  for (const char* version : {"v1", "v1beta2", "v1beta1", "v1alpha1"}) {
    const VolumeSnapshot member = OwnedBy(Owner(
        "groupsnapshot.storage.k8s.io/" + std::string(version), "VolumeGroupSnapshot", "uid"));
    EXPECT_TRUE(member.IsMemberOf("uid")) << version;
    EXPECT_FALSE(member.IsMemberOf("another"));
    EXPECT_EQ(member.group_owner()->name, "g");
  }
  for (const VolumeSnapshot& other :
       {OwnedBy(Owner("other.io/v1", "VolumeGroupSnapshot", "uid")),
        OwnedBy(Owner("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotClass", "uid")),
        OwnedBy(7), VolumeSnapshot(),
        support::As<VolumeSnapshot>({{"metadata", {{"ownerReferences", "x"}}}})}) {
    EXPECT_FALSE(other.IsMemberOf("uid"));
    EXPECT_EQ(other.group_owner(), std::nullopt);
  }
}

TEST(VolumeGroupSnapshotContentTest, MembersAreReadFromBothLists) {
  const Json entries = Json::array({{{"volumeHandle", "v1"}, {"snapshotHandle", "s1"}},
                                    {{"volumeHandle", "v2"}},
                                    "odd",
                                    {{"volumeHandle", "v3"}, {"snapshotHandle", "s3"}}});
  for (const char* list : {"volumeSnapshotInfoList", "volumeSnapshotHandlePairList"}) {
    const auto content = support::As<VolumeGroupSnapshotContent>({{"status", {{list, entries}}}});
    EXPECT_THAT(content.members(), ElementsAre(GroupMember{"v1", "s1"}, GroupMember{"v3", "s3"}))
        << list;
  }
  const auto imported = support::As<VolumeGroupSnapshotContent>(
      {{"spec",
        {{"source",
          {{"groupSnapshotHandles",
            {{"volumeGroupSnapshotHandle", "g"},
             {"volumeSnapshotHandles", Json::array({"s1", 5, "", "s2"})}}}}}}}});
  EXPECT_THAT(imported.members(), ElementsAre(GroupMember{"", "s1"}, GroupMember{"", "s2"}));
  EXPECT_EQ(imported.handle_or_source(), "g");
  for (const Json& odd : {Json::object(), Json{{"status", {{"volumeSnapshotInfoList", 7}}}}}) {
    const auto content = support::As<VolumeGroupSnapshotContent>(odd);
    EXPECT_THAT(content.members(), IsEmpty());
    EXPECT_EQ(content.handle_or_source(), "");
  }
}

TEST(VolumeGroupSnapshotTest, AnObjectSaysItsVersion) {
  auto group =
      support::As<VolumeGroupSnapshot>({{"apiVersion", "groupsnapshot.storage.k8s.io/v1beta1"}});
  EXPECT_EQ(group.version(), "v1beta1");
  group.SetVersion("v1beta2");
  EXPECT_EQ(group.api_version(), "groupsnapshot.storage.k8s.io/v1beta2");
  EXPECT_EQ(group.version(), "v1beta2");
  for (const Json& odd : {Json::object(), Json{{"apiVersion", 1}}, Json{{"apiVersion", "v3"}}}) {
    EXPECT_EQ(support::As<VolumeGroupSnapshot>(odd).version(), "v1");
  }
}

TEST(GroupKindsTest, AreThoseThatTheClusterServes) {
  support::FakeApiClient api;
  api.Seed(VolumeGroupSnapshotClass::Type(), {{"metadata", {{"name", "c"}}}});
  const auto kinds = FindGroupKinds({}, api);
  ASSERT_THAT(kinds, IsOk());
  EXPECT_EQ(kinds->version, "v1");
  EXPECT_THAT(kinds->classes, SizeIs(1));
  EXPECT_THAT(api.calls(), SizeIs(1));

  api.FailNext("list", "volumegroupsnapshotclasses", absl::NotFoundError("no v1"), 2);
  const auto old = FindGroupKinds({}, api);
  ASSERT_THAT(old, IsOk());
  EXPECT_EQ(old->version, "v1beta1");

  api.RemoveType("volumegroupsnapshotclasses");
  EXPECT_THAT(FindGroupKinds({}, api),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("CSIVolumeGroupSnapshot")));
}

}  // namespace
}  // namespace csidelta::objects::volume_group_snapshot_test
