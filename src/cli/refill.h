#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "incremental/block_device.h"
#include "repository/blob.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"
#include "repository/volume_layout.h"

namespace csidelta::cli {

// Finds chunks of a volume again in the live volume: a snapshot says where each lay, and who asks
// compares the hash, since the volume may have changed. Holds 40 bytes and more per chunk. Borrows
// the device. Thread-safe.
class VolumeRefill {
 public:
  // Reads the snapshot's trees; leaves that do not read are left out.
  static absl::StatusOr<VolumeRefill> Open(const CallContext& ctx,
                                           repository::Repository& repository,
                                           const repository::StoredSnapshot& stored,
                                           incremental::BlockDevice& device);

  // The bytes that the volume has where the chunk lay. NOT_FOUND for a tree, for a chunk that the
  // snapshot does not have, and where the volume ends earlier.
  absl::StatusOr<std::string> Load(const CallContext& ctx, const repository::BlobHandle& handle);

 private:
  VolumeRefill(const repository::VolumeLayout& layout, incremental::BlockDevice& device)
      : layout_(layout), device_(&device), mutex_(std::make_unique<std::mutex>()) {}

  repository::VolumeLayout layout_;
  incremental::BlockDevice* device_;
  absl::flat_hash_map<repository::BlobId, int64_t> chunks_;  // to a place of each
  std::unique_ptr<std::mutex> mutex_;                        // Held while the device is read.
};

}  // namespace csidelta::cli
