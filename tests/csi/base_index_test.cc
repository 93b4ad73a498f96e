#include "csi/base_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rfc3339.h"
#include "objects/keys.h"

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
    index_.OnEvent({.kind = k8s::WatchEvent::Kind::kModified, .object = content});
  }
  void Delete(const Json& content) {
    index_.OnEvent({.kind = k8s::WatchEvent::Kind::kDeleted, .object = content});
  }

  BaseIndex index_;
};

TEST_F(BaseIndexTest, KnowsNothingUntilTheListIsWhole) {
  index_.OnPage({Base("du-1", "a")}, /*is_first=*/true);
  EXPECT_EQ(index_.OfClaim("a"), std::nullopt);
  EXPECT_EQ(index_.Needs("d.example.com"), std::nullopt);
  index_.OnListed();
  EXPECT_THAT(Of("a"), ElementsAre("du-1"));
  EXPECT_THAT(Of("b"), IsEmpty());
}

TEST_F(BaseIndexTest, FollowsWhatIsDelivered) {
  index_.OnAll({Base("du-1", "a"), Base("du-2", "b"), Base("du-3", "a")});
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
  index_.OnAll({Base("du-4", "c")});
  EXPECT_THAT(Of("a"), IsEmpty());
  EXPECT_THAT(Of("c"), ElementsAre("du-4"));
}

TEST_F(BaseIndexTest, OneBaseThatIsNeededIsEnough) {
  index_.OnAll({Base("du-1", "a"), Base("du-2", "b", true), Base("du-3", "c", true)});
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
  index_.OnAll({old, newer});
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
