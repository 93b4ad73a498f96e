#include "tests/bench/scaled_clock.h"

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::bench {
namespace {

int64_t NanosecondsOf(clockid_t id) {
  timespec now{};
  ::clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ScaledClock::ScaledClock(int factor)
    : factor_(factor),
      monotonic_ns_(NanosecondsOf(CLOCK_MONOTONIC)),
      realtime_ns_(NanosecondsOf(CLOCK_REALTIME)) {}

absl::Time ScaledClock::Now() const {
  return absl::FromUnixNanos(realtime_ns_ +
                             (NanosecondsOf(CLOCK_REALTIME) - realtime_ns_) * factor_);
}

absl::Duration ScaledClock::Uptime() const {
  return absl::Nanoseconds(monotonic_ns_ +
                           (NanosecondsOf(CLOCK_MONOTONIC) - monotonic_ns_) * factor_);
}

bool ScaledClock::SleepUntil(absl::Time wake_at, std::stop_token stop) const {
  return SleepFor(wake_at - Now(), std::move(stop));
}

bool ScaledClock::SleepFor(absl::Duration duration, std::stop_token stop) const {
  return Clock::Real().SleepFor(duration / factor_, std::move(stop));
}

std::string ScaledClock::ForPrograms() const {
  return absl::StrCat(factor_, ":", monotonic_ns_, ":", realtime_ns_);
}

}  // namespace csidelta::bench
