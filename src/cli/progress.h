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

// The progress of a stage. A value.
struct ProgressInfo {
  std::string stage;
  int64_t done = 0;
  int64_t total = 0;  // 0: unknown
  bool bytes = true;  // unit of done and total: bytes, else items
  absl::Duration elapsed;
  std::optional<double> recent_rate = {};  // per second, of RateWindow

  // Per second: the recent rate, else the rate since the stage began; 0 while unknown.
  double Rate() const;
  // Infinite while unknown.
  absl::Duration Left() const;
};

// The rate of a stage in its last kSpan. It predicts the rest better than the rate since the
// beginning, which a cache or a skipped part may have raised. Not thread-safe.
class RateWindow {
 public:
  static constexpr absl::Duration kSpan = absl::Seconds(10);

  // REQUIRES that `now` and `done` never decrease.
  void Add(absl::Duration now, int64_t done);
  // Per second; nullopt before there are two samples of different times.
  std::optional<double> Rate() const;
  void Clear() { samples_.clear(); }

 private:
  struct Sample {
    absl::Duration at;
    int64_t done = 0;
  };

  // Ascending. The first sample is kSpan old, or from the beginning.
  std::deque<Sample> samples_;
};

// "transfer  12.5%  1.0 GiB of 8.0 GiB, 512.0 MiB/s, 0:14 left"
std::string ProgressLine(const ProgressInfo& info);
// message_type "status", with restic's names where it has one.
Json ProgressJson(const ProgressInfo& info);

// An object of a cluster that a verb waits for, without known progress. A value.
struct WaitInfo {
  std::string subject;     // "PVC shop/copy"
  std::string state;       // "Pending"
  std::string waits_for;   // the last report about it; "": none
  absl::Duration elapsed;  // since the wait began
};

inline constexpr int kWaitLineBytesMax = 79;  // a wrapped line would not be erased completely

// "PVC shop/copy  Pending  12 s  Provisioning: External provisioner is ...", printable, at most
// kWaitLineBytesMax long.
std::string WaitLine(const WaitInfo& info);
// message_type "status", like ProgressJson(): subject, state, seconds_elapsed, waits_for.
Json WaitJson(const WaitInfo& info);

// Shows progress: a changing line on a terminal, a line of JSON each second with --json, otherwise
// nothing. Thread-safe. REQUIRES that nothing else writes to the console meanwhile.
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
  // True if progress is to be shown now. Begins `stage` if it differs from the one before.
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

// Report to `meter`, in bytes and in items. Borrow `meter`.
engine::Progress BytesOf(ProgressMeter& meter);
engine::Progress CountsOf(ProgressMeter& meter);

}  // namespace csidelta::cli
