#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "cli/console.h"
#include "engine/session.h"

namespace csidelta::cli {

// How far a stage is. A value.
struct ProgressInfo {
  std::string stage;
  int64_t done = 0;
  int64_t total = 0;  // 0: not known
  bool bytes = true;  // what is counted, else things
  absl::Duration elapsed;
  std::optional<double> recent_rate = {};  // per second, as RateWindow has it

  // Per second: the recent one, else since the stage began; 0 while nothing can be said.
  double Rate() const;
  // Infinite while nothing can be said.
  absl::Duration Left() const;
};

// How fast a stage was in its last kSpan: what is left goes on at that rate rather than at the one
// since the beginning, which a cache or a part that was skipped may have made. For one thread.
class RateWindow {
 public:
  static constexpr absl::Duration kSpan = absl::Seconds(10);

  // `now` and `done` never go back.
  void Add(absl::Duration now, int64_t done);
  // Per second; nothing before there are two samples of different times.
  std::optional<double> Rate() const;
  void Clear() { samples_.clear(); }

 private:
  struct Sample {
    absl::Duration at;
    int64_t done = 0;
  };

  // Ascending; the first is of kSpan ago, or of the beginning, and the last the newest.
  std::deque<Sample> samples_;
};

// "transfer  12.5%  1.0 GiB of 8.0 GiB, 512.0 MiB/s, 0:14 left"
std::string ProgressLine(const ProgressInfo& info);
// With restic's names where it has them: message_type "status".
Json ProgressJson(const ProgressInfo& info);

// One object of a cluster that is waited for, of which nothing tells how far it is. A value.
struct WaitInfo {
  std::string subject;     // "PVC shop/copy"
  std::string state;       // "Pending"
  std::string waits_for;   // what was reported of it last; "": nothing
  absl::Duration elapsed;  // since it is waited for
};

inline constexpr int kWaitLineBytesMax = 79;  // A line that is wrapped is not erased as a whole.

// "PVC shop/copy  Pending  12 s  Provisioning: External provisioner is ...", printable, cut to
// kWaitLineBytesMax.
std::string WaitLine(const WaitInfo& info);
// message_type "status", like ProgressJson(): subject, state, seconds_elapsed, waits_for.
Json WaitJson(const WaitInfo& info);

// Shows progress in the form that the console is for: a line that changes on a terminal, JSON lines
// once a second with --json, else nothing. Thread-safe; has the console for itself meanwhile.
class ProgressMeter {
 public:
  ProgressMeter(Console& console, const Clock& clock) : console_(console), clock_(clock) {}
  ~ProgressMeter() { console_.ClearLine(); }

  void ReportBytes(absl::string_view stage, int64_t done, int64_t total) {
    Report(stage, done, total, /*bytes=*/true);
  }
  void ReportCount(absl::string_view stage, int64_t done, int64_t total) {
    Report(stage, done, total, /*bytes=*/false);
  }

  void ReportWait(absl::string_view subject, absl::string_view state, absl::string_view waits_for);

 private:
  // Whether there is something to show now; `stage` begins where it is another one.
  bool IsDue(absl::string_view stage, absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(absl::string_view stage, int64_t done, int64_t total, bool bytes);

  Console& console_;
  const Clock& clock_;
  Mutex mutex_;
  std::string stage_ ABSL_GUARDED_BY(mutex_);
  absl::Duration stage_began_ ABSL_GUARDED_BY(mutex_);
  RateWindow window_ ABSL_GUARDED_BY(mutex_);
  absl::Duration shown_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

// What reports to `meter`, which must live as long, in bytes and in things.
engine::Progress BytesOf(ProgressMeter& meter);
engine::Progress CountsOf(ProgressMeter& meter);

}  // namespace csidelta::cli
