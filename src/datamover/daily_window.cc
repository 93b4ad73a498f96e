#include "datamover/daily_window.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/check.h"

namespace csidelta::datamover {
namespace {

constexpr int kMinutesOfHour = 60;
constexpr int kMinutesOfDay = 24 * kMinutesOfHour;
constexpr std::size_t kTimeBytes = 5;  // 22:00

int MinuteOfDay(absl::Time time) {
  const absl::CivilMinute minute = absl::ToCivilMinute(time, absl::UTCTimeZone());
  return minute.hour() * kMinutesOfHour + minute.minute();
}

// -1 for what is no time of the day, or the 24:00 that ends it.
int ParseMinute(absl::string_view text) {
  const auto digit = [&](std::size_t at) {
    return absl::ascii_isdigit(static_cast<unsigned char>(text[at])) ? text[at] - '0' : -1000;
  };
  if (text.size() != kTimeBytes || text[2] != ':') {
    return -1;
  }
  const int hour = digit(0) * 10 + digit(1);
  const int minute = digit(3) * 10 + digit(4);
  const int of_day = hour * kMinutesOfHour + minute;
  return hour >= 0 && minute >= 0 && minute < kMinutesOfHour && of_day <= kMinutesOfDay ? of_day
                                                                                        : -1;
}

bool IsOpenAt(const DailyWindow& window, int minute) {
  return window.from_minute < window.to_minute
             ? minute >= window.from_minute && minute < window.to_minute
             : minute >= window.from_minute || minute < window.to_minute;
}

}  // namespace

std::optional<DailyWindow> ParseDailyWindow(absl::string_view text) {
  if (text.size() != 2 * kTimeBytes + 1 || text[kTimeBytes] != '-') {
    return std::nullopt;
  }
  const DailyWindow window{.from_minute = ParseMinute(text.substr(0, kTimeBytes)),
                           .to_minute = ParseMinute(text.substr(kTimeBytes + 1))};
  const bool is_legal = window.from_minute >= 0 && window.from_minute < kMinutesOfDay &&
                        window.to_minute >= 0 && window.from_minute != window.to_minute;
  return is_legal ? std::optional(window) : std::nullopt;
}

bool IsOpen(const std::vector<DailyWindow>& windows, absl::Time now) {
  const int minute = MinuteOfDay(now);
  return windows.empty() ||
         std::any_of(windows.begin(), windows.end(),
                     [minute](const DailyWindow& window) { return IsOpenAt(window, minute); });
}

absl::Time NextOpening(const std::vector<DailyWindow>& windows, absl::Time now) {
  CSIDELTA_CHECK(!windows.empty());
  const absl::CivilDay today = absl::ToCivilDay(now, absl::UTCTimeZone());
  absl::Time next = absl::InfiniteFuture();
  for (const DailyWindow& window : windows) {
    for (const absl::CivilDay day : {today, today + 1}) {
      const absl::Time opens =
          absl::FromCivil(absl::CivilMinute(day) + window.from_minute, absl::UTCTimeZone());
      next = opens > now ? std::min(next, opens) : next;
    }
  }
  return next;
}

std::string FormatTimeOfDay(absl::Time time) {
  return absl::FormatTime("%H:%M", time, absl::UTCTimeZone());
}

}  // namespace csidelta::datamover
