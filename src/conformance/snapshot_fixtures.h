#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "conformance/check_result.h"
#include "conformance/driver_harness.h"

namespace csidelta::conformance {

// A snapshot, and the bytes of the volume that was made of it.
struct SnapshotFixture {
  std::string snapshot_id = {};
  std::string image = {};  // path
  int64_t size_bytes = 0;
};

// What a driver is asked about.
struct SnapshotFixtures {
  VolumeInfo volume;
  std::vector<SnapshotFixture> generations;  // 0: never written; 3: not written since 2; 4: grown
  SnapshotFixture clone;                     // of a volume made of generation 2, written once
  std::string foreign_snapshot_id;           // of another volume
};

struct FixturePlan {
  uint64_t seed = 0;
  int64_t volume_bytes = 0;
};

// Writes a volume, snapshots it, and so on; restores each snapshot and copies it. Says on the way
// whether they hold what was written, and what of it this driver or machine cannot do.
absl::StatusOr<SnapshotFixtures> MakeSnapshotFixtures(const CallContext& ctx,
                                                      DriverHarness& harness,
                                                      const FixturePlan& plan,
                                                      const CheckResultSink& sink);

}  // namespace csidelta::conformance
