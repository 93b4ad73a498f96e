#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"

namespace csidelta::support {

// Time as it is, but for the short wait between taking a lock and looking again, and for what a
// test has let pass. Thread-safe.
class ImpatientClock : public Clock {
 public:
  absl::Time Now() const override { return real_.Now() + absl::Seconds(ahead_seconds_.load()); }
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override {
    const absl::Duration left = wake_at - Now();
    return left < absl::Milliseconds(500) ? !stop.stop_requested()
                                          : real_.SleepUntil(real_.Now() + left, std::move(stop));
  }

  void LetPass(int64_t seconds) { ahead_seconds_ += seconds; }

 private:
  const Clock& real_ = Clock::Real();
  std::atomic<int64_t> ahead_seconds_ = 0;
};

}  // namespace csidelta::support
