#include "incremental/mover/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "repository/format.h"

namespace csidelta::incremental {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kPackBytesMin = 4 * kMiB;
constexpr int kQueueDepth = 8;
constexpr int kBuffersPerWorker = 2;  // one to work on, one that waits
// A frame, and what was opened and decompressed again.
constexpr int64_t kBlobsPerWorker = 3;
constexpr int64_t kCompressorBytes = 2 * kMiB;
constexpr int kTreePacks = 1;
constexpr int kUploadsBeforeLongPacks = 4;
// What is left buys time for the workers while a disk is busy writing.
constexpr int64_t kReadAheadBytesMax = 24 * kMiB;

// What trees and places of one level-1 tree take, twice.
constexpr int64_t kDownloadTreesBytes = 24 * kMiB;
constexpr int kDownloadWorkersPerCore = 2;
constexpr int kDownloadWorkersMax = 16;
constexpr int64_t kRangesWanted = 32;
constexpr int64_t kRangesMax = 64;

// A place on the ladder. The steps from one line to the next raise one member at a time, so that
// each place has at least as much of everything as the one below.
struct Rung {
  int workers;
  int open_packs;
  int uploads;
  int64_t pack_bytes;
};
constexpr Rung kLadder[] = {
    {1, 1, 1, 4 * kMiB},  {2, 1, 4, 4 * kMiB},    {4, 2, 8, 4 * kMiB},    {8, 2, 8, 8 * kMiB},
    {8, 2, 16, 8 * kMiB}, {16, 3, 16, 16 * kMiB}, {32, 4, 32, 16 * kMiB}, {64, 4, 32, 32 * kMiB},
};

// What of a rung is wanted: more has no use.
Rung Within(Rung rung, const MemoryRequest& request) {
  rung.uploads = std::min(rung.uploads, std::max(1, request.uploads_in_flight_max));
  rung.pack_bytes = std::min(rung.pack_bytes, std::max(request.pack_bytes_max, kPackBytesMin));
  return rung;
}

int64_t PlannedBytes(const Rung& rung, int buffers, int64_t chunk_bytes, int64_t reserved_bytes) {
  // A pack is closed by the chunk that makes it long enough.
  const int64_t pack_room_bytes = rung.pack_bytes + chunk_bytes;
  return kMemoryFixedBytes + reserved_bytes + buffers * chunk_bytes +
         rung.workers * (kBlobsPerWorker * chunk_bytes + kCompressorBytes) +
         (rung.open_packs + kTreePacks + rung.uploads) * pack_room_bytes;
}

int BuffersOf(int workers) { return kQueueDepth + kBuffersPerWorker * workers; }

int64_t NeededBytes(const Rung& rung, const MemoryRequest& request) {
  return PlannedBytes(Within(rung, request), BuffersOf(rung.workers), request.chunk_bytes,
                      request.reserved_bytes);
}

// Raises `rung` step by step to `goal`, one member after the other; false where the memory ends
// before.
bool Climb(const MemoryRequest& request, const Rung& goal, Rung& rung) {
  const auto raise = [&](auto Rung::*member, auto step) {
    while (rung.*member < goal.*member) {
      Rung next = rung;
      next.*member = std::min(next.*member + step, goal.*member);
      if (NeededBytes(next, request) > request.budget_bytes) {
        return false;
      }
      rung = next;
    }
    return true;
  };
  return raise(&Rung::uploads, 1) && raise(&Rung::pack_bytes, kMiB) &&
         raise(&Rung::open_packs, 1) && raise(&Rung::workers, 1);
}

}  // namespace

int64_t LeastMemoryBytes(int64_t chunk_bytes) {
  return PlannedBytes(kLadder[0], BuffersOf(kLadder[0].workers), chunk_bytes, 0);
}

absl::Status CheckBudget(const MemoryRequest& request) {
  const int64_t least_bytes = request.reserved_bytes + LeastMemoryBytes(request.chunk_bytes);
  return least_bytes <= request.budget_bytes
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("a memory budget of ", FormatBytes(request.budget_bytes),
                                " is too small for chunks of ", FormatBytes(request.chunk_bytes),
                                "; give at least ", (least_bytes + kMiB - 1) / kMiB, "MiB"));
}

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryRequest& request) {
  CSIDELTA_CHECK(request.chunk_bytes > 0 && request.pack_bytes_max > 0);
  Rung rung = kLadder[0];
  RETURN_IF_ERROR(CheckBudget(request));
  bool climbs = true;
  for (Rung goal : kLadder) {
    if (goal.uploads >= kUploadsBeforeLongPacks) {
      goal.pack_bytes = std::max(goal.pack_bytes, request.pack_bytes_first);
    }
    climbs = climbs && Climb(request, goal, rung);
  }
  Rung largest = rung;
  largest.pack_bytes = std::max(rung.pack_bytes, request.pack_bytes_max);
  if (climbs) {
    Climb(request, largest, rung);
  }
  // From here on memory is only given up, by workers without a core.
  Rung used = Within(rung, request);
  used.workers = std::clamp(request.cores, 1, rung.workers);
  used.open_packs = std::min(rung.open_packs, used.workers);
  MemoryPlan plan{.budget_bytes = request.budget_bytes,
                  .workers = used.workers,
                  .queue_depth = kQueueDepth,
                  .buffers = BuffersOf(used.workers),
                  .open_packs = used.open_packs,
                  .pack_bytes = used.pack_bytes,
                  .uploads_in_flight = used.uploads};
  const int64_t left_bytes =
      request.budget_bytes -
      PlannedBytes(used, plan.buffers, request.chunk_bytes, request.reserved_bytes);
  plan.buffers += static_cast<int>(std::min(left_bytes, kReadAheadBytesMax) / request.chunk_bytes);
  return plan;
}

DownloadPlan PlanDownload(const DownloadMemoryRequest& request) {
  CSIDELTA_CHECK(request.chunk_bytes > 0 && request.range_bytes_max > 0);
  const int64_t chunks_each = request.writes_in_flight + 2 + (request.compares ? 2 : 0);
  const int64_t each_bytes = chunks_each * request.chunk_bytes;
  const int64_t range_bytes_min =
      std::max(kMiB, request.chunk_bytes + repository::kSealedExtraBytesMax);
  const int64_t range_bytes_max = std::max(request.range_bytes_max, range_bytes_min);
  int64_t left_bytes = request.budget_bytes - kMemoryFixedBytes - kDownloadTreesBytes;
  const int wanted =
      std::min(kDownloadWorkersMax, kDownloadWorkersPerCore * std::max(1, request.cores));
  DownloadPlan plan;
  plan.workers = static_cast<int>(std::clamp<int64_t>(left_bytes / 4 / each_bytes, 1, wanted));
  left_bytes -= plan.workers * each_bytes;
  // Equal parts of the longest range: a short one would take the memory of the others.
  const auto blobs_in = [&](int64_t range_bytes) {
    return (range_bytes - repository::kSealedExtraBytesMax) / request.chunk_bytes;
  };
  const int64_t blobs_max = blobs_in(range_bytes_max);
  const int64_t blobs_wanted =
      blobs_in(std::clamp(left_bytes / kRangesWanted, range_bytes_min, range_bytes_max));
  const int64_t parts = (blobs_max + blobs_wanted - 1) / blobs_wanted;
  plan.range_bytes =
      (blobs_max + parts - 1) / parts * request.chunk_bytes + repository::kSealedExtraBytesMax;
  plan.ranges = static_cast<int>(std::clamp<int64_t>(left_bytes / plan.range_bytes, 1, kRangesMax));
  plan.held_bytes =
      kDownloadTreesBytes + plan.workers * each_bytes + plan.ranges * plan.range_bytes;
  return plan;
}

}  // namespace csidelta::incremental
