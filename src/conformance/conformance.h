#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "conformance/check_result.h"
#include "conformance/driver_link.h"

namespace csidelta::conformance {

struct ConformanceOptions {
  LinkOptions link;
  std::string work_folder;  // exists; images and mounts go into a folder of it, which goes again
  uint64_t seed = 1;
  int64_t volume_bytes = int64_t{64} << 20;
  absl::Duration clean_up_time_max = absl::Minutes(5);
};

// Holds a CSI driver to the rules of the two services that list changed blocks, over its socket
// alone: makes volumes, writes, snapshots, lists, restores, compares. Says each check result as it
// falls. Everything made is deleted in the end, also when ctx is stopped. An error when there could
// be no judging: the driver cannot be reached, or cannot make volumes and snapshots.
absl::Status RunConformanceTest(const CallContext& ctx, const ConformanceOptions& options,
                                Random& random, const CheckResultSink& sink);

}  // namespace csidelta::conformance
