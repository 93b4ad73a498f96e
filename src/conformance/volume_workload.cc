#include "conformance/volume_workload.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace csidelta::conformance {
namespace {

constexpr int64_t kScatteredMax = 200;
constexpr int64_t kRuns = 3;
constexpr int64_t kRunShare = 64;  // of the volume, at most

// SplitMix64: small, and the same everywhere.
class Chance {
 public:
  explicit Chance(uint64_t state) : state_(state) {}

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
  }
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(bound));
  }

 private:
  uint64_t state_;
};

uint64_t SeedOf(const WorkloadPosition& place, uint64_t salt) {
  return Chance(place.seed ^ (static_cast<uint64_t>(place.generation) << 48) ^ salt).Next();
}

}  // namespace

std::vector<Step> StepsOf(const WorkloadPosition& place, int64_t volume_bytes) {
  CSIDELTA_CHECK(volume_bytes >= kVolumeBytesMin);
  const int64_t blocks = volume_bytes / kStepBytes;
  Chance chance(SeedOf(place, 0));
  std::vector<Step> steps;
  const auto add = [&](StepKind kind, int64_t first, int64_t count) {
    steps.push_back({kind, {first * kStepBytes, std::min(count, blocks - first) * kStepBytes}});
  };
  const auto run = [&](StepKind kind) {
    // Drawn one after the other: the order of a call's arguments is the compiler's choice.
    const int64_t count = 1 + chance.Below(blocks / kRunShare);
    add(kind, chance.Below(blocks), count);
  };
  for (int64_t i = 0; i < kRuns; ++i) {
    run(StepKind::kWrite);
  }
  for (int64_t i = 0; i < std::min(kScatteredMax, blocks / 16); ++i) {
    add(StepKind::kWrite, chance.Below(blocks), 1);
  }
  if (place.generation == 1) {
    add(StepKind::kWrite, 0, 1);
    add(StepKind::kWrite, blocks - 1, 1);
  } else {
    run(StepKind::kZero);
    add(StepKind::kZero, 0, 1);
    run(StepKind::kDiscard);
  }
  return steps;
}

void FillPattern(const WorkloadPosition& place, int64_t offset_bytes, absl::Span<uint8_t> bytes) {
  Chance chance(SeedOf(place, static_cast<uint64_t>(offset_bytes)));
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = chance.Next() | 1;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
  }
}

}  // namespace csidelta::conformance
