#include "base/quantity.h"

#include <array>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace csidelta {
namespace {

constexpr std::size_t kQuantityBytesMax = 128;
// Beyond this a non-zero number of kQuantityBytesMax digits overflows, or is below one.
constexpr int kExponentMax = 200;
constexpr std::array<absl::string_view, 7> kBinarySuffixes = {"",   "Ki", "Mi", "Gi",
                                                              "Ti", "Pi", "Ei"};

// How a suffix scales: by 1024^binary_steps * 10^decimal_exponent.
struct Scale {
  int binary_steps = 0;
  int decimal_exponent = 0;
};

// An unsigned decimal number, digit by digit, so that nothing is lost before the last rounding.
struct Decimal {
  std::string whole;
  std::string fraction;
};

std::optional<Scale> ParseExponent(absl::string_view text) {
  const bool negative = absl::ConsumePrefix(&text, "-");
  if (!negative) {
    absl::ConsumePrefix(&text, "+");
  }
  const std::string digits = TakeDigits(text);
  int exponent = 0;
  if (digits.empty() || !text.empty() || !absl::SimpleAtoi(digits, &exponent)) {
    return std::nullopt;
  }
  exponent = exponent > kExponentMax ? kExponentMax : exponent;
  return Scale{.decimal_exponent = negative ? -exponent : exponent};
}

std::optional<Scale> ParseSuffix(absl::string_view suffix) {
  for (std::size_t i = 0; i < kBinarySuffixes.size(); ++i) {
    if (suffix == kBinarySuffixes[i]) {
      return Scale{.binary_steps = static_cast<int>(i)};
    }
  }
  constexpr absl::string_view kDecimalSuffixes = "num kMGTPE";
  if (suffix.size() == 1 && suffix != " ") {
    const std::size_t at = kDecimalSuffixes.find(suffix[0]);
    if (at != absl::string_view::npos) {
      return Scale{.decimal_exponent = (static_cast<int>(at) - 3) * 3};
    }
  }
  if (absl::ConsumePrefix(&suffix, "e") || absl::ConsumePrefix(&suffix, "E")) {
    return ParseExponent(suffix);
  }
  return std::nullopt;
}

void MultiplyBy1024(Decimal& number) {
  int carry = 0;
  for (std::string* part : {&number.fraction, &number.whole}) {
    for (auto digit = part->rbegin(); digit != part->rend(); ++digit) {
      const int value = (*digit - '0') * 1024 + carry;
      *digit = static_cast<char>('0' + value % 10);
      carry = value / 10;
    }
  }
  if (carry > 0) {
    number.whole.insert(0, absl::StrCat(carry));
  }
}

void ShiftPoint(Decimal& number, int exponent) {
  for (; exponent > 0; --exponent) {
    number.whole.push_back(number.fraction.empty() ? '0' : number.fraction.front());
    number.fraction.erase(0, number.fraction.empty() ? 0 : 1);
  }
  for (; exponent < 0; ++exponent) {
    number.fraction.insert(0, 1, number.whole.empty() ? '0' : number.whole.back());
    number.whole.erase(number.whole.empty() ? 0 : number.whole.size() - 1);
  }
}

// The whole part with its sign, one further from zero where there is a rest.
std::optional<int64_t> Round(const Decimal& number, bool negative) {
  const int64_t sign = negative ? -1 : 1;
  int64_t value = 0;
  for (const char digit : number.whole) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, sign * (digit - '0'), &value)) {
      return std::nullopt;
    }
  }
  const bool rest = number.fraction.find_first_not_of('0') != std::string::npos;
  if (rest && __builtin_add_overflow(value, sign, &value)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

absl::StatusOr<int64_t> ParseQuantity(absl::string_view text) {
  const auto error = [shown = absl::CHexEscape(text.substr(0, 64))](absl::string_view problem) {
    return absl::InvalidArgumentError(absl::StrCat("\"", shown, "\" ", problem));
  };
  constexpr absl::string_view kNoQuantity = "is not a quantity such as 10Gi, 500M or 1e9";
  if (text.size() > kQuantityBytesMax) {
    return error(kNoQuantity);
  }
  const bool negative = absl::ConsumePrefix(&text, "-");
  if (!negative) {
    absl::ConsumePrefix(&text, "+");
  }
  Decimal number;
  number.whole = TakeDigits(text);
  if (absl::ConsumePrefix(&text, ".")) {
    number.fraction = TakeDigits(text);
  }
  const std::optional<Scale> scale = ParseSuffix(text);
  if ((number.whole.empty() && number.fraction.empty()) || !scale.has_value()) {
    return error(kNoQuantity);
  }
  for (int step = 0; step < scale->binary_steps; ++step) {
    MultiplyBy1024(number);
  }
  ShiftPoint(number, scale->decimal_exponent);
  const std::optional<int64_t> value = Round(number, negative);
  if (!value.has_value()) {
    return error("does not fit 64 bits");
  }
  return *value;
}

std::string FormatBinaryQuantity(int64_t bytes) {
  if (bytes == 1000 || bytes == -1000) {
    return bytes > 0 ? "1k" : "-1k";  // Below 1024 Kubernetes uses decimal suffixes.
  }
  std::size_t steps = 0;
  while (bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++steps;
  }
  return absl::StrCat(bytes, kBinarySuffixes[steps]);
}

}  // namespace csidelta
