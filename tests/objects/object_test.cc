#include "objects/object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/access.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/node.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"
#include "objects/volume_group_snapshot.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/status_matchers.h"

namespace csidelta::objects::object_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const OwnerReference kSomeOwner = {.api_version = "apps/v1",
                                   .kind = "StatefulSet",
                                   .name = "db",
                                   .uid = "u-1",
                                   .is_controller = true};

TEST(ObjectTest, WhatIsNotNamedIsKept) {
  Object object(Json{{"kind", "New"}, {"spec", {{"future", 9007199254740993}}}});
  object.SetName("a");
  object.SetLabel("app", "db");
  object.SetAnnotation("note", "x");
  object.SetOwners({kSomeOwner});
  object.SetFinalizers({"one", "two"});
  EXPECT_EQ(object.json()["spec"]["future"], 9007199254740993);
  EXPECT_EQ(object.name(), "a");
  EXPECT_EQ(object.Label("app"), "db");
  EXPECT_THAT(object.owners(), ElementsAre(kSomeOwner));
  EXPECT_THAT(object.finalizers(), ElementsAre("one", "two"));
}

TEST(ObjectTest, RemovingTellsWhetherItWasThere) {
  Object object;
  object.SetLabel("app", "");
  object.SetFinalizers({"one", "two"});
  EXPECT_TRUE(object.HasLabel("app"));
  EXPECT_TRUE(object.RemoveLabel("app"));
  EXPECT_FALSE(object.RemoveLabel("app"));
  EXPECT_FALSE(object.RemoveAnnotation("app"));
  EXPECT_TRUE(object.RemoveFinalizer("one"));
  EXPECT_FALSE(object.RemoveFinalizer("one"));
  EXPECT_THAT(object.finalizers(), ElementsAre("two"));
}

TEST(ObjectTest, NoneOfSomethingIsNoField) {
  Object object;
  object.SetLabels({});
  object.SetAnnotations({});
  object.SetOwners({});
  object.SetFinalizers({});
  EXPECT_TRUE(object.json().empty() || !object.json().contains("metadata") ||
              object.json()["metadata"].empty())
      << object.json();
}

TEST(ObjectTest, OwnersThatStayAreKeptAsTheyAreWritten) {
  const Json kept = {{"apiVersion", "v1"}, {"kind", "Node"}, {"unknown", 7}};
  const Json json = {
      {"metadata", {{"ownerReferences", Json::array({kept, ToJson(std::vector{kSomeOwner})[0]})}}}};
  Object object(json);
  const auto is_some_owner = [](const OwnerReference& owner) { return owner == kSomeOwner; };
  EXPECT_TRUE(object.RemoveOwners(is_some_owner));
  EXPECT_FALSE(object.RemoveOwners(is_some_owner));
  EXPECT_EQ(object.json()["metadata"]["ownerReferences"], Json::array({kept}));
  EXPECT_EQ(Patch().SetOwnersOf(object).json()["metadata"]["ownerReferences"], Json::array({kept}));
  EXPECT_TRUE(object.RemoveOwners([](const OwnerReference&) { return true; }));
  EXPECT_FALSE(object.json()["metadata"].contains("ownerReferences"));
  EXPECT_TRUE(Patch().SetOwnersOf(object).json()["metadata"]["ownerReferences"].is_null());
}

TEST(ObjectTest, AWrongTypeIsTakenForNothing) {
  const Object object(Json{
      {"metadata",
       {{"name", 7}, {"labels", "odd"}, {"finalizers", {{"a", 1}}}, {"ownerReferences", "odd"}}}});
  EXPECT_EQ(object.name(), "");
  EXPECT_THAT(object.labels(), IsEmpty());
  EXPECT_THAT(object.finalizers(), IsEmpty());
  EXPECT_THAT(object.owners(), IsEmpty());
  EXPECT_FALSE(Object(Json("text")).is_being_deleted());
  EXPECT_EQ(Object(Json()).kind(), "");
}

TEST(ObjectTest, AKindRefusesAnotherAndTakesTheItemOfAList) {
  const Object pvc(Json{{"kind", "PersistentVolumeClaim"}});
  EXPECT_THAT(PersistentVolumeClaim::From(pvc), IsOk());
  EXPECT_THAT(VolumeSnapshot::From(pvc), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr("found PersistentVolumeClaim")));
  for (const Json& other : {Json::array(), Json("text"), pvc.json()}) {
    EXPECT_THAT(VolumeSnapshot::Of(other), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(VolumeSnapshot::Of({{"metadata", {{"name", "x"}}}}), IsOk());
}

TEST(ObjectTest, ANewOneNamesItsKind) {
  const auto pvc = PersistentVolumeClaim::Make("shop", "data");
  EXPECT_EQ(pvc.json(), Json({{"apiVersion", "v1"},
                              {"kind", "PersistentVolumeClaim"},
                              {"metadata", {{"name", "data"}, {"namespace", "shop"}}}}));
  EXPECT_EQ(ToString(pvc.key()), ToString(PersistentVolumeClaim::Key("shop", "data")));
  const auto group = VolumeGroupSnapshot::Make("v1beta1", "shop", "g");
  EXPECT_EQ(group.api_version(), "groupsnapshot.storage.k8s.io/v1beta1");
  EXPECT_EQ(group.key().type.version, "v1beta1");
  EXPECT_EQ(group.key().type.group, "groupsnapshot.storage.k8s.io");
}

TEST(PatchTest, ChangesWhatItNamesAndNothingElse) {
  support::FakeApiClient api;
  auto pvc = PersistentVolumeClaim::Make("shop", "data");
  pvc.SetLabels({{"app", "db"}, {"old", "x"}});
  const auto stored = Create({}, api, pvc);
  ASSERT_THAT(stored, IsOk());
  const auto patched = Apply<PersistentVolumeClaim>({}, api, pvc.key(),
                                                    Patch()
                                                        .SetLabel("new", "y")
                                                        .RemoveLabel("old")
                                                        .SetAnnotation("note", "z")
                                                        .SetOwners({kSomeOwner})
                                                        .IfVersion(stored->resource_version()));
  ASSERT_THAT(patched, IsOk());
  EXPECT_EQ(patched->labels(), (std::map<std::string, std::string>{{"app", "db"}, {"new", "y"}}));
  EXPECT_EQ(patched->Annotation("note"), "z");
  EXPECT_THAT(patched->owners(), ElementsAre(kSomeOwner));
  EXPECT_THAT(Apply({}, api, pvc.key(),
                    Patch().SetLabel("new", "late").IfVersion(stored->resource_version())),
              StatusIs(absl::StatusCode::kAborted));
}

TEST(ClientTest, ALabelIsRemovedOnlyWhereItHasTheValue) {
  support::FakeApiClient api;
  auto pvc = PersistentVolumeClaim::Make("shop", "data");
  pvc.SetLabels({{"csi-delta.io/mark", "mine"}, {"app", "db"}});
  ASSERT_THAT(Create({}, api, pvc), IsOk());
  EXPECT_THAT(RemoveLabelIf({}, api, pvc.key(), "csi-delta.io/mark", "another's"), IsOk());
  EXPECT_EQ(Get<PersistentVolumeClaim>({}, api, pvc.key())->Label("csi-delta.io/mark"), "mine");
  EXPECT_THAT(RemoveLabelIf({}, api, pvc.key(), "csi-delta.io/mark", "mine"), IsOk());
  EXPECT_THAT(Get<PersistentVolumeClaim>({}, api, pvc.key())->labels(),
              ElementsAre(std::pair("app", "db")));
  EXPECT_THAT(RemoveLabelIf({}, api, pvc.key(), "csi-delta.io/mark", "mine"), IsOk());
  EXPECT_THAT(RemoveLabelIf({}, api, PersistentVolumeClaim::Key("shop", "none"), "l", "v"), IsOk());
}

TEST(ClientTest, WhatIsNotThereIsNothingAndAnErrorIsAnError) {
  support::FakeApiClient api;
  const k8s::ObjectKey key = PersistentVolumeClaim::Key("shop", "data");
  const auto none = Find<PersistentVolumeClaim>({}, api, key);
  ASSERT_THAT(none, IsOk());
  EXPECT_FALSE(none->has_value());
  api.FailNext("get", "persistentvolumeclaims", absl::UnavailableError("injected"));
  EXPECT_THAT(Find<PersistentVolumeClaim>({}, api, key), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(CreateOrGet({}, api, PersistentVolumeClaim::Make("shop", "data")), IsOk());
  EXPECT_THAT(CreateOrGet({}, api, PersistentVolumeClaim::Make("shop", "data")), IsOk());
  EXPECT_EQ(List<PersistentVolumeClaim>({}, api, "shop")->size(), 1U);
}

TEST(ClientTest, APageHasWhatIsOfTheKind) {
  support::FakeApiClient api;
  ASSERT_THAT(Create({}, api, PersistentVolumeClaim::Make("shop", "data")), IsOk());
  std::vector<std::string> names;
  ASSERT_THAT(ReadPages<PersistentVolumeClaim>(
                  {}, api, PersistentVolumeClaim::Type(), "shop", {},
                  [&](const std::vector<PersistentVolumeClaim>& page, bool is_first) {
                    EXPECT_TRUE(is_first);
                    for (const PersistentVolumeClaim& pvc : page) {
                      names.push_back(pvc.name());
                    }
                  }),
              IsOk());
  EXPECT_THAT(names, ElementsAre("data"));
  const auto others = [](const std::vector<VolumeGroupSnapshot>& page, bool) {
    EXPECT_THAT(page, IsEmpty());
  };
  EXPECT_THAT(
      ReadPages<VolumeGroupSnapshot>({}, api, PersistentVolumeClaim::Type(), "shop", {}, others),
      IsOk());
}

TEST(TokenRequestTest, AsksForOneAudienceAndReadsTheAnswer) {
  TokenRequest request = TokenRequest::For("metadata", absl::Minutes(10));
  request.BindToPod("mover", "u-1");
  EXPECT_EQ(request.json(),
            Json::parse(R"({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
              "spec": {"audiences": ["metadata"], "expirationSeconds": 600,
                       "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "mover",
                                          "uid": "u-1"}}})"));
  EXPECT_EQ(request.token(), "");
  const auto answer = TokenRequest::Of(
      {{"status", {{"token", "t"}, {"expirationTimestamp", "2023-11-14T22:13:20Z"}}}});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->token(), "t");
  EXPECT_EQ(answer->expires_at(), absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(SelfSubjectReview::Ask().json(), Json::parse(R"({"apiVersion":
              "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})"));
}

TEST(NodeSelectorTest, BothAskForWhatEachOfThemDoes) {
  const NodeSelector a = NodeSelector::OfNode("a");
  EXPECT_TRUE(NodeSelector().selects_all());
  EXPECT_EQ(NodeSelector().ToText(), "");
  EXPECT_EQ(Both(a, {}), a);
  EXPECT_EQ(Both({}, a), a);
  EXPECT_EQ(*NodeSelector::Parse(a.ToText()), a);
  EXPECT_TRUE(NodeSelector::Parse("")->selects_all());
  EXPECT_THAT(NodeSelector::Parse("[]"), StatusIs(absl::StatusCode::kInvalidArgument));
  const Node node = *Node::Of({{"metadata", {{"name", "a"}}}});
  EXPECT_TRUE(node.IsSelectedBy(a));
  EXPECT_FALSE(node.IsSelectedBy(Both(a, NodeSelector::OfNode("b"))));
  // As the scheduler has it: what has no terms selects nothing.
  EXPECT_FALSE(node.IsSelectedBy(NodeSelector(Json{{"nodeSelectorTerms", Json::array()}})));
}

TEST(GroupPlanTest, IsReadAsItWasWritten) {
  const std::vector<PlannedGroupMember> plan = {
      {.pvc = "data", .pvc_uid = "u", .volume_handle = "v", .snapshot_handle = ""},
      {.pvc = "log", .pvc_uid = "w", .volume_handle = "x", .snapshot_handle = "s"}};
  const std::string text = FormatGroupPlan(plan);
  EXPECT_EQ(text, R"([{"claim":"data","claimUid":"u","volumeHandle":"v"},)"
                  R"({"claim":"log","claimUid":"w","snapshotHandle":"s","volumeHandle":"x"}])");
  EXPECT_EQ(ParseGroupPlan(text), plan);
  EXPECT_EQ(
      FormatGroupPlan({{.pvc = "", .pvc_uid = "", .volume_handle = "v", .snapshot_handle = "s"}}),
      R"([{"snapshotHandle":"s","volumeHandle":"v"}])");
  EXPECT_THAT(ParseGroupPlan("{}"), IsEmpty());
  EXPECT_THAT(ParseGroupPlan("["), IsEmpty());
}

TEST(ResourceQuotaTest, ZeroIsANumberAndNothingIsNone) {
  const auto quota = ResourceQuota::Of(
      {{"status", {{"hard", {{"count/x", "0"}}}, {"used", {{"count/x", "odd"}}}}}});
  ASSERT_THAT(quota, IsOk());
  EXPECT_EQ(quota->Hard("count/x"), 0);
  EXPECT_EQ(quota->Used("count/x"), std::nullopt);
  EXPECT_EQ(quota->Hard("count/y"), std::nullopt);
}

}  // namespace
}  // namespace csidelta::objects::object_test
