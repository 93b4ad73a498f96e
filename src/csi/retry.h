#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/check.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"

// Retries of steps that would leave something behind if given up. The client below retries
// requests, but not a request whose answer was lost. A step returns a Status or a StatusOr, and
// must be safe to repeat.
namespace csidelta::csi {

// How long the clean-up may take after the call itself was stopped or timed out.
inline constexpr absl::Duration kCleanUpTimeout = absl::Seconds(30);

// A context for the clean-up, when the caller's own is over.
inline CallContext CleanUpContext(const Clock& clock, absl::Duration timeout = kCleanUpTimeout) {
  CallContext ctx;
  ctx.clock = &clock;
  return ctx.WithTimeout(timeout);
}

// An API server that has just started refuses every request until it knows its roles. For this time
// it is asked again, after a pause.
inline constexpr absl::Duration kRefusalGracePeriod = absl::Seconds(15);
inline constexpr absl::Duration kRefusalPause = absl::Milliseconds(500);
// True if `status` may be the answer of an API server that starts. Pure.
bool MayBeStarting(const absl::Status& status);

// `status`, with its payloads, and `more` at the end of its message. Pure.
absl::Status WithMore(const absl::Status& status, absl::string_view more);

// Calls `step` up to three times while it fails with a status that IsRetryable() accepts, with
// short pauses, until `ctx` ends; returns its last answer.
template <typename Step>
auto RetryTransient(const CallContext& ctx, const Step& step) {
  constexpr BackoffOptions kBackoff = {.delay_first = absl::Milliseconds(100),
                                       .delay_max = absl::Milliseconds(200),
                                       .attempts_max = 3,
                                       .jitter = 0};
  return Retry(ctx, kBackoff, Random::Real(), IsRetryable, step);
}

// The same without a limit of calls, a quarter of a second apart, until `ctx` ends. For steps that
// must not be given up while the API server is away for a moment. Otherwise a volume would be kept
// from its owner, or written by two programs. Retries DEADLINE_EXCEEDED as well. REQUIRES a
// deadline.
template <typename Step>
auto RetryToTheEnd(const CallContext& ctx, const Step& step) {
  constexpr BackoffOptions kBackoff = {.delay_first = absl::Milliseconds(250),
                                       .delay_max = absl::Milliseconds(250),
                                       .attempts_max = kAttemptsWithoutEnd,
                                       .jitter = 0};
  CSIDELTA_CHECK(ctx.deadline != absl::InfiniteDuration());  // Else it may never return.
  const auto is_transient = [](const absl::Status& status) {
    return IsRetryable(status) || absl::IsDeadlineExceeded(status);
  };
  return Retry(ctx, kBackoff, Random::Real(), is_transient, step);
}

}  // namespace csidelta::csi
