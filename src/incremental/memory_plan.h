#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace csidelta::incremental {

inline constexpr int64_t kMemoryBudgetBytes = int64_t{256} << 20;
// The program itself, tables, trees, connections: what no queue of ours counts.
inline constexpr int64_t kMemoryFixedBytes = int64_t{64} << 20;

// What one byte budget comes to. A value.
struct MemoryPlan {
  int64_t budget_bytes = 0;
  int workers = 0;
  int queue_depth = 0;  // reads in flight
  int buffers = 0;      // chunks between device and workers
  int64_t pack_bytes = 0;
  int uploads_in_flight = 0;
};

struct MemoryRequest {
  int64_t budget_bytes = kMemoryBudgetBytes;
  int64_t reserved_bytes = 0;  // what the caller holds beside, such as a list of extents
  int64_t chunk_bytes = 0;
  int workers = 0;             // wanted, one per core
  int64_t pack_bytes_max = 0;  // wanted: 16 MiB on a disk, 32 MiB and more in a bucket
  int uploads_in_flight_max = 4;
};

// The smallest budget that one worker and one upload fit into, with chunks of this size. Pure.
int64_t LeastMemoryBytes(int64_t chunk_bytes);

// Divides the budget: each worker has an open pack and three blobs in work, each upload holds a
// pack, and chunks wait in buffers. Where all that does not fit, packs get smaller first, down to 4
// MiB, then uploads fewer, then workers; what is left becomes more buffers, up to 24 MiB.
// INVALID_ARGUMENT when not even one worker and one upload fit. Pure.
absl::StatusOr<MemoryPlan> PlanMemory(const MemoryRequest& request);

}  // namespace csidelta::incremental
