#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/extent.h"

// What is written to a volume between its snapshots: the same for the same seed. Pure functions.
namespace csidelta::conformance {

enum class StepKind { kWrite, kZero, kDiscard };

struct Step {
  StepKind kind = StepKind::kWrite;
  Extent extent;
};

inline constexpr int64_t kStepBytes = 4096;  // what a step begins and ends at multiples of
inline constexpr int64_t kVolumeBytesMin = 1 << 20;

struct WorkloadPosition {
  uint64_t seed = 0;
  int generation = 0;  // from 1 on
};

// What happens before the snapshot of a generation: in the first one the first and the last block,
// runs and scattered blocks are written; later ones also write zeros and discard. REQUIRES a volume
// of kVolumeBytesMin at least.
std::vector<Step> StepsOf(const WorkloadPosition& place, int64_t volume_bytes);

// The bytes that a generation writes at an offset; never all zero in a step.
void FillPattern(const WorkloadPosition& place, int64_t offset_bytes, absl::Span<uint8_t> bytes);

}  // namespace csidelta::conformance
