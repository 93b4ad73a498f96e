#pragma once

#include <memory>
#include <string>
#include <utility>

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
// snapshot. Not thread-safe.
class VolumeRepairSource {
 public:
  // Of the volume at `path`, for `options`, which then borrow it. "": null.
  static absl::StatusOr<std::unique_ptr<VolumeRepairSource>> Open(
      const std::string& path, repository::RepairPacksOptions& options);

 private:
  VolumeRepairSource(std::unique_ptr<incremental::BlockDevice> device,
                     repository::ProgressReporter progress)
      : device_(std::move(device)), progress_(std::move(progress)) {}

  // Finds the wanted chunks for Load(). Reads the volume once for each length of chunks, and ends
  // when all are found.
  absl::Status Prepare(const CallContext& ctx, const repository::WantedChunks& wanted);

  // The bytes at the offset where Prepare() found the chunk. The caller compares the hash, since
  // the volume may have changed. NOT_FOUND if Prepare() did not find the chunk.
  absl::StatusOr<std::string> Load(const CallContext& ctx, const repository::BlobHandle& handle);

  absl::Status Scan(const CallContext& ctx, int64_t chunk_bytes,
                    const repository::WantedChunks& wanted);

  const std::unique_ptr<incremental::BlockDevice> device_;
  const repository::ProgressReporter progress_;
  absl::flat_hash_map<repository::BlobId, Extent> chunks_;
};

}  // namespace csidelta::cli
