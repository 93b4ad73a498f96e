#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/call_context.h"

// For steps that leave something behind when given up: the client below retries requests, but not
// one whose answer was lost. A step must be safe to repeat.
namespace csidelta::csi {

inline constexpr int kTransientAttemptsMax = 3;

// Makes `step` up to kTransientAttemptsMax times while it fails with what IsRetryable() names, a
// moment apart, until `ctx` ends; returns its last answer.
absl::Status RetryTransient(const CallContext& ctx, absl::FunctionRef<absl::Status()> step);

// The same while it fails because an object that it read was changed by another before it wrote,
// which is ABORTED, for some seconds: a PVC is changed at the end of each snapshot of it.
absl::Status RetryConflict(const CallContext& ctx, absl::FunctionRef<absl::Status()> step);

// The same as often as it takes until `ctx` ends, a quarter of a second apart: for what keeps a
// volume from its owner, or has it written into by two, when given up because the API server was
// away for a moment. Retries DEADLINE_EXCEEDED as well. REQUIRES a deadline.
absl::Status RetryToTheEnd(const CallContext& ctx, absl::FunctionRef<absl::Status()> step);

}  // namespace csidelta::csi
