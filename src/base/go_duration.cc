#include "base/go_duration.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/quantity.h"

namespace csidelta {
namespace {

constexpr std::size_t kDurationBytesMax = 256;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct Unit {
  absl::string_view name;
  int64_t nanoseconds;
};

// Longer names before their prefixes.
constexpr std::array<Unit, 8> kUnits = {{{"ns", 1},
                                         {"us", 1'000},
                                         {"\xc2\xb5s", 1'000},  // micro sign
                                         {"\xce\xbcs", 1'000},  // Greek letter mu
                                         {"ms", 1'000'000},
                                         {"s", 1'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"h", 3'600'000'000'000}}};

std::optional<int64_t> TakeUnit(absl::string_view& text) {
  for (const Unit& unit : kUnits) {
    if (absl::ConsumePrefix(&text, unit.name)) {
      return unit.nanoseconds;
    }
  }
  return std::nullopt;
}

// whole.fraction units in nanoseconds; nothing when they do not fit.
std::optional<int64_t> ToNanoseconds(absl::string_view whole, absl::string_view fraction,
                                     int64_t unit) {
  int64_t value = 0;
  for (const char digit : whole) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, digit - '0', &value)) {
      return std::nullopt;
    }
  }
  if (__builtin_mul_overflow(value, unit, &value)) {
    return std::nullopt;
  }
  __int128 part = 0;
  __int128 scale = 1;
  for (const char digit : fraction.substr(0, 18)) {
    part = part * 10 + (digit - '0');
    scale *= 10;
  }
  if (__builtin_add_overflow(value, static_cast<int64_t>(part * unit / scale), &value)) {
    return std::nullopt;
  }
  return value;
}

// One number with its unit, taken off the front of `text`.
std::optional<int64_t> TakeTerm(absl::string_view& text) {
  const std::string whole = TakeDigits(text);
  const std::string fraction = absl::ConsumePrefix(&text, ".") ? TakeDigits(text) : std::string();
  if (whole.empty() && fraction.empty()) {
    return std::nullopt;
  }
  const std::optional<int64_t> unit = TakeUnit(text);
  return unit.has_value() ? ToNanoseconds(whole, fraction, *unit) : std::nullopt;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseGoDuration(absl::string_view text) {
  const auto malformed = [whole = text] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(whole.substr(0, 64)),
                     "\" is not a duration such as 10m, 4h0m0s or 1.5h"));
  };
  if (text.size() > kDurationBytesMax) {
    return malformed();
  }
  const bool negative = absl::ConsumePrefix(&text, "-");
  if (!negative) {
    absl::ConsumePrefix(&text, "+");
  }
  if (text == "0") {
    return absl::ZeroDuration();
  }
  int64_t total = 0;
  do {
    const std::optional<int64_t> term = TakeTerm(text);
    if (!term.has_value() || *term > kMax - total) {
      return malformed();
    }
    total += *term;
  } while (!text.empty());
  return absl::Nanoseconds(negative ? -total : total);
}

}  // namespace csidelta
