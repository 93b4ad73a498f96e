#include "base/yaml.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::yaml_test {
namespace {

using support::IsOk;
using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

struct YamlCase {
  const char* name;
  std::string text;
  std::string want_json;
};
class YamlTest : public testing::TestWithParam<YamlCase> {};

TEST_P(YamlTest, BecomesJson) {
  EXPECT_THAT(ParseYaml(GetParam().text), IsOkAndHolds(Json::parse(GetParam().want_json)));
}

INSTANTIATE_TEST_SUITE_P(Table, YamlTest,
                         testing::ValuesIn(std::vector<YamlCase>{
                             {"Empty", "", "null"},
                             {"CommentOnly", "# nothing\n", "null"},
                             {"ScalarsAreTexts", "{a: 1, b: true, c: 1.50, d: \"x\", e: yes}",
                              R"({"a":"1","b":"true","c":"1.50","d":"x","e":"yes"})"},
                             {"Nulls", "{a: , b: ~, c: null, d: \"null\"}",
                              R"({"a":null,"b":null,"c":null,"d":"null"})"},
                             {"Lists", "- a\n- [b, c]\n", R"(["a",["b","c"]])"},
                             {"Alias", "a: &x {k: v}\nb: *x\n", R"({"a":{"k":"v"},"b":{"k":"v"}})"},
                             {"MergeKey", "a: &x {k: v, l: w}\nb:\n  <<: *x\n  k: mine\n",
                              R"({"a":{"k":"v","l":"w"},"b":{"k":"mine","l":"w"}})"},
                             {"MergeList", "a: &a {k: 1}\nb: &b {k: 2, l: 3}\nc: {<<: [*a, *b]}\n",
                              R"({"a":{"k":"1"},"b":{"k":"2","l":"3"},"c":{"k":"1","l":"3"}})"},
                             {"QuotedMergeKeyIsAKey", "\"<<\": x", R"({"<<":"x"})"},
                             {"FirstDocumentOnly", "a: 1\n---\nb: 2\n", R"({"a":"1"})"},
                             {"CarriageReturns", "a: 1\r\nb: 2\r\n", R"({"a":"1","b":"2"})"},
                             {"ByteOrderMark",
                              "\xef\xbb\xbf"
                              "a: 1",
                              R"({"a":"1"})"},
                             {"BlockText", "a: |\n  x\n  y\n", R"({"a":"x\ny\n"})"},
                             {"Unicode", "a: \xc3\xa4", "{\"a\":\"\xc3\xa4\"}"},
                         }),
                         [](const auto& test) { return std::string(test.param.name); });

// Ten levels of ten aliases each.
std::string AliasBomb() {
  std::string text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) {
      absl::StrAppend(&text, j == 0 ? "" : ",", "*a", i - 1);
    }
    absl::StrAppend(&text, "]\n");
  }
  return text;
}

std::string Repeat(absl::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    absl::StrAppend(&all, text);
  }
  return all;
}

std::string DeepBlocks() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&text, std::string(static_cast<std::size_t>(i), ' '), "a:\n");
  }
  return text;
}

struct BadYamlCase {
  const char* name;
  std::string text;
  const char* want_message;
};
class BadYamlTest : public testing::TestWithParam<BadYamlCase> {};

TEST_P(BadYamlTest, IsInvalidArgument) {
  EXPECT_THAT(ParseYaml(GetParam().text),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().want_message)));
}

INSTANTIATE_TEST_SUITE_P(Table, BadYamlTest,
                         testing::ValuesIn(std::vector<BadYamlCase>{
                             {"OpenBracket", "[a", "YAML line"},
                             {"OpenQuote", "a: \"b", "YAML line"},
                             {"CloseOnly", "]", "YAML line"},
                             {"TabIndent", "a:\n\tb: 1\n", "YAML line"},
                             {"UnknownAlias", "a: *unknown", "YAML line 1"},
                             {"DuplicateKey", "a: 1\na: 2\n",
                              "line 2 column 1: key \"a\" stands twice"},
                             {"MapAsKey", "{a: 1}: 2", "a key that is not plain text"},
                             {"MergeOfText", "<<: x", "a merge of something that is no map"},
                             {"Nul", std::string("a: \0b", 5), "not UTF-8"},
                             {"NotUtf8", "a: \xff", "not UTF-8"},
                             {"Utf16",
                              std::string("\xff\xfe"
                                          "a\0:\0",
                                          6),
                              "not UTF-8"},
                             {"AliasBomb", AliasBomb(), "values"},
                             {"SelfReference", "a: &x [*x]", "YAML"},
                             {"DeepFlow", Repeat("[", 10'000), "YAML"},
                             {"DeepFlowMap", Repeat("{a: ", 10'000), "YAML"},
                             {"DeepDashes", Repeat("- ", 10'000), "YAML"},
                             {"DeepQuestions", Repeat("? ", 10'000), "YAML"},
                             {"DeepColons", Repeat(": ", 10'000), "YAML"},
                             {"DeepBlocks", DeepBlocks(), "nested deeper than"},
                             {"TooManyValues", Repeat("- a\n", 100'001), "more than 100000 values"},
                             {"TooLarge", Repeat("#", (1 << 20) + 1), "bytes"},
                         }),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ToYamlTest, WritesWhatIsReadBackAsTheSame) {
  const Json value = {
      {"name", "orders"},
      {"empty", Json::object()},
      {"none", Json::array()},
      {"words", {"plain", "true", "7", "", "a: b", "- c", "#d", "\x1b[0m", "line\nbreak", "No"}},
      {"rows", {{{"a", "x"}, {"b", {"c", "d"}}}, {{"a", "y"}}}},
      {"odd key: ", "z"}};
  const absl::StatusOr<Json> read = ParseYaml(ToYaml(value));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, value);
  EXPECT_EQ(ToYaml({{"a", Json::array({{{"b", 1}, {"c", "d"}}})}, {"e", true}, {"f", nullptr}}),
            "a:\n  - b: 1\n    c: d\ne: true\nf: null\n");
  EXPECT_EQ(ToYaml(Json::array()), "[]\n");
  EXPECT_EQ(ToYaml("x"), "x\n");
}

}  // namespace
}  // namespace csidelta::yaml_test
