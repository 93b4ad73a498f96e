#include "csi/base_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "objects/keys.h"
#include "objects/volume_snapshot.h"

namespace csidelta::csi::base_index_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Json Base(const std::string& name, const std::string& claim_uid, bool is_needed = false) {
  Json content = {{"metadata",
                   {{"name", name},
                    {"labels", {{objects::kBaseLabel, "true"}}},
                    {"annotations", {{objects::kMoverClaimUidAnnotation, claim_uid}}}}},
                  {"spec", {{"driver", "d.example.com"}}}};
  if (is_needed) {
    content["metadata"]["labels"][objects::kBaseNeededLabel] = "true";
  }
  return content;
}

class BaseIndexTest : public testing::Test {
 protected:
  std::vector<std::string> Of(const std::string& claim_uid) const {
    const auto bases = index_.OfClaim(claim_uid);
    std::vector<std::string> names;
    for (const BaseSnapshot& base : bases.value_or(std::vector<BaseSnapshot>())) {
      names.push_back(base.content_name);
    }
    return names;
  }
  void Change(const Json& content) {
    informer_.OnEvent({.kind = k8s::WatchEvent::Kind::kModified, .object = content});
  }
  void Delete(const Json& content) {
    informer_.OnEvent({.kind = k8s::WatchEvent::Kind::kDeleted, .object = content});
  }

  BaseIndex index_;
  k8s::Informer informer_{BaseContents(), {&index_}};
};

TEST(BaseSnapshotTest, ReadsTheSameFromAReducedContent) {
  Json json = Base("du-1", "a", /*is_needed=*/true);
  for (const char* const annotation :
       {objects::kMoverVeleroNamespaceLabel, objects::kMoverLocationAnnotation,
        objects::kMoverClaimNamespaceAnnotation, objects::kMoverClaimAnnotation,
        objects::kMoverClusterAnnotation, "example.com/other"}) {
    SetJson(json, {"metadata", "annotations", annotation}, absl::StrCat("of ", annotation));
  }
  SetJson(json, {"metadata", "annotations", objects::kMoverTakenAtAnnotation},
          "2026-11-27T01:00:00Z");
  SetJson(json, {"metadata", "annotations", objects::kSourceSizeAnnotation}, "4096");
  SetJson(json, {"metadata", "labels", objects::kMoverTaskLabel}, "du-upload");
  SetJson(json, {"metadata", "creationTimestamp"}, "2026-11-27T02:00:00Z");
  SetJson(json, {"metadata", "deletionTimestamp"}, "2026-11-27T03:00:00Z");
  SetJson(json, {"metadata", "finalizers"}, Json::array({"example.com/finalizer"}));
  SetJson(json, {"spec", "source", "snapshotHandle"}, "source-handle");
  SetJson(json, {"spec", "volumeSnapshotRef", "name"}, "du-1");
  const auto content = objects::VolumeSnapshotContent::Of(json);
  ASSERT_TRUE(content.ok());
  objects::VolumeSnapshotContent held = *content;
  ReduceToBase(held);
  EXPECT_EQ(ReadBase(held), ReadBase(*content));
  EXPECT_EQ(ReadBase(held).upload, "upload");
  EXPECT_TRUE(held.is_being_deleted());
  EXPECT_EQ(held.Annotation("example.com/other"), "");
  EXPECT_EQ(held.snapshot_name(), "");

  SetJson(json, {"status"},
          {{"snapshotHandle", "handle"},
           {"creationTime", 1'795'862'075'579'627'725},
           {"restoreSize", 8192},
           {"readyToUse", true}});
  EraseJson(json, {"metadata", "annotations", objects::kSourceSizeAnnotation});
  held = *objects::VolumeSnapshotContent::Of(json);
  const BaseSnapshot whole = ReadBase(held);
  ReduceToBase(held);
  EXPECT_EQ(ReadBase(held), whole);
  EXPECT_EQ(whole.size_bytes, 8192);
}

TEST_F(BaseIndexTest, ReturnsNothingUntilTheListIsComplete) {
  informer_.OnPage({Base("du-1", "a")}, /*is_first=*/true);
  EXPECT_EQ(index_.OfClaim("a"), std::nullopt);
  EXPECT_EQ(index_.Needs("d.example.com"), std::nullopt);
  informer_.OnListed();
  EXPECT_THAT(Of("a"), ElementsAre("du-1"));
  EXPECT_THAT(Of("b"), IsEmpty());
}

TEST_F(BaseIndexTest, FollowsTheInformer) {
  informer_.OnAll({Base("du-1", "a"), Base("du-2", "b"), Base("du-3", "a")});
  EXPECT_THAT(Of("a"), ElementsAre("du-1", "du-3"));
  Delete(Base("du-1", "a"));
  EXPECT_THAT(Of("a"), ElementsAre("du-3"));
  Json going = Base("du-3", "a");
  going["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z";
  Change(going);
  EXPECT_THAT(Of("a"), IsEmpty());
  Change(Base("du-2", "a"));
  EXPECT_THAT(Of("a"), ElementsAre("du-2")) << "its PVC was rebound";
  EXPECT_THAT(Of("b"), IsEmpty());
  informer_.OnAll({Base("du-4", "c")});
  EXPECT_THAT(Of("a"), IsEmpty());
  EXPECT_THAT(Of("c"), ElementsAre("du-4"));
}

TEST_F(BaseIndexTest, OneBaseThatIsNeededIsEnough) {
  informer_.OnAll({Base("du-1", "a"), Base("du-2", "b", true), Base("du-3", "c", true)});
  EXPECT_EQ(index_.Needs("d.example.com"), true);
  EXPECT_EQ(index_.Needs("other.example.com"), false);
  Delete(Base("du-2", "b"));
  EXPECT_EQ(index_.Needs("d.example.com"), true);
  Change(Base("du-3", "c"));
  EXPECT_EQ(index_.Needs("d.example.com"), false);
}

TEST_F(BaseIndexTest, CountsBasesByDriverAndKnowsTheOldest) {
  EXPECT_THAT(index_.counts().by_driver, IsEmpty());
  EXPECT_EQ(index_.counts().oldest, std::nullopt);
  Json old = Base("du-1", "a");
  old["metadata"]["annotations"][objects::kMoverTakenAtAnnotation] = "2026-11-01T00:00:00Z";
  Json newer = Base("du-2", "b");
  newer["metadata"]["creationTimestamp"] = "2026-11-02T00:00:00Z";
  informer_.OnAll({old, newer});
  EXPECT_THAT(index_.counts().by_driver, ElementsAre(testing::Pair("d.example.com", 2)));
  EXPECT_EQ(index_.counts().oldest, ParseRfc3339("2026-11-01T00:00:00Z"));
  Delete(old);
  EXPECT_EQ(index_.counts().oldest, ParseRfc3339("2026-11-02T00:00:00Z"));
  Delete(newer);
  EXPECT_THAT(index_.counts().by_driver, ElementsAre(testing::Pair("d.example.com", 0)));
  EXPECT_EQ(index_.counts().oldest, std::nullopt);
}

}  // namespace
}  // namespace csidelta::csi::base_index_test
