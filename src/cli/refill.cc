#include "cli/refill.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "incremental/aligned_buffer.h"
#include "incremental/tree_fetcher.h"
#include "incremental/volume_record.h"

namespace csidelta::cli {

using incremental::VolumeRecord;
using repository::BlobId;

absl::StatusOr<VolumeRefill> VolumeRefill::Open(const CallContext& ctx,
                                                repository::Repository& repository,
                                                const repository::StoredSnapshot& stored,
                                                incremental::BlockDevice& device) {
  ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> record,
                   incremental::OpenVolumeRecord(ctx, repository, stored));
  VolumeRefill refill(record->layout, device);
  incremental::TreeFetcher fetcher(repository, *record->places);
  for (int64_t level1 = 0; level1 < record->layout.level1_count(); ++level1) {
    RETURN_IF_ERROR(ctx.Check());
    const absl::StatusOr<std::vector<BlobId>> leaves =
        incremental::LoadLeafIds(ctx, *record, fetcher, level1);
    for (std::size_t i = 0; leaves.ok() && i < leaves->size(); ++i) {
      const int64_t leaf = level1 * repository::kFanout + static_cast<int64_t>(i);
      const auto chunks = incremental::LoadChunkIds(ctx, *record, fetcher, {leaf}, {(*leaves)[i]});
      for (std::size_t slot = 0; chunks.ok() && slot < (*chunks)[0].size(); ++slot) {
        refill.chunks_.emplace((*chunks)[0][slot],
                               leaf * repository::kLeafChunks + static_cast<int64_t>(slot));
      }
    }
  }
  return refill;
}

absl::StatusOr<std::string> VolumeRefill::Load(const CallContext& ctx,
                                               const repository::BlobHandle& handle) {
  const auto found = chunks_.find(handle.id);
  if (handle.type != repository::BlobType::kData || found == chunks_.end()) {
    return absl::NotFoundError(absl::StrCat(Describe(handle), " is not of this volume"));
  }
  const Extent extent{.offset_bytes = layout_.ChunkOffset(found->second),
                      .length_bytes = layout_.ChunkLength(found->second)};
  if (extent.end_bytes() > device_->facts().size_bytes) {
    return absl::NotFoundError(absl::StrCat("the volume ends before ", extent.end_bytes()));
  }
  // The volume may have grown: what was its short tail is then read with what follows.
  const Extent aligned{
      .offset_bytes = extent.offset_bytes,
      .length_bytes =
          std::min(incremental::RoundUp(extent.length_bytes, incremental::kIoAlignmentBytes),
                   device_->facts().size_bytes - extent.offset_bytes)};
  incremental::AlignedBuffer buffer(layout_.chunk_bytes());
  std::scoped_lock lock(*mutex_);
  ASSIGN_OR_RETURN(const std::unique_ptr<incremental::IoQueue> queue, device_->OpenQueue(1));
  RETURN_IF_ERROR(incremental::ReadFully(ctx, *queue, aligned, buffer.data()));
  return std::string(reinterpret_cast<const char*>(buffer.data()),
                     static_cast<std::size_t>(extent.length_bytes));
}

}  // namespace csidelta::cli
