#include "csi/insist.h"

#include "absl/time/time.h"
#include "base/status_macros.h"

namespace csidelta::csi {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr absl::Duration kPauseToTheEnd = absl::Milliseconds(250);

}  // namespace

absl::Status Insist(const CallContext& ctx, absl::FunctionRef<absl::Status()> step) {
  absl::Status status = step();
  for (int attempt = 1; attempt < kInsistAttemptsMax && IsRetryable(status); ++attempt) {
    const absl::Time wake_at = ctx.clock->Now() + attempt * kPause;
    if (wake_at >= ctx.deadline || !ctx.clock->SleepUntil(wake_at, ctx.stop)) {
      return status;
    }
    status = step();
  }
  return status;
}

absl::Status InsistToTheEnd(const CallContext& ctx, absl::FunctionRef<absl::Status()> step) {
  absl::Status status = step();
  while (IsRetryable(status) || absl::IsDeadlineExceeded(status)) {
    ctx.clock->SleepFor(kPauseToTheEnd, ctx.stop);
    if (!ctx.Check().ok()) {
      return status;
    }
    status = step();
  }
  return status;
}

}  // namespace csidelta::csi
