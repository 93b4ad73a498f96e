#include "cli/repository/repair_source.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "incremental/mover/aligned_buffer.h"
#include "incremental/mover/chunk_reader.h"
#include "incremental/mover/file_block_device.h"
#include "incremental/mover/process_limits.h"

namespace csidelta::cli {
namespace {

constexpr int kBuffersBesideWorkers = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<VolumeRepairSource>> VolumeRepairSource::Open(
    const std::string& path, repository::RepairPacksOptions& options) {
  if (path.empty()) {
    return nullptr;
  }
  ASSIGN_OR_RETURN(auto device, incremental::FileBlockDevice::OpenForRead(path));
  auto source = absl::WrapUnique(new VolumeRepairSource(std::move(device), options.progress));
  options.prepare_repair_source = std::bind_front(&VolumeRepairSource::Prepare, source.get());
  options.repair_source = std::bind_front(&VolumeRepairSource::Load, source.get());
  return source;
}

absl::Status VolumeRepairSource::Prepare(const CallContext& ctx,
                                         const repository::WantedChunks& wanted) {
  chunks_.clear();  // of an earlier call
  for (const int64_t chunk_bytes : wanted.chunk_bytes) {
    if (chunks_.size() < wanted.ids.size()) {
      RETURN_IF_ERROR(Scan(ctx, chunk_bytes, wanted));
    }
  }
  return absl::OkStatus();
}

absl::Status VolumeRepairSource::Scan(const CallContext& ctx, int64_t chunk_bytes,
                                      const repository::WantedChunks& wanted) {
  const int workers = incremental::ReadProcessLimits().cores;
  Mutex mutex;  // Guards what was found.
  ASSIGN_OR_RETURN(const std::unique_ptr<incremental::ChunkReader> reader,
                   incremental::ChunkReader::Make(ctx, *device_,
                                                  {.chunk_bytes = chunk_bytes,
                                                   .workers = workers,
                                                   .buffers = kBuffersBesideWorkers + workers}));
  const int64_t size_bytes = device_->info().size_bytes;
  for (int64_t offset = 0; offset < size_bytes; offset += chunk_bytes) {
    {
      const MutexLock lock(mutex);
      if (chunks_.size() == wanted.ids.size()) {
        break;
      }
    }
    repository::Report(progress_, "chunks of the volume", offset / chunk_bytes,
                       size_bytes / chunk_bytes);
    const auto inspect = [this, &wanted, &mutex, offset](absl::string_view bytes) {
      const auto take = [&](absl::string_view chunk) {
        const repository::BlobId id = repository::BlobId::Of(chunk);
        if (wanted.ids.contains(id)) {
          const MutexLock lock(mutex);
          chunks_.emplace(id, Extent{offset, static_cast<int64_t>(chunk.size())});
        }
      };
      take(bytes);
      for (const int64_t tail_bytes : wanted.tail_bytes) {  // Of a volume that has grown since.
        if (tail_bytes < static_cast<int64_t>(bytes.size())) {
          take(bytes.substr(0, static_cast<std::size_t>(tail_bytes)));
        }
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(reader->Read({offset, std::min(chunk_bytes, size_bytes - offset)}, inspect));
  }
  return reader->Finish();
}

absl::StatusOr<std::string> VolumeRepairSource::Load(const CallContext& ctx,
                                                     const repository::BlobHandle& handle) {
  const auto found = chunks_.find(handle.id);
  if (handle.type != repository::BlobType::kData || found == chunks_.end()) {
    return absl::NotFoundError(absl::StrCat(Describe(handle), " is not of this volume"));
  }
  const Extent& extent = found->second;
  if (extent.end_bytes() > device_->info().size_bytes) {
    return absl::NotFoundError(absl::StrCat("the volume ends before ", extent.end_bytes()));
  }
  // The volume may have grown: what was its short tail is then read with what follows.
  const Extent aligned{.offset_bytes = extent.offset_bytes,
                       .length_bytes = std::min(RoundUp(extent.length_bytes, kIoAlignmentBytes),
                                                device_->info().size_bytes - extent.offset_bytes)};
  incremental::AlignedBuffer buffer(RoundUp(aligned.length_bytes, kIoAlignmentBytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<incremental::IoQueue> queue, device_->OpenQueue(1));
  RETURN_IF_ERROR(incremental::ReadFully(ctx, *queue, aligned, buffer.data()));
  return std::string(reinterpret_cast<const char*>(buffer.data()),
                     static_cast<std::size_t>(extent.length_bytes));
}

}  // namespace csidelta::cli
