#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "absl/time/clock.h"
#include "base/mutex.h"

namespace csidelta {
namespace {

constexpr absl::Duration kWaitSliceMax = absl::Hours(1);

class RealClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }

  absl::Duration Uptime() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }

  bool SleepFor(absl::Duration duration, std::stop_token stop) const override {
    Mutex mutex;
    std::condition_variable_any wakeup;
    MutexLock lock(mutex);
    const absl::Duration wake_at = Uptime() + duration;
    for (absl::Duration left = duration; left > absl::ZeroDuration() && !stop.stop_requested();
         left = wake_at - Uptime()) {
      const auto slice = absl::ToChronoNanoseconds(std::min(left, kWaitSliceMax));
      wakeup.wait_for(lock, stop, slice, [] { return false; });
    }
    return !stop.stop_requested();
  }

  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    Mutex mutex;
    std::condition_variable_any wakeup;
    MutexLock lock(mutex);
    while (!stop.stop_requested()) {
      const absl::Duration left = wake_at - Now();
      if (left <= absl::ZeroDuration()) {
        return true;
      }
      // In slices, because now plus an endless wait overflows inside the library.
      const auto slice = absl::ToChronoNanoseconds(std::min(left, kWaitSliceMax));
      wakeup.wait_for(lock, stop, slice, [] { return false; });
    }
    return false;
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace csidelta
