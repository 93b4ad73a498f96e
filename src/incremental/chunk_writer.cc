#include "incremental/chunk_writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "incremental/block_difference.h"

namespace csidelta::incremental {

using repository::VolumeLayout;

absl::StatusOr<std::unique_ptr<ChunkWriter>> ChunkWriter::Make(repository::Repository& repository,
                                                               const VolumeLayout& layout,
                                                               BlockDevice& target,
                                                               const ChunkWriterOptions& options,
                                                               RestoreCounts& counts) {
  CSIDELTA_CHECK(options.depth > 1);
  // Not make_unique: the constructor is private.
  std::unique_ptr<ChunkWriter> writer(new ChunkWriter(repository, layout, counts));
  for (int i = 0; i < options.depth; ++i) {
    writer->slots_.push_back({.buffer = AlignedBuffer(layout.chunk_bytes())});
  }
  ASSIGN_OR_RETURN(writer->io_, target.OpenQueue(options.depth));
  if (options.only_differing) {
    writer->held_ = AlignedBuffer(layout.chunk_bytes());
    ASSIGN_OR_RETURN(writer->held_io_, target.OpenQueue(1));
  }
  return writer;
}

absl::Status ChunkWriter::Reap(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const IoCompletion done, io_->Wait(ctx));
  --slots_[done.tag].users;
  return done.status;
}

absl::StatusOr<std::size_t> ChunkWriter::FreeSlot(const CallContext& ctx) {
  while (true) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].users == 0) {
        ++slots_[i].users;
        return i;
      }
    }
    RETURN_IF_ERROR(Reap(ctx));
  }
}

absl::Status ChunkWriter::TakeOtherCopy(const CallContext& ctx,
                                        const repository::BlobCodec::Sealed& damaged) {
  ++counts_.damaged_copies;
  absl::StatusOr<std::string> other = repository_.LoadBlob(ctx, damaged.handle);
  if (!other.ok()) {
    return other.status();
  }
  if (other->size() != damaged.out.size()) {
    return absl::DataLossError(absl::StrCat(Describe(damaged.handle), " has ", other->size(),
                                            " bytes, not ", damaged.out.size(),
                                            " as the index says"));
  }
  std::memcpy(damaged.out.data(), other->data(), other->size());
  return absl::OkStatus();
}

absl::Status ChunkWriter::Decode(const CallContext& ctx, absl::Span<const Piece> pieces) {
  const auto sealed = [&](const Piece& piece) -> repository::BlobCodec::Sealed {
    return {.handle = piece.part->handle,
            .span = piece.part->span,
            .envelope = piece.envelope,
            .out = {slots_[piece.slot].buffer.data(), piece.part->span.plaintext_bytes()}};
  };
  const repository::BlobCodec::Sealed first = sealed(pieces.front());
  if (pieces.size() == 1) {
    const bool good = codec_->DecodeInto(first.handle, first.span, first.envelope, first.out).ok();
    return good ? absl::OkStatus() : TakeOtherCopy(ctx, first);
  }
  const repository::BlobCodec::Sealed second = sealed(pieces.back());
  const auto [of_first, of_second] = codec_->DecodeTwo(first, second);
  if (!of_first.ok()) {
    RETURN_IF_ERROR(TakeOtherCopy(ctx, first));
  }
  return of_second.ok() ? absl::OkStatus() : TakeOtherCopy(ctx, second);
}

absl::Status ChunkWriter::CheckPlaces(const Piece& piece) const {
  const int64_t length = piece.part->span.plaintext_bytes();
  for (const ChunkPosition& place : piece.places) {
    if (layout_.ChunkLength(place.chunk) != length) {
      return absl::DataLossError(absl::StrCat("chunk ", place.chunk, " of ",
                                              layout_.ChunkLength(place.chunk), " bytes names ",
                                              Describe(piece.part->handle), " of ", length));
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::SubmitRange(const CallContext& ctx, std::size_t slot, int64_t chunk,
                                      const Extent& range) {
  while (io_->in_flight() == io_->depth()) {
    RETURN_IF_ERROR(Reap(ctx));
  }
  io_->Submit({.kind = IoKind::kWrite,
               .offset_bytes = layout_.ChunkOffset(chunk) + range.offset_bytes,
               .length_bytes = range.length_bytes,
               .memory = slots_[slot].buffer.data() + range.offset_bytes,
               .tag = slot});
  ++slots_[slot].users;
  counts_.written_bytes += range.length_bytes;
  return absl::OkStatus();
}

absl::Status ChunkWriter::Submit(const CallContext& ctx, const Piece& piece) {
  const int64_t length = piece.part->span.plaintext_bytes();
  for (const ChunkPosition& place : piece.places) {
    std::vector<Extent> ranges = {{0, length}};
    if (held_io_ != nullptr) {
      ASSIGN_OR_RETURN(ranges,
                       RangesToWrite(ctx, place.chunk, slots_[piece.slot].buffer.View(length)));
      counts_.kept_bytes += length - TotalBytes(ranges);
    }
    for (const Extent& range : ranges) {
      RETURN_IF_ERROR(SubmitRange(ctx, piece.slot, place.chunk, range));
    }
  }
  --slots_[piece.slot].users;
  return absl::OkStatus();
}

absl::StatusOr<bool> ChunkWriter::ReadHeld(const CallContext& ctx, int64_t chunk) {
  const Extent extent{layout_.ChunkOffset(chunk), layout_.ChunkLength(chunk)};
  absl::Status read = ReadFully(ctx, *held_io_, extent, held_.data());
  if (!read.ok() && !absl::IsDataLoss(read)) {
    return read;
  }
  counts_.compared_bytes += extent.length_bytes;
  return read.ok();
}

absl::StatusOr<bool> ChunkWriter::Holds(const CallContext& ctx, const ChunkPosition& place) {
  ASSIGN_OR_RETURN(const bool is_read, ReadHeld(ctx, place.chunk));
  return is_read &&
         repository::BlobId::Of(held_.View(layout_.ChunkLength(place.chunk))) == place.id;
}

absl::StatusOr<std::vector<Extent>> ChunkWriter::RangesToWrite(const CallContext& ctx,
                                                               int64_t chunk,
                                                               absl::string_view wanted) {
  const auto length = static_cast<int64_t>(wanted.size());
  ASSIGN_OR_RETURN(const bool is_read, ReadHeld(ctx, chunk));
  if (!is_read) {
    return std::vector<Extent>{{0, length}};
  }
  return DifferingRanges(wanted, held_.View(length));
}

absl::Status ChunkWriter::WriteDiffering(const CallContext& ctx, const RestoreTask& task) {
  auto places = std::make_shared<std::vector<ChunkPosition>>();
  std::vector<WantedBlob> wanted;
  for (const PackRange::Part& part : task.range.parts) {
    const auto tag = std::ssize(*places);
    for (std::size_t i = static_cast<std::size_t>(part.tag);
         i < task.places->size() && (*task.places)[i].id == part.handle.id; ++i) {
      const ChunkPosition& place = (*task.places)[i];
      ASSIGN_OR_RETURN(const bool held, Holds(ctx, place));
      if (held) {
        counts_.kept_bytes += layout_.ChunkLength(place.chunk);
      } else {
        places->push_back(place);
      }
    }
    if (tag < std::ssize(*places)) {
      wanted.push_back({.handle = part.handle,
                        .location = {.pack = task.range.pack, .span = part.span},
                        .tag = tag});
    }
  }
  for (PackRange& range : CoalesceRanges(std::move(wanted), kRangeBytesMax)) {
    RETURN_IF_ERROR(WriteTask(ctx, {.range = std::move(range), .places = places}));
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Do(const CallContext& ctx, const RestoreTask& task) {
  return held_io_ == nullptr ? WriteTask(ctx, task) : WriteDiffering(ctx, task);
}

absl::Status ChunkWriter::WritePieces(const CallContext& ctx, absl::Span<Piece> pieces) {
  for (Piece& piece : pieces) {
    RETURN_IF_ERROR(CheckPlaces(piece));
    ASSIGN_OR_RETURN(piece.slot, FreeSlot(ctx));
  }
  RETURN_IF_ERROR(Decode(ctx, pieces));
  for (const Piece& piece : pieces) {
    RETURN_IF_ERROR(Submit(ctx, piece));
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::WriteTask(const CallContext& ctx, const RestoreTask& task) {
  absl::StatusOr<std::string> bytes = repository_.LoadPackRange(
      ctx, task.range.pack, task.range.offset_bytes, task.range.length_bytes);
  if (absl::IsNotFound(bytes.status()) || absl::IsOutOfRange(bytes.status()) ||
      absl::IsDataLoss(bytes.status())) {
    // The pack is gone or cut: each blob may still have another copy.
    bytes = std::string(static_cast<std::size_t>(task.range.length_bytes), '\0');
  }
  RETURN_IF_ERROR(bytes.status());
  counts_.fetched_bytes += task.range.length_bytes;
  std::vector<Piece> pieces;
  for (const PackRange::Part& part : task.range.parts) {
    const auto first = task.places->begin() + part.tag;
    const auto last = std::find_if(first, task.places->end(), [&](const ChunkPosition& place) {
      return place.id != part.handle.id;
    });
    pieces.push_back({.part = &part,
                      .envelope = PartOf(task.range, part, *bytes),
                      .places = {&*first, static_cast<std::size_t>(last - first)}});
  }
  for (std::size_t i = 0; i < pieces.size(); i += 2) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(WritePieces(ctx, absl::MakeSpan(pieces).subspan(i, 2)));
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
