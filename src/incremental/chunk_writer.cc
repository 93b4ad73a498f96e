#include "incremental/chunk_writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::incremental {

using repository::VolumeLayout;

absl::StatusOr<std::unique_ptr<ChunkWriter>> ChunkWriter::Make(repository::Repository& repository,
                                                               const VolumeLayout& layout,
                                                               BlockDevice& target, int depth,
                                                               RestoreCounts& counts) {
  CSIDELTA_CHECK(depth > 1);
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
  for (const ChunkPlace& place : piece.places) {
    if (layout_.ChunkLength(place.chunk) != length) {
      return absl::DataLossError(absl::StrCat("chunk ", place.chunk, " of ",
                                              layout_.ChunkLength(place.chunk), " bytes names ",
                                              Describe(piece.part->handle), " of ", length));
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Submit(const CallContext& ctx, const Piece& piece) {
  const int64_t length = piece.part->span.plaintext_bytes();
  Slot& slot = slots_[piece.slot];
  for (const ChunkPlace& place : piece.places) {
    while (io_->in_flight() == io_->depth()) {
      RETURN_IF_ERROR(Reap(ctx));
    }
    io_->Submit({.kind = IoKind::kWrite,
                 .offset_bytes = layout_.ChunkOffset(place.chunk),
                 .length_bytes = length,
                 .memory = slot.buffer.data(),
                 .tag = piece.slot});
    ++slot.users;
    counts_.written_bytes += length;
  }
  --slot.users;
  return absl::OkStatus();
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
  std::vector<Piece> pieces;
  for (const PackRange::Part& part : task.range.parts) {
    const auto first = task.places->begin() + part.tag;
    const auto last = std::find_if(first, task.places->end(), [&](const ChunkPlace& place) {
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
