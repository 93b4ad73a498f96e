#include "repository/pack_scan.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/memory_budget.h"
#include "base/status_macros.h"
#include "repository/maintenance.h"
#include "repository/pack_reader.h"

namespace csidelta::repository {
namespace {

// Of the headers that backups write, and many times more.
constexpr int64_t kHeaderBytesUsual = int64_t{64} << 10;

int64_t EndOf(const PackEntry& entry) {
  return int64_t{entry.span.offset_bytes} + entry.span.sealed_bytes;
}

class Scan {
 public:
  Scan(const CallContext& ctx, const Repository& repository, const FileInfo& pack,
       absl::Span<const PackEntry> blobs, int64_t piece_bytes, Mutex& alone, PackBlobSink sink)
      : ctx_(ctx),
        repository_(repository),
        pack_(pack),
        blobs_(blobs),
        piece_bytes_(piece_bytes),
        alone_(alone),
        sink_(sink) {}

  absl::StatusOr<PackScan> Run();

 private:
  bool Fits(const PackEntry& entry) const {
    return entry.span.sealed_bytes <= piece_bytes_ && entry.span.plaintext_bytes() <= piece_bytes_;
  }
  // The bytes from at_ to `end_bytes`, which are hashed. Damage is kept in damage_.
  absl::StatusOr<std::string> Next(int64_t end_bytes);
  // Hashes what lies before `end_bytes`.
  absl::Status Skip(int64_t end_bytes);
  absl::Status Decode(std::size_t number, absl::string_view envelope);
  absl::Status ReadAlone(std::size_t number);
  // Blobs from `first` on that lie in a piece from at_ on; returns the number behind them.
  absl::StatusOr<std::size_t> ReadTogether(std::size_t first);
  absl::Status ReadHeader(PackScan& scan);

  const CallContext& ctx_;
  const Repository& repository_;
  const FileInfo& pack_;
  const absl::Span<const PackEntry> blobs_;
  const int64_t piece_bytes_;
  Mutex& alone_;
  PackBlobSink sink_;
  std::unique_ptr<BlobCodec> codec_ = repository_.MakeCodec();
  Sha256Hasher hasher_;
  int64_t at_ = 0;
  absl::Status damage_;
  absl::StatusOr<std::string> tail_ = absl::OutOfRangeError("not read");  // behind the last blob
};

absl::StatusOr<PackScan> Scan::Run() {
  for (std::size_t i = 0; i < blobs_.size();) {
    RETURN_IF_ERROR(ctx_.Check());
    const PackEntry& blob = blobs_[i];
    if (blob.span.offset_bytes < at_ || EndOf(blob) > pack_.size_bytes || !Fits(blob)) {
      RETURN_IF_ERROR(ReadAlone(i++));
      continue;
    }
    RETURN_IF_ERROR(Skip(blob.span.offset_bytes));
    ASSIGN_OR_RETURN(i, ReadTogether(i));
  }
  PackScan scan;
  RETURN_IF_ERROR(ReadHeader(scan));
  scan.has_its_hash = damage_.ok() && Id(hasher_.Finish()) == pack_.id;
  return scan;
}

absl::StatusOr<std::string> Scan::Next(int64_t end_bytes) {
  CSIDELTA_CHECK(end_bytes >= at_);  // A pack is hashed from its first byte to its last, each once.
  absl::StatusOr<std::string> piece =
      damage_.ok()
          ? repository_.store().GetRange(ctx_, PackKey(pack_.id),
                                         {.offset_bytes = at_, .length_bytes = end_bytes - at_})
          : damage_;
  at_ = end_bytes;
  if (piece.ok()) {
    hasher_.Update(*piece);
  } else if (IsDamage(piece.status())) {
    damage_ = piece.status();
  }
  return piece;
}

absl::Status Scan::Skip(int64_t end_bytes) {
  while (at_ < end_bytes && damage_.ok()) {
    const absl::Status read = Next(std::min(at_ + piece_bytes_, end_bytes)).status();
    if (!read.ok() && !IsDamage(read)) {
      return read;
    }
  }
  at_ = std::max(at_, end_bytes);
  return absl::OkStatus();
}

absl::Status Scan::Decode(std::size_t number, absl::string_view envelope) {
  return sink_(number, codec_->Decode(blobs_[number].handle, blobs_[number].span, envelope));
}

// Its bytes are hashed by the pieces, wherever it lies.
absl::Status Scan::ReadAlone(std::size_t number) {
  const PackEntry& blob = blobs_[number];
  if (EndOf(blob) > pack_.size_bytes || !IsPossible(blob.handle.type, blob.span)) {
    return sink_(number,
                 absl::DataLossError(absl::StrCat(Describe(blob.handle), ": impossible length")));
  }
  const std::unique_lock<Mutex> one_at_a_time(alone_);
  ASSIGN_OR_RETURN(
      const MemoryBudget::Share share,
      repository_.memory().Take(2 * int64_t{blob.span.sealed_bytes} + blob.span.plaintext_bytes(),
                                Describe(blob.handle)));
  const absl::StatusOr<std::string> envelope =
      repository_.LoadPackRange(ctx_, pack_.id, blob.span.offset_bytes, blob.span.sealed_bytes);
  if (!envelope.ok()) {
    return IsDamage(envelope.status()) ? sink_(number, envelope.status()) : envelope.status();
  }
  RETURN_IF_ERROR(Decode(number, *envelope));
  codec_ = repository_.MakeCodec();  // Its buffers are as long as the blob.
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> Scan::ReadTogether(std::size_t first) {
  const int64_t begin_bytes = at_;
  std::size_t last = first + 1;
  while (last < blobs_.size() && blobs_[last].span.offset_bytes >= EndOf(blobs_[last - 1]) &&
         EndOf(blobs_[last]) <= std::min(begin_bytes + piece_bytes_, pack_.size_bytes) &&
         Fits(blobs_[last])) {
    ++last;
  }
  const int64_t end_bytes = EndOf(blobs_[last - 1]);
  // The header comes with the last piece, rather than by another request.
  const bool with_header =
      last == blobs_.size() && pack_.size_bytes - begin_bytes <= piece_bytes_ + kHeaderBytesUsual;
  const absl::StatusOr<std::string> piece = Next(with_header ? pack_.size_bytes : end_bytes);
  if (!piece.ok() && !IsDamage(piece.status())) {
    return piece.status();
  }
  if (with_header && piece.ok()) {
    tail_ = piece->substr(static_cast<std::size_t>(end_bytes - begin_bytes));
  }
  for (std::size_t i = first; i < last; ++i) {
    if (!piece.ok()) {
      RETURN_IF_ERROR(sink_(i, piece.status()));
      continue;
    }
    RETURN_IF_ERROR(
        Decode(i, absl::string_view(*piece).substr(
                      static_cast<std::size_t>(blobs_[i].span.offset_bytes - begin_bytes),
                      blobs_[i].span.sealed_bytes)));
  }
  return last;
}

absl::Status Scan::ReadHeader(PackScan& scan) {
  if (pack_.size_bytes - at_ <= piece_bytes_ && at_ < pack_.size_bytes && damage_.ok()) {
    tail_ = Next(pack_.size_bytes);
  }
  RETURN_IF_ERROR(Skip(pack_.size_bytes));
  if (!damage_.ok()) {
    scan.header = damage_;
    return absl::OkStatus();
  }
  scan.header = absl::OutOfRangeError("not read");
  if (tail_.ok()) {
    scan.header = OpenPackTail(*tail_, pack_.size_bytes, codec_->sealer());
  }
  if (absl::IsOutOfRange(scan.header.status())) {
    scan.header =
        ReadPackHeader(ctx_, repository_.store(), pack_.id, pack_.size_bytes, codec_->sealer());
  }
  const absl::Status& status = scan.header.status();
  return status.ok() || IsDamage(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::StatusOr<PackScan> ScanPack(const CallContext& ctx, const Repository& repository,
                                  const FileInfo& pack, absl::Span<const PackEntry> blobs,
                                  int64_t piece_bytes, Mutex& alone, PackBlobSink sink) {
  return Scan(ctx, repository, pack, blobs, piece_bytes, alone, sink).Run();
}

}  // namespace csidelta::repository
