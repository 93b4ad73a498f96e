#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "incremental/mover/block_device.h"
#include "repository/blob.h"
#include "repository/maintenance.h"
#include "repository/repairer.h"

namespace csidelta::cli {

// Finds chunks in a live volume, or in an image of it, by reading all of it: at any offset, of any
// snapshot. Borrows the device. Not thread-safe.
class VolumeRepairSource {
 public:
  explicit VolumeRepairSource(incremental::BlockDevice& device) : device_(device) {}

  // Finds the wanted chunks for Load(). Reads the volume once for each length of chunks, and ends
  // when all are found. `progress` may be null.
  absl::Status Prepare(const CallContext& ctx, const repository::WantedChunks& wanted,
                       const repository::ProgressReporter& progress);

  // The bytes at the offset where Prepare() found the chunk. The caller compares the hash, since
  // the volume may have changed. NOT_FOUND if Prepare() did not find the chunk.
  absl::StatusOr<std::string> Load(const CallContext& ctx, const repository::BlobHandle& handle);

 private:
  absl::Status Scan(const CallContext& ctx, int64_t chunk_bytes,
                    const repository::WantedChunks& wanted,
                    const repository::ProgressReporter& progress);

  incremental::BlockDevice& device_;
  absl::flat_hash_map<repository::BlobId, Extent> chunks_;
};

}  // namespace csidelta::cli
