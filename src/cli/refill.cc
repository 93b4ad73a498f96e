#include "cli/refill.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "incremental/aligned_buffer.h"
#include "repository/repairer.h"

namespace csidelta::cli {

VolumeRefill::VolumeRefill(const repository::Repository& repository,
                           repository::StoredSnapshot stored, incremental::BlockDevice& device)
    : repository_(repository), stored_(std::move(stored)), device_(device) {}

absl::Status VolumeRefill::Prepare(const CallContext& ctx,
                                   const absl::flat_hash_set<repository::BlobId>& chunks) {
  ASSIGN_OR_RETURN(chunks_, repository::FindChunks(ctx, repository_, stored_.snapshot, chunks));
  return absl::OkStatus();
}

absl::StatusOr<std::string> VolumeRefill::Load(const CallContext& ctx,
                                               const repository::BlobHandle& handle) {
  const auto found = chunks_.find(handle.id);
  if (handle.type != repository::BlobType::kData || found == chunks_.end()) {
    return absl::NotFoundError(absl::StrCat(Describe(handle), " is not of this volume"));
  }
  const Extent& extent = found->second;
  if (extent.end_bytes() > device_.facts().size_bytes) {
    return absl::NotFoundError(absl::StrCat("the volume ends before ", extent.end_bytes()));
  }
  // The volume may have grown: what was its short tail is then read with what follows.
  const Extent aligned{.offset_bytes = extent.offset_bytes,
                       .length_bytes = std::min(RoundUp(extent.length_bytes, kIoAlignmentBytes),
                                                device_.facts().size_bytes - extent.offset_bytes)};
  incremental::AlignedBuffer buffer(RoundUp(aligned.length_bytes, kIoAlignmentBytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<incremental::IoQueue> queue, device_.OpenQueue(1));
  RETURN_IF_ERROR(incremental::ReadFully(ctx, *queue, aligned, buffer.data()));
  return std::string(reinterpret_cast<const char*>(buffer.data()),
                     static_cast<std::size_t>(extent.length_bytes));
}

}  // namespace csidelta::cli
