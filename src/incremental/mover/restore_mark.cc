#include "incremental/mover/restore_mark.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "incremental/mover/gated_block_device.h"

namespace csidelta::incremental {
namespace {

// A swap area as mkswap(8) lays it out in a page of 4 KiB.
constexpr std::size_t kSwapHeaderAt = 1024;  // and the text of the mark ends before it
constexpr char kSwapHeader[] = "\1\0\0\0\1\0\0\0\xff\xff\xff\xff";  // version, last page, bad pages
constexpr std::size_t kSwapLabelAt = kSwapHeaderAt + 28;
constexpr char kSwapLabel[] = "csi-delta";
constexpr char kSwapMagic[] = "SWAPSPACE2";
constexpr std::size_t kSwapMagicAt = kRestoreMarkBytes - sizeof(kSwapMagic) + 1;

// REQUIRES kRestoreMarkBytes of zeros.
void WriteMark(uint8_t* memory, absl::string_view text) {
  const std::string begin = absl::StrCat(kRestoreMark, text).substr(0, kSwapHeaderAt);
  std::memcpy(memory, begin.data(), begin.size());
  std::memcpy(memory + kSwapHeaderAt, kSwapHeader, sizeof(kSwapHeader) - 1);
  std::memcpy(memory + kSwapLabelAt, kSwapLabel, sizeof(kSwapLabel) - 1);
  std::memcpy(memory + kSwapMagicAt, kSwapMagic, sizeof(kSwapMagic) - 1);
}

}  // namespace

MarkedTarget::MarkedTarget(BlockDevice& inner, int64_t volume_bytes, int64_t chunk_bytes)
    : inner_(inner) {
  if (volume_bytes < kRestoreMarkBytes) {
    return;
  }
  const int64_t head = std::min(volume_bytes, std::max(kKeptBackBytes, chunk_bytes));
  const int64_t tail =
      std::max(head, (volume_bytes - kKeptBackBytes) / kIoAlignmentBytes * kIoAlignmentBytes);
  head_ = {.extent = {0, head}, .memory = AlignedBuffer(head)};
  tail_.extent = {tail, volume_bytes - tail};
  if (tail < volume_bytes) {
    tail_.memory = AlignedBuffer(volume_bytes - tail);
  }
}

Extent MarkedTarget::Keep(IoKind kind, const Extent& extent, uint8_t* memory) {
  if (!begun_) {
    return extent;
  }
  const MutexLock lock(mutex_);
  for (Part* part : {&head_, &tail_}) {
    const int64_t begin = std::max(extent.offset_bytes, part->extent.offset_bytes);
    const int64_t end = std::min(extent.end_bytes(), part->extent.end_bytes());
    if (begin >= end) {
      continue;
    }
    uint8_t* const kept = part->memory.data() + (begin - part->extent.offset_bytes);
    const auto length = static_cast<std::size_t>(end - begin);
    if (memory == nullptr) {
      std::memset(kept, 0, length);
    } else if (kind == IoKind::kRead) {
      std::memcpy(memory + (begin - extent.offset_bytes), kept, length);
    } else {
      std::memcpy(kept, memory + (begin - extent.offset_bytes), length);
    }
  }
  const int64_t begin = std::max(extent.offset_bytes, head_.extent.end_bytes());
  const int64_t volume_end = tail_.extent.end_bytes();
  if (begin >= volume_end) {  // Past the end of the volume, or all of a short one.
    return {begin, std::max<int64_t>(0, extent.end_bytes() - begin)};
  }
  return {begin,
          std::max<int64_t>(0, std::min(extent.end_bytes(), tail_.extent.offset_bytes) - begin)};
}

absl::Status MarkedTarget::WritePart(const CallContext& ctx, Part& part, int64_t from_bytes) {
  if (from_bytes >= part.extent.length_bytes) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, inner_.OpenQueue(1));
  return WriteFully(ctx, *queue,
                    {part.extent.offset_bytes + from_bytes, part.extent.length_bytes - from_bytes},
                    part.memory.data() + from_bytes);
}

absl::Status MarkedTarget::Begin(const CallContext& ctx, absl::string_view text, bool holds_data) {
  if (head_.extent.length_bytes == 0) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, inner_.OpenQueue(1));
  for (Part* part : {&head_, &tail_}) {
    const auto length = static_cast<std::size_t>(part->extent.length_bytes);
    if (length > 0) {
      std::memset(part->memory.data(), 0, length);
    }
    if (length > 0 && holds_data) {
      const absl::Status read = ReadFully(ctx, *queue, part->extent, part->memory.data());
      if (absl::IsDataLoss(read)) {
        std::memset(part->memory.data(), 0, length);
      } else {
        RETURN_IF_ERROR(read);
      }
    }
  }
  // In one write: until it is done, what the device held is there as a whole.
  const AlignedBuffer mark(head_.extent.length_bytes);
  std::memset(mark.data(), 0, static_cast<std::size_t>(head_.extent.length_bytes));
  WriteMark(mark.data(), text);
  RETURN_IF_ERROR(WriteFully(ctx, *queue, head_.extent, mark.data()));
  if (tail_.extent.length_bytes > 0) {
    RETURN_IF_ERROR(inner_.MakeZero(ctx, tail_.extent));
  }
  RETURN_IF_ERROR(inner_.Flush(ctx));
  begun_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IoQueue>> MarkedTarget::OpenQueue(int depth) {
  ASSIGN_OR_RETURN(std::unique_ptr<IoQueue> queue, inner_.OpenQueue(depth));
  // Passes on what is not of the parts that are kept back.
  return std::make_unique<FilteredQueue>(
      std::move(queue), [this](IoRequest& request) -> std::optional<absl::Status> {
        const Extent rest =
            Keep(request.kind, {request.offset_bytes, request.length_bytes}, request.memory);
        request.memory += rest.offset_bytes - request.offset_bytes;
        request.offset_bytes = rest.offset_bytes;
        request.length_bytes = rest.length_bytes;
        return rest.length_bytes == 0 ? std::optional(absl::OkStatus()) : std::nullopt;
      });
}

absl::Status MarkedTarget::MakeZero(const CallContext& ctx, const Extent& extent) {
  const Extent rest = Keep(IoKind::kWrite, extent, nullptr);
  return rest.length_bytes == 0 ? absl::OkStatus() : inner_.MakeZero(ctx, rest);
}

absl::Status MarkedTarget::Flush(const CallContext& ctx) {
  RETURN_IF_ERROR(inner_.Flush(ctx));
  if (!begun_) {
    return absl::OkStatus();
  }
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(WritePart(ctx, tail_, 0));
  RETURN_IF_ERROR(WritePart(ctx, head_, kRestoreMarkBytes));
  RETURN_IF_ERROR(inner_.Flush(ctx));
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, inner_.OpenQueue(1));
  RETURN_IF_ERROR(WriteFully(ctx, *queue, {0, kRestoreMarkBytes}, head_.memory.data()));
  return inner_.Flush(ctx);
}

absl::StatusOr<bool> HasRestoreMark(const CallContext& ctx, BlockDevice& device) {
  if (device.info().size_bytes < kRestoreMarkBytes) {
    return false;
  }
  const AlignedBuffer memory(kRestoreMarkBytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> queue, device.OpenQueue(1));
  RETURN_IF_ERROR(ReadFully(ctx, *queue, {0, kRestoreMarkBytes}, memory.data()));
  return absl::StartsWith(memory.View(kRestoreMarkBytes), kRestoreMark);
}

}  // namespace csidelta::incremental
