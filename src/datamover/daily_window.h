#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Windows of the day, in UTC, in which something may begin. All pure.
namespace csidelta::datamover {

// Minutes of the day. A window that ends before it begins goes on after midnight.
struct DailyWindow {
  int from_minute = 0;  // 0 to 1439
  int to_minute = 0;    // excluded; 1 to 1440

  bool operator==(const DailyWindow&) const = default;
};

// Parses "22:00-06:00"; "00:00-24:00" is all day. Nothing for any other text, and if both times are
// equal.
std::optional<DailyWindow> ParseDailyWindow(absl::string_view text);

// Whether one of `windows` is open, or there are none.
bool IsOpen(const std::vector<DailyWindow>& windows, absl::Time now);

// When the next window opens, later than `now`. REQUIRES that `windows` is not empty.
absl::Time NextOpening(const std::vector<DailyWindow>& windows, absl::Time now);

// "22:00"
std::string FormatTimeOfDay(absl::Time time);

}  // namespace csidelta::datamover
