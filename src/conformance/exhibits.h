#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "conformance/judgement.h"
#include "conformance/workshop.h"

namespace csidelta::conformance {

// A snapshot, and the bytes of the volume that was made of it.
struct Exhibit {
  std::string snapshot_id = {};
  std::string image = {};  // path
  int64_t size_bytes = 0;
};

// What a driver is asked about.
struct Exhibits {
  VolumeFacts volume;
  std::vector<Exhibit> generations;  // 0: never written; 3: not written since 2; 4: grown
  Exhibit clone;                     // of a volume made of generation 2, written once
  std::string foreign_snapshot_id;   // of another volume
};

struct ExhibitPlan {
  uint64_t seed = 0;
  int64_t volume_bytes = 0;
};

// Writes a volume, snapshots it, and so on; restores each snapshot and copies it. Says on the way
// whether they hold what was written, and what of it this driver or machine cannot do.
absl::StatusOr<Exhibits> MakeExhibits(const CallContext& ctx, Workshop& workshop,
                                      const ExhibitPlan& plan, const JudgementSink& sink);

}  // namespace csidelta::conformance
