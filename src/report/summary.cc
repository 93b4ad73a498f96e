#include "report/summary.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "repository/volume_layout.h"

namespace csidelta::report {
namespace {

constexpr absl::string_view kMonths = "jan feb mar apr may jun jul aug sep oct nov dec";
constexpr absl::string_view kWeekdays = "sun mon tue wed thu fri sat";
constexpr double kAuditWrong = 0.01;

// A number of a field of a schedule, or one of `names`, counted from `first`; -1 for others.
int NumberIn(absl::string_view text, absl::string_view names, int first) {
  int number = -1;
  const std::size_t at = text.size() == 3 ? names.find(absl::AsciiStrToLower(text)) : names.npos;
  return at != names.npos                  ? static_cast<int>(at) / 4 + first
         : absl::SimpleAtoi(text, &number) ? number
                                           : -1;
}

// Whether a field of a schedule names `value`, of values from `first` to `last`.
bool Names(absl::string_view field, int value, int first, int last, absl::string_view names = "") {
  for (const absl::string_view part : absl::StrSplit(field, ',')) {
    const std::pair<absl::string_view, absl::string_view> stepped =
        absl::StrSplit(part, absl::MaxSplits('/', 1));
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(stepped.first, absl::MaxSplits('-', 1));
    const bool is_any = range.first == "*" || range.first == "?";
    const int step = stepped.second.empty() ? 1 : NumberIn(stepped.second, "", 0);
    const int from = is_any ? first : NumberIn(range.first, names, first);
    const int to = is_any || (range.second.empty() && !stepped.second.empty()) ? last
                   : range.second.empty()                                      ? from
                                          : NumberIn(range.second, names, first);
    if (step > 0 && from >= first && value >= from && value <= to && (value - from) % step == 0) {
      return true;
    }
  }
  return false;
}

absl::CivilDay DayOf(absl::Time time) { return absl::ToCivilDay(time, absl::UTCTimeZone()); }

// The days between two attempts of a volume without schedule: the median. 0: there are too few.
int64_t UsualGap(const std::set<int64_t>& attempts) {
  std::vector<int64_t> gaps;
  for (auto at = attempts.begin(); at != attempts.end() && std::next(at) != attempts.end(); ++at) {
    gaps.push_back(*std::next(at) - *at);
  }
  std::sort(gaps.begin(), gaps.end());
  return gaps.empty() ? 0 : gaps[(gaps.size() - 1) / 2];
}

// Makes the view of a volume. `first` is the first day of the report.
class Viewer {
 public:
  Viewer(const VolumeEntry& entry, absl::CivilDay first, int64_t days) : first_(first) {
    view_.entry = &entry;
    view_.days.assign(static_cast<std::size_t>(days), DayState::kNotDue);
  }

  VolumeView Take() && {
    for (const BackupEntry& backup : view_.entry->backups) {
      AddBackup(backup);
    }
    AddMissing();
    const auto is_bad = [](DayState day) {
      return day == DayState::kFailed || day == DayState::kMissing || day == DayState::kBroken;
    };
    const auto newest = std::find_if(view_.days.rbegin(), view_.days.rend(), [&](DayState day) {
      return is_bad(day) || day == DayState::kGood || day == DayState::kGoodFull;
    });
    view_.is_behind =
        !view_.entry->gone_at.has_value() &&
        (view_.last_good == nullptr || (newest != view_.days.rend() && is_bad(*newest)));
    AddChain();
    AddAudit();
    return std::move(view_);
  }

 private:
  int64_t IndexOf(absl::Time time) const { return DayOf(time) - first_; }
  DayState& DayAt(int64_t index) { return view_.days[static_cast<std::size_t>(index)]; }

  void AddBackup(const BackupEntry& backup) {
    const int64_t index = IndexOf(backup.at);
    attempts_.insert(index);
    if (backup.state == BackupState::kGood) {
      ++view_.good;
      view_.last_good = &backup;
      DayState& day = DayAt(index);
      day = backup.mode == "full" || day == DayState::kGoodFull ? DayState::kGoodFull
                                                                : DayState::kGood;
    } else {
      const bool is_broken = backup.state == BackupState::kBroken;
      ++(is_broken ? view_.broken : view_.failed);
      if (DayState& day = DayAt(index); day == DayState::kNotDue || day == DayState::kFailed) {
        day = is_broken ? DayState::kBroken : DayState::kFailed;
      }
    }
  }

  bool IsDue(int64_t index, int64_t gap, int64_t last_attempt) const {
    const std::vector<std::string>& crons = view_.entry->schedules;
    if (!crons.empty()) {
      return absl::c_any_of(crons,
                            [&](const std::string& cron) { return RunsOn(cron, first_ + index); });
    }
    return gap > 0 && index > last_attempt && (index - last_attempt) % gap == 0;
  }

  void AddMissing() {
    const VolumeEntry& entry = *view_.entry;
    const int64_t today = std::ssize(view_.days) - 1;
    const int64_t known = entry.known_since.has_value() ? IndexOf(*entry.known_since)
                          : attempts_.empty()           ? today + 1
                                                        : *attempts_.begin();
    const int64_t begun = attempts_.empty() ? known : std::min(known, *attempts_.begin());
    const int64_t gone = entry.gone_at.has_value() ? IndexOf(*entry.gone_at) : today + 1;
    const int64_t gap = UsualGap(attempts_);
    int64_t last_attempt = begun;
    for (int64_t index = 0; index <= today; ++index) {
      if (attempts_.contains(index)) {
        last_attempt = index;
      } else if (index < begun || index >= gone) {
        DayAt(index) = DayState::kNone;
      } else if (index > known && index < today && IsDue(index, gap, last_attempt)) {
        DayAt(index) = DayState::kMissing;
        ++view_.missing;
      }
    }
  }

  void AddChain() {
    const std::vector<BackupEntry>& backups = view_.entry->backups;
    for (auto at = backups.rbegin(); view_.last_good != nullptr && at != backups.rend(); ++at) {
      if (&*at <= view_.last_good && at->state != BackupState::kFailed) {
        ++view_.chain_length;
        if (at->mode != "incremental") {
          view_.chain_start = at->mode == "full" ? &*at : nullptr;
          return;
        }
      }
    }
  }

  void AddAudit() {
    const BackupEntry* const last = view_.last_good;
    if (last != nullptr && last->audit_bytes.value_or(0) > 0) {
      const int64_t chunks = *last->audit_bytes /
                             repository::DefaultChunkBytes(std::max<int64_t>(1, last->size_bytes));
      view_.audit_detects = 1 - std::pow(1 - kAuditWrong, static_cast<double>(chunks));
    }
  }

  const absl::CivilDay first_;
  VolumeView view_;
  std::set<int64_t> attempts_;  // the days with one
};

}  // namespace

bool RunsOn(absl::string_view cron, absl::CivilDay day) {
  std::vector<absl::string_view> fields = absl::StrSplit(cron, ' ', absl::SkipEmpty());
  if (!fields.empty() && absl::StrContains(fields[0], "TZ=")) {
    fields.erase(fields.begin());
  }
  // Of Sunday 0, as schedules count.
  const int weekday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;
  const absl::string_view macro = fields.empty() ? "" : fields[0];
  if (absl::StartsWith(macro, "@")) {
    return macro == "@weekly"                           ? weekday == 0
           : macro == "@monthly"                        ? day.day() == 1
           : macro == "@yearly" || macro == "@annually" ? day.day() == 1 && day.month() == 1
                                                        : true;
  }
  if (fields.size() != 5 || !Names(fields[3], day.month(), 1, 12, kMonths)) {
    return false;
  }
  const auto is_any = [](absl::string_view field) { return field[0] == '*' || field[0] == '?'; };
  const bool on_date = Names(fields[2], day.day(), 1, 31);
  const bool on_weekday = Names(fields[4], weekday, 0, 7, kWeekdays) ||
                          (weekday == 0 && Names(fields[4], 7, 0, 7, kWeekdays));
  return is_any(fields[2]) || is_any(fields[4]) ? on_date && on_weekday : on_date || on_weekday;
}

std::string FormatDay(absl::Time time) {
  return absl::FormatTime("%-d %b %Y", time, absl::UTCTimeZone());
}

Summary Summarize(const Report& report) {
  Summary summary = {.first_day = DayOf(report.since)};
  summary.days = DayOf(report.made_at) - summary.first_day + 1;
  for (const VolumeEntry& volume : report.volumes) {
    summary.volumes.push_back(Viewer(volume, summary.first_day, summary.days).Take());
  }
  absl::c_stable_sort(summary.volumes, [](const VolumeView& a, const VolumeView& b) {
    return std::make_tuple(!a.is_behind, a.broken == 0) <
           std::make_tuple(!b.is_behind, b.broken == 0);
  });
  return summary;
}

}  // namespace csidelta::report
