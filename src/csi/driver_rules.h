#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace csidelta::csi {

// Whether a driver does something to a volume that has snapshots.
enum class DriverAnswer { kUnknown, kYes, kNo };
absl::string_view ToString(DriverAnswer answer);  // "unknown", "yes", "no"

// What the snapshots of a volume forbid, as the driver's public code and documentation have it.
// docs/csi-drivers.md has the same rows, with their sources.
struct DriverRules {
  absl::string_view driver;
  int snapshots_max = 0;  // of a volume, by default; 0: unknown
  DriverAnswer grows = DriverAnswer::kUnknown;
  DriverAnswer deletes = DriverAnswer::kUnknown;
  absl::string_view note = {};  // another rule: "takes one snapshot of a volume in 10 minutes"
};

absl::Span<const DriverRules> AllDriverRules();
// Rules without an answer for drivers that are not in the table. Pure.
DriverRules RulesOf(absl::string_view driver);

// All that limits users, for messages: "keeps at most 3 snapshots of a volume by default, grows no
// volume that has snapshots"; "" if nothing is known. Pure.
std::string LimitsText(const DriverRules& rules);

}  // namespace csidelta::csi
