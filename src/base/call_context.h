#pragma once

#include <algorithm>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace csidelta {

// Deadline, stop token and clock: the first argument of everything that may block. A value; cheap
// to copy.
struct CallContext {
  absl::Duration deadline = absl::InfiniteDuration();  // A point of clock->Uptime().
  // The same by the time of day: for what may not be sent late though the uptime stood still, as it
  // does while a virtual machine is paused.
  absl::Time not_after = absl::InfiniteFuture();
  std::stop_token stop;
  const Clock* clock = &Clock::Real();
  // Of the caller, whose thread alone writes it: how often a request of its call was repeated.
  int* retries = nullptr;

  // CANCELLED when stop was requested, DEADLINE_EXCEEDED when the time is over, else OK.
  absl::Status Check() const {
    if (stop.stop_requested()) {
      return absl::CancelledError("stop requested");
    }
    if (clock->Uptime() >= deadline ||
        (not_after != absl::InfiniteFuture() && clock->Now() >= not_after)) {
      return absl::DeadlineExceededError("out of time");
    }
    return absl::OkStatus();
  }

  // Sleeps for `delay`, or until this ends. Check() afterwards.
  absl::Status Pause(absl::Duration delay) const {
    clock->SleepFor(std::min(TimeLeft(), delay), stop);
    return Check();
  }

  // Until the deadline; negative when it is over.
  absl::Duration TimeLeft() const { return deadline - clock->Uptime(); }

  // This context, ending at the latest `timeout` from now.
  CallContext WithTimeout(absl::Duration timeout) const {
    CallContext context = *this;
    context.deadline = std::min(deadline, clock->Uptime() + timeout);
    return context;
  }
};

// How long a run that was cancelled or failed still cleans up behind itself.
inline constexpr absl::Duration kFinalContextMax = absl::Seconds(10);

// A context for what must still be done when `ctx` is over: a lock to remove, a mark to leave. The
// same clock, no stop token, a little time of its own.
inline CallContext FinalContext(const CallContext& ctx) {
  CallContext last;
  last.clock = ctx.clock;
  return last.WithTimeout(kFinalContextMax);
}

}  // namespace csidelta
