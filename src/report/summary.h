#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "report/report.h"

// What a reader wants to know of a report: which days have a good backup, what is wrong, what to do
// next. Days are those of UTC, as Velero's schedules count them. Pure.
namespace csidelta::report {

enum class DayState : uint8_t {
  kNone,    // the volume was not known yet, or has not existed any more
  kNotDue,  // no backup was due
  kGood,
  kGoodFull,
  kFailed,
  kMissing,  // one was due, and none was tried
  kBroken,
};

// One volume; borrows its entry.
struct VolumeView {
  const VolumeEntry* entry = nullptr;
  std::vector<DayState> days = {};  // of the report
  int64_t good = 0;                 // backups
  int64_t failed = 0;
  int64_t broken = 0;
  int64_t missing = 0;  // days
  const BackupEntry* last_good = nullptr;
  bool is_behind = false;  // nothing good was stored since a backup failed or was due
  // The chain of the last good backup: how many build on each other, and the first.
  int64_t chain_length = 0;
  const BackupEntry* chain_start = nullptr;  // null: it is older than the report
  // How likely the last audit would have met one wrong block in a hundred that it could draw.
  std::optional<double> audit_detects = {};
};

enum class ProblemKind { kBroken, kFailed, kMissing, kFull, kAdvice };

// One cause, with all that it did.
struct Problem {
  ProblemKind kind = ProblemKind::kFailed;
  std::string title = {};
  std::string next_step = {};
  int64_t backups = 0;
  absl::Time first = absl::InfiniteFuture();
  absl::Time last = absl::InfinitePast();
  std::vector<std::size_t> volumes = {};  // in Summary::volumes
};

struct Summary {
  absl::CivilDay first_day;
  int64_t days = 0;
  std::vector<VolumeView> volumes = {};  // those behind first, then by name
  std::vector<Problem> problems = {};    // the worst first
  std::string headline = {};             // what is wrong first
  std::vector<std::string> lines = {};   // below it
  bool is_good = false;
};

// REQUIRES a report after Normalize(), which it borrows.
Summary Summarize(const Report& report);

// Whether a schedule of Velero runs on a day. False for what is none.
bool RunsOn(absl::string_view cron, absl::CivilDay day);

// "30 Nov 2026".
std::string FormatDay(absl::Time time);

}  // namespace csidelta::report
