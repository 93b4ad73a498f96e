#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace csidelta {

// Lets `per_second` units (calls, bytes) pass in the long run, and `burst` at once: a token bucket,
// in which each call books its place and sleeps until its turn. Thread-safe.
class RateLimiter {
 public:
  // What would begin more work waits behind what goes on with work that is under way.
  enum class Kind { kBegins, kGoesOn };
  // How soon calls that wait notice another rate.
  static constexpr absl::Duration kRateNoticedWithin = absl::Milliseconds(500);

  // A rate or burst that is not positive means no limit.
  RateLimiter(double per_second, int64_t burst)
      : credit_max_(static_cast<double>(std::max<int64_t>(burst - 1, 0))),
        rate_(burst > 0 ? std::max(per_second, 0.0) : 0),
        passed_(credit_max_) {}

  // Another rate from now on, also for calls that wait; 0: no limit. What was booked stays booked.
  void SetRate(const Clock& clock, double per_second) {
    const MutexLock lock(mutex_);
    const absl::Duration now = clock.Uptime();
    passed_ = rate_ > 0 ? FreeAt(now) + credit_max_ : booked_;
    since_ = now;
    rate_ = std::max(per_second, 0.0);
  }

  // Blocks until the caller may go on with `units` of them. It goes on as soon as one unit is free
  // and those after it wait for the rest, so that no call is too large. DEADLINE_EXCEEDED at once
  // when its turn would come too late; CANCELLED. Calls of the kind kGoesOn wait for each other
  // only, and count for everybody.
  absl::Status Take(const CallContext& ctx, int64_t units = 1, Kind kind = Kind::kBegins) {
    double place = 0;
    absl::Duration wait;
    {
      const MutexLock lock(mutex_);
      if (rate_ <= 0) {
        return ctx.Check();
      }
      const double free = FreeAt(ctx.clock->Uptime());
      const double last = std::max(booked_, free);
      const double ahead = std::max(ahead_, free);
      place = kind == Kind::kGoesOn ? std::min(ahead, last) : last;
      wait = WaitFor(place, ctx.clock->Uptime());
      if (wait > absl::ZeroDuration() && wait > ctx.TimeLeft()) {
        return absl::DeadlineExceededError("client-side rate limit: no turn before the deadline");
      }
      booked_ = last + static_cast<double>(units);
      ahead_ = kind == Kind::kGoesOn ? ahead + static_cast<double>(units) : ahead;
    }
    while (wait > absl::ZeroDuration()) {
      RETURN_IF_ERROR(ctx.Pause(std::min(wait, kRateNoticedWithin)));
      const MutexLock lock(mutex_);
      wait = WaitFor(place, ctx.clock->Uptime());
    }
    return ctx.Check();
  }

  // Books `units` that have passed already; those who come after wait for them.
  void Charge(const CallContext& ctx, int64_t units) {
    const MutexLock lock(mutex_);
    booked_ = std::max(booked_, FreeAt(ctx.clock->Uptime())) + static_cast<double>(units);
  }

 private:
  // How many units the rate has let pass so far.
  double Passed(absl::Duration now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return passed_ + absl::ToDoubleSeconds(now - since_) * rate_;
  }
  // The first place, if no call waits: no further back than the burst.
  double FreeAt(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    since_ = since_ == -absl::InfiniteDuration() ? now : since_;
    return Passed(now) - credit_max_;
  }
  // Until the call that booked this place may go on; 0: it may.
  absl::Duration WaitFor(double place, absl::Duration now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Duration wait =
        rate_ > 0 ? absl::Seconds((place - Passed(now)) / rate_) : absl::ZeroDuration();
    return wait > absl::Nanoseconds(1) ? wait : absl::ZeroDuration();
  }

  const double credit_max_;
  Mutex mutex_;
  double rate_ ABSL_GUARDED_BY(mutex_);  // units a second; 0: no limit
  // Units that had passed at `since_`, by the clock's Uptime().
  double passed_ ABSL_GUARDED_BY(mutex_);
  absl::Duration since_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  // Units that all calls so far have booked: the place of the next one.
  double booked_ ABSL_GUARDED_BY(mutex_) = 0;
  // The same, as if all were of kind kGoesOn.
  double ahead_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace csidelta
