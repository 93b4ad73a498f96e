#include "plugin/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plugin/lister.h"

namespace csidelta::plugin::registry_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NullDelete final : public velero::DeleteItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return {}; }
  absl::Status Execute(const CallContext&, const objects::Object&,
                       const objects::Object&) override {
    return absl::OkStatus();
  }
};

class NullBlock final : public velero::ItemBlockAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return {}; }
  absl::StatusOr<std::vector<velero::ResourceIdentifier>> GetRelatedItems(
      const CallContext&, const objects::Object&, const objects::Object&) override {
    return std::vector<velero::ResourceIdentifier>();
  }
};

TEST(PluginNameTest, TakesWhatTheHostTakes) {
  for (const char* good : {"velero.io/csi-pvc", "a/b", "a-1.b-2/ any text", "x.y/\xc3\xa4"}) {
    EXPECT_TRUE(IsPluginName(good)) << good;
  }
}

TEST(PluginNameTest, RefusesWhatTheHostRefuses) {
  for (const std::string& bad :
       {std::string(), std::string("a"), std::string("/b"), std::string("a/"), std::string("a/b/c"),
        std::string("A/b"), std::string("a_b/c"), std::string("-a/b"), std::string("a-/b"),
        std::string("a..b/c"), std::string(".a/b"), std::string(254, 'a') + "/b"}) {
    EXPECT_FALSE(IsPluginName(bad)) << bad;
  }
}

TEST(ActionTableTest, FindsByName) {
  Registry registry;
  registry.deletion.Add("a.b/c", std::make_unique<NullDelete>());
  EXPECT_TRUE(registry.deletion.Find("a.b/c").ok());
  EXPECT_EQ(registry.deletion.Find("a.b/d").status().message(), "plugin a.b/d not found");
}

TEST(ActionTableDeathTest, TwiceTheSameNameIsABug) {
  Registry registry;
  registry.deletion.Add("a.b/c", std::make_unique<NullDelete>());
  EXPECT_DEATH(registry.deletion.Add("a.b/c", std::make_unique<NullDelete>()), "check failed");
  EXPECT_DEATH(registry.deletion.Add("nameless", std::make_unique<NullDelete>()), "check failed");
}

std::vector<std::string> Texts(const generated::ListPluginsResponse& listing) {
  std::vector<std::string> texts;
  for (const auto& plugin : listing.plugins()) {
    texts.push_back(plugin.command() + " " + plugin.kind() + " " + plugin.name());
  }
  return texts;
}

TEST(BuildListingTest, ListsTheKindsOfTheHostInOrder) {
  Registry registry;
  registry.item_block.Add("a.b/c", std::make_unique<NullBlock>());
  registry.deletion.Add("a.b/z", std::make_unique<NullDelete>());
  registry.deletion.Add("a.b/c", std::make_unique<NullDelete>());
  EXPECT_THAT(Texts(BuildListing("/plugins/p", registry, {.v2 = true, .item_block = true})),
              ElementsAre("/plugins/p DeleteItemAction a.b/z", "/plugins/p DeleteItemAction a.b/c",
                          "/plugins/p ItemBlockAction a.b/c"));
  EXPECT_THAT(
      Texts(BuildListing("/plugins/p", registry, {.v2 = true, .item_block = false})),
      ElementsAre("/plugins/p DeleteItemAction a.b/z", "/plugins/p DeleteItemAction a.b/c"));
  registry.deletion.AddPlaceholder("a.b/s", std::make_unique<NullDelete>());
  EXPECT_THAT(Texts(BuildListing("p", registry, {})),
              ElementsAre("p DeleteItemAction a.b/z", "p DeleteItemAction a.b/c"));
  EXPECT_THAT(Texts(BuildListing("p", registry, {.placeholders = true})),
              ElementsAre("p DeleteItemAction a.b/z", "p DeleteItemAction a.b/c",
                          "p DeleteItemAction a.b/s"));
  EXPECT_THAT(Texts(BuildListing("p", Registry(), {.v2 = true, .item_block = true})), IsEmpty());
}

}  // namespace
}  // namespace csidelta::plugin::registry_test
