#include "incremental/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace csidelta::incremental {
namespace {

constexpr int64_t kPackBytesMin = int64_t{4} << 20;
constexpr int kQueueDepth = 8;
constexpr int64_t kBlobsPerWorker = 3;
// A tree pack is open beside the data packs, and one more pack is being filled than uploaded.
constexpr int kExtraPacks = 2;
constexpr int kUploadsGood = 3;
// What is left buys time for the workers while a disk is busy writing.
constexpr int64_t kReadAheadBytesMax = int64_t{24} << 20;

int64_t NeededBytes(const MemoryPlan& plan, int64_t chunk_bytes) {
  return kMemoryFixedBytes + plan.buffers * chunk_bytes +
         plan.workers * (plan.pack_bytes + kBlobsPerWorker * chunk_bytes) +
         (plan.uploads_in_flight + kExtraPacks) * plan.pack_bytes;
}

}  // namespace

int64_t LeastMemoryBytes(int64_t chunk_bytes) {
  return NeededBytes({.workers = 1,
                      .queue_depth = kQueueDepth,
                      .buffers = kQueueDepth + 2,
                      .pack_bytes = kPackBytesMin,
                      .uploads_in_flight = 1},
                     chunk_bytes);
}

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryRequest& request) {
  MemoryPlan plan{.budget_bytes = request.budget_bytes};
  for (plan.workers = std::max(1, request.workers); plan.workers > 0; --plan.workers) {
    plan.queue_depth = kQueueDepth;
    plan.buffers = kQueueDepth + 2 * plan.workers;
    for (int uploads_min : {kUploadsGood, 1}) {
      for (plan.pack_bytes = std::max(request.pack_bytes_max, kPackBytesMin);
           plan.pack_bytes >= kPackBytesMin; plan.pack_bytes /= 2) {
        for (plan.uploads_in_flight = std::max(request.uploads_in_flight_max, uploads_min);
             plan.uploads_in_flight >= uploads_min; --plan.uploads_in_flight) {
          const int64_t left_bytes = request.budget_bytes - request.reserved_bytes -
                                     NeededBytes(plan, request.chunk_bytes);
          if (left_bytes >= 0) {
            plan.buffers +=
                static_cast<int>(std::min(left_bytes, kReadAheadBytesMax) / request.chunk_bytes);
            return plan;
          }
        }
      }
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a memory budget of ", request.budget_bytes, " bytes is too small for chunks of ",
      request.chunk_bytes, " bytes; give at least ",
      request.reserved_bytes + LeastMemoryBytes(request.chunk_bytes), " bytes"));
}

}  // namespace csidelta::incremental
