#pragma once

#include <stop_token>
#include <utility>

#include "absl/time/time.h"

namespace csidelta {

// What time is it, and wake me later. A parameter wherever time decides something, so that tests
// own it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Time that no one can set, since some moment in the past: for measuring how long. A fake whose
  // time only goes forward need not say anything else.
  virtual absl::Duration Uptime() const { return Now() - absl::UnixEpoch(); }

  // Blocks until `wake_at` or until `stop` is requested. Returns true when the time was reached.
  virtual bool SleepUntil(absl::Time wake_at, std::stop_token stop) const = 0;

  // The same for a length of time, which no one can stretch by setting the clock.
  virtual bool SleepFor(absl::Duration duration, std::stop_token stop) const {
    return SleepUntil(Now() + duration, std::move(stop));
  }

  // The system's clock; lives for ever.
  static const Clock& Real();
};

}  // namespace csidelta
