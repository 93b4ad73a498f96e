#include "csi/retry.h"

#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"

namespace csidelta::csi {
namespace {

constexpr BackoffOptions kTransientBackoff = {.delay_first = absl::Milliseconds(100),
                                              .delay_max = absl::Milliseconds(200),
                                              .attempts_max = kTransientAttemptsMax,
                                              .jitter = 0};
constexpr BackoffOptions kConflictBackoff = {
    .delay_first = absl::Milliseconds(50), .delay_max = absl::Seconds(1), .attempts_max = 8};
constexpr BackoffOptions kToTheEndBackoff = {.delay_first = absl::Milliseconds(250),
                                             .delay_max = absl::Milliseconds(250),
                                             .attempts_max = kAttemptsWithoutEnd,
                                             .jitter = 0};

}  // namespace

absl::Status RetryTransient(const CallContext& ctx, absl::FunctionRef<absl::Status()> step) {
  return Retry(ctx, kTransientBackoff, Random::Real(), IsRetryable, step);
}

absl::Status RetryConflict(const CallContext& ctx, absl::FunctionRef<absl::Status()> step) {
  const auto is_conflict = [](const absl::Status& status) { return absl::IsAborted(status); };
  return Retry(ctx, kConflictBackoff, Random::Real(), is_conflict, step);
}

absl::Status RetryToTheEnd(const CallContext& ctx, absl::FunctionRef<absl::Status()> step) {
  const auto is_transient = [](const absl::Status& status) {
    return IsRetryable(status) || absl::IsDeadlineExceeded(status);
  };
  return Retry(ctx, kToTheEndBackoff, Random::Real(), is_transient, step);
}

}  // namespace csidelta::csi
