#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace csidelta::datamover {

// A worker that could not reach its task for so long pauses its writes. A Pod that does not report
// may be replaced, and its volume given to an application.
inline constexpr absl::Duration kWriteFenceAfter = absl::Minutes(2);
// The controller waits so long, twice that, if it lost a Pod whose end was not observed, before
// another one may write into the same volume. By then the first has paused, and the writes that it
// had begun are over.
inline constexpr absl::Duration kFencedAfter = absl::Minutes(4);

// Whether a worker may write into its volume now:
//
//   may write --no word of its task for kWriteFenceAfter--> pauses --the task names its Pod--> ...
//       |                                                      |
//       +---------------- the task is another Pod's -----------+--> closed, for good
//
// Time is what passed by either clock, so a machine that slept, or was stopped, finds it paused.
// Thread-safe.
class WriteFence {
 public:
  explicit WriteFence(const Clock& clock);

  // When a request to the API server is about to be made.
  struct Moment {
    absl::Duration uptime;
    absl::Time now;
  };
  Moment Look() const { return {.uptime = clock_.Uptime(), .now = clock_.Now()}; }

  // The task was reached by a request made then, and is this Pod's.
  void Renew(const Moment& asked);
  // The task is another Pod's.
  void Close();

  // Blocks until writing is allowed. CANCELLED when `ctx` is stopped, FAILED_PRECONDITION once
  // closed.
  absl::Status Await(const CallContext& ctx);

 private:
  bool IsOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  Moment renewed_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // that writes pause
};

}  // namespace csidelta::datamover
