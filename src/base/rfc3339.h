#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Instants as text, as Kubernetes, Velero and clouds write them: "2024-05-06T07:08:09.5Z" (RFC
// 3339).
namespace csidelta {

// Nothing when `text` is not such an instant of the years 1 to 9999. Any offset from UTC is
// understood.
std::optional<absl::Time> ParseRfc3339(absl::string_view text);

// In UTC, with as many digits of a second as needed.
std::string FormatRfc3339(absl::Time time);
// Cut to whole seconds: metav1.Time.
std::string FormatRfc3339Seconds(absl::Time time);
// With six digits of a second: metav1.MicroTime, which a Lease wants.
std::string FormatRfc3339Micros(absl::Time time);

}  // namespace csidelta
