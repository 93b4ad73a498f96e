#include "base/go_duration.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace csidelta::go_duration_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;

struct DurationCase {
  const char* name;
  std::string text;
  absl::Duration want;
};
class GoDurationTest : public testing::TestWithParam<DurationCase> {};

TEST_P(GoDurationTest, Parses) {
  EXPECT_THAT(ParseGoDuration(GetParam().text), IsOkAndHolds(GetParam().want));
}

INSTANTIATE_TEST_SUITE_P(
    Table, GoDurationTest,
    testing::ValuesIn(std::vector<DurationCase>{
        {"Zero", "0", absl::ZeroDuration()},
        {"ZeroSeconds", "0s", absl::ZeroDuration()},
        {"AsGoWrites", "4h0m0s", absl::Hours(4)},
        {"TenMinutes", "10m", absl::Minutes(10)},
        {"Fraction", "1.5h", absl::Minutes(90)},
        {"FractionOnly", ".5s", absl::Milliseconds(500)},
        {"PointLast", "5.s", absl::Seconds(5)},
        {"Signs", "-1m30s", -absl::Seconds(90)},
        {"Plus", "+1m", absl::Minutes(1)},
        {"SmallUnits", "1ms2us3ns", absl::Nanoseconds(1'002'003)},
        {"MicroSign", "7\xc2\xb5s", absl::Microseconds(7)},
        {"GreekMu", "7\xce\xbcs", absl::Microseconds(7)},
        {"AnyOrder", "1s1h", absl::Seconds(3601)},
        {"LongFraction", "0.100000000000000000000000000001h", absl::Minutes(6)},
        {"Largest", "9223372036854775807ns", absl::Nanoseconds(9223372036854775807)},
    }),
    [](const auto& test) { return std::string(test.param.name); });

struct BadDurationCase {
  const char* name;
  std::string text;
};
class BadGoDurationTest : public testing::TestWithParam<BadDurationCase> {};

TEST_P(BadGoDurationTest, IsInvalidArgument) {
  EXPECT_THAT(ParseGoDuration(GetParam().text), StatusIs(absl::StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(Table, BadGoDurationTest,
                         testing::ValuesIn(std::vector<BadDurationCase>{
                             {"Empty", ""},
                             {"SignOnly", "-"},
                             {"TwoSigns", "--1s"},
                             {"NoUnit", "10"},
                             {"NoNumber", "m"},
                             {"PointOnly", ".s"},
                             {"TwoPoints", "1..5s"},
                             {"UnknownUnit", "3d"},
                             {"UpperCaseUnit", "3H"},
                             {"Space", "1h 30m"},
                             {"LeadingSpace", " 1h"},
                             {"Infinity", "inf"},
                             {"Exponent", "1e3s"},
                             {"Hex", "0x10s"},
                             {"TooLarge", "9223372036854775808ns"},
                             {"TooManyHours", "2562048h"},
                             {"SumTooLarge", "9223372036854775807ns1ns"},
                             {"Nul", std::string("1s\0", 3)},
                             {"NotUtf8", "1\xffs"},
                             {"HalfMicro", "1\xc2s"},
                             {"Huge", std::string(1 << 20, '9') + "s"},
                         }),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::go_duration_test
