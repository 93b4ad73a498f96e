#include "base/rfc3339.h"

#include <gtest/gtest.h>

#include <string>

namespace csidelta::rfc3339_test {
namespace {

TEST(Rfc3339Test, TimesComeBackAsTheyWent) {
  for (const char* text :
       {"2023-11-14T22:13:20Z", "2023-11-14T22:13:20.123456789Z", "0001-01-01T00:00:00Z"}) {
    const auto time = ParseRfc3339(text);
    ASSERT_TRUE(time.has_value()) << text;
    EXPECT_EQ(FormatRfc3339(*time), text);
  }
  EXPECT_EQ(ParseRfc3339("2023-11-14T23:13:20+01:00"), absl::FromUnixSeconds(1'700'000'000));
}

TEST(Rfc3339Test, MayHaveSoManyDigitsOfASecond) {
  const std::string digits(43, '5');
  EXPECT_TRUE(ParseRfc3339("2023-11-14T22:13:20." + digits + "Z").has_value());
  EXPECT_FALSE(ParseRfc3339("2023-11-14T22:13:20." + digits + "5Z").has_value());
}

TEST(Rfc3339Test, RefusesWhatOnlyAbseilUnderstands) {
  for (const char* text :
       {"", "2023-11-14", "yesterday at noon maybe", "2023-13-14T22:13:20Z", "infinite-future",
        "infinite-past         ", " 2023-11-14T22:13:20Z", "12023-11-14T22:13:20Z",
        "-2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z and then some", "0000-01-01T00:00:00Z"}) {
    EXPECT_EQ(ParseRfc3339(text), std::nullopt) << text;
  }
}

TEST(Rfc3339Test, WritesTheDigitsThatAKindWants) {
  const absl::Time time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  EXPECT_EQ(FormatRfc3339Seconds(time), "2023-11-14T22:13:20Z");
  EXPECT_EQ(FormatRfc3339Micros(time), "2023-11-14T22:13:20.123456Z");
}

}  // namespace
}  // namespace csidelta::rfc3339_test
