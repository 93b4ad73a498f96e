#include "csi/group_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::csi::group_types_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Json Owner(const std::string& api_version, const std::string& kind, const std::string& uid) {
  return {{"apiVersion", api_version}, {"kind", kind}, {"name", "g"}, {"uid", uid}};
}

Json OwnedBy(const Json& owner) {
  return {{"metadata", {{"ownerReferences", Json::array({owner})}}}};
}

TEST(GroupTypesTest, MembersAreToldByOwnerInWhicheverVersion) {
  for (const char* version : {"v1", "v1beta2", "v1beta1", "v1alpha1"}) {
    const Json member = OwnedBy(Owner("groupsnapshot.storage.k8s.io/" + std::string(version),
                                      "VolumeGroupSnapshot", "uid"));
    EXPECT_TRUE(IsMemberOf(member, "uid")) << version;
    EXPECT_FALSE(IsMemberOf(member, "another"));
    EXPECT_EQ(GroupOwnerName(member), "g");
  }
  for (const Json& other :
       {OwnedBy(Owner("other.io/v1", "VolumeGroupSnapshot", "uid")),
        OwnedBy(Owner("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotClass", "uid")),
        OwnedBy(7), Json::object(), Json(3), Json{{"metadata", {{"ownerReferences", "x"}}}}}) {
    EXPECT_FALSE(IsMemberOf(other, "uid"));
    EXPECT_EQ(GroupOwnerName(other), "");
  }
}

TEST(GroupTypesTest, MembersOfAContentAreReadFromBothLists) {
  const Json entries = Json::array({{{"volumeHandle", "v1"}, {"snapshotHandle", "s1"}},
                                    {{"volumeHandle", "v2"}},
                                    "odd",
                                    {{"volumeHandle", "v3"}, {"snapshotHandle", "s3"}}});
  for (const char* list : {"volumeSnapshotInfoList", "volumeSnapshotHandlePairList"}) {
    const Json content = {{"status", {{list, entries}}}};
    EXPECT_THAT(GroupMembers(content),
                ElementsAre(GroupMember{"v1", "s1"}, GroupMember{"v3", "s3"}))
        << list;
  }
  const Json imported = {{"spec",
                          {{"source",
                            {{"groupSnapshotHandles",
                              {{"volumeGroupSnapshotHandle", "g"},
                               {"volumeSnapshotHandles", Json::array({"s1", 5, "", "s2"})}}}}}}}};
  EXPECT_THAT(GroupMembers(imported), ElementsAre(GroupMember{"", "s1"}, GroupMember{"", "s2"}));
  EXPECT_EQ(GroupHandleOf(imported), "g");
  for (const Json& odd : {Json(), Json(7), Json{{"status", {{"volumeSnapshotInfoList", 7}}}}}) {
    EXPECT_THAT(GroupMembers(odd), IsEmpty());
    EXPECT_EQ(GroupHandleOf(odd), "");
  }
}

TEST(GroupTypesTest, AnObjectSaysItsVersion) {
  EXPECT_EQ(GroupVersionOf({{"apiVersion", "groupsnapshot.storage.k8s.io/v1beta1"}}), "v1beta1");
  for (const Json& odd : {Json(), Json{{"apiVersion", 1}}, Json{{"apiVersion", "v3"}}}) {
    EXPECT_EQ(GroupVersionOf(odd), "v1");
  }
}

TEST(GroupTypesTest, TheKindsAreThoseThatTheClusterServes) {
  support::FakeApiClient api;
  api.Seed(VolumeGroupSnapshotClassType("v1"), {{"metadata", {{"name", "c"}}}});
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
}  // namespace csidelta::csi::group_types_test
