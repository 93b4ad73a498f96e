#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace csidelta {

// A duration as Go writes and reads it: an optional sign and numbers with a unit (ns, us, µs, ms,
// s, m, h), such as "4h0m0s" or "1.5h"; "0" needs no unit. Fractions below a nanosecond are cut
// off. INVALID_ARGUMENT for anything else, and for what Go's 64 bits of nanoseconds (292 years)
// cannot hold. Pure.
absl::StatusOr<absl::Duration> ParseGoDuration(absl::string_view text);

}  // namespace csidelta
