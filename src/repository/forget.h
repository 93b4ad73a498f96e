#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/lock.h"
#include "repository/maintenance.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

// Which repository snapshots stay, by rules with restic's meaning, and the removal of the rest.
namespace csidelta::repository {

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

inline constexpr int kKeepAll = -1;

// A snapshot stays when any rule keeps it; so does one that is dated in the future beside others
// that are not, and no rule counts it. Of each hour (day, week by ISO 8601, month, year) that has
// snapshots the newest counts, back until the number is used up; while a number is not, the oldest
// snapshot stays too. Spans count back from the newest snapshot that is not of the future.
struct KeepRules {
  // Numbers, or kKeepAll.
  int last = 0;
  int hourly = 0;
  int daily = 0;
  int weekly = 0;
  int monthly = 0;
  int yearly = 0;
  // All within the span, and one of each hour (day, …) within the span.
  CalendarSpan within = {};
  CalendarSpan within_hourly = {};
  CalendarSpan within_daily = {};
  CalendarSpan within_weekly = {};
  CalendarSpan within_monthly = {};
  CalendarSpan within_yearly = {};
  // Snapshots that have every tag of any of these lists.
  std::vector<std::vector<std::string>> tags = {};
  // In whose hours and days to count.
  absl::TimeZone zone = absl::UTCTimeZone();

  bool IsEmpty() const;
};

// Which snapshots compete with each other.
struct SnapshotGrouping {
  bool by_host = true;
  bool by_paths = true;
  bool by_tags = false;
};

// INVALID_ARGUMENT unless `text` is "" or a list of host, paths and tags with commas.
absl::StatusOr<SnapshotGrouping> ParseGrouping(absl::string_view text);

struct KeptSnapshot {
  StoredSnapshot snapshot;
  std::vector<std::string> reasons;  // "daily snapshot", "within 7d", "oldest yearly snapshot".
};

struct ForgetGroup {
  // What the snapshots have in common; empty where it is not grouped by.
  std::string hostname;
  std::vector<std::string> paths;
  std::vector<std::string> tags;
  // Newest first.
  std::vector<KeptSnapshot> keep;
  std::vector<StoredSnapshot> remove;
};

// Sorts snapshots into groups and decides about each. Pure. FAILED_PRECONDITION when rules are
// empty, or would leave a group without any snapshot: who wants that removes snapshots by id.
absl::StatusOr<std::vector<ForgetGroup>> DecideForget(absl::Span<const StoredSnapshot> snapshots,
                                                      const KeepRules& rules,
                                                      const SnapshotGrouping& grouping,
                                                      absl::Time now);

// Removes these snapshots, then their sidecars; the data goes with the next prune. One that is gone
// already is no error. REQUIRES that `lock` is exclusive. An error leaves the rest in place.
absl::Status RemoveSnapshots(const CallContext& ctx, Repository& repository, Lock& lock,
                             absl::Span<const Id> ids, const ProgressReporter& progress = nullptr);

}  // namespace csidelta::repository
