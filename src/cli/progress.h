#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "cli/console.h"
#include "engine/rate_window.h"
#include "engine/session.h"
#include "incremental/mover/backup_result.h"

namespace csidelta::cli {

// The progress of a stage, as it is shown. A value.
struct ProgressInfo {
  std::string stage;
  incremental::TransferProgress now = {};  // but for its stage; bytes, or items
  bool bytes = true;
  int64_t total_max = 0;        // the largest total so far, of which the percentage is; 0: of `now`
  absl::Duration elapsed = {};  // since the verb began
  engine::RateWindow::Pace pace = {};
};

// "sending  12.5%  1.0 GiB of at most 8.0 GiB, 512.0 MiB/s, 14 s left (0:25 so far)".
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

// "PVC shop/copy  Pending  12 s  Provisioning: External provisioner is ...".
std::string WaitLine(const WaitInfo& info);
// message_type "status", like ProgressJson(): subject, state, seconds_elapsed, waits_for.
Json WaitJson(const WaitInfo& info);

// Shows progress: a changing line on a terminal, a line of JSON each second with --json, otherwise
// nothing. A timer shows what was reported last, with the time that has passed since, while nothing
// new is reported. Thread-safe.
class ProgressMeter {
 public:
  // `opening`: what is shown until something is reported, such as "opening s3:..."; "": nothing.
  ProgressMeter(Console& console, const Clock& clock, std::string opening = "");
  ~ProgressMeter();

  void ReportTransfer(const incremental::TransferProgress& now) {
    Report({.stage = std::string(now.stage), .now = now}, /*continues=*/true);
  }
  void ReportBytes(absl::string_view stage, int64_t done, int64_t total) {
    ReportTransfer({.stage = stage, .done_bytes = done, .total_bytes = total});
  }
  // Of items, or `bytes`. What was done of a stage never falls, until another one began.
  void ReportCount(absl::string_view stage, int64_t done, int64_t total, bool bytes = false);
  void ReportWait(absl::string_view subject, absl::string_view state, absl::string_view waits_for);

  // Shows what was reported last, unless something was shown within a second. For the timer.
  void Tick();

 private:
  // `continues`: the bytes of the stage before go on.
  void Report(ProgressInfo info, bool continues);
  void Show(absl::Duration now, absl::Duration every, bool again)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Console& console_;
  const Clock& clock_;
  const bool is_shown_;
  const absl::Duration began_;
  Mutex mutex_;
  ProgressInfo last_ ABSL_GUARDED_BY(mutex_);
  std::optional<WaitInfo> wait_ ABSL_GUARDED_BY(mutex_);  // instead of last_
  absl::Duration wait_began_ ABSL_GUARDED_BY(mutex_);
  engine::RateWindow window_ ABSL_GUARDED_BY(mutex_);
  absl::Duration shown_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::jthread timer_;  // last: it uses all of the above
};

// Report to `meter`, in bytes and in items. Borrow `meter`.
engine::ByteProgress BytesOf(ProgressMeter& meter);
engine::Progress CountsOf(ProgressMeter& meter);

}  // namespace csidelta::cli
