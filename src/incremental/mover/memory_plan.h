#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// How a backup and a restore divide what they may use. Both plans are computed once, from memory
// and cores alone, before anything is allocated. The latency of the repository is unknown, so
// what hides its latency comes first: uploads. They follow from memory alone, so more cores never
// cost one, and each step of more memory adds to what there was, so more memory never costs
// anything.
namespace csidelta::incremental {

inline constexpr int64_t kMemoryBudgetBytes = int64_t{256} << 20;
// The program itself, tables, trees, connections: what no queue counts.
inline constexpr int64_t kMemoryFixedBytes = int64_t{64} << 20;

// What one byte budget comes to. A value.
struct MemoryPlan {
  int64_t budget_bytes = 0;
  int workers = 0;
  int queue_depth = 0;  // reads in flight
  int buffers = 0;      // chunks between device and workers
  int open_packs = 0;   // of data, shared by the workers; one of trees is open besides
  int64_t pack_bytes = 0;
  int uploads_in_flight = 0;
};

struct MemoryRequest {
  int64_t budget_bytes = kMemoryBudgetBytes;
  int64_t reserved_bytes = 0;  // what the caller holds besides, such as a list of extents
  int64_t chunk_bytes = 0;
  int cores = 0;               // that may be used
  int64_t pack_bytes_max = 0;  // wanted: 16 MiB on a disk, 32 MiB and more in a bucket
  int uploads_in_flight_max = 4;
  // Packs are to be as long before more than four uploads travel: what a volume
  // of that size is better kept in, see repository::VolumePackBytes(). No longer than wanted.
  int64_t pack_bytes_first = 0;
};

// The smallest budget that one worker and one upload fit into, with chunks of this size. Pure.
int64_t LeastMemoryBytes(int64_t chunk_bytes);
// INVALID_ARGUMENT, which names the smallest budget, if this one is too small. Pure.
absl::Status CheckBudget(const MemoryRequest& request);

// Divides the budget of a backup. It climbs a ladder whose every step adds an upload, a MiB to all
// packs, a worker or an open pack, as far as the memory reaches. Its lines are kLadder's.
//
// With pack_bytes_first all packs from the second line on are at least that long, so that a large
// volume gets fewer uploads and longer packs out of the same memory: of 224 MiB and chunks of 1 MiB
// 6 uploads of 16 MiB from 1 TiB on, 4 of 23 MiB from 8 TiB on, instead of 8 of 8 MiB.
//
// Between two lines uploads grow first, then packs, then open packs and workers. Uploads and packs
// stop at the request's maximum. A worker for which there is no core is not used, and its memory
// becomes buffers, up to 24 MiB more: time for the workers while a disk is busy. Together they take
// no more than the budget. INVALID_ARGUMENT when not even one worker and one upload fit. Pure.
absl::StatusOr<MemoryPlan> PlanMemory(const MemoryRequest& request);

struct DownloadMemoryRequest {
  int64_t budget_bytes = kMemoryBudgetBytes;
  int64_t chunk_bytes = 0;
  int64_t range_bytes_max = 0;  // of one request
  int writes_in_flight = 0;     // of one worker
  bool compares = false;        // a worker also holds what the target has, twice
  int cores = 0;
};

struct DownloadPlan {
  int workers = 1;          // that decode and write
  int ranges = 1;           // in memory: requested, or waiting to be decoded
  int64_t range_bytes = 0;  // of one request
  int64_t held_bytes = 0;   // of all these, and the trees that say what they do
};

// How a restore divides its memory. Up to a quarter is for workers, two for each core and no more
// than 16; the rest buys ranges, which hide the latency of the repository: at least 32, each an
// equal part of range_bytes_max, then longer ones, then up to 64. At least one of each, of a chunk,
// whatever the budget. Pure.
DownloadPlan PlanDownload(const DownloadMemoryRequest& request);

}  // namespace csidelta::incremental
