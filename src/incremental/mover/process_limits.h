#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "incremental/mover/memory_plan.h"

namespace csidelta::incremental {

// What of the memory that a cgroup allows is not the plan's: what the kernel holds for this
// process, and who looks after it in a Pod.
inline constexpr int64_t kOutsidePlanBytes = int64_t{32} << 20;

// What this process may use, as opposed to what its machine has.
struct ProcessLimits {
  std::optional<int64_t> memory_bytes;  // absent: no cgroup limits it
  int cores = 1;                        // a part of one counts as one
};

// By the cgroups that the process is in, of version 1 or 2 or both, with all above them, and for
// cores by its CPU affinity as well; the smallest counts. What cannot be read does not limit.
// `root` stands before /proc and /sys, for tests.
ProcessLimits ReadProcessLimits(const std::string& root = "");

// The budget that was asked for, or what the cgroup leaves where that is less; but not less than
// the smallest plan for a volume of any size needs, unless that was asked for. Pure.
int64_t BudgetWithin(int64_t asked_bytes, const ProcessLimits& limits);

}  // namespace csidelta::incremental
