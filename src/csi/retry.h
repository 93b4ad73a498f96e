#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/check.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"

// For steps that leave something behind when given up: the client below retries requests, but not
// one whose answer was lost. A step returns a Status or a StatusOr, and must be safe to repeat.
namespace csidelta::csi {

// How long removing unreferenced objects may take, after the call itself was stopped or ran out.
inline constexpr absl::Duration kCleanUpTimeout = absl::Seconds(30);

// A context for removing things, when the caller's own is over.
inline CallContext CleanUpContext(const Clock& clock, absl::Duration timeout = kCleanUpTimeout) {
  CallContext ctx;
  ctx.clock = &clock;
  return ctx.WithTimeout(timeout);
}

// An API server that has just started refuses everybody until it knows its roles: for so long it is
// asked again, after a pause.
inline constexpr absl::Duration kRefusalGracePeriod = absl::Seconds(15);
inline constexpr absl::Duration kRefusalPause = absl::Milliseconds(500);
// Whether `status` may be its answer. Pure.
bool MayBeStarting(const absl::Status& status);

// `status`, with its payloads, and `more` at the end of its message. Pure.
absl::Status WithMore(const absl::Status& status, absl::string_view more);

// Makes `step` up to three times while it fails with what IsRetryable() names, a moment apart,
// until `ctx` ends; returns its last answer.
template <typename Step>
auto RetryTransient(const CallContext& ctx, const Step& step) {
  constexpr BackoffOptions kBackoff = {.delay_first = absl::Milliseconds(100),
                                       .delay_max = absl::Milliseconds(200),
                                       .attempts_max = 3,
                                       .jitter = 0};
  return Retry(ctx, kBackoff, Random::Real(), IsRetryable, step);
}

// The same as often as it takes until `ctx` ends, a quarter of a second apart: for what keeps a
// volume from its owner, or has it written into by two, when given up because the API server was
// away for a moment. Retries DEADLINE_EXCEEDED as well. REQUIRES a deadline.
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
