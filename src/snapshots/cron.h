#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace csidelta::snapshots {

// Checks that a CronJob accepts `text` as its schedule:
//
//   field         values               names
//   ------------  -------------------  ---------
//   minute        0-59                 -
//   hour          0-23                 -
//   day of month  1-31                 -
//   month         1-12                 jan-dec
//   day of week   0-6, 0 is Sunday     sun-sat
//
// Each field is a list of *, ?, N, N-M, each with a step: */5, 0-30/10, 5/15. A macro replaces all
// fields: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly. INVALID_ARGUMENT names
// the field and what is wrong with it. A day that none of the months has is invalid, too: the
// CronJob would never start. Pure.
absl::Status CheckCron(absl::string_view text);

}  // namespace csidelta::snapshots
