#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace csidelta::json_test {
namespace {

TEST(JsonTest, KeepsLargeIntegersAndUnknownFields) {
  const std::string text =
      R"({"a":9007199254740993,"b":18446744073709551615,"c":-9223372036854775808,"d":{"x":[1.5,null]}})";
  const auto value = ParseJson(text);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(DumpJson(*value), text);
}

struct BadJsonCase {
  const char* name;
  std::string text;
};
class BadJsonTest : public testing::TestWithParam<BadJsonCase> {};

TEST_P(BadJsonTest, IsInvalidArgument) {
  EXPECT_EQ(ParseJsonObject(GetParam().text).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Table, BadJsonTest,
                         testing::ValuesIn(std::vector<BadJsonCase>{
                             {"Empty", ""},
                             {"Truncated", R"({"a":)"},
                             {"Array", "[]"},
                             {"Null", "null"},
                             {"Trailing", "{} {}"},
                             {"ZeroByte", std::string("{}\0{}", 5)},
                             {"ByteOrderMark", "\xEF\xBB\xBF{}"},
                             {"NotUtf8", "{\"a\":\"\xff\"}"},
                             {"Deep", std::string(100'000, '[')},
                             {"DeepObject",
                              [] {
                                std::string text;
                                for (int i = 0; i < 10'000; ++i) {
                                  text += R"({"a":)";
                                }
                                return text;
                              }()}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(JsonTest, OnlyBracketsAroundEachOtherNest) {
  std::string siblings = "[[]";
  for (int i = 0; i < 2 * kJsonDepthMax; ++i) {
    siblings += ",[{}]";
  }
  EXPECT_TRUE(ParseJson(siblings + "]").ok());
  const std::string brackets(2 * kJsonDepthMax, '[');
  EXPECT_TRUE(ParseJson("\"" + brackets + "\\\"" + brackets + "\"").ok()) << "in a string";
  const std::string closing(kJsonDepthMax, ']');
  EXPECT_TRUE(ParseJson(std::string(kJsonDepthMax, '[') + closing).ok());
  EXPECT_FALSE(ParseJson("[" + std::string(kJsonDepthMax, '[') + closing + "]").ok());
}

TEST(JsonTest, AnObjectOfMoreValuesThanAllowedIsRefused) {
  EXPECT_TRUE(ParseJsonObject(R"({"a":[1,"2,3,4"]})", 4).ok());
  EXPECT_FALSE(ParseJsonObject(R"({"a":[1,"2,3,4"],"b":{}})", 4).ok());
}

TEST(JsonTest, ReadsThroughWrongTypesWithoutThrowing) {
  const Json value = *ParseJson(R"({"a":{"b":3},"s":"text","m":{"k":"v","n":1}})");
  EXPECT_EQ(GetString(value, {"a", "b"}), "");
  EXPECT_EQ(GetString(value, {"s", "b"}), "");
  EXPECT_EQ(GetInt(value, {"a", "b"}), 3);
  EXPECT_EQ(GetInt(value, {"s"}, 7), 7);
  EXPECT_EQ(GetStringMap(value, {"m"}), (std::map<std::string, std::string>{{"k", "v"}}));
}

TEST(JsonTest, SetsAndErasesNestedMembers) {
  Json value = Json::object();
  SetJson(value, {"metadata", "labels", "a"}, "b");
  EXPECT_EQ(DumpJson(value), R"({"metadata":{"labels":{"a":"b"}}})");
  EraseJson(value, {"metadata", "labels", "a"});
  EraseJson(value, {"spec", "none"});
  EXPECT_EQ(DumpJson(value), R"({"metadata":{"labels":{}}})");
}

}  // namespace
}  // namespace csidelta::json_test
