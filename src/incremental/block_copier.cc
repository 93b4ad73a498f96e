#include "incremental/block_copier.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "incremental/aligned_buffer.h"
#include "incremental/audit_plan.h"
#include "incremental/block_difference.h"
#include "incremental/checked_listing.h"
#include "incremental/extent_list_source.h"
#include "incremental/file_system.h"
#include "incremental/restore_mark.h"

namespace csidelta::incremental {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // read of either device at a time
constexpr int kPieces = 8;                         // in memory, of either device
constexpr int kCopyWritesInFlight = 32;
// Zeros of this length are made by the device, which may give the space back.
constexpr int64_t kZeroRunBytesMin = int64_t{64} << 10;
// What the audit draws, and how many of them are a leaf to it.
constexpr int64_t kAuditUnitBytes = int64_t{256} << 10;
constexpr int64_t kAuditLeafUnits = 256;
static_assert(kPieceBytes % kDifferenceBytes == 0 && kAuditUnitBytes % kDifferenceBytes == 0);
static_assert(kAuditUnitBytes <= kPieceBytes && kRestoreMarkBytes == kDifferenceBytes);

int64_t CountUnits(int64_t volume_bytes) {
  return (volume_bytes + kAuditUnitBytes - 1) / kAuditUnitBytes;
}

// The same range of both devices.
struct Piece {
  Extent extent = {};
  AlignedBuffer source = {};
  AlignedBuffer target = {};
  bool source_pending = false;
  bool target_pending = false;
  bool is_held = false;  // the target could be read
  int writes = 0;        // in flight, out of `source`
};

// Reads ranges of both devices, some ahead, and shows them in their order.
class PairReader {
 public:
  using Visit = absl::FunctionRef<absl::Status(Piece&, uint64_t tag)>;

  explicit PairReader(Visit visit) : visit_(visit) {}

  absl::Status Open(BlockDevice& source, BlockDevice& target) {
    for (int i = 0; i < kPieces; ++i) {
      pieces_.push_back(
          {.source = AlignedBuffer(kPieceBytes), .target = AlignedBuffer(kPieceBytes)});
    }
    ASSIGN_OR_RETURN(source_, source.OpenQueue(kPieces));
    ASSIGN_OR_RETURN(target_, target.OpenQueue(kPieces));
    ASSIGN_OR_RETURN(writes_, target.OpenQueue(kCopyWritesInFlight));
    return absl::OkStatus();
  }

  // Any length.
  absl::Status Add(const CallContext& ctx, const Extent& extent) {
    for (int64_t at = extent.offset_bytes; at < extent.end_bytes(); at += kPieceBytes) {
      RETURN_IF_ERROR(ctx.Check());
      RETURN_IF_ERROR(AddPiece(ctx, {at, std::min(kPieceBytes, extent.end_bytes() - at)}));
    }
    return absl::OkStatus();
  }

  // Waits for the reads of a piece, or of all.
  absl::Status AwaitReads(const CallContext& ctx, const Piece* piece = nullptr) {
    while (piece != nullptr ? piece->source_pending : source_->in_flight() > 0) {
      ASSIGN_OR_RETURN(const IoCompletion done, source_->Wait(ctx));
      RETURN_IF_ERROR(Annotate(done.status, "source"));
      pieces_[done.tag].source_pending = false;
    }
    while (piece != nullptr ? piece->target_pending : target_->in_flight() > 0) {
      ASSIGN_OR_RETURN(const IoCompletion done, target_->Wait(ctx));
      // What does not read is written: that may heal a bad block.
      if (!done.status.ok() && !absl::IsDataLoss(done.status)) {
        return Annotate(done.status, "target");
      }
      pieces_[done.tag].is_held = done.status.ok();
      pieces_[done.tag].target_pending = false;
    }
    return absl::OkStatus();
  }

  // A write out of a piece that is being shown.
  absl::Status Write(const CallContext& ctx, Piece& piece, uint64_t tag, const Extent& extent) {
    while (writes_->in_flight() == writes_->depth()) {
      RETURN_IF_ERROR(ReapWrite(ctx));
    }
    ++piece.writes;
    writes_->Submit(
        {.kind = IoKind::kWrite,
         .offset_bytes = extent.offset_bytes,
         .length_bytes = extent.length_bytes,
         .memory = piece.source.data() + (extent.offset_bytes - piece.extent.offset_bytes),
         .tag = tag});
    return absl::OkStatus();
  }

  absl::Status Finish(const CallContext& ctx) {
    while (oldest_ < next_) {
      RETURN_IF_ERROR(ShowOldest(ctx));
    }
    while (writes_->in_flight() > 0) {
      RETURN_IF_ERROR(ReapWrite(ctx));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddPiece(const CallContext& ctx, const Extent& extent);

  absl::Status ShowOldest(const CallContext& ctx) {
    const uint64_t tag = static_cast<uint64_t>(oldest_ % kPieces);
    RETURN_IF_ERROR(AwaitReads(ctx, &pieces_[tag]));
    RETURN_IF_ERROR(visit_(pieces_[tag], tag));
    ++oldest_;
    return absl::OkStatus();
  }

  absl::Status ReapWrite(const CallContext& ctx) {
    ASSIGN_OR_RETURN(const IoCompletion done, writes_->Wait(ctx));
    --pieces_[done.tag].writes;
    return Annotate(done.status, "target");
  }

  const Visit visit_;
  std::vector<Piece> pieces_;
  int64_t next_ = 0;    // to be read, counted from the first
  int64_t oldest_ = 0;  // to be shown
  // Behind the memory that they use.
  std::unique_ptr<IoQueue> source_;
  std::unique_ptr<IoQueue> target_;
  std::unique_ptr<IoQueue> writes_;
};

absl::Status PairReader::AddPiece(const CallContext& ctx, const Extent& extent) {
  if (next_ - oldest_ == kPieces) {
    RETURN_IF_ERROR(ShowOldest(ctx));
  }
  const uint64_t tag = static_cast<uint64_t>(next_ % kPieces);
  Piece& piece = pieces_[tag];
  while (piece.writes > 0) {
    RETURN_IF_ERROR(ReapWrite(ctx));
  }
  piece.extent = extent;
  IoRequest read{.kind = IoKind::kRead,
                 .offset_bytes = extent.offset_bytes,
                 .length_bytes = extent.length_bytes,
                 .memory = piece.source.data(),
                 .tag = tag};
  piece.source_pending = true;
  source_->Submit(read);
  read.memory = piece.target.data();
  piece.target_pending = true;
  target_->Submit(read);
  ++next_;
  return absl::OkStatus();
}

// Compares ranges and writes what differs.
class DifferenceWriter {
 public:
  DifferenceWriter(const CallContext& ctx, BlockDevice& source, MarkedTarget& target,
                   const CopyOptions& options, CopyResult& result)
      : ctx_(ctx),
        source_(source),
        target_(target),
        options_(options),
        result_(result),
        reader_(look_) {}

  // REQUIRES a normal list that begins with the volume's first block.
  absl::Status Do(const std::vector<Extent>& extents) {
    total_bytes_ = TotalBytes(extents);
    RETURN_IF_ERROR(reader_.Open(source_, target_));
    for (const Extent& extent : extents) {
      RETURN_IF_ERROR(reader_.Add(ctx_, extent));
    }
    return reader_.Finish(ctx_);
  }

  bool wrote() const { return wrote_; }

  // The volume's beginning and end, which the marked target keeps back, are as the source has them.
  absl::Status TakeKeptBack() {
    ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> from, source_.OpenQueue(1));
    ASSIGN_OR_RETURN(const std::unique_ptr<IoQueue> to, target_.OpenQueue(1));
    for (const Extent& extent : {target_.head(), target_.tail()}) {
      if (extent.length_bytes > 0) {
        const AlignedBuffer memory(extent.length_bytes);
        RETURN_IF_ERROR(ReadFully(ctx_, *from, extent, memory.data()));
        RETURN_IF_ERROR(WriteFully(ctx_, *to, extent, memory.data()));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Look(Piece& piece, uint64_t tag) {
    const int64_t length = piece.extent.length_bytes;
    const absl::string_view wanted = piece.source.View(length);
    const std::vector<Extent> ranges = piece.is_held
                                           ? DifferingRanges(wanted, piece.target.View(length))
                                           : std::vector<Extent>{{0, length}};
    for (const Extent& range : ranges) {
      RETURN_IF_ERROR(MarkBeforeTheFirstWrite());
      for (const RangePart& part : DivideZeros(wanted, range, kZeroRunBytesMin)) {
        RETURN_IF_ERROR(WritePart(piece, tag, part));
      }
    }
    result_.compared_bytes += length;
    if (options_.on_progress) {
      options_.on_progress({"transfer", result_.compared_bytes, total_bytes_});
    }
    return absl::OkStatus();
  }

  absl::Status WritePart(Piece& piece, uint64_t tag, const RangePart& part) {
    const Extent extent{piece.extent.offset_bytes + part.extent.offset_bytes,
                        part.extent.length_bytes};
    if (part.is_zero) {
      result_.zero_bytes += extent.length_bytes;
      return target_.MakeZero(ctx_, extent);
    }
    result_.written_bytes += extent.length_bytes;
    return reader_.Write(ctx_, piece, tag, extent);
  }

  absl::Status MarkBeforeTheFirstWrite() {
    if (std::exchange(wrote_, true)) {
      return absl::OkStatus();
    }
    // A read that was sent before the mark, and is done after it, would compare the mark.
    RETURN_IF_ERROR(reader_.AwaitReads(ctx_));
    return target_.Begin(ctx_, options_.mark_text, true);
  }

  const CallContext& ctx_;
  BlockDevice& source_;
  MarkedTarget& target_;
  const CopyOptions& options_;
  CopyResult& result_;
  int64_t total_bytes_ = 0;
  bool wrote_ = false;
  const std::function<absl::Status(Piece&, uint64_t)> look_ = [this](Piece& piece, uint64_t tag) {
    return Look(piece, tag);
  };
  PairReader reader_;
};

// Units that the list leaves out entirely; never the first, which may hold a mark.
std::vector<bool> UnlistedUnits(const std::vector<Extent>& listed, int64_t volume_bytes) {
  std::vector<bool> unlisted(static_cast<std::size_t>(CountUnits(volume_bytes)), true);
  if (!unlisted.empty()) {
    unlisted[0] = false;
  }
  for (const Extent& extent : listed) {
    const int64_t end = CountUnits(extent.end_bytes());
    for (int64_t unit = extent.offset_bytes / kAuditUnitBytes; unit < end; ++unit) {
      unlisted[static_cast<std::size_t>(unit)] = false;
    }
  }
  return unlisted;
}

// The extents of a draw, in the order of the volume.
std::vector<Extent> DrawnExtents(const AuditDraw& draw, const std::vector<bool>& unlisted,
                                 int64_t volume_bytes) {
  std::vector<Extent> extents;
  for (const AuditLeaf& leaf : draw.leaves) {
    int64_t unit = leaf.leaf * kAuditLeafUnits;
    int64_t candidates_before = 0;
    for (const int64_t ordinal : leaf.ordinals) {
      while (!unlisted[static_cast<std::size_t>(unit)] || candidates_before < ordinal) {
        candidates_before += unlisted[static_cast<std::size_t>(unit)] ? 1 : 0;
        ++unit;
      }
      const int64_t offset = unit * kAuditUnitBytes;
      extents.push_back({offset, std::min(kAuditUnitBytes, volume_bytes - offset)});
    }
  }
  return extents;
}

// What is compared: all, or what is listed and the volume's first block, which the mark takes.
std::vector<Extent> ToCompare(const std::vector<Extent>* listed, int64_t volume_bytes) {
  if (volume_bytes == 0) {
    return {};
  }
  if (listed == nullptr) {
    return {{0, volume_bytes}};
  }
  for (const Extent& extent : *listed) {
    CSIDELTA_CHECK(extent.offset_bytes % kDifferenceBytes == 0);
    CSIDELTA_CHECK(extent.end_bytes() % kDifferenceBytes == 0 ||
                   extent.end_bytes() == volume_bytes);
  }
  std::vector<Extent> extents = *listed;
  extents.push_back({0, std::min(kDifferenceBytes, volume_bytes)});
  return MergeExtents(std::move(extents));
}

// Whether a sample of what is not listed is equal.
absl::StatusOr<bool> AuditUnlisted(const CallContext& ctx, BlockDevice& source, BlockDevice& target,
                                   Random& random, const std::vector<Extent>& listed,
                                   CopyResult& result) {
  const std::vector<bool> unlisted = UnlistedUnits(listed, result.logical_bytes);
  const auto units = static_cast<int64_t>(unlisted.size());
  const AuditDraw draw = DrawAudit(
      (units + kAuditLeafUnits - 1) / kAuditLeafUnits,
      [&](int64_t leaf) {
        const auto first = unlisted.begin() + leaf * kAuditLeafUnits;
        return std::count(first, unlisted.begin() + std::min((leaf + 1) * kAuditLeafUnits, units),
                          true);
      },
      random.Below(uint64_t{1} << 63));
  bool is_equal = true;
  const auto compare = [&](const Piece& piece, uint64_t) {
    const int64_t length = piece.extent.length_bytes;
    is_equal = is_equal && piece.is_held && piece.source.View(length) == piece.target.View(length);
    result.audit_bytes += length;
    return absl::OkStatus();
  };
  PairReader reader(compare);
  RETURN_IF_ERROR(reader.Open(source, target));
  for (const Extent& extent : DrawnExtents(draw, unlisted, result.logical_bytes)) {
    if (is_equal) {
      RETURN_IF_ERROR(reader.Add(ctx, extent));
    }
  }
  RETURN_IF_ERROR(reader.Finish(ctx));
  return is_equal;
}

}  // namespace

Json ToJson(const CopyResult& result) {
  return {{"message_type", "result"},
          {"schema_version", kResultSchemaVersion},
          {"engine", result.engine},
          {"file_system", result.file_system},
          {"used_list", result.used_list},
          {"audit_mismatch", result.audit_mismatch},
          {"was_unfinished", result.was_unfinished},
          {"logical_bytes", result.logical_bytes},
          {"listed_bytes", result.listed_bytes},
          {"compared_bytes", result.compared_bytes},
          {"audit_bytes", result.audit_bytes},
          {"written_bytes", result.written_bytes},
          {"zero_bytes", result.zero_bytes},
          {"kept_bytes", result.kept_bytes},
          {"duration_ms", result.duration_ms},
          {"peak_memory_bytes", result.peak_memory_bytes}};
}

absl::StatusOr<std::vector<Extent>> GatherListed(const CallContext& ctx, ChangedBlockSource& source,
                                                 const DiffRequest& request, int64_t volume_bytes) {
  std::vector<Extent> listed;
  RETURN_IF_ERROR(ListChecked(ctx, source, request, [&](const ListedExtent& item) -> absl::Status {
    const std::optional<Extent> inside = ClipExtent(item.extent, volume_bytes);
    if (!inside.has_value()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(Extent blocks, AlignOutwards(*inside, kDifferenceBytes));
    blocks.length_bytes = std::min(blocks.end_bytes(), volume_bytes) - blocks.offset_bytes;
    AppendExtent(listed, blocks);  // They ascend, so what is joined here stays joined.
    return std::ssize(listed) <= kExtentListExtentsMax
               ? absl::OkStatus()
               : absl::ResourceExhaustedError(
                     absl::StrCat("more than ", kExtentListExtentsMax, " extents"));
  }));
  return listed;
}

absl::StatusOr<CopyResult> CopyBlocks(const CallContext& ctx, BlockDevice& source,
                                      BlockDevice& target, Random& random,
                                      const CopyOptions& options) {
  const int64_t volume_bytes = source.info().size_bytes;
  if (target.info().size_bytes < volume_bytes) {
    return absl::OutOfRangeError(absl::StrCat("the target has ", target.info().size_bytes,
                                              " bytes, the source ", volume_bytes));
  }
  CopyResult result{.engine = target.info().engine, .logical_bytes = volume_bytes};
  const absl::Duration began = ctx.clock->Uptime();
  const auto elapsed_ms = [&] { return absl::ToInt64Milliseconds(ctx.clock->Uptime() - began); };
  const absl::StatusOr<bool> is_marked = HasRestoreMark(ctx, target);
  if (!is_marked.ok() && !absl::IsDataLoss(is_marked.status())) {
    return is_marked.status();
  }
  result.was_unfinished = is_marked.value_or(false);  // What does not read will be written.
  if (options.listed.has_value()) {
    result.listed_bytes = TotalBytes(*options.listed);
  }
  if (options.listed.has_value() && !result.was_unfinished) {
    ASSIGN_OR_RETURN(result.used_list,
                     AuditUnlisted(ctx, source, target, random, *options.listed, result));
    result.audit_mismatch = !result.used_list;
    result.duration_ms["audit"] = elapsed_ms();
  }
  const std::vector<Extent> extents =
      ToCompare(result.used_list ? &*options.listed : nullptr, volume_bytes);
  MarkedTarget marked(target, volume_bytes);
  DifferenceWriter writer(ctx, source, marked, options, result);
  const int64_t before_ms = elapsed_ms();
  RETURN_IF_ERROR(writer.Do(extents));
  if (writer.wrote()) {
    RETURN_IF_ERROR(writer.TakeKeptBack());
    RETURN_IF_ERROR(marked.Flush(ctx));
  }
  result.duration_ms["transfer"] = elapsed_ms() - before_ms;
  result.kept_bytes = volume_bytes - result.written_bytes - result.zero_bytes;
  ASSIGN_OR_RETURN(result.file_system, ReadFileSystem(ctx, target));
  result.duration_ms["total"] = elapsed_ms();
  result.peak_memory_bytes = PeakMemoryBytes();
  return result;
}

}  // namespace csidelta::incremental
