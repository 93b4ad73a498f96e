#include "plugin/host_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace csidelta::plugin::arguments_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct FormCase {
  const char* name;
  std::vector<std::string> words;
  ArgumentForm want;
  const char* want_level;
  bool want_csi;
};

class ArgumentFormTest : public testing::TestWithParam<FormCase> {};

TEST_P(ArgumentFormTest, TellsHostsApart) {
  const Arguments parsed = ParseArguments(GetParam().words);
  EXPECT_EQ(parsed.form, GetParam().want);
  EXPECT_EQ(parsed.log_level, GetParam().want_level);
  EXPECT_EQ(parsed.HasFeature("EnableCSI"), GetParam().want_csi);
}

// As recorded from the servers, with the defaults of `velero install`, of the chart, and by hand.
const FormCase kFormCases[] = {
    {"Velero113", {"--log-level", "info"}, ArgumentForm::kLevelAndFeatures, "info", false},
    {"Velero113Warning",
     {"--log-level", "warning"},
     ArgumentForm::kLevelAndFeatures,
     "warning",
     false},
    {"Velero114Features",
     {"--log-level", "debug", "--features", "EnableCSI"},
     ArgumentForm::kLevelAndFeatures,
     "debug",
     true},
    {"Velero114TwoFeatures",
     {"--log-level", "info", "--features", "EnableAPIGroupVersions,EnableCSI"},
     ArgumentForm::kLevelAndFeatures,
     "info",
     true},
    {"Velero115NoFlags", {}, ArgumentForm::kEmpty, "info", false},
    {"Velero116Install",
     {"--features=EnableCSI", "--uploader-type=kopia"},
     ArgumentForm::kServerArguments,
     "info",
     true},
    {"Velero118Chart",
     {"--uploader-type=kopia", "--default-snapshot-move-data=false", "--features=EnableCSI",
      "--log-level=warning", "--item-block-worker-count=8"},
     ArgumentForm::kServerArguments,
     "warning",
     true},
    {"LevelWithEquals", {"--log-level=debug"}, ArgumentForm::kServerArguments, "debug", false},
    {"FeaturesFirst",
     {"--features", "EnableCSI", "--log-level", "info"},
     ArgumentForm::kServerArguments,
     "info",
     true},
    {"GlobalFlagsBeforeServer",
     {"velero", "server", "--features=EnableCSI"},
     ArgumentForm::kServerArguments,
     "info",
     true},
    {"OneDash", {"-features=EnableCSI"}, ArgumentForm::kServerArguments, "info", true},
    {"Klog", {"--v=4", "--log-level", "info"}, ArgumentForm::kServerArguments, "info", false},
    {"LevelWithoutValue", {"--log-level"}, ArgumentForm::kServerArguments, "info", false},
    {"LevelThatIsNone", {"--log-level", "--x"}, ArgumentForm::kServerArguments, "--x", false},
    {"FeaturesWithoutValue",
     {"--log-level", "info", "--features"},
     ArgumentForm::kServerArguments,
     "info",
     false},
    {"LastOneCounts",
     {"--log-level=debug", "--log-level=error"},
     ArgumentForm::kServerArguments,
     "error",
     false},
    {"EmptyFeatures", {"--features="}, ArgumentForm::kServerArguments, "info", false},
    {"Garbage", {"", "-", "--", "=", "--=", "\xff"}, ArgumentForm::kServerArguments, "info", false},
};
INSTANTIATE_TEST_SUITE_P(Table, ArgumentFormTest, testing::ValuesIn(kFormCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ArgumentsTest, ReadsEveryFlagInBothForms) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--client-qps=7.5", "--client-burst=9", "--kubeconfig=/k",
                                 "--kubecontext=c", "--namespace=v", "--features=a, b,,"},
        std::vector<std::string>{"--client-qps", "7.5", "--client-burst", "9", "--kubeconfig", "/k",
                                 "--kubecontext", "c", "-n", "v", "--features", "a, b,,"}}) {
    const Arguments parsed = ParseArguments(words);
    EXPECT_EQ(parsed.client_qps, 7.5);
    EXPECT_EQ(parsed.client_burst, 9);
    EXPECT_EQ(parsed.kubeconfig, "/k");
    EXPECT_EQ(parsed.kubecontext, "c");
    EXPECT_EQ(parsed.namespace_name, "v");
    EXPECT_THAT(parsed.features, ElementsAre("a", " b"));
  }
}

TEST(ArgumentsTest, ShortNamespaceHasEveryFormOfPflag) {
  EXPECT_EQ(ParseArguments({"-n=v"}).namespace_name, "v");
  EXPECT_EQ(ParseArguments({"-nv"}).namespace_name, "v");
  EXPECT_EQ(ParseArguments({"-n"}).namespace_name, "");
}

TEST(ArgumentsTest, NumbersThatAreNoneLeaveTheDefault) {
  for (const char* value : {"", "x", "-1", "0", "nan", "1e999"}) {
    const Arguments parsed = ParseArguments(
        {std::string("--client-qps=") + value, std::string("--client-burst=") + value});
    EXPECT_EQ(parsed.client_qps, 100) << value;
    EXPECT_EQ(parsed.client_burst, 100) << value;
  }
}

TEST(ArgumentsTest, ForeignFlagsTakeNothingAway) {
  const Arguments parsed = ParseArguments({"--restore-only", "--namespace=v", "--colorized=false"});
  EXPECT_EQ(parsed.namespace_name, "v");
  EXPECT_THAT(parsed.features, IsEmpty());
}

}  // namespace
}  // namespace csidelta::plugin::arguments_test
