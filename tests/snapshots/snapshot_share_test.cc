// Sharing a VolumeSnapshot with another namespace, and what keeps the shared one.
#include "snapshots/snapshot_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_shares.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "snapshots/snapshot_inventory.h"
#include "snapshots/snapshot_removal.h"
#include "tests/support/fake_snapshot_cluster.h"
#include "tests/support/kind_names.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/status_matchers.h"

namespace csidelta::snapshots::snapshot_share_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDriverName[] = "d.example.com";

// A VolumeSnapshot of namespace shop that is ready, and namespace team, which is to use it.
class SnapshotShareTest : public testing::Test {
 protected:
  SnapshotShareTest() {
    bed_.clock.SetAutoAdvance(true);
    cluster_.strict = true;
    cluster_.driver().takes_any_handle = false;
    cluster_.driver().AddSnapshot("h");
    Json snapshot = support::MakeSnapshotObject("shop", "monday", "c",
                                                {{objects::kMadeByLabel, objects::kMadeByVerbs}});
    snapshot["status"]["readyToUse"] = true;
    snapshot["status"]["restoreSize"] = "64Mi";
    bed_.api.Seed(VolumeSnapshotType(), snapshot);
    Json content = support::MakeContentObject("c", "shop", "monday", "h");
    content["spec"]["driver"] = kDriverName;
    content["spec"]["sourceVolumeMode"] = "Block";
    content["metadata"]["annotations"] = {{objects::kDeletionSecretNameAnnotation, "key"},
                                          {objects::kDeletionSecretNamespaceAnnotation, "storage"}};
    bed_.api.Seed(VolumeSnapshotContentType(), content);
    object_count_ = bed_.api.object_count();
  }

  absl::StatusOr<SharePlan> Plan(const std::string& name = "") {
    return PlanShare(bed_.ctx, bed_.api,
                     {.source_namespace = "shop",
                      .snapshot_name = "monday",
                      .namespace_name = "team",
                      .name = name});
  }
  absl::StatusOr<objects::VolumeSnapshot> Share(const std::string& name = "") {
    absl::StatusOr<SharePlan> plan = Plan(name);
    if (!plan.ok()) {
      return plan.status();
    }
    return CarryOutShare(bed_.ctx.WithTimeout(absl::Minutes(1)), bed_.api, *plan);
  }
  std::optional<Json> Shared() { return bed_.api.Find(VolumeSnapshotKey("team", "monday")); }
  Json SharedContent() {
    return bed_.api.Find(VolumeSnapshotContentKey(ContentName())).value_or(Json());
  }
  static std::string ContentName() { return csi::SharedContentName("c-uid", "team", "monday"); }
  // Of shop/monday, as `names` and `requires_all` have it read.
  SnapshotEntry Source(std::vector<std::string> names = {}, bool requires_all = false) {
    const absl::StatusOr<Inventory> inventory =
        ReadInventory(bed_.ctx, bed_.api,
                      {.namespace_name = "shop",
                       .label_selector = "",
                       .names = std::move(names),
                       .requires_all = requires_all,
                       .mover_namespace = "csi-delta",
                       .now = bed_.clock.Now() + absl::Hours(1)});
    EXPECT_THAT(inventory, IsOk());
    EXPECT_EQ(inventory->entries.size(), 1);
    return inventory->entries.front();
  }
  static bool IsKeptAsShared(const std::vector<Finding>& kept_for) {
    for (const Finding& one : kept_for) {
      if (one.code == "Shared") {
        EXPECT_THAT(one.message, HasSubstr("shared with team/monday"));
        return true;
      }
    }
    return false;
  }
  void ExpectNothingMade() {
    EXPECT_EQ(bed_.api.object_count(), object_count_);
    EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
    EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshots"), 0);
  }

  support::ActionBed bed_;
  support::FakeSnapshotCluster cluster_{bed_.api};
  int object_count_ = 0;
};

TEST_F(SnapshotShareTest, LeavesARetainPairThatCanBeUsed) {
  const auto shared = Share();
  ASSERT_THAT(shared, IsOk());
  EXPECT_TRUE(shared->is_ready());
  EXPECT_EQ(k8s::Annotation(*Shared(), objects::kSharedFromAnnotation), "shop/monday");
  const Json content = SharedContent();
  EXPECT_EQ(GetString(content, {"spec", "deletionPolicy"}), "Retain");
  EXPECT_EQ(GetString(content, {"spec", "source", "snapshotHandle"}), "h");
  EXPECT_EQ(GetString(content, {"spec", "sourceVolumeMode"}), "Block");
  EXPECT_EQ(k8s::Annotation(content, objects::kDeletionSecretNameAnnotation), "key");
  EXPECT_EQ(k8s::Annotation(content, objects::kSharedFromAnnotation), "shop/monday");
}

TEST_F(SnapshotShareTest, ASecondRunChangesNothing) {
  ASSERT_THAT(Share(), IsOk());
  const Json before = SharedContent();
  const int count = bed_.api.object_count();
  const auto plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->was_begun);
  EXPECT_FALSE(plan->has_leftover);
  ASSERT_THAT(Share(), IsOk());
  EXPECT_EQ(bed_.api.object_count(), count);
  EXPECT_EQ(k8s::Uid(SharedContent()), k8s::Uid(before));
  const Json source = *bed_.api.Find(VolumeSnapshotContentKey("c"));
  EXPECT_EQ(k8s::Annotation(source, objects::kSharedWithAnnotation), "team/monday");
}

TEST_F(SnapshotShareTest, TheSourceIsKeptAndNamesItsShares) {
  ASSERT_THAT(Share(), IsOk());
  for (const SnapshotEntry& entry :
       {Source(), Source({"monday"}), Source({}, /*requires_all=*/true)}) {
    EXPECT_TRUE(IsKeptAsShared(entry.kept_for));
    EXPECT_TRUE(IsKeptAsShared(entry.kept_for_person));
    EXPECT_THAT(entry.shared_with, ElementsAre("team/monday"));
  }
}

TEST_F(SnapshotShareTest, OfOneThatIsNamedNoContentsAreListed) {
  ASSERT_THAT(Share(), IsOk());
  EXPECT_TRUE(IsKeptAsShared(Source({"monday"}).kept_for_person));
  EXPECT_EQ(bed_.api.CallCount("list", "volumesnapshotcontents"), 0);
}

TEST_F(SnapshotShareTest, OnceTheOtherIsDeletedTheSourceIsFree) {
  ASSERT_THAT(Share(), IsOk());
  const auto others = ReadInventory(bed_.ctx, bed_.api,
                                    {.namespace_name = "team",
                                     .label_selector = "",
                                     .names = {"monday"},
                                     .mover_namespace = "csi-delta",
                                     .now = bed_.clock.Now()});
  ASSERT_THAT(others, IsOk());
  const SnapshotEntry& entry = others->entries.front();
  EXPECT_THAT(entry.kept_for_person, IsEmpty());
  EXPECT_EQ(ActionOf(entry, false), DataAction::kKept);
  ASSERT_THAT(RemoveAsRead(bed_.ctx, bed_.api, entry, {}), IsOk());
  ASSERT_THAT(RemoveKeptContent(bed_.ctx.WithTimeout(absl::Minutes(1)), bed_.api, entry), IsOk());
  EXPECT_FALSE(IsKeptAsShared(Source().kept_for));
  EXPECT_FALSE(IsKeptAsShared(Source({"monday"}).kept_for_person));
  EXPECT_THAT(cluster_.driver().snapshots(), ElementsAre("h")) << "the data is the source's";
}

TEST_F(SnapshotShareTest, AContentThatStaysBehindKeepsNothingAndIsReplaced) {
  ASSERT_THAT(Share(), IsOk());
  ASSERT_THAT(bed_.api.Delete(bed_.ctx, VolumeSnapshotKey("team", "monday"), {}), IsOk());
  ASSERT_FALSE(Shared().has_value());
  const Json left = SharedContent();
  ASSERT_FALSE(left.is_null());
  EXPECT_FALSE(IsKeptAsShared(Source({"monday"}).kept_for_person));
  EXPECT_FALSE(IsKeptAsShared(Source({}, /*requires_all=*/true).kept_for));
  ASSERT_THAT(Share(), IsOk());
  EXPECT_NE(k8s::Uid(SharedContent()), k8s::Uid(left));
  EXPECT_TRUE(IsKeptAsShared(Source({"monday"}).kept_for_person));
}

TEST_F(SnapshotShareTest, ItsDataIsNotDeletedByThoseItIsSharedWith) {
  ASSERT_THAT(Share(), IsOk());
  const auto others = ReadInventory(bed_.ctx, bed_.api,
                                    {.namespace_name = "team",
                                     .label_selector = "",
                                     .names = {"monday"},
                                     .mover_namespace = "csi-delta",
                                     .now = bed_.clock.Now()});
  ASSERT_THAT(others, IsOk());
  EXPECT_THAT(RemoveAsRead(bed_.ctx, bed_.api, others->entries.front(),
                           {.with_data = true, .mover_namespace = "csi-delta"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("shop/monday"), HasSubstr("--with-data"))));
  EXPECT_TRUE(Shared().has_value());
  EXPECT_EQ(GetString(SharedContent(), {"spec", "deletionPolicy"}), "Retain");
}

TEST_F(SnapshotShareTest, WithoutARightOnEitherEndNothingIsMade) {
  struct Missing {
    const char* verb;
    const char* plural;
    const char* space;
    const char* text;
  };
  for (const Missing& one :
       std::vector<Missing>{{"get", "volumesnapshots", "shop", "csi-delta-snapshot-user"},
                            {"get", "volumesnapshots", "team", "csi-delta-snapshot-user"},
                            {"create", "volumesnapshots", "team", "csi-delta-snapshot-user"},
                            {"delete", "volumesnapshots", "team", "csi-delta-snapshot-user"},
                            {"get", "volumesnapshotcontents", "", "csi-delta-snapshot-reader"},
                            {"create", "volumesnapshotcontents", "", "csi-delta-snapshot-admin"},
                            {"patch", "volumesnapshotcontents", "", "csi-delta-snapshot-admin"},
                            {"delete", "volumesnapshotcontents", "", "csi-delta-snapshot-admin"}}) {
    bed_.api.Forbid(one.verb, one.plural, one.space);
    EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kPermissionDenied,
                                  AllOf(HasSubstr(one.plural), HasSubstr(one.text))))
        << one.verb << " " << one.plural;
    bed_.api.ClearFaults();
  }
  ExpectNothingMade();
}

TEST_F(SnapshotShareTest, WhatIsNotTheSourcesIsNotShared) {
  const auto change = [&](JsonPath path, const Json& value) {
    bed_.api.Mutate(VolumeSnapshotContentKey("c"),
                    [&](Json& content) { SetJson(content, path, value); });
  };
  change({"spec", "volumeSnapshotRef", "uid"}, "another");
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not used")));
  change({"spec", "volumeSnapshotRef", "uid"}, "");
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not used")));
  change({"spec", "volumeSnapshotRef", "uid"}, "monday-uid");
  change({"spec", "volumeSnapshotRef", "name"}, "another");
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not used")));
  change({"spec", "volumeSnapshotRef", "name"}, "monday");
  change({"metadata", "annotations", objects::kSharedFromAnnotation}, "other/monday");
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("other/monday")));
  ExpectNothingMade();
}

TEST_F(SnapshotShareTest, OneThatIsNotReadyOrMissingIsNotShared) {
  bed_.api.Mutate(VolumeSnapshotKey("shop", "monday"),
                  [](Json& snapshot) { snapshot["status"]["readyToUse"] = false; });
  EXPECT_THAT(Share(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("once it is Rea")));
  bed_.api.Remove(VolumeSnapshotContentKey("c"));
  EXPECT_THAT(Share(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has lost its content c")));
  bed_.api.Mutate(VolumeSnapshotKey("shop", "monday"), [](Json& snapshot) {
    EraseJson(snapshot, {"status", "boundVolumeSnapshotContentName"});
  });
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("has no VolumeSnapshotContent yet")));
  bed_.api.Remove(VolumeSnapshotKey("shop", "monday"));
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("snapshot list -n shop")));
  EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
}

TEST_F(SnapshotShareTest, ANameThatIsTakenIsRefused) {
  bed_.api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject("team", "monday", ""));
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--name")));
  EXPECT_THAT(Share("theirs"), IsOk());
  EXPECT_THAT(Share("No Name"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      PlanShare(bed_.ctx, bed_.api,
                {.source_namespace = "shop", .snapshot_name = "monday", .namespace_name = "shop"}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--to")));
  EXPECT_THAT(
      PlanShare(
          bed_.ctx, bed_.api,
          {.source_namespace = "shop", .snapshot_name = "monday", .namespace_name = "No Name"}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"No Name\"")));
}

TEST_F(SnapshotShareTest, WhatAnEarlierRunLeftIsToldApart) {
  ASSERT_THAT(Share(), IsOk());
  const k8s::ObjectKey snapshot_key = VolumeSnapshotKey("team", "monday");
  const k8s::ObjectKey content_key = VolumeSnapshotContentKey(ContentName());
  const Json snapshot = *Shared();
  const Json content = SharedContent();
  const auto plan = [this] {
    const auto made = Plan();
    EXPECT_THAT(made, IsOk());
    return made.ok() ? std::pair(made->was_begun, made->has_leftover) : std::pair(false, false);
  };
  bed_.api.Remove(content_key);
  EXPECT_EQ(plan(), std::pair(true, false)) << "the VolumeSnapshot alone";
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  bed_.api.Remove(snapshot_key);
  EXPECT_EQ(plan(), std::pair(true, true)) << "a content of one that is gone";
  Json unbound = content;
  SetJson(unbound, {"spec", "volumeSnapshotRef", "uid"}, "");
  bed_.api.Seed(VolumeSnapshotContentType(), unbound);
  EXPECT_EQ(plan(), std::pair(true, false)) << "a content whose VolumeSnapshot was not made yet";
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  Json another = snapshot;
  SetJson(another, {"metadata", "uid"}, "another");
  bed_.api.Seed(VolumeSnapshotType(), another);
  EXPECT_EQ(plan(), std::pair(true, true)) << "a content of an earlier one of the name";
  bed_.api.Seed(VolumeSnapshotType(), snapshot);
  EXPECT_EQ(plan(), std::pair(true, false));
  bed_.api.Mutate(content_key, [](Json& object) {
    SetJson(object, {"metadata", "deletionTimestamp"}, "2026-11-26T08:00:00Z");
  });
  EXPECT_EQ(plan(), std::pair(true, true)) << "a content that is being deleted";
}

// `count` other namespaces that share it, and are there.
void SeedShares(support::FakeApiClient& api, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string space = absl::StrCat("team-", i);
    const std::string content = csi::SharedContentName("c-uid", space, "monday");
    api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject(space, "monday", content));
    api.Seed(VolumeSnapshotContentType(),
             support::MakeContentObject(content, space, "monday", "h"));
    absl::StrAppend(&text, text.empty() ? "" : ",", space, "/monday");
  }
  api.Mutate(VolumeSnapshotContentKey("c"), [&](Json& content) {
    SetJson(content, {"metadata", "annotations", objects::kSharedWithAnnotation}, text);
  });
}

TEST_F(SnapshotShareTest, ThereAreNotMoreThanTheAnnotationMayHold) {
  SeedShares(bed_.api, kSharesMax);
  EXPECT_THAT(Plan(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr(absl::StrCat("is shared ", kSharesMax, " times"))))
      << "before anything is written";
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr(absl::StrCat("is shared ", kSharesMax, " times"))));
  bed_.api.Remove(VolumeSnapshotKey("team-0", "monday"));
  ASSERT_THAT(Share(), IsOk()) << "one of them is gone";
  EXPECT_THAT(Share(), IsOk()) << "the last one is there already";
  EXPECT_THAT(Share("another"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(SnapshotShareTest, ThoseThatAreGoneAreForgotten) {
  SeedShares(bed_.api, 2);
  bed_.api.Remove(VolumeSnapshotKey("team-0", "monday"));
  ASSERT_THAT(Share(), IsOk());
  EXPECT_EQ(k8s::Annotation(*bed_.api.Find(VolumeSnapshotContentKey("c")),
                            objects::kSharedWithAnnotation),
            "team-1/monday,team/monday");
}

TEST_F(SnapshotShareTest, AShareIsThereUnlessItIsKnownNotToBe) {
  SeedShares(bed_.api, 1);
  const csi::SharedSnapshot share{
      .namespace_name = "team-0",
      .name = "monday",
      .content_name = csi::SharedContentName("c-uid", "team-0", "monday")};
  const auto is_there = [&] {
    const auto answer = csi::IsShareThere(bed_.ctx, bed_.api, share);
    EXPECT_THAT(answer, IsOk());
    return answer.value_or(false);
  };
  EXPECT_TRUE(is_there());
  bed_.api.Forbid("get", "volumesnapshotcontents");
  EXPECT_TRUE(is_there());
  bed_.api.ClearFaults();
  bed_.api.Forbid("get", "volumesnapshots");
  EXPECT_TRUE(is_there());
  const Json content = *bed_.api.Find(VolumeSnapshotContentKey(share.content_name));
  bed_.api.Remove(VolumeSnapshotContentKey(share.content_name));
  EXPECT_FALSE(is_there());
  bed_.api.ClearFaults();
  Json foreign = content;
  SetJson(foreign, {"spec", "volumeSnapshotRef", "name"}, "another");
  bed_.api.Seed(VolumeSnapshotContentType(), foreign);
  EXPECT_FALSE(is_there());
  bed_.api.Seed(VolumeSnapshotContentType(), content);
  bed_.api.Remove(VolumeSnapshotKey("team-0", "monday"));
  EXPECT_FALSE(is_there());
}

TEST_F(SnapshotShareTest, WhicheverRequestFailsTheNextRunFinishes) {
  for (int n = 1;; ++n) {
    bed_.api.FailCall(n, absl::UnavailableError("the server is away"));
    const auto first = Share();
    if (!bed_.api.sweep_hit()) {
      EXPECT_GT(n, 10);
      break;
    }
    bed_.api.ClearFaults();
    ASSERT_THAT(Share(), IsOk()) << n << " " << first.status();
    EXPECT_TRUE(IsKeptAsShared(Source({"monday"}).kept_for_person)) << n;
    EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0) << n;
    bed_.api.Remove(VolumeSnapshotKey("team", "monday"));
    bed_.api.Remove(VolumeSnapshotContentKey(ContentName()));
  }
}

TEST_F(SnapshotShareTest, ASourceThatIsDeletedMeanwhileIsNotShared) {
  bed_.api.OnCreate("volumesnapshots", [](support::FakeApiClient& api, const Json&) {
    api.Remove(VolumeSnapshotKey("shop", "monday"));
  });
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("was deleted"), HasSubstr("deleted again"))));
  EXPECT_EQ(cluster_.driver().CallCount("DeleteSnapshot"), 0);
}

TEST_F(SnapshotShareTest, AnotherChangeOfTheContentIsNotLost) {
  bool is_first = true;
  bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "patch" && std::exchange(is_first, false)) {
      bed_.api.Mutate(VolumeSnapshotContentKey("c"), [](Json& content) {
        SetJson(content, {"metadata", "annotations", objects::kSharedWithAnnotation}, "b/x");
      });
      bed_.api.Seed(
          VolumeSnapshotContentType(),
          support::MakeContentObject(csi::SharedContentName("c-uid", "b", "x"), "b", "x", "h"));
      bed_.api.Seed(VolumeSnapshotType(), support::MakeSnapshotObject(
                                              "b", "x", csi::SharedContentName("c-uid", "b", "x")));
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(Share(), IsOk());
  EXPECT_EQ(k8s::Annotation(*bed_.api.Find(VolumeSnapshotContentKey("c")),
                            objects::kSharedWithAnnotation),
            "b/x,team/monday");
}

TEST_F(SnapshotShareTest, AContentThatBecomesAnothersIsNotWritten) {
  bool is_first = true;
  bed_.api.SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.verb == "patch" && std::exchange(is_first, false)) {
      bed_.api.Mutate(VolumeSnapshotContentKey("c"), [](Json& content) {
        SetJson(content, {"spec", "volumeSnapshotRef", "uid"}, "another");
      });
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Share(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not used")));
  EXPECT_EQ(bed_.api.CallCount("create", "volumesnapshotcontents"), 0);
}

TEST(SnapshotSharesTest, WhatIsMalformedNamesNothing) {
  Json object = support::MakeContentObject("c", "shop", "monday", "h");
  SetJson(object, {"metadata", "annotations", objects::kSharedWithAnnotation},
          ",a/b,/b,a/,a,a/b/c,A/b, a/b,\x1b[31m/x,d/e");
  const auto content = objects::VolumeSnapshotContent::Of(object);
  std::vector<std::string> names;
  for (const csi::SharedSnapshot& one : csi::SharesOf(*content)) {
    names.push_back(absl::StrCat(one.namespace_name, "/", one.name));
    EXPECT_EQ(one.content_name, csi::SharedContentName("c-uid", one.namespace_name, one.name));
  }
  EXPECT_THAT(names, ElementsAre("a/b", "d/e"));
  EXPECT_EQ(csi::SharesText(csi::SharesOf(*content)), "a/b,d/e");
}

}  // namespace
}  // namespace csidelta::snapshots::snapshot_share_test
