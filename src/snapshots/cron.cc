#include "snapshots/cron.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace csidelta::snapshots {
namespace {

constexpr std::size_t kTextBytesMax = 200;
constexpr absl::string_view kMacros[] = {"@yearly", "@annually", "@monthly", "@weekly",
                                         "@daily",  "@midnight", "@hourly"};
constexpr absl::string_view kMonths[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                         "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr absl::string_view kWeekdays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr int kDaysOf[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

struct CronField {
  absl::string_view name;
  int low;
  int high;
  absl::Span<const absl::string_view> names;  // of the values from `low` on
};
constexpr std::size_t kFieldCount = 5;
constexpr std::size_t kDayOfMonth = 2;
constexpr std::size_t kMonth = 3;
constexpr std::size_t kDayOfWeek = 4;
const std::array<CronField, kFieldCount>& Fields() {
  static const std::array<CronField, kFieldCount> fields = {{{"minute", 0, 59, {}},
                                                             {"hour", 0, 23, {}},
                                                             {"day of month", 1, 31, {}},
                                                             {"month", 1, 12, kMonths},
                                                             {"day of week", 0, 6, kWeekdays}}};
  return fields;
}

// Which values a field has.
struct CronValues {
  uint64_t bits = 0;
  bool is_any = false;  // "*": days of the other field decide
};

absl::Status CronError(const CronField& field, absl::string_view item, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the ", field.name, " of the cron expression: \"", item, "\" ", what));
}

absl::StatusOr<int> ParseCronValue(const CronField& field, absl::string_view item,
                                   absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  const auto* const name = std::find(field.names.begin(), field.names.end(), lower);
  if (name != field.names.end()) {
    return field.low + static_cast<int>(std::distance(field.names.begin(), name));
  }
  int value = 0;
  const bool is_number = !text.empty() &&
                         std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
                         absl::SimpleAtoi(text, &value);
  if (!is_number || value < field.low || value > field.high) {
    return CronError(field, item,
                     absl::StrCat("has no number from ", field.low, " to ", field.high,
                                  field.names.empty() ? "" : " and no name such as ",
                                  field.names.empty() ? "" : field.names[1]));
  }
  return value;
}

absl::Status AddCronItem(const CronField& field, absl::string_view item, CronValues& values) {
  const std::vector<absl::string_view> parts = absl::StrSplit(item, '/');
  const std::vector<absl::string_view> ends = absl::StrSplit(parts[0], '-');
  if (parts.size() > 2 || ends.size() > 2) {
    return CronError(field, item, "is neither a value, nor a range such as 1-5, nor a step");
  }
  int from = field.low;
  int to = field.high;
  const bool is_star = parts[0] == "*" || parts[0] == "?";
  if (!is_star) {
    ASSIGN_OR_RETURN(from, ParseCronValue(field, item, ends[0]));
    to = parts.size() == 2 ? field.high : from;
    if (ends.size() == 2) {
      ASSIGN_OR_RETURN(to, ParseCronValue(field, item, ends[1]));
    }
  }
  if (from > to) {
    return CronError(field, item, "ends before it begins; write it as two ranges");
  }
  int step = 1;
  const bool has_step = parts.size() == 2;
  if (has_step && (!std::all_of(parts[1].begin(), parts[1].end(), absl::ascii_isdigit) ||
                   !absl::SimpleAtoi(parts[1], &step) || step < 1)) {
    return CronError(field, item, "has a step that is not a number above 0");
  }
  // Once round is as good as any longer step.
  for (int value = from; value <= to; value += std::min(step, field.high + 1)) {
    values.bits |= uint64_t{1} << value;
  }
  values.is_any |= is_star && step == 1;
  return absl::OkStatus();
}

bool HasAnyDay(const CronValues& days, const CronValues& months) {
  for (std::size_t month = 1; month <= std::size(kDaysOf); ++month) {
    const uint64_t days_of_month = (uint64_t{2} << kDaysOf[month - 1]) - 1;
    if (((months.bits >> month) & 1) != 0 && (days.bits & days_of_month) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::Status CheckCron(absl::string_view text) {
  if (std::find(std::begin(kMacros), std::end(kMacros), text) != std::end(kMacros)) {
    return absl::OkStatus();
  }
  const std::vector<absl::string_view> field_texts =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (field_texts.size() != kFieldCount || text.size() > kTextBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text.substr(0, kTextBytesMax), "\" is not a cron expression: it has ",
        field_texts.size(), field_texts.size() == 1 ? " field" : " fields",
        ", not 5 (minute, hour, day of month, month, day of week: \"0 3 * * *\"), and is not "
        "@hourly, @daily, @weekly, @monthly or @yearly"));
  }
  std::array<CronValues, kFieldCount> values;
  for (std::size_t i = 0; i < kFieldCount; ++i) {
    for (const absl::string_view item : absl::StrSplit(field_texts[i], ',')) {
      RETURN_IF_ERROR(AddCronItem(Fields()[i], item, values[i]));
    }
  }
  if (values[kDayOfWeek].is_any && !HasAnyDay(values[kDayOfMonth], values[kMonth])) {
    return CronError(Fields()[kDayOfMonth], field_texts[kDayOfMonth],
                     "is a day that its month never has");
  }
  return absl::OkStatus();
}

}  // namespace csidelta::snapshots
