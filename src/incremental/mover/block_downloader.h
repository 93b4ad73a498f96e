#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "base/json.h"
#include "base/random.h"
#include "incremental/mover/backup_result.h"
#include "incremental/mover/block_device.h"
#include "incremental/mover/memory_plan.h"
#include "incremental/mover/volume_record.h"
#include "repository/repository.h"

namespace csidelta::incremental {

struct DownloadOptions {
  // The target reads as zeros already: checked on a sample before anything is written.
  bool target_is_zero = false;
  // Chunks that the target holds already are neither fetched nor written, and of the others only
  // blocks that differ are written. REQUIRES not target_is_zero.
  bool only_differing = false;
  int64_t memory_budget_bytes = kMemoryBudgetBytes;
  int cores = 0;        // 0: those that the process may use
  int workers_max = 0;  // 0: as many as the plan has
  std::function<StoreNumbers()> store_numbers = nullptr;
  // On any thread, one call at a time. It must not block for long.
  std::function<void(const TransferProgress&)> on_progress = nullptr;
};

struct RestoreResult {
  repository::Id snapshot;
  std::string engine;
  std::string file_system = {};  // that the volume holds; "" for none that we know
  int64_t logical_bytes = 0;
  int64_t written_bytes = 0;   // of blobs, to the target
  int64_t kept_bytes = 0;      // of blobs, that the target held already
  int64_t compared_bytes = 0;  // of the target, read to see that
  int64_t zero_bytes = 0;      // made zero, or left so
  int64_t fetched_bytes = 0;   // of packs
  int64_t damaged_copies = 0;  // blobs that another copy replaced
  StoreNumbers store = {};
  std::map<std::string, int64_t> duration_ms = {};
  int64_t peak_memory_bytes = 0;
  int64_t scratch_bytes = 0;  // the most that lay in scratch files
};

Json ToJson(const RestoreResult& result);

// What is compared, and written, at a time where only what differs is written: any direct I/O can
// do that.
inline constexpr int64_t kDifferenceBytes = 4096;

// The ranges, counted from the beginning of both, in which `wanted` and `held` differ: whole blocks
// of kDifferenceBytes, the last one as long as it is; neighbours are joined. A normal list.
// REQUIRES both of one length. Pure.
std::vector<Extent> DifferingRanges(absl::string_view wanted, absl::string_view held);

// Writes a volume back: one level-1 tree at a time, so that memory does not follow the volume.
// Every blob is proven by its hash before it is written; where one copy is damaged, another is
// taken. What was zero is made zero, whatever the target held, unless the target is zero already.
// With only_differing a chunk is read from the target first and its hash compared with its id.
// Bytes of a larger target past the end of the volume are left as they are. Durable when it returns
// OK; until then the target begins with a mark that says so, and lacks its first and last bytes
// (restore_mark.h).
//
// Loads the whole index. Errors, beside those of device and repository:
//   OUT_OF_RANGE         the target is smaller than the volume; nothing was written
//   FAILED_PRECONDITION  target_is_zero, and it is not; nothing was written
//   DATA_LOSS            a blob has no copy that proves itself; the target is incomplete
absl::StatusOr<RestoreResult> DownloadBlocks(const CallContext& ctx,
                                             repository::Repository& repository,
                                             BlockDevice& target, Random& random,
                                             const VolumeRecord& record,
                                             const DownloadOptions& options);

}  // namespace csidelta::incremental
