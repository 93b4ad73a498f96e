#include "base/keep_rules.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/civil_time.h"
#include "base/check.h"

namespace csidelta {
namespace {

constexpr char kFutureReason[] = "dated in the future";
constexpr int kSpanNumberMax = 100'000;

enum class Period { kSnapshot, kHour, kDay, kWeek, kMonth, kYear };

absl::string_view NameOf(Period period) {
  constexpr std::array<absl::string_view, 6> kNames = {"last snapshot",    "hourly snapshot",
                                                       "daily snapshot",   "weekly snapshot",
                                                       "monthly snapshot", "yearly snapshot"};
  return kNames[static_cast<std::size_t>(period)];
}

// The Thursday of the week of `day`: its year and number are those of the week (ISO 8601).
absl::CivilDay ThursdayOf(absl::CivilDay day) {
  return absl::NextWeekday(absl::PrevWeekday(day + 1, absl::Weekday::monday),
                           absl::Weekday::thursday);
}

// Snapshots of one period have equal numbers. `position` tells snapshots apart.
int64_t BucketOf(Period period, absl::CivilSecond time, int64_t position) {
  const absl::CivilSecond epoch;
  switch (period) {
    case Period::kSnapshot:
      return position;
    case Period::kHour:
      return absl::CivilHour(time) - absl::CivilHour(epoch);
    case Period::kDay:
      return absl::CivilDay(time) - absl::CivilDay(epoch);
    case Period::kWeek:
      return ThursdayOf(absl::CivilDay(time)) - absl::CivilDay(epoch);
    case Period::kMonth:
      return absl::CivilMonth(time) - absl::CivilMonth(epoch);
    case Period::kYear:
      break;
  }
  return time.year();
}

bool HasTags(const DatedItem& item, const std::vector<std::string>& tags) {
  return std::all_of(tags.begin(), tags.end(), [&](const std::string& tag) {
    return std::find(item.tags.begin(), item.tags.end(), tag) != item.tags.end();
  });
}

// One rule that keeps a snapshot of each period, while it is asked from the newest to the oldest.
class PeriodRule {
 public:
  PeriodRule(Period period, int count) : period_(period), left_(count), name_(NameOf(period)) {}
  PeriodRule(Period period, const CalendarSpan& span, absl::Time not_before)
      : period_(period),
        left_(span.IsZero() ? 0 : kKeepAll),
        not_before_(not_before),
        name_(absl::StrCat(NameOf(period), " within ", FormatCalendarSpan(span))) {}

  // Why this one stays, if it does.
  std::optional<std::string> Keeps(absl::Time time, absl::CivilSecond civil, int64_t position,
                                   bool oldest) {
    if (left_ == 0 || time <= not_before_) {
      return std::nullopt;
    }
    const int64_t bucket = BucketOf(period_, civil, position);
    const bool first_of_period = bucket != last_bucket_;
    if (!first_of_period && !oldest) {
      return std::nullopt;
    }
    last_bucket_ = bucket;
    left_ -= left_ > 0 ? 1 : 0;
    return first_of_period ? name_ : absl::StrCat("oldest ", name_);
  }

 private:
  Period period_;
  int left_;
  absl::Time not_before_ = absl::InfinitePast();
  std::string name_;
  std::optional<int64_t> last_bucket_;
};

absl::Time NewestUpTo(absl::Span<const DatedItem> newest_first, absl::Time now) {
  for (const DatedItem& item : newest_first) {
    if (item.time <= now) {
      return item.time;
    }
  }
  return now;
}

std::vector<PeriodRule> MakeRules(const KeepRules& rules, absl::Time newest) {
  std::vector<PeriodRule> made = {{Period::kSnapshot, rules.last}, {Period::kHour, rules.hourly},
                                  {Period::kDay, rules.daily},     {Period::kWeek, rules.weekly},
                                  {Period::kMonth, rules.monthly}, {Period::kYear, rules.yearly}};
  const auto add = [&](Period period, const CalendarSpan& span) {
    made.emplace_back(period, span, GoBack(newest, span, rules.zone));
  };
  add(Period::kHour, rules.within_hourly);
  add(Period::kDay, rules.within_daily);
  add(Period::kWeek, rules.within_weekly);
  add(Period::kMonth, rules.within_monthly);
  add(Period::kYear, rules.within_yearly);
  return made;
}

}  // namespace

absl::StatusOr<CalendarSpan> ParseCalendarSpan(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no span of time: write one like 1y6m7d12h"));
  CalendarSpan span;
  std::string units_seen;
  while (!text.empty()) {
    const std::size_t digits = text.find_first_not_of("0123456789");
    int number = 0;
    if (digits == 0 || digits == absl::string_view::npos ||
        !absl::SimpleAtoi(text.substr(0, digits), &number) || number > kSpanNumberMax ||
        units_seen.find(text[digits]) != std::string::npos) {
      return malformed;
    }
    const char unit = text[digits];
    units_seen.push_back(unit);
    int* const part = unit == 'y'   ? &span.years
                      : unit == 'm' ? &span.months
                      : unit == 'd' ? &span.days
                      : unit == 'h' ? &span.hours
                                    : nullptr;
    if (part == nullptr) {
      return malformed;
    }
    *part = number;
    text.remove_prefix(digits + 1);
  }
  return units_seen.empty() ? absl::StatusOr<CalendarSpan>(malformed) : span;
}

std::string FormatCalendarSpan(const CalendarSpan& span) {
  std::string text;
  const auto add = [&text](int number, absl::string_view unit) {
    if (number != 0) {
      absl::StrAppend(&text, number, unit);
    }
  };
  add(span.years, "y");
  add(span.months, "m");
  add(span.days, "d");
  add(span.hours, "h");
  return text.empty() ? "0h" : text;
}

absl::Time GoBack(absl::Time from, const CalendarSpan& span, absl::TimeZone zone) {
  const absl::CivilSecond time = absl::ToCivilSecond(from, zone);
  const absl::CivilSecond back(time.year() - span.years, time.month() - span.months,
                               time.day() - span.days, time.hour(), time.minute(), time.second());
  return absl::FromCivil(back, zone) - absl::Hours(span.hours);
}

bool KeepRules::IsEmpty() const {
  const bool counts =
      last != 0 || hourly != 0 || daily != 0 || weekly != 0 || monthly != 0 || yearly != 0;
  const bool spans = !within.IsZero() || !within_hourly.IsZero() || !within_daily.IsZero() ||
                     !within_weekly.IsZero() || !within_monthly.IsZero() || !within_yearly.IsZero();
  return !counts && !spans && tags.empty();
}

std::vector<std::vector<std::string>> DecideKeep(absl::Span<const DatedItem> newest_first,
                                                 const KeepRules& rules, absl::Time now) {
  std::vector<std::vector<std::string>> reasons(newest_first.size());
  // What is dated in the future comes first, and competes with nothing; where all are, it is this
  // clock that is wrong.
  std::size_t begin = 0;
  if (!newest_first.empty() && !IsOfTheFuture(newest_first.back().time, now)) {
    while (IsOfTheFuture(newest_first[begin].time, now)) {
      reasons[begin++] = {kFutureReason};
    }
  }
  const absl::Time newest = NewestUpTo(newest_first.subspan(begin), now);
  const absl::Time within_begin = GoBack(newest, rules.within, rules.zone);
  std::vector<PeriodRule> period_rules = MakeRules(rules, newest);
  for (std::size_t i = begin; i < newest_first.size(); ++i) {
    const DatedItem& item = newest_first[i];
    for (const std::vector<std::string>& tags : rules.tags) {
      if (HasTags(item, tags)) {
        reasons[i].push_back(absl::StrCat("has tags ", absl::StrJoin(tags, ", ")));
      }
    }
    if (!rules.within.IsZero() && item.time > within_begin) {
      reasons[i].push_back(absl::StrCat("within ", FormatCalendarSpan(rules.within)));
    }
    const absl::CivilSecond civil = absl::ToCivilSecond(item.time, rules.zone);
    for (PeriodRule& rule : period_rules) {
      if (std::optional<std::string> reason =
              rule.Keeps(item.time, civil, static_cast<int64_t>(i), i + 1 == newest_first.size())) {
        reasons[i].push_back(*std::move(reason));
      }
    }
  }
  return reasons;
}

void PruneDecision::Protect(std::vector<Finding> by) {
  CSIDELTA_CHECK(!by.empty());
  Settle(PruneVerdict::kKept, "Protected", MessagesOf(by));
  protections = std::move(by);
}

void KeepByRules(std::vector<PruneDecision*> competing, const KeepRules& rules, absl::Time now,
                 absl::FunctionRef<absl::Time(std::size_t entry)> date_of) {
  std::stable_sort(competing.begin(), competing.end(),
                   [&](const PruneDecision* left, const PruneDecision* right) {
                     return date_of(left->entry) > date_of(right->entry);
                   });
  std::vector<DatedItem> items;
  items.reserve(competing.size());
  for (const PruneDecision* one : competing) {
    items.push_back({.time = date_of(one->entry)});
  }
  std::vector<std::vector<std::string>> reasons = DecideKeep(items, rules, now);
  for (std::size_t i = 0; i < competing.size(); ++i) {
    if (!reasons[i].empty()) {
      competing[i]->Settle(PruneVerdict::kKept, "Rule", std::move(reasons[i]));
    }
  }
}

}  // namespace csidelta
