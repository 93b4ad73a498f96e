#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace csidelta::datamover {

// A worker pauses its writes if it could not reach its task for this long. A Pod that is not heard
// from may be replaced, and its volume given to an application.
inline constexpr absl::Duration kWriteFenceAfter = absl::Minutes(2);
// The controller waits this long, twice as long, after it lost a Pod whose end was not observed.
// Only then may another Pod write into the same volume: the first one has paused, and its last
// write is over.
inline constexpr absl::Duration kFencedAfter = absl::Minutes(4);

// Decides whether a worker may write into its volume now:
//
//   may write --task not reached for kWriteFenceAfter---> pauses --the task names its Pod--> ...
//       |                                                      |
//       +---------------- the task is another Pod's -----------+--> closed
//
// Time is measured by either clock, so a machine that slept, or was stopped, finds the fence
// paused. Thread-safe.
class WriteFence {
 public:
  explicit WriteFence(const Clock& clock);

  // The time of a request to the API server.
  struct Moment {
    absl::Duration uptime;
    absl::Time now;
  };
  Moment Now() const { return {.uptime = clock_.Uptime(), .now = clock_.Now()}; }

  // The task was reached by a request of that time, and is this Pod's.
  void Renew(const Moment& asked);
  // The task is another Pod's.
  void Close();

  // Blocks until writing is allowed. CANCELLED if `ctx` is stopped, FAILED_PRECONDITION once
  // closed.
  absl::Status Await(const CallContext& ctx);

 private:
  bool IsOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  Moment renewed_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_warned_ ABSL_GUARDED_BY(mutex_) = false;  // that writes pause
};

}  // namespace csidelta::datamover
