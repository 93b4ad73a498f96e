#pragma once

#include <algorithm>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"

namespace csidelta::k8s {

// Lets `qps` calls per second pass in the long run, and `burst` at once: a token bucket, in which
// each call books its place and sleeps until its turn. Thread-safe.
class RateLimiter {
 public:
  // What would begin more work waits behind what goes on with work that is under way.
  enum class Kind { kBegins, kGoesOn };

  // A qps or burst that is not positive means no limit.
  RateLimiter(double qps, int burst)
      : interval_(qps > 0 && burst > 0 ? absl::Seconds(1) / qps : absl::ZeroDuration()),
        burst_time_(interval_ * std::max(burst - 1, 0)) {}

  // Blocks until the caller may go on. DEADLINE_EXCEEDED at once when its turn would come too late;
  // CANCELLED. Calls of the kind kGoesOn wait for each other only, and count for everybody.
  absl::Status Take(const CallContext& ctx, Kind kind) {
    const absl::Time now = ctx.clock->Now();
    absl::Time turn;
    {
      std::scoped_lock lock(mutex_);
      const absl::Time last = std::max(next_, now - burst_time_);
      const absl::Time ahead = std::max(ahead_next_, now - burst_time_);
      turn = kind == Kind::kGoesOn ? std::min(ahead, last) : last;
      if (turn <= ctx.deadline) {
        next_ = last + interval_;
        ahead_next_ = kind == Kind::kGoesOn ? ahead + interval_ : ahead;
      }
    }
    if (turn > now) {
      if (turn > ctx.deadline) {
        return absl::DeadlineExceededError("client-side rate limit: no turn before the deadline");
      }
      ctx.clock->SleepUntil(turn, ctx.stop);
    }
    return ctx.Check();
  }

 private:
  const absl::Duration interval_;
  const absl::Duration burst_time_;
  std::mutex mutex_;
  absl::Time next_ = absl::InfinitePast();        // When the next call's token is there.
  absl::Time ahead_next_ = absl::InfinitePast();  // The same, as if all were of kind kGoesOn.
};

}  // namespace csidelta::k8s
