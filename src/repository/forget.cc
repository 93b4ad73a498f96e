#include "repository/forget.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "base/status_macros.h"

namespace csidelta::repository {
namespace {

// Which hour, day, ... a time falls in, as a number.
using BucketOf = int64_t (*)(absl::Time time, int64_t ordinal);

absl::CivilSecond Utc(absl::Time time) { return absl::ToCivilSecond(time, absl::UTCTimeZone()); }

// Days since the epoch, of the Monday before: the same for all days of an ISO week.
int64_t IsoWeek(absl::Time time) {
  const absl::CivilDay day(Utc(time));
  return absl::PrevWeekday(day + 1, absl::Weekday::monday) - absl::CivilDay();
}

int64_t Ordinal(absl::Time /*time*/, int64_t ordinal) { return ordinal; }
int64_t Hour(absl::Time time, int64_t /*ordinal*/) {
  return absl::CivilHour(Utc(time)) - absl::CivilHour();
}
int64_t Day(absl::Time time, int64_t /*ordinal*/) {
  return absl::CivilDay(Utc(time)) - absl::CivilDay();
}
int64_t Week(absl::Time time, int64_t /*ordinal*/) { return IsoWeek(time); }
int64_t Month(absl::Time time, int64_t /*ordinal*/) {
  return absl::CivilMonth(Utc(time)) - absl::CivilMonth();
}
int64_t Year(absl::Time time, int64_t /*ordinal*/) {
  return absl::CivilYear(Utc(time)) - absl::CivilYear();
}

constexpr int64_t kNoBucket = std::numeric_limits<int64_t>::min();

// One rule at work, going from new to old.
struct Rule {
  const char* reason;
  BucketOf bucket_of;
  int count = 0;             // Left; kKeepAll: endless.
  absl::Time since = {};     // Older snapshots are not looked at.
  int64_t last = kNoBucket;  // What was kept last.

  // Whether the rule keeps this snapshot.
  bool Take(absl::Time time, int64_t ordinal, bool is_oldest) {
    if (count == 0 || time <= since) {
      return false;
    }
    const int64_t bucket = bucket_of(time, ordinal);
    if (bucket == last && !is_oldest) {
      return false;
    }
    last = bucket;
    count -= count > 0 ? 1 : 0;
    return true;
  }
};

absl::Time Before(absl::Time time, const CalendarSpan& span) {
  const absl::CivilSecond from = Utc(time);
  const absl::CivilSecond to(from.year() - span.years, from.month() - span.months,
                             from.day() - span.days, from.hour() - span.hours, from.minute(),
                             from.second());
  return absl::FromCivil(to, absl::UTCTimeZone());
}

std::vector<Rule> MakeRules(const KeepPolicy& policy, absl::Time newest) {
  const absl::Time always = absl::InfinitePast();
  std::vector<Rule> rules = {
      {.reason = "last snapshot", .bucket_of = Ordinal, .count = policy.last, .since = always},
      {.reason = "hourly snapshot", .bucket_of = Hour, .count = policy.hourly, .since = always},
      {.reason = "daily snapshot", .bucket_of = Day, .count = policy.daily, .since = always},
      {.reason = "weekly snapshot", .bucket_of = Week, .count = policy.weekly, .since = always},
      {.reason = "monthly snapshot", .bucket_of = Month, .count = policy.monthly, .since = always},
      {.reason = "yearly snapshot", .bucket_of = Year, .count = policy.yearly, .since = always}};
  const auto add_within = [&](const char* reason, BucketOf bucket_of, const CalendarSpan& span) {
    if (!span.IsZero()) {
      rules.push_back({.reason = reason,
                       .bucket_of = bucket_of,
                       .count = kKeepAll,
                       .since = Before(newest, span)});
    }
  };
  add_within("within", Ordinal, policy.within);
  add_within("hourly within", Hour, policy.within_hourly);
  add_within("daily within", Day, policy.within_daily);
  add_within("weekly within", Week, policy.within_weekly);
  add_within("monthly within", Month, policy.within_monthly);
  add_within("yearly within", Year, policy.within_yearly);
  return rules;
}

bool HasAllTags(const RepoSnapshot& snapshot, const std::vector<std::string>& tags) {
  return std::all_of(tags.begin(), tags.end(), [&](const std::string& tag) {
    return std::find(snapshot.tags.begin(), snapshot.tags.end(), tag) != snapshot.tags.end();
  });
}

std::vector<std::string> Sorted(std::vector<std::string> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

absl::StatusOr<CalendarSpan> ParseCalendarSpan(absl::string_view text) {
  constexpr int kNumberMax = 100'000;
  CalendarSpan span;
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no length of time such as 1y5m7d2h"));
  const std::array<std::pair<char, int CalendarSpan::*>, 4> units = {{{'y', &CalendarSpan::years},
                                                                      {'m', &CalendarSpan::months},
                                                                      {'d', &CalendarSpan::days},
                                                                      {'h', &CalendarSpan::hours}}};
  int number = -1;
  std::string used;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      number = std::max(number, 0) * 10 + (c - '0');
      if (number > kNumberMax) {
        return malformed;
      }
      continue;
    }
    const auto unit = std::find_if(units.begin(), units.end(),
                                   [c](const auto& candidate) { return candidate.first == c; });
    if (unit == units.end() || number < 0 || used.find(c) != std::string::npos) {
      return malformed;
    }
    span.*(unit->second) = std::exchange(number, -1);
    used.push_back(c);
  }
  if (used.empty() || number >= 0) {
    return malformed;
  }
  return span;
}

bool KeepPolicy::IsEmpty() const {
  return last == 0 && hourly == 0 && daily == 0 && weekly == 0 && monthly == 0 && yearly == 0 &&
         within.IsZero() && within_hourly.IsZero() && within_daily.IsZero() &&
         within_weekly.IsZero() && within_monthly.IsZero() && within_yearly.IsZero() &&
         tags.empty();
}

std::vector<KeepDecision> ApplyPolicy(std::vector<StoredSnapshot> snapshots,
                                      const KeepPolicy& policy) {
  std::sort(snapshots.begin(), snapshots.end(), [](const auto& a, const auto& b) {
    return std::tie(a.snapshot.time, a.id) > std::tie(b.snapshot.time, b.id);
  });
  std::vector<Rule> rules;
  if (!snapshots.empty()) {
    rules = MakeRules(policy, snapshots.front().snapshot.time);
  }
  std::vector<KeepDecision> decisions;
  for (std::size_t i = 0; i < snapshots.size(); ++i) {
    KeepDecision decision = {.snapshot = std::move(snapshots[i]), .keep = false, .reasons = {}};
    const RepoSnapshot& snapshot = decision.snapshot.snapshot;
    if (policy.IsEmpty()) {
      decision.reasons.emplace_back("policy is empty");
    }
    for (const std::vector<std::string>& tags : policy.tags) {
      if (HasAllTags(snapshot, tags)) {
        decision.reasons.emplace_back("tags");
        break;
      }
    }
    for (Rule& rule : rules) {
      if (rule.Take(snapshot.time, static_cast<int64_t>(i), i + 1 == snapshots.size())) {
        decision.reasons.emplace_back(rule.reason);
      }
    }
    decision.keep = !decision.reasons.empty();
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

std::vector<SnapshotGroup> GroupSnapshots(absl::Span<const StoredSnapshot> snapshots,
                                          const Grouping& grouping) {
  using Key = std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>;
  std::map<Key, std::vector<StoredSnapshot>> groups;
  for (const StoredSnapshot& stored : snapshots) {
    const RepoSnapshot& snapshot = stored.snapshot;
    Key key;
    if (grouping.by_host) {
      std::get<0>(key) = snapshot.hostname;
    }
    if (grouping.by_paths) {
      std::get<1>(key) = Sorted(snapshot.paths);
    }
    if (grouping.by_tags) {
      std::get<2>(key) = Sorted(snapshot.tags);
    }
    groups[key].push_back(stored);
  }
  std::vector<SnapshotGroup> result;
  for (auto& [key, members] : groups) {
    result.push_back({.hostname = std::get<0>(key),
                      .paths = std::get<1>(key),
                      .tags = std::get<2>(key),
                      .snapshots = std::move(members)});
  }
  return result;
}

absl::Status ForgetSnapshots(const CallContext& ctx, Repository& repository, Lock& lock,
                             absl::Span<const Id> ids) {
  for (const Id& id : ids) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(lock.Fence(ctx));
    RETURN_IF_ERROR(repository.RemoveFile(ctx, FileKind::kSnapshot, id));
    RETURN_IF_ERROR(repository.RemoveLocator(ctx, id));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::repository
