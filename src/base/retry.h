#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace csidelta {

struct BackoffOptions {
  absl::Duration delay_first = absl::Milliseconds(100);
  absl::Duration delay_max = absl::Seconds(5);
  int attempts_max = 8;  // Tries in total, the first one included.
  // The part of a delay that chance may take away: with 1 a delay is anything from nothing on.
  double jitter = 0.5;
};

// How long to wait before trying again: doubles from delay_first to delay_max, less what chance
// takes away, so that many clients do not come back at once. Not thread-safe.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, Random& random) : options_(options), random_(random) {}

  // Whether the budget of attempts allows another try. The first one counts.
  bool MayTryAgain() const { return attempts_ < options_.attempts_max; }

  // Counts a failed attempt and returns the delay before the next.
  absl::Duration NextDelay() {
    const int doublings = std::min(attempts_ - 1, 30);
    ++attempts_;
    const absl::Duration ceiling =
        std::min(options_.delay_max, options_.delay_first * (int64_t{1} << doublings));
    const auto jitter_us =
        static_cast<uint64_t>(absl::ToInt64Microseconds(ceiling * options_.jitter));
    return ceiling - absl::Microseconds(random_.Below(jitter_us + 1));
  }

  // After a success: the next failure starts over.
  void Reset() { attempts_ = 1; }

  int attempts() const { return attempts_; }

 private:
  BackoffOptions options_;
  Random& random_;
  int attempts_ = 1;
};

// Attempts without end, for Retry().
inline constexpr int kAttemptsWithoutEnd = std::numeric_limits<int>::max();

// Runs `step` until it succeeds or fails with what `is_transient` denies, the attempts of `backoff`
// are used up, or `ctx` ends or would before the next attempt; returns its last answer, a Status or
// a StatusOr. `step` must be safe to repeat. `on_retry`, where there is one, is told of each
// failure that is followed by another attempt.
template <typename Step>
auto Retry(const CallContext& ctx, const BackoffOptions& backoff, Random& random,
           absl::FunctionRef<bool(const absl::Status&)> is_transient, const Step& step,
           void (*on_retry)(const absl::Status&) = nullptr) -> decltype(step()) {
  Backoff delays(backoff, random);
  while (true) {
    auto answer = step();
    const absl::Status& status = internal::ToStatus(answer);
    if (status.ok() || !is_transient(status) || !delays.MayTryAgain()) {
      return answer;
    }
    const absl::Duration delay = delays.NextDelay();
    if (delay >= ctx.TimeLeft() || !ctx.Check().ok()) {
      return answer;
    }
    if (on_retry != nullptr) {
      on_retry(status);
    }
    if (!ctx.clock->SleepFor(delay, ctx.stop)) {
      return answer;
    }
  }
}

}  // namespace csidelta
