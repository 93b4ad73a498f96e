#include "velero/plugin_config.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"

namespace csidelta::velero::plugin_config_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

objects::ConfigMap WithData(const Json& data) {
  return support::As<objects::ConfigMap>(
      {{"metadata", {{"name", "c"}, {"namespace", "velero"}}}, {"data", data}});
}

TEST(ParsePluginConfigTest, HasDefaults) {
  for (const objects::ConfigMap& config_map :
       {objects::ConfigMap(), WithData(nullptr), WithData(Json::object())}) {
    const auto config = ParsePluginConfig(config_map);
    ASSERT_THAT(config, IsOk());
    EXPECT_TRUE(config->sweep_orphans);
    EXPECT_EQ(config->orphan_grace_period, absl::Hours(24));
    EXPECT_EQ(config->restore_content_wait, absl::Minutes(1));
    EXPECT_EQ(config->deletion_wait, absl::Minutes(1));
    EXPECT_EQ(config->group_fallback, GroupFallback::kIndividual);
    EXPECT_EQ(config->group_restore, GroupRestore::kMembers);
    EXPECT_EQ(config->longhorn_namespace, "longhorn-system");
    EXPECT_TRUE(config->longhorn_guard);
    EXPECT_EQ(config->longhorn_items, LonghornItems::kSkip);
    EXPECT_THAT(config->warnings, IsEmpty());
  }
}

TEST(ParsePluginConfigTest, ReadsEveryKey) {
  const auto config = ParsePluginConfig(WithData({{"sweepOrphans", "false"},
                                                  {"orphanGracePeriod", "90m"},
                                                  {"restoreContentWait", "30s"},
                                                  {"deletionWait", "1h"},
                                                  {"groupFallback", "fail"},
                                                  {"groupRestore", "preprovisioned"},
                                                  {"longhornNamespace", "storage-1"},
                                                  {"longhornGuard", "off"},
                                                  {"longhornItems", "keep"}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_FALSE(config->sweep_orphans);
  EXPECT_EQ(config->orphan_grace_period, absl::Minutes(90));
  EXPECT_EQ(config->restore_content_wait, absl::Seconds(30));
  EXPECT_EQ(config->deletion_wait, absl::Hours(1));
  EXPECT_EQ(config->group_fallback, GroupFallback::kFail);
  EXPECT_EQ(config->group_restore, GroupRestore::kPreprovisioned);
  EXPECT_EQ(config->longhorn_namespace, "storage-1");
  EXPECT_FALSE(config->longhorn_guard);
  EXPECT_EQ(config->longhorn_items, LonghornItems::kKeep);
  EXPECT_THAT(config->warnings, IsEmpty());
}

// What the table of keys says about defaults is what a ConfigMap without them gives.
TEST(ParsePluginConfigTest, DocumentedDefaultsAreTheDefaults) {
  Json data;
  for (const PluginConfigKey& key : PluginConfigKeys()) {
    data[std::string(key.name)] = std::string(key.default_text);
  }
  const auto written = ParsePluginConfig(WithData(data));
  const auto defaults = ParsePluginConfig(WithData(Json::object()));
  ASSERT_THAT(written, IsOk());
  EXPECT_THAT(written->warnings, IsEmpty()) << "every key of the table is known";
  EXPECT_EQ(written->sweep_orphans, defaults->sweep_orphans);
  EXPECT_EQ(written->orphan_grace_period, defaults->orphan_grace_period);
  EXPECT_EQ(written->restore_content_wait, defaults->restore_content_wait);
  EXPECT_EQ(written->deletion_wait, defaults->deletion_wait);
  EXPECT_EQ(written->group_fallback, defaults->group_fallback);
  EXPECT_EQ(written->group_restore, defaults->group_restore);
  EXPECT_EQ(written->longhorn_namespace, defaults->longhorn_namespace);
  EXPECT_EQ(written->longhorn_guard, defaults->longhorn_guard);
  EXPECT_EQ(written->longhorn_items, defaults->longhorn_items);
}

struct UnknownKeyCase {
  const char* unknown;
  const char* nearest;
};
class UnknownConfigKeyTest : public testing::TestWithParam<UnknownKeyCase> {};

TEST_P(UnknownConfigKeyTest, WarnsAndNamesTheNearestKey) {
  const auto config = ParsePluginConfig(WithData({{GetParam().unknown, "x"}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->warnings,
              ElementsAre(AllOf(HasSubstr(absl::StrCat("\"", GetParam().unknown, "\"")),
                                HasSubstr(absl::StrCat("known key is ", GetParam().nearest)))));
}

INSTANTIATE_TEST_SUITE_P(Table, UnknownConfigKeyTest,
                         testing::ValuesIn(std::vector<UnknownKeyCase>{
                             {"sweepOrphan", "sweepOrphans"},
                             {"SWEEPORPHANS", "sweepOrphans"},
                             {"sweep-orphans", "sweepOrphans"},
                             {"orphanGracePeriode", "orphanGracePeriod"},
                             {"gracePeriod", "orphanGracePeriod"},
                             {"restoreContent", "restoreContentWait"},
                             {"deleteWait", "deletionWait"},
                             {"deletionwait", "deletionWait"},
                         }));

TEST(ParsePluginConfigTest, SurvivesAHugeUnknownKey) {
  const auto config = ParsePluginConfig(WithData({{std::string(1 << 20, 'k'), "x"}}));
  ASSERT_THAT(config, IsOk());
  ASSERT_EQ(config->warnings.size(), 1u);
  EXPECT_LT(config->warnings[0].size(), 256u);
}

TEST(ParsePluginConfigTest, BoundsOfDurationsAreAllowed) {
  const auto shortest = ParsePluginConfig(WithData(
      {{"deletionWait", "1s"}, {"restoreContentWait", "1s"}, {"orphanGracePeriod", "1m"}}));
  ASSERT_THAT(shortest, IsOk());
  EXPECT_EQ(shortest->deletion_wait, absl::Seconds(1));
  EXPECT_EQ(shortest->orphan_grace_period, absl::Minutes(1));
  const auto longest = ParsePluginConfig(WithData(
      {{"deletionWait", "1h"}, {"restoreContentWait", "1h"}, {"orphanGracePeriod", "8760h"}}));
  ASSERT_THAT(longest, IsOk());
  EXPECT_EQ(longest->deletion_wait, absl::Hours(1));
  EXPECT_EQ(longest->orphan_grace_period, absl::Hours(8760));
}

TEST(ParsePluginConfigTest, TheLongestNameOfANamespaceIsAllowed) {
  const std::string longest(63, 'a');
  const auto config = ParsePluginConfig(WithData({{"longhornNamespace", longest}}));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->longhorn_namespace, longest);
}

struct BadConfigCase {
  const char* name;
  Json data;
  const char* want_message;
};
class BadPluginConfigTest : public testing::TestWithParam<BadConfigCase> {};

TEST_P(BadPluginConfigTest, NamesKeyValueAndLegalForm) {
  EXPECT_THAT(
      ParsePluginConfig(WithData(GetParam().data)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("ConfigMap velero/c: "), HasSubstr(GetParam().want_message))));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadPluginConfigTest,
    testing::ValuesIn(std::vector<BadConfigCase>{
        {"DataList", Json::array(), "data: is not a map of strings"},
        {"DataText", "text", "data: is not a map of strings"},
        {"ValueNumber", {{"deletionWait", 5}}, "data: is not a map"},
        {"FlagEmpty", {{"sweepOrphans", ""}}, "sweepOrphans: \"\" is not true or false"},
        {"FlagYes", {{"sweepOrphans", "yes"}}, "sweepOrphans: \"yes\" is not true or false"},
        {"FallbackOther",
         {{"groupFallback", "Fail"}},
         "groupFallback: \"Fail\" is not individual or fail"},
        {"GroupRestoreOther",
         {{"groupRestore", ""}},
         "groupRestore: \"\" is not members or preprovisioned"},
        {"FlagUpper", {{"sweepOrphans", "TRUE"}}, "sweepOrphans: \"TRUE\" is not true or false"},
        {"FlagSpace", {{"sweepOrphans", "true\n"}}, "sweepOrphans: \"true\\n\" is not"},
        {"GraceText", {{"orphanGracePeriod", "1d"}}, "\"1d\" is not a duration from 1m to 8760h"},
        {"GraceZero", {{"orphanGracePeriod", "0"}}, "\"0\" is not a duration from 1m"},
        {"GraceNegative", {{"orphanGracePeriod", "-24h"}}, "\"-24h\" is not a duration"},
        {"GraceHuge", {{"orphanGracePeriod", "8761h"}}, "\"8761h\" is not a duration"},
        {"GraceNoUnit", {{"orphanGracePeriod", "24"}}, "\"24\" is not a duration"},
        {"WaitZero", {{"restoreContentWait", "0s"}}, "\"0s\" is not a duration from 1s to 1h"},
        {"WaitHuge", {{"deletionWait", "2h"}}, "deletionWait: \"2h\" is not a duration"},
        {"WaitEmpty", {{"deletionWait", ""}}, "deletionWait: \"\" is not a duration"},
        {"NamespaceEmpty",
         {{"longhornNamespace", ""}},
         "longhornNamespace: \"\" is not the name of a namespace"},
        {"NamespaceUpper", {{"longhornNamespace", "Longhorn"}}, "\"Longhorn\" is not the name"},
        {"NamespaceDot", {{"longhornNamespace", "a.b"}}, "\"a.b\" is not the name"},
        {"NamespaceDashFirst", {{"longhornNamespace", "-a"}}, "\"-a\" is not the name"},
        {"NamespaceDashLast", {{"longhornNamespace", "a-"}}, "\"a-\" is not the name"},
        {"NamespaceLong", {{"longhornNamespace", std::string(64, 'a')}}, "is not the name"},
        {"GuardTrue", {{"longhornGuard", "true"}}, "longhornGuard: \"true\" is not on or off"},
        {"GuardEmpty", {{"longhornGuard", ""}}, "longhornGuard: \"\" is not on or off"},
        {"ItemsOther", {{"longhornItems", "yes"}}, "longhornItems: \"yes\" is not skip or keep"},
    }),
    [](const auto& test) { return std::string(test.param.name); });

objects::ConfigMap Labelled(const char* name, const Json& labels) {
  return support::As<objects::ConfigMap>(
      {{"metadata", {{"name", name}, {"namespace", "velero"}, {"labels", labels}}}});
}

TEST(SelectPluginConfigTest, TakesTheOneWithBothLabels) {
  const std::vector<objects::ConfigMap> config_maps = {
      Labelled("other", {{"velero.io/plugin-config", ""}, {"velero.io/aws", "ObjectStore"}}),
      Labelled("ours", {{"velero.io/plugin-config", ""}, {"velero.io/csi-delta", "any"}}),
      Labelled("half", {{"velero.io/csi-delta", "true"}}), objects::ConfigMap()};
  EXPECT_THAT(SelectPluginConfig(config_maps), IsOkAndHolds(&config_maps[1]));
}

TEST(SelectPluginConfigTest, NoneIsFine) {
  EXPECT_THAT(SelectPluginConfig({}), IsOkAndHolds(nullptr));
  const std::vector<objects::ConfigMap> half = {
      Labelled("half", {{"velero.io/plugin-config", ""}})};
  EXPECT_THAT(SelectPluginConfig(half), IsOkAndHolds(nullptr));
}

TEST(SelectPluginConfigTest, TwoAreAnErrorThatNamesBoth) {
  const Json labels = {{"velero.io/plugin-config", ""}, {"velero.io/csi-delta", "true"}};
  EXPECT_THAT(SelectPluginConfig({Labelled("one", labels), Labelled("two", labels)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("velero/one, velero/two")));
}

TEST(ConfigurationDocumentTest, ListsExactlyTheKeysOfTheTable) {
  const std::string document = support::ReadSource("docs/configuration.md");
  std::vector<std::string> want;
  for (const PluginConfigKey& key : PluginConfigKeys()) {
    want.push_back(absl::StrCat("| `", key.name, "` | `", key.default_text, "` | ", key.legal_form,
                                " | ", key.meaning, " |"));
  }
  std::vector<std::string> rows;
  std::istringstream lines(document.substr(0, document.find("\n## ")));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| `", 0) == 0) {
      rows.push_back(line);
    }
  }
  EXPECT_EQ(rows, want);
}

}  // namespace
}  // namespace csidelta::velero::plugin_config_test
