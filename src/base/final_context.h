#pragma once

#include "absl/time/time.h"
#include "base/call_context.h"

namespace csidelta {

// How long a run that was cancelled or failed still cleans up behind itself.
inline constexpr absl::Duration kFinalContextMax = absl::Seconds(10);

// A context for what must still be done when `ctx` is over: a lock to remove, a mark to leave. The
// same clock, no stop token, a little time of its own.
inline CallContext FinalContext(const CallContext& ctx) {
  CallContext last;
  last.clock = ctx.clock;
  return last.WithTimeout(kFinalContextMax);
}

}  // namespace csidelta
