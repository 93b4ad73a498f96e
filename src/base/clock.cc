#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "absl/functional/function_ref.h"
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
    const absl::Duration wake_at = Uptime() + duration;
    return Wait(stop, [&] { return wake_at - Uptime(); });
  }

  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    return Wait(stop, [&] { return wake_at - Now(); });
  }

 private:
  // Until no time is left; false if `stop` was requested before.
  static bool Wait(const std::stop_token& stop, absl::FunctionRef<absl::Duration()> time_left) {
    Mutex mutex;
    std::condition_variable_any wakeup;
    MutexLock lock(mutex);
    while (!stop.stop_requested()) {
      const absl::Duration left = time_left();
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
