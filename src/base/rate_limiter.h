#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"

namespace csidelta {

// Lets `per_second` units (calls, bytes) pass in the long run, and `burst` at once: a token bucket,
// in which each call books its place and sleeps until its turn. Thread-safe.
class RateLimiter {
 public:
  // What would begin more work waits behind what goes on with work that is under way.
  enum class Kind { kBegins, kGoesOn };

  // A rate or burst that is not positive means no limit.
  RateLimiter(double per_second, int64_t burst)
      : interval_(per_second > 0 && burst > 0 ? absl::Seconds(1) / per_second
                                              : absl::ZeroDuration()),
        burst_time_(interval_ * std::max<int64_t>(burst - 1, 0)) {}

  // Blocks until the caller may go on with `units` of them. It goes on as soon as one unit is free
  // and those after it wait for the rest, so that no call is too large. DEADLINE_EXCEEDED at once
  // when its turn would come too late; CANCELLED. Calls of the kind kGoesOn wait for each other
  // only, and count for everybody.
  absl::Status Take(const CallContext& ctx, int64_t units = 1, Kind kind = Kind::kBegins) {
    if (interval_ == absl::ZeroDuration()) {
      return ctx.Check();
    }
    const absl::Duration now = ctx.clock->Uptime();
    absl::Duration turn;
    {
      const MutexLock lock(mutex_);
      const absl::Duration last = std::max(next_, now - burst_time_);
      const absl::Duration ahead = std::max(ahead_next_, now - burst_time_);
      turn = kind == Kind::kGoesOn ? std::min(ahead, last) : last;
      if (turn <= ctx.deadline) {
        next_ = last + interval_ * units;
        ahead_next_ = kind == Kind::kGoesOn ? ahead + interval_ * units : ahead;
      }
    }
    if (turn > now) {
      if (turn > ctx.deadline) {
        return absl::DeadlineExceededError("client-side rate limit: no turn before the deadline");
      }
      ctx.clock->SleepFor(turn - ctx.clock->Uptime(), ctx.stop);
    }
    return ctx.Check();
  }

  // Books `units` that have passed already; those who come after wait for them.
  void Charge(const CallContext& ctx, int64_t units) {
    const MutexLock lock(mutex_);
    next_ = std::max(next_, ctx.clock->Uptime() - burst_time_) + interval_ * units;
  }

 private:
  const absl::Duration interval_;
  const absl::Duration burst_time_;
  Mutex mutex_;
  // When the next call's token is there, by the clock's Uptime().
  absl::Duration next_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  // The same, as if all were of kind kGoesOn.
  absl::Duration ahead_next_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

}  // namespace csidelta
