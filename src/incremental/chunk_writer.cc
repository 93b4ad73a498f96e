#include "incremental/chunk_writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::incremental {

using repository::VolumeLayout;

absl::StatusOr<std::unique_ptr<ChunkWriter>> ChunkWriter::Make(repository::Repository& repository,
                                                               const VolumeLayout& layout,
                                                               BlockDevice& target, int depth,
                                                               RestoreCounts& counts) {
  // Not make_unique: the constructor is private.
  std::unique_ptr<ChunkWriter> writer(new ChunkWriter(repository, layout, counts));
  for (int i = 0; i < depth; ++i) {
    writer->slots_.push_back({.buffer = AlignedBuffer(layout.chunk_bytes())});
  }
  ASSIGN_OR_RETURN(writer->io_, target.OpenQueue(depth));
  return writer;
}

absl::Status ChunkWriter::Reap(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const IoCompletion done, io_->Wait(ctx));
  --slots_[done.tag].writes;
  return done.status;
}

absl::StatusOr<std::size_t> ChunkWriter::FreeSlot(const CallContext& ctx) {
  while (true) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].writes == 0) {
        return i;
      }
    }
    RETURN_IF_ERROR(Reap(ctx));
  }
}

absl::Status ChunkWriter::Decode(const CallContext& ctx, const PackRange::Part& part,
                                 absl::string_view envelope, absl::Span<uint8_t> out) {
  const absl::Status status = codec_->DecodeInto(part.handle, part.span, envelope, out);
  if (status.ok()) {
    return status;
  }
  ++counts_.damaged_copies;
  absl::StatusOr<std::string> other = repository_.LoadBlob(ctx, part.handle);
  if (!other.ok()) {
    return other.status();
  }
  if (other->size() != out.size()) {
    return absl::DataLossError(absl::StrCat(Describe(part.handle), " has ", other->size(),
                                            " bytes, not ", out.size(), " as the index says"));
  }
  std::memcpy(out.data(), other->data(), other->size());
  return absl::OkStatus();
}

absl::Status ChunkWriter::WritePart(const CallContext& ctx, const PackRange::Part& part,
                                    absl::string_view envelope,
                                    absl::Span<const ChunkPlace> places) {
  const int64_t length = part.span.plaintext_bytes();
  for (const ChunkPlace& place : places) {
    if (layout_.ChunkLength(place.chunk) != length) {
      return absl::DataLossError(absl::StrCat("chunk ", place.chunk, " of ",
                                              layout_.ChunkLength(place.chunk), " bytes names ",
                                              Describe(part.handle), " of ", length));
    }
  }
  ASSIGN_OR_RETURN(const std::size_t at, FreeSlot(ctx));
  Slot& slot = slots_[at];
  RETURN_IF_ERROR(
      Decode(ctx, part, envelope, {slot.buffer.data(), static_cast<std::size_t>(length)}));
  for (const ChunkPlace& place : places) {
    while (io_->in_flight() == io_->depth()) {
      RETURN_IF_ERROR(Reap(ctx));
    }
    io_->Submit({.kind = IoKind::kWrite,
                 .offset_bytes = layout_.ChunkOffset(place.chunk),
                 .length_bytes = length,
                 .memory = slot.buffer.data(),
                 .tag = at});
    ++slot.writes;
    counts_.written_bytes += length;
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Do(const CallContext& ctx, const RestoreTask& task) {
  absl::StatusOr<std::string> bytes = repository_.LoadPackRange(
      ctx, task.range.pack, task.range.offset_bytes, task.range.length_bytes);
  if (absl::IsNotFound(bytes.status()) || absl::IsOutOfRange(bytes.status()) ||
      absl::IsDataLoss(bytes.status())) {
    // The pack is gone or cut: each blob may still have another copy.
    bytes = std::string(static_cast<std::size_t>(task.range.length_bytes), '\0');
  }
  RETURN_IF_ERROR(bytes.status());
  counts_.fetched_bytes += task.range.length_bytes;
  for (const PackRange::Part& part : task.range.parts) {
    RETURN_IF_ERROR(ctx.Check());
    const auto first = task.places->begin() + part.tag;
    const auto last = std::find_if(first, task.places->end(), [&](const ChunkPlace& place) {
      return place.id != part.handle.id;
    });
    RETURN_IF_ERROR(WritePart(ctx, part, PartOf(task.range, part, *bytes),
                              {&*first, static_cast<std::size_t>(last - first)}));
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Finish(const CallContext& ctx) {
  while (io_->in_flight() > 0) {
    RETURN_IF_ERROR(Reap(ctx));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::incremental
