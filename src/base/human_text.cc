#include "base/human_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace csidelta {
namespace {

constexpr std::array<absl::string_view, 5> kByteUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};

}  // namespace

std::string FormatBytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  if (std::abs(value) < 1024) {
    return absl::StrCat(bytes, " B");
  }
  std::size_t unit = 0;
  value /= 1024;
  // What would round to 1024.0 belongs to the next unit.
  while (std::abs(value) >= 1023.95 && unit + 1 < kByteUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kByteUnits[unit]);
}

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string CutText(absl::string_view text, std::size_t bytes_max) {
  std::size_t end = std::min(text.size(), bytes_max);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return std::string(text.substr(0, end));
}

std::string Quoted(absl::string_view text) {
  constexpr std::size_t kBytesMax = 64;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kBytesMax)), "\"");
}

std::string FormatMoment(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone());
}

}  // namespace csidelta
