#include "base/rfc3339.h"

#include "absl/strings/ascii.h"

namespace csidelta {
namespace {

constexpr std::size_t kBytesMin = 20;  // 1970-01-01T00:00:00Z
constexpr std::size_t kBytesMax = 64;

}  // namespace

std::optional<absl::Time> ParseRfc3339(absl::string_view text) {
  // Abseil's parser also takes blanks, "infinite-future" and years of any length.
  absl::Time time;
  std::string error;
  if (text.size() < kBytesMin || text.size() > kBytesMax || text[4] != '-' ||
      !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) ||
      !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return std::nullopt;
  }
  const absl::civil_year_t year = absl::ToCivilYear(time, absl::UTCTimeZone()).year();
  return year >= 1 && year <= 9999 ? std::optional(time) : std::nullopt;
}

std::string FormatRfc3339(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%d%ET%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

std::string FormatRfc3339Seconds(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%d%ET%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string FormatRfc3339Micros(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%d%ET%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

}  // namespace csidelta
