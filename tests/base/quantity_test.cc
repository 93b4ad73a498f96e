#include "base/quantity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "tests/support/status_matchers.h"

namespace csidelta::quantity_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

struct QuantityCase {
  const char* name;
  std::string text;
  int64_t want;
};
class QuantityTest : public testing::TestWithParam<QuantityCase> {};

TEST_P(QuantityTest, Parses) {
  EXPECT_THAT(ParseQuantity(GetParam().text), IsOkAndHolds(GetParam().want));
}

INSTANTIATE_TEST_SUITE_P(Table, QuantityTest,
                         testing::ValuesIn(std::vector<QuantityCase>{
                             {"Zero", "0", 0},
                             {"Plain", "42", 42},
                             {"LeadingZeros", "007", 7},
                             {"Kibi", "1Ki", 1024},
                             {"Mebi", "1Mi", 1 << 20},
                             {"Gibi", "10Gi", int64_t{10} << 30},
                             {"Tebi", "3Ti", int64_t{3} << 40},
                             {"Pebi", "2Pi", int64_t{2} << 50},
                             {"Exbi", "7Ei", int64_t{7} << 60},
                             {"BinaryFraction", "1.5Gi", int64_t{3} << 29},
                             {"BinaryRoundsUp", "0.0001Ki", 1},
                             {"Kilo", "1k", 1000},
                             {"Mega", "2M", 2'000'000},
                             {"Giga", "500G", 500'000'000'000},
                             {"Tera", "1T", 1'000'000'000'000},
                             {"Peta", "1P", 1'000'000'000'000'000},
                             {"Exa", "9E", 9'000'000'000'000'000'000},
                             {"DecimalFraction", "1.5k", 1500},
                             {"Milli", "1500m", 2},
                             {"Micro", "1u", 1},
                             {"Nano", "1n", 1},
                             {"NegativeRoundsAway", "-1500m", -2},
                             {"Exponent", "1e9", 1'000'000'000},
                             {"UpperExponent", "1E3", 1000},
                             {"SignedExponent", "1e+3", 1000},
                             {"NegativeExponent", "12000e-3", 12},
                             {"TinyExponent", "1e-4000", 1},
                             {"ZeroHugeExponent", "0e999", 0},
                             {"PointFirst", ".5k", 500},
                             {"PointLast", "5.", 5},
                             {"Plus", "+5", 5},
                             {"Negative", "-3Ki", -3072},
                             {"Largest", "9223372036854775807", kMax},
                             {"Smallest", "-9223372036854775808", kMin},
                             {"AlmostTooLong", std::string(100, '0') + "1", 1},
                         }),
                         [](const auto& test) { return std::string(test.param.name); });

struct BadQuantityCase {
  const char* name;
  std::string text;
};
class BadQuantityTest : public testing::TestWithParam<BadQuantityCase> {};

TEST_P(BadQuantityTest, IsInvalidArgument) {
  EXPECT_THAT(ParseQuantity(GetParam().text), StatusIs(absl::StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(Table, BadQuantityTest,
                         testing::ValuesIn(std::vector<BadQuantityCase>{
                             {"Empty", ""},
                             {"Sign", "-"},
                             {"Point", "."},
                             {"SuffixOnly", "Gi"},
                             {"TwoSigns", "+-1"},
                             {"TwoPoints", "1.2.3"},
                             {"Comma", "1,5"},
                             {"LowerGibi", "1gi"},
                             {"UpperKilo", "1K"},
                             {"GigaByte", "1GB"},
                             {"GibiByte", "1GiB"},
                             {"UnknownSuffix", "1Zi"},
                             {"SpaceInside", "1 Gi"},
                             {"SpaceSuffix", "1 "},
                             {"SpaceFirst", " 1"},
                             {"ExponentEmpty", "1e"},
                             {"ExponentSign", "1e-"},
                             {"ExponentText", "1ex"},
                             {"ExponentFraction", "1e1.5"},
                             {"ExponentAndSuffix", "1e3Ki"},
                             {"ExponentHuge", "1e99999999999999999999"},
                             {"Hex", "0x10"},
                             {"Nan", "NaN"},
                             {"Infinity", "inf"},
                             {"OneTooMany", "9223372036854775808"},
                             {"OneTooFew", "-9223372036854775809"},
                             {"RoundedTooMany", "9223372036854775807.5"},
                             {"EightExbi", "8Ei"},
                             {"TenExa", "10E"},
                             {"ExponentOverflow", "1e19"},
                             {"Nul", std::string("1\0", 2)},
                             {"NotUtf8", "1\xff"},
                             {"TooLong", std::string(1 << 20, '1')},
                         }),
                         [](const auto& test) { return std::string(test.param.name); });

struct FormatCase {
  const char* name;
  int64_t bytes;
  std::string want;
};
class FormatQuantityTest : public testing::TestWithParam<FormatCase> {};

TEST_P(FormatQuantityTest, IsCanonicalAndParsesBack) {
  EXPECT_EQ(FormatBinaryQuantity(GetParam().bytes), GetParam().want);
  EXPECT_THAT(ParseQuantity(GetParam().want), IsOkAndHolds(GetParam().bytes));
}

INSTANTIATE_TEST_SUITE_P(Table, FormatQuantityTest,
                         testing::ValuesIn(std::vector<FormatCase>{
                             {"Zero", 0, "0"},
                             {"One", 1, "1"},
                             {"Thousand", 1000, "1k"},
                             {"MinusThousand", -1000, "-1k"},
                             {"BelowKibi", 1023, "1023"},
                             {"Kibi", 1024, "1Ki"},
                             {"TwoThousand", 2000, "2000"},
                             {"Megabyte", 1'000'000, "1000000"},
                             {"Mixed", 1536, "1536"},
                             {"Mebi", 1 << 20, "1Mi"},
                             {"TenGibi", int64_t{10} << 30, "10Gi"},
                             {"OffByOne", (int64_t{10} << 30) + 1, "10737418241"},
                             {"Gigabytes", 10'000'000'000, "9765625Ki"},
                             {"SevenExbi", int64_t{7} << 60, "7Ei"},
                             {"Negative", -2048, "-2Ki"},
                             {"Largest", kMax, "9223372036854775807"},
                             {"Smallest", kMin, "-8Ei"},
                         }),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::quantity_test
