#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"

namespace csidelta::bench {

// The variable by which the program csi-delta-fast (fast_clock.cc) is told how its clock runs:
// "FACTOR:MONOTONIC:REALTIME", both clocks in nanoseconds as they were when it began to run so
// fast.
inline constexpr char kFastClockVariable[] = "CSI_DELTA_BENCH_CLOCK";

// A clock that runs `factor` times as fast as the machine's, from the moment on when it is made: so
// that a night is measured in minutes. With 1 it is the machine's. Thread-safe.
class ScaledClock : public Clock {
 public:
  explicit ScaledClock(int factor);

  absl::Time Now() const override;
  absl::Duration Uptime() const override;
  bool SleepUntil(absl::Time wake_at, std::stop_token stop) const override;
  bool SleepFor(absl::Duration duration, std::stop_token stop) const override;

  int factor() const { return factor_; }
  // What the variable is set to, so that a program has the same time.
  std::string ForPrograms() const;

 private:
  const int factor_;
  const int64_t monotonic_ns_;
  const int64_t realtime_ns_;
};

}  // namespace csidelta::bench
