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
  absl::Time deadline = absl::InfiniteFuture();
  std::stop_token stop;
  const Clock* clock = &Clock::Real();

  // CANCELLED when stop was requested, DEADLINE_EXCEEDED when the time is over, else OK.
  absl::Status Check() const {
    if (stop.stop_requested()) {
      return absl::CancelledError("stop requested");
    }
    if (clock->Now() >= deadline) {
      return absl::DeadlineExceededError("out of time");
    }
    return absl::OkStatus();
  }

  // Sleeps for `delay`, or until this ends. Check() afterwards.
  absl::Status Pause(absl::Duration delay) const {
    clock->SleepUntil(std::min(deadline, clock->Now() + delay), stop);
    return Check();
  }

  // This context, ending at the latest `timeout` from now.
  CallContext WithTimeout(absl::Duration timeout) const {
    CallContext context = *this;
    context.deadline = std::min(deadline, clock->Now() + timeout);
    return context;
  }
};

}  // namespace csidelta
