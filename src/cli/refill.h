#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/extent.h"
#include "incremental/block_device.h"
#include "repository/blob.h"
#include "repository/repo_snapshot.h"
#include "repository/repository.h"

namespace csidelta::cli {

// Finds chunks of a volume again in the live volume: a snapshot says where each lay, and who asks
// compares the hash, since the volume may have changed. Borrows all but the snapshot. Not
// thread-safe.
class VolumeRefill {
 public:
  VolumeRefill(const repository::Repository& repository, repository::StoredSnapshot stored,
               incremental::BlockDevice& device);

  // Looks up where the chunks lie, of which any may be asked for; leaves that do not read are
  // passed over. REQUIRES a loaded index.
  absl::Status Prepare(const CallContext& ctx,
                       const absl::flat_hash_set<repository::BlobId>& chunks);

  // The bytes that the volume has where the chunk lay. NOT_FOUND for what was not found by
  // Prepare(), and where the volume ends earlier.
  absl::StatusOr<std::string> Load(const CallContext& ctx, const repository::BlobHandle& handle);

 private:
  const repository::Repository& repository_;
  const repository::StoredSnapshot stored_;
  incremental::BlockDevice& device_;
  absl::flat_hash_map<repository::BlobId, Extent> chunks_;
};

}  // namespace csidelta::cli
