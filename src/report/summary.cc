#include "report/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/human_text.h"
#include "incremental/mover/full_reason.h"
#include "repository/volume_layout.h"

namespace csidelta::report {
namespace {

constexpr absl::string_view kMonths = "jan feb mar apr may jun jul aug sep oct nov dec";
constexpr absl::string_view kWeekdays = "sun mon tue wed thu fri sat";
constexpr double kAuditWrong = 0.01;
constexpr absl::Duration kVerifiedLately = absl::Hours(7 * 24);

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

// A message without what is particular to one backup: the volume's name, and words with digits.
std::string CauseOf(absl::string_view message, const std::string& volume) {
  std::vector<std::string> words = absl::StrSplit(
      volume.empty() ? std::string(message) : absl::StrReplaceAll(message, {{volume, "V"}}), ' ');
  for (std::string& word : words) {
    if (word.size() > 3 && absl::c_any_of(word, [](char c) { return absl::ascii_isdigit(c); })) {
      word = "N";
    }
  }
  return absl::StrJoin(words, " ");
}

// Sorts what is wrong by its cause.
class ProblemTable {
 public:
  void Add(ProblemKind kind, absl::string_view title, absl::string_view next_step,
           std::size_t volume, const std::string& name, absl::Time at) {
    Problem& problem = problems_[{kind, CauseOf(title, name)}];
    if (at >= problem.last) {  // The newest of them is shown.
      problem.kind = kind;
      problem.title = std::string(title);
      problem.next_step = std::string(next_step);
    }
    ++problem.backups;
    problem.first = std::min(problem.first, at);
    problem.last = std::max(problem.last, at);
    if (problem.volumes.empty() || problem.volumes.back() != volume) {
      problem.volumes.push_back(volume);
    }
  }

  // The worst first; of one kind those of the most volumes.
  std::vector<Problem> Take() && {
    std::vector<Problem> all;
    for (auto& [key, problem] : problems_) {
      all.push_back(std::move(problem));
    }
    std::stable_sort(all.begin(), all.end(), [](const Problem& a, const Problem& b) {
      return std::make_tuple(a.kind, b.volumes.size(), b.backups) <
             std::make_tuple(b.kind, a.volumes.size(), a.backups);
    });
    return all;
  }

 private:
  std::map<std::pair<ProblemKind, std::string>, Problem> problems_;
};

void AddProblems(const Summary& summary, std::size_t at, ProblemTable& table) {
  const VolumeView& view = summary.volumes[at];
  const VolumeEntry& entry = *view.entry;
  for (const BackupEntry& backup : entry.backups) {
    const incremental::FullReasonText* const reason = incremental::FindReason(backup.reason);
    if (backup.state == BackupState::kBroken) {
      table.Add(ProblemKind::kBroken, backup.message.empty() ? entry.finding : backup.message,
                "csi-delta check names what helps; the next backup must not rely on it", at,
                entry.name, backup.at);
    } else if (backup.state == BackupState::kFailed) {
      absl::string_view message = backup.message;
      absl::ConsumePrefix(&message, absl::StrCat("volume ", entry.name, ": "));
      const std::pair<absl::string_view, absl::string_view> said =
          absl::StrSplit(message, absl::MaxSplits("; ", 1));
      table.Add(ProblemKind::kFailed, said.first.empty() ? "no cause was recorded" : said.first,
                said.second.empty() ? "csi-delta doctor looks for the cause" : said.second, at,
                entry.name, backup.at);
    } else if (reason != nullptr && reason->is_fallback) {
      table.Add(ProblemKind::kFull, reason->sentence, reason->next_step, at, entry.name, backup.at);
    }
  }
  for (std::size_t day = 0; day < view.days.size(); ++day) {
    if (view.days[day] == DayState::kMissing) {
      table.Add(
          ProblemKind::kMissing, "A backup was due, and none was begun.",
          "velero schedule get: is it paused, and does it still name the volume's namespace?", at,
          "", absl::FromCivil(summary.first_day + static_cast<int64_t>(day), absl::UTCTimeZone()));
    }
  }
  if (!entry.next_step.empty() && view.failed + view.broken + view.missing == 0) {
    table.Add(ProblemKind::kAdvice, "The volume's record asks for attention.", entry.next_step, at,
              entry.name, view.last_good == nullptr ? absl::UnixEpoch() : view.last_good->at);
  }
}

std::string Percent(int64_t part, int64_t of) {
  return absl::StrCat(of == 0 ? 0 : 100 * part / of, " %");
}

void AddHeadline(const Report& report, Summary& summary) {
  int64_t alive = 0, behind = 0, never = 0, broken = 0, good = 0, failed = 0, missing = 0, full = 0;
  int64_t verified = 0, stored_bytes = 0, read_bytes = 0;
  absl::Time since = absl::InfinitePast();
  for (const VolumeView& view : summary.volumes) {
    alive += view.entry->gone_at.has_value() ? 0 : 1;
    good += view.good;
    failed += view.failed;
    broken += view.broken;
    missing += view.missing;
    verified += view.entry->verified_at > report.made_at - kVerifiedLately ? 1 : 0;
    for (const BackupEntry& backup : view.entry->backups) {
      full += backup.state == BackupState::kGood && backup.mode == "full" ? 1 : 0;
      stored_bytes = std::min(stored_bytes + backup.stored_bytes.value_or(0), kBytesMax);
      read_bytes = std::min(read_bytes + backup.read_bytes.value_or(0), kBytesMax);
    }
    if (view.is_behind) {
      ++behind;
      never += view.last_good == nullptr ? 1 : 0;
      since = std::max(since, view.last_good == nullptr ? since : view.last_good->at);
    }
  }
  summary.is_good = behind == 0 && broken == 0 && alive > 0;
  if (behind > 0) {
    summary.headline = absl::StrCat(
        behind, " of ", Counted(alive, "volume"), behind == 1 ? " has" : " have", " no good backup",
        behind == never ? "" : absl::StrCat(" since ", FormatDay(since)),
        never > 0 && never < behind ? absl::StrCat(", ", never, " of them none at all") : "");
  } else {
    summary.headline = alive == 0 ? "There is no volume to report on"
                       : alive == 1
                           ? "The volume has its newest backup"
                           : absl::StrCat("All ", alive, " volumes have their newest backup");
  }
  if (broken > 0) {
    summary.headline = absl::StrCat(Counted(broken, "backup"), " cannot be restored; ",
                                    behind > 0 ? summary.headline : "newer ones can");
  }
  summary.lines = {
      absl::StrCat(Counted(good, "good backup"), ", ", failed, " failed, ", missing, " missing, ",
                   Percent(good - full, good), " of the good ones incremental"),
      absl::StrCat(verified, " of ", Counted(std::ssize(summary.volumes), "volume"),
                   " verified in the last 7 days"),
      absl::StrCat(FormatBytes(read_bytes), " read, ", FormatBytes(stored_bytes), " stored")};
}

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
  ProblemTable table;
  for (std::size_t at = 0; at < summary.volumes.size(); ++at) {
    AddProblems(summary, at, table);
  }
  summary.problems = std::move(table).Take();
  AddHeadline(report, summary);
  return summary;
}

}  // namespace csidelta::report
