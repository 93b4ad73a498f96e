#include "repository/pack_scanner.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/extent.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "repository/blob_codec.h"
#include "repository/format.h"
#include "repository/maintenance.h"
#include "repository/maintenance_memory.h"
#include "repository/pack_reader.h"
#include "repository/range_fetcher.h"

namespace csidelta::repository {
namespace {

// Of the headers that backups write, and many times more.
constexpr int64_t kUsualHeaderBytes = int64_t{64} << 10;
constexpr int64_t kBlobBytesMin = int64_t{1} << 20;
// Of one pack, in what is said of it.
constexpr std::size_t kNamedBlobsMax = 16;

int64_t FirstByteOf(const PackEntry& entry) { return entry.span.offset_bytes; }
int64_t EndByteOf(const PackEntry& entry) { return FirstByteOf(entry) + entry.span.sealed_bytes; }
int64_t LongerOf(const PackEntry& entry) {
  return std::max(entry.span.sealed_bytes, entry.span.plaintext_bytes());
}

// One pass over a pack: Take() of each of pieces(), in their order.
class PackPass {
 public:
  // Borrows all of it. `alone` is held by the scan that reads a blob besides.
  PackPass(const Repository& repository, const PackToScan& pack, int64_t piece_bytes, Mutex& alone,
           const ScannedBlobSink& sink);

  // All of the pack; at least one.
  const std::vector<Extent>& pieces() const { return pieces_; }

  // The bytes of the next piece, or why there are none. True after the last one.
  absl::StatusOr<bool> Take(const CallContext& ctx, BlobCodec& codec,
                            absl::StatusOr<std::string> bytes);
  PackFindings TakeFindings() { return std::move(found_); }

 private:
  // Adds pieces up to there.
  void AddPieces(int64_t end_bytes, int64_t piece_bytes);
  absl::Status Note(std::size_t number, const absl::StatusOr<absl::string_view>& plaintext);
  absl::Status TakePiece(const Extent& piece, BlobCodec& codec,
                         const absl::StatusOr<std::string>& bytes);
  absl::Status ReadAlone(const CallContext& ctx, std::size_t number);
  absl::Status Conclude(const CallContext& ctx, BlobCodec& codec);

  const Repository& repository_;
  const PackToScan& pack_;
  Mutex& alone_;
  const ScannedBlobSink& sink_;
  std::vector<Extent> pieces_;
  std::vector<std::size_t> together_;    // numbers of the blobs that pieces hold
  std::vector<std::size_t> left_alone_;  // of the others
  std::size_t next_piece_ = 0;
  std::size_t next_blob_ = 0;  // of together_
  Sha256Hasher hasher_;
  absl::Status damage_;
  absl::StatusOr<std::vector<PackEntry>> header_ = absl::OutOfRangeError("not read");
  PackFindings found_;
};

PackPass::PackPass(const Repository& repository, const PackToScan& pack, int64_t piece_bytes,
                   Mutex& alone, const ScannedBlobSink& sink)
    : repository_(repository), pack_(pack), alone_(alone), sink_(sink) {
  const int64_t size_bytes = pack.file.size_bytes;
  int64_t begin_bytes = 0;  // of the piece that blobs are added to
  int64_t end_bytes = 0;    // of the blob before
  for (std::size_t i = 0; i < pack.blobs.size(); ++i) {
    const PackEntry& blob = pack.blobs[i];
    if (FirstByteOf(blob) < end_bytes || EndByteOf(blob) > size_bytes ||
        LongerOf(blob) > piece_bytes) {
      left_alone_.push_back(i);
      continue;
    }
    if (EndByteOf(blob) - begin_bytes > piece_bytes) {
      begin_bytes = FirstByteOf(blob);
      AddPieces(begin_bytes, piece_bytes);
    }
    together_.push_back(i);
    end_bytes = EndByteOf(blob);
  }
  // The header comes with the last piece, rather than by another request.
  if (size_bytes - begin_bytes > piece_bytes + kUsualHeaderBytes) {
    AddPieces(end_bytes, piece_bytes);
    AddPieces(size_bytes, piece_bytes);
  } else if (size_bytes > begin_bytes || pieces_.empty()) {
    pieces_.push_back({begin_bytes, size_bytes - begin_bytes});
  }
}

void PackPass::AddPieces(int64_t end_bytes, int64_t piece_bytes) {
  int64_t at_bytes = pieces_.empty() ? 0 : pieces_.back().end_bytes();
  for (; at_bytes < end_bytes; at_bytes = pieces_.back().end_bytes()) {
    pieces_.push_back({at_bytes, std::min(piece_bytes, end_bytes - at_bytes)});
  }
}

absl::Status PackPass::Note(std::size_t number,
                            const absl::StatusOr<absl::string_view>& plaintext) {
  if (!plaintext.ok()) {
    found_.damaged.push_back(number);
    if (found_.damaged.size() <= kNamedBlobsMax) {
      absl::StrAppend(&found_.detail, found_.detail.empty() ? "" : "; ",
                      plaintext.status().message());
    }
  }
  return sink_ != nullptr ? sink_(number, plaintext) : absl::OkStatus();
}

absl::StatusOr<bool> PackPass::Take(const CallContext& ctx, BlobCodec& codec,
                                    absl::StatusOr<std::string> bytes) {
  if (!bytes.ok() && !IsDamage(bytes.status())) {
    return bytes.status();
  }
  damage_.Update(bytes.status());
  RETURN_IF_ERROR(TakePiece(pieces_.at(next_piece_++), codec, bytes));
  if (next_piece_ < pieces_.size()) {
    return false;
  }
  bytes = std::string();  // Its memory is for what is read now.
  RETURN_IF_ERROR(Conclude(ctx, codec));
  return true;
}

absl::Status PackPass::TakePiece(const Extent& piece, BlobCodec& codec,
                                 const absl::StatusOr<std::string>& bytes) {
  absl::string_view left = bytes.ok() ? *bytes : absl::string_view();
  int64_t at_bytes = piece.offset_bytes;
  const auto take = [&](int64_t end_bytes) {
    const auto count = static_cast<std::size_t>(end_bytes - std::exchange(at_bytes, end_bytes));
    const absl::string_view taken = left.substr(0, count);
    left.remove_prefix(taken.size());
    return taken;
  };
  for (; next_blob_ < together_.size(); ++next_blob_) {
    const std::size_t number = together_[next_blob_];
    const PackEntry& blob = pack_.blobs[number];
    if (EndByteOf(blob) > piece.end_bytes()) {
      break;
    }
    hasher_.Update(take(FirstByteOf(blob)));
    RETURN_IF_ERROR(Note(
        number, bytes.ok() ? codec.Decode(blob.handle, blob.span, take(EndByteOf(blob)), &hasher_)
                           : bytes.status()));
  }
  hasher_.Update(left);
  if (next_piece_ == pieces_.size() && std::ssize(left) > kHeaderLengthBytes) {
    header_ = OpenPackTail(left, pack_.file.size_bytes, codec.sealer());
  }
  return absl::OkStatus();
}

absl::Status PackPass::Conclude(const CallContext& ctx, BlobCodec& codec) {
  for (const std::size_t number : left_alone_) {
    RETURN_IF_ERROR(ReadAlone(ctx, number));
  }
  if (damage_.ok() && absl::IsOutOfRange(header_.status())) {
    header_ = ReadPackHeader(ctx, repository_.store(), pack_.file.id, pack_.file.size_bytes,
                             codec.sealer());
  }
  header_ = damage_.ok() ? std::move(header_) : damage_;
  if (!header_.ok()) {
    found_.detail = std::string(header_.status().message());
    return IsDamage(header_.status()) ? absl::OkStatus() : header_.status();
  }
  found_.is_listed_so = *header_ == pack_.blobs;
  if (!found_.is_listed_so) {
    found_.header = *std::move(header_);
  }
  if (found_.damaged.empty() && Id(hasher_.Finish()) != pack_.file.id) {
    found_.detail = absl::StrCat("pack ", pack_.file.id.ShortHex(), " does not hash to its name");
  }
  return absl::OkStatus();
}

absl::Status PackPass::ReadAlone(const CallContext& ctx, std::size_t number) {
  const PackEntry& blob = pack_.blobs[number];
  if (EndByteOf(blob) > pack_.file.size_bytes || !IsPossible(blob.handle.type, blob.span)) {
    return Note(number,
                absl::DataLossError(absl::StrCat(Describe(blob.handle), ": impossible length")));
  }
  const std::unique_lock<Mutex> one_at_a_time(alone_);
  ASSIGN_OR_RETURN(
      const MemoryBudget::Share share,
      repository_.memory().Take(2 * int64_t{blob.span.sealed_bytes} + blob.span.plaintext_bytes(),
                                Describe(blob.handle)));
  const absl::StatusOr<std::string> envelope =
      repository_.LoadPackRange(ctx, pack_.file.id, FirstByteOf(blob), blob.span.sealed_bytes);
  if (!envelope.ok()) {
    return IsDamage(envelope.status()) ? Note(number, envelope.status()) : envelope.status();
  }
  // By a codec of its own: its buffers are as long as the blob.
  return Note(number, repository_.MakeCodec()->Decode(blob.handle, blob.span, *envelope));
}

}  // namespace

absl::Status ScanPacks(const CallContext& ctx, const Repository& repository,
                       absl::Span<const PackToScan> packs, int64_t piece_bytes_max,
                       PackFindingsSink done, const ScannedBlobSink& sink) {
  MemoryBudget& memory = repository.memory();
  int64_t blob_bytes = 1;  // of the longest that is not read alone
  for (const PackToScan& pack : packs) {
    for (const PackEntry& blob : pack.blobs) {
      blob_bytes = std::max(blob_bytes, LongerOf(blob));
    }
  }
  blob_bytes =
      std::min({blob_bytes, kLargeBlobBytes, std::max(kBlobBytesMin, memory.free_bytes() / 16)});
  const int64_t piece_bytes =
      std::max(blob_bytes, RangeBytesFor(memory.free_bytes(), 2 * blob_bytes, piece_bytes_max));
  int64_t pieces = 0;
  for (const PackToScan& pack : packs) {
    pieces += pack.file.size_bytes / piece_bytes + 1;
  }
  ASSIGN_OR_RETURN(FetchRoom room, TakeFetchRoom(memory, piece_bytes + kUsualHeaderBytes,
                                                 2 * blob_bytes, "reading packs", pieces));
  const int decoders = room.decoders;
  Mutex alone;
  RangeFetcher fetcher(ctx, repository, std::move(room), /*in_order_of_pack=*/true);
  struct Turn {
    std::size_t pack = 0;
    std::shared_ptr<PackPass> pass = nullptr;
    std::size_t piece = 0;  // the next one
  };
  // Packs take turns: a long one alone would leave one decoder at work.
  std::deque<Turn> turns;
  for (std::size_t next = 0; next < packs.size() || !turns.empty();) {
    if (next < packs.size() && std::ssize(turns) < decoders) {
      turns.push_front(
          {.pack = next,
           .pass = std::make_shared<PackPass>(repository, packs[next], piece_bytes, alone, sink)});
      ++next;
    }
    Turn turn = std::move(turns.front());
    turns.pop_front();
    const auto take = [done, i = turn.pack, pass = turn.pass](
                          const CallContext& own, const RangeFetcher::Decoder& decoder,
                          absl::StatusOr<std::string> bytes) -> absl::Status {
      ASSIGN_OR_RETURN(const bool is_last, pass->Take(own, decoder.codec, std::move(bytes)));
      return is_last ? done(i, pass->TakeFindings()) : absl::OkStatus();
    };
    if (!fetcher.Add(packs[turn.pack].file.id, turn.pass->pieces()[turn.piece], take)) {
      break;
    }
    if (++turn.piece < turn.pass->pieces().size()) {
      turns.push_back(std::move(turn));
    }
  }
  return fetcher.Finish();
}

}  // namespace csidelta::repository
