#include "base/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace csidelta::json_fields_test {
namespace {

using testing::ElementsAre;

enum class Colour { kNone, kRed };
constexpr EnumNames<Colour, 1> kColours = {{{Colour::kRed, "Red"}}};

struct Part {
  std::string name = {};
  int64_t count = 0;

  bool operator==(const Part&) const = default;
};
constexpr auto kPartFields = [](auto& fields, auto& part) {
  fields("name", part.name);
  fields.IfSet("count", part.count);
};

struct Whole {
  std::string text = {};
  bool flag = false;
  Colour colour = Colour::kNone;
  std::optional<absl::Time> at = {};
  std::optional<Part> part = {};
  std::vector<Part> parts = {};
  std::vector<std::string> names = {};

  bool operator==(const Whole&) const = default;
};
constexpr auto kWholeFields = [](auto& fields, auto& whole) {
  fields("text", whole.text, BytesMax{4});
  fields("flag", whole.flag);
  fields.OrNull("colour", whole.colour, kColours);
  fields("at", whole.at, WholeSeconds());
  fields("part", whole.part, kPartFields);
  fields("parts", whole.parts, CountMax{2}, kPartFields);
  fields("names", whole.names, CountMax{2},
         OnlyTexts{[](absl::string_view text) { return text != "bad"; }});
};

TEST(JsonFieldsTest, ReadsWhatItWrites) {
  const Whole whole{.text = "text",
                    .flag = true,
                    .colour = Colour::kRed,
                    .at = absl::FromUnixSeconds(1'700'000'000),
                    .part = Part{.name = "a", .count = 1},
                    .parts = {{.name = "b"}, {.name = "c", .count = 2}},
                    .names = {"d"}};
  const Json json = WriteFields(kWholeFields, whole);
  EXPECT_EQ(json["at"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(json["parts"][0], Json({{"name", "b"}}));
  EXPECT_EQ(ReadFields<Whole>(kWholeFields, &json), whole);
}

TEST(JsonFieldsTest, UnsetFieldsAreNullOrLeftOut) {
  const Json json = WriteFields(kWholeFields, Whole());
  EXPECT_TRUE(json.at("colour").is_null());
  EXPECT_TRUE(json.at("at").is_null());
  EXPECT_TRUE(json.at("part").is_null());
  EXPECT_EQ(WriteFields(kPartFields, std::optional<Part>()), Json());
  EXPECT_EQ(ReadFields<Whole>(kWholeFields, &json), Whole());
  EXPECT_EQ(ReadFields<Whole>(kWholeFields, nullptr), Whole());
}

TEST(JsonFieldsTest, WrongValuesAreAsIfTheyWereMissing) {
  for (const Json& wrong : {Json(7), Json("x"), Json::array({1}),
                            Json({{"text", 7},
                                  {"flag", "true"},
                                  {"colour", "Blue"},
                                  {"at", "then"},
                                  {"part", "much"},
                                  {"parts", {{"name", "b"}}},
                                  {"names", "all"}})}) {
    EXPECT_EQ(ReadFields<Whole>(kWholeFields, &wrong), Whole()) << wrong.dump();
  }
  const Json negative = {{"count", -1}};
  EXPECT_EQ(ReadFields<Part>(kPartFields, &negative), Part());
}

TEST(JsonFieldsTest, TextsAndListsHaveLimits) {
  const Json json = WriteFields(kWholeFields, Whole{.text = "abc\u00e9", .parts = {{}, {}, {}}});
  EXPECT_EQ(json["text"], "abc") << "no character is cut in two";
  EXPECT_EQ(json["parts"].size(), 2U);
  const Json read = {{"text", "abcdef"}, {"names", {"bad", 7, "a", "b", "c"}}};
  const auto whole = ReadFields<Whole>(kWholeFields, &read);
  EXPECT_EQ(whole.text, "abcd");
  EXPECT_THAT(whole.names, ElementsAre("a", "b"));
}

}  // namespace
}  // namespace csidelta::json_fields_test
