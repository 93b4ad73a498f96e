#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/lock.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

namespace csidelta::repository {

// A length of time by the calendar, such as "1y5m7d2h".
struct CalendarSpan {
  int years = 0;
  int months = 0;
  int days = 0;
  int hours = 0;

  bool IsZero() const { return years == 0 && months == 0 && days == 0 && hours == 0; }
};

// INVALID_ARGUMENT unless `text` is numbers with y, m, d or h, each unit once at most.
absl::StatusOr<CalendarSpan> ParseCalendarSpan(absl::string_view text);

inline constexpr int kKeepAll = -1;

// Which snapshots to keep: those that any rule wants. Zero and empty: the rule is not there. A rule
// with a count keeps the newest snapshot of that many hours, days, ... that have any; while it
// has counts left it keeps the oldest of all, too. Hours and days are those of UTC.
struct KeepPolicy {
  int last = 0;
  int hourly = 0;
  int daily = 0;
  int weekly = 0;  // ISO 8601
  int monthly = 0;
  int yearly = 0;
  // Before the newest snapshot of the group: all, or one for each hour, day, ...
  CalendarSpan within;
  CalendarSpan within_hourly;
  CalendarSpan within_daily;
  CalendarSpan within_weekly;
  CalendarSpan within_monthly;
  CalendarSpan within_yearly;
  // Those with all tags of one of the lists.
  std::vector<std::vector<std::string>> tags;

  bool IsEmpty() const;
};

struct KeepDecision {
  StoredSnapshot snapshot;
  bool keep = false;
  std::vector<std::string> reasons;  // "last snapshot", "daily snapshot", ...
};

// Decides on one group, in any order; the result is newest first. An empty policy keeps everything.
std::vector<KeepDecision> ApplyPolicy(std::vector<StoredSnapshot> snapshots,
                                      const KeepPolicy& policy);

// By what snapshots are grouped before a policy is applied.
struct Grouping {
  bool by_host = true;
  bool by_paths = true;
  bool by_tags = false;
};

struct SnapshotGroup {
  std::string hostname;
  std::vector<std::string> paths;  // Sorted, as are the tags.
  std::vector<std::string> tags;
  std::vector<StoredSnapshot> snapshots;
};

// Ascending by hostname, paths, tags; fields that do not count are empty.
std::vector<SnapshotGroup> GroupSnapshots(absl::Span<const StoredSnapshot> snapshots,
                                          const Grouping& grouping);

// Removes snapshots and their sidecars; their data stays until a prune. `lock` is exclusive.
absl::Status ForgetSnapshots(const CallContext& ctx, Repository& repository, Lock& lock,
                             absl::Span<const Id> ids);

}  // namespace csidelta::repository
