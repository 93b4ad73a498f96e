#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/finding.h"

// Which of some dated things stay, by the keep rules of restic (`restic forget --help`, the
// manual's "Removing backup snapshots"): repository snapshots and VolumeSnapshots alike. Pure.
namespace csidelta {

// A length of time by the calendar: "2y5m7d3h". All zero: none.
struct CalendarSpan {
  int years = 0;
  int months = 0;
  int days = 0;
  int hours = 0;

  bool IsZero() const { return *this == CalendarSpan(); }
  friend bool operator==(const CalendarSpan&, const CalendarSpan&) = default;
};

// INVALID_ARGUMENT unless `text` is one or more of <number>y, m, d, h in any order, each once.
absl::StatusOr<CalendarSpan> ParseCalendarSpan(absl::string_view text);
std::string FormatCalendarSpan(const CalendarSpan& span);
// The moment that lies `span` before `from`, by the calendar of `zone`.
absl::Time GoBack(absl::Time from, const CalendarSpan& span, absl::TimeZone zone);

inline constexpr int kKeepAll = -1;

// A thing stays when any rule keeps it; so does one that is dated in the future alongside others
// that are not, and no rule counts it. Of each hour (day, week by ISO 8601, month, year) that has
// things the newest counts, back until the number is used up; while a number is not, the oldest
// stays too. Spans count back from the newest that is not of the future.
struct KeepRules {
  // Numbers, or kKeepAll.
  int last = 0;
  int hourly = 0;
  int daily = 0;
  int weekly = 0;
  int monthly = 0;
  int yearly = 0;
  // All within the span, and one of each hour (day, ...) within the span.
  CalendarSpan within = {};
  CalendarSpan within_hourly = {};
  CalendarSpan within_daily = {};
  CalendarSpan within_weekly = {};
  CalendarSpan within_monthly = {};
  CalendarSpan within_yearly = {};
  // Those that have every tag of any of these lists.
  std::vector<std::vector<std::string>> tags = {};
  // In whose hours and days to count.
  absl::TimeZone zone = absl::UTCTimeZone();

  bool IsEmpty() const;
};

// Clocks of two machines may differ by so much: what is dated later is dated in the future.
inline constexpr absl::Duration kClockSkewMax = absl::Minutes(10);
inline bool IsOfTheFuture(absl::Time time, absl::Time now) { return time > now + kClockSkewMax; }

struct DatedItem {
  absl::Time time;
  absl::Span<const std::string> tags = {};
};

// Why each item stays ("daily snapshot", "within 7d", "oldest yearly snapshot"); an empty list says
// that no rule keeps it. REQUIRES that the items compete with each other and that the newest comes
// first.
std::vector<std::vector<std::string>> DecideKeep(absl::Span<const DatedItem> newest_first,
                                                 const KeepRules& rules, absl::Time now);

enum class PruneVerdict {
  kOpen,  // not decided yet
  kIgnored,
  kKept,
  kHeld,  // not needed, and cannot be deleted now
  kRemoved,
};

// What a prune decides about one of several things: by the tables of snapshots/snapshot_prune.h and
// longhorn/snapshot_prune.h.
struct PruneDecision {
  std::size_t entry = 0;  // its position in the inventory
  PruneVerdict verdict = PruneVerdict::kOpen;
  absl::string_view code = {};             // of the row: "NoRule"
  std::vector<std::string> messages = {};  // at least one, unless it is ignored
  std::vector<Finding> protections = {};   // with the code Protected

  bool is_open() const { return verdict == PruneVerdict::kOpen; }
  void Settle(PruneVerdict to, absl::string_view row, std::vector<std::string> why) {
    verdict = to;
    code = row;
    messages = std::move(why);
  }
  void Keep(absl::string_view row, std::string why) {
    Settle(PruneVerdict::kKept, row, {std::move(why)});
  }
  // With the code Protected. REQUIRES a protection.
  void Protect(std::vector<Finding> by);
};

// Keeps those that a rule keeps, with the code Rule. `competing` compete with each other; of two
// with one date the first counts as the newer one.
void KeepByRules(std::vector<PruneDecision*> competing, const KeepRules& rules, absl::Time now,
                 absl::FunctionRef<absl::Time(std::size_t entry)> date_of);

}  // namespace csidelta
