#pragma once

#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/call_context.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace csidelta {

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
