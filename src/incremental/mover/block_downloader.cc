#include "incremental/mover/block_downloader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/human_text.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "incremental/mover/audit_plan.h"
#include "incremental/mover/chunk_reader.h"
#include "incremental/mover/file_system.h"
#include "incremental/mover/process_limits.h"
#include "incremental/mover/restore_mark.h"
#include "incremental/mover/tree_fetcher.h"
#include "repository/blob_codec.h"
#include "repository/range_fetcher.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::BlobType;
using repository::kFanout;
using repository::kLeafChunks;
using repository::VolumeLayout;

constexpr int kWritesInFlight = 4;  // of a writer; more than 1, as it has two chunks in its hands
constexpr int64_t kTasksWaitingMax = 64;

// Where a blob goes.
struct ChunkPosition {
  BlobId id;
  int64_t chunk = 0;

  friend auto operator<=>(const ChunkPosition&, const ChunkPosition&) = default;
};

// Blobs of one range of a pack, and where each goes: part.tag is the first of its places in
// `places`, which is sorted.
struct RestoreTask {
  PackRange range;
  std::shared_ptr<const std::vector<ChunkPosition>> places;
};

// A number of a RestoreResult that all writers of a restore count together.
std::atomic_ref<int64_t> Shared(int64_t& count) { return std::atomic_ref(count); }

// One request, or equal parts of it: a pack of 8 MiB, which the blob that makes it full exceeds.
int64_t RangeBytesMax(int64_t chunk_bytes) {
  return (int64_t{8} << 20) + chunk_bytes + repository::kSealedExtraBytesMax;
}

// What a target holds, a chunk at a time. For one thread.
struct HeldChunk {
  absl::Status Open(BlockDevice& target, int64_t chunk_bytes) {
    buffer = AlignedBuffer(chunk_bytes);
    ASSIGN_OR_RETURN(io, target.OpenQueue(1));
    return absl::OkStatus();
  }
  // Nothing when it does not read.
  absl::StatusOr<std::optional<absl::string_view>> Read(const CallContext& ctx,
                                                        const Extent& extent,
                                                        RestoreResult& counts) {
    const absl::Status read = ReadFully(ctx, *io, extent, buffer.data());
    if (!read.ok() && !absl::IsDataLoss(read)) {
      return read;
    }
    Shared(counts.compared_bytes) += extent.length_bytes;
    return read.ok() ? std::optional(buffer.View(extent.length_bytes)) : std::nullopt;
  }

  AlignedBuffer buffer;
  std::unique_ptr<IoQueue> io;  // Behind the memory that it uses.
};

// Proves the blobs of ranges and writes them to the target, with some writes in flight; with
// `only_differing` only blocks of kDifferenceBytes that differ. What does not read is written. For
// one thread. Borrows all it is given.
class ChunkWriter {
 public:
  ChunkWriter(repository::Repository& repository, const VolumeLayout& layout, RestoreResult& counts)
      : repository_(repository), layout_(layout), counts_(counts) {}

  // First call.
  absl::Status Open(BlockDevice& target, bool only_differing);

  // `bytes` of the task's range, or why there are none. Writes may be in flight still when it
  // returns; their errors come with a later call.
  absl::Status Write(const CallContext& ctx, const RestoreTask& task, repository::BlobCodec& codec,
                     absl::StatusOr<std::string> bytes);

  // Waits for all writes.
  absl::Status Finish(const CallContext& ctx);

 private:
  struct Slot {
    AlignedBuffer buffer;
    int users = 0;  // writes in flight, and who fills it
  };

  // A blob of a range on its way to the target.
  struct Piece {
    const WantedBlob* part;
    absl::string_view envelope;
    absl::Span<const ChunkPosition> places;
    std::size_t slot = 0;
  };
  // A slot whose buffer is unused.
  absl::StatusOr<std::size_t> FreeSlot(const CallContext& ctx);
  absl::Status Reap(const CallContext& ctx);

  // One piece or two, which are proven together.
  absl::Status WritePieces(const CallContext& ctx, repository::BlobCodec& codec,
                           absl::Span<Piece> pieces);
  absl::Status CheckPlaces(const Piece& piece) const;

  // Fills the buffers from the envelopes, or from other copies where those are damaged.
  absl::Status Decode(const CallContext& ctx, repository::BlobCodec& codec,
                      absl::Span<const Piece> pieces);
  absl::Status TakeOtherCopy(const CallContext& ctx, const repository::BlobCodec::Sealed& damaged);

  absl::Status Submit(const CallContext& ctx, const Piece& piece);
  absl::Status SubmitRange(const CallContext& ctx, std::size_t slot, int64_t chunk,
                           const Extent& range);

  repository::Repository& repository_;
  const VolumeLayout layout_;
  RestoreResult& counts_;
  HeldChunk held_;  // open where only what differs is written
  std::vector<Slot> slots_;
  std::unique_ptr<IoQueue> io_;  // Behind the memory that it uses.
};

absl::Status ChunkWriter::Open(BlockDevice& target, bool only_differing) {
  for (int i = 0; i < kWritesInFlight; ++i) {
    slots_.push_back({.buffer = AlignedBuffer(layout_.chunk_bytes())});
  }
  ASSIGN_OR_RETURN(io_, target.OpenQueue(kWritesInFlight));
  return only_differing ? held_.Open(target, layout_.chunk_bytes()) : absl::OkStatus();
}

absl::Status ChunkWriter::Finish(const CallContext& ctx) {
  while (io_->in_flight() > 0) {
    RETURN_IF_ERROR(Reap(ctx));
  }
  return absl::OkStatus();
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

absl::Status ChunkWriter::Reap(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const IoCompletion done, io_->Wait(ctx));
  --slots_[done.tag].users;
  return done.status;
}

absl::Status ChunkWriter::WritePieces(const CallContext& ctx, repository::BlobCodec& codec,
                                      absl::Span<Piece> pieces) {
  for (Piece& piece : pieces) {
    RETURN_IF_ERROR(CheckPlaces(piece));
    ASSIGN_OR_RETURN(piece.slot, FreeSlot(ctx));
  }
  RETURN_IF_ERROR(Decode(ctx, codec, pieces));
  for (const Piece& piece : pieces) {
    RETURN_IF_ERROR(Submit(ctx, piece));
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::CheckPlaces(const Piece& piece) const {
  const int64_t length = piece.part->location.span.plaintext_bytes();
  for (const ChunkPosition& place : piece.places) {
    if (layout_.ChunkLength(place.chunk) != length) {
      return absl::DataLossError(absl::StrCat("chunk ", place.chunk, " of ",
                                              layout_.ChunkLength(place.chunk), " bytes names ",
                                              Describe(piece.part->handle), " of ", length));
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkWriter::Decode(const CallContext& ctx, repository::BlobCodec& codec,
                                 absl::Span<const Piece> pieces) {
  const auto sealed = [&](const Piece& piece) -> repository::BlobCodec::Sealed {
    return {.handle = piece.part->handle,
            .span = piece.part->location.span,
            .envelope = piece.envelope,
            .out = {slots_[piece.slot].buffer.data(), piece.part->location.span.plaintext_bytes()}};
  };
  const repository::BlobCodec::Sealed first = sealed(pieces.front());
  if (pieces.size() == 1) {
    const bool good = codec.DecodeInto(first.handle, first.span, first.envelope, first.out).ok();
    return good ? absl::OkStatus() : TakeOtherCopy(ctx, first);
  }
  const repository::BlobCodec::Sealed second = sealed(pieces.back());
  const auto [of_first, of_second] = codec.DecodeTwo(first, second);
  if (!of_first.ok()) {
    RETURN_IF_ERROR(TakeOtherCopy(ctx, first));
  }
  return of_second.ok() ? absl::OkStatus() : TakeOtherCopy(ctx, second);
}

absl::Status ChunkWriter::TakeOtherCopy(const CallContext& ctx,
                                        const repository::BlobCodec::Sealed& damaged) {
  ++Shared(counts_.damaged_copies);
  ASSIGN_OR_RETURN(const std::string other, repository_.LoadBlob(ctx, damaged.handle));
  if (other.size() != damaged.out.size()) {
    return absl::DataLossError(absl::StrCat(Describe(damaged.handle), " has ", other.size(),
                                            " bytes, not ", damaged.out.size(),
                                            " as the index says"));
  }
  std::memcpy(damaged.out.data(), other.data(), other.size());
  return absl::OkStatus();
}

absl::Status ChunkWriter::Submit(const CallContext& ctx, const Piece& piece) {
  const int64_t length = piece.part->location.span.plaintext_bytes();
  for (const ChunkPosition& place : piece.places) {
    std::vector<Extent> ranges = {{0, length}};
    if (held_.io != nullptr) {
      ASSIGN_OR_RETURN(const std::optional<absl::string_view> held,
                       held_.Read(ctx, {layout_.ChunkOffset(place.chunk), length}, counts_));
      if (held.has_value()) {
        ranges = DifferingRanges(slots_[piece.slot].buffer.View(length), *held);
      }
      Shared(counts_.kept_bytes) += length - TotalBytes(ranges);
    }
    for (const Extent& range : ranges) {
      RETURN_IF_ERROR(SubmitRange(ctx, piece.slot, place.chunk, range));
    }
  }
  --slots_[piece.slot].users;
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
  Shared(counts_.written_bytes) += range.length_bytes;
  return absl::OkStatus();
}

absl::Status ChunkWriter::Write(const CallContext& ctx, const RestoreTask& task,
                                repository::BlobCodec& codec, absl::StatusOr<std::string> bytes) {
  if (absl::IsNotFound(bytes.status()) || absl::IsOutOfRange(bytes.status()) ||
      absl::IsDataLoss(bytes.status())) {
    // The pack is gone or cut: each blob may still have another copy.
    bytes = std::string(static_cast<std::size_t>(task.range.length_bytes), '\0');
  }
  RETURN_IF_ERROR(bytes.status());
  Shared(counts_.fetched_bytes) += task.range.length_bytes;
  std::vector<Piece> pieces;
  for (const WantedBlob& part : task.range.parts) {
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
    RETURN_IF_ERROR(WritePieces(ctx, codec, absl::MakeSpan(pieces).subspan(i, 2)));
  }
  return absl::OkStatus();
}

// By what the repository's index leaves of the budget.
DownloadPlan PlanRun(const MemoryBudget& memory, const DownloadOptions& options,
                     int64_t chunk_bytes) {
  const int64_t budget_bytes =
      memory.is_unlimited()
          ? options.memory_budget_bytes
          : std::min(options.memory_budget_bytes, memory.free_bytes() + kMemoryFixedBytes);
  const int64_t kept_bytes = KeptBackBytes(chunk_bytes);
  DownloadPlan plan =
      PlanDownload({.budget_bytes = budget_bytes - kept_bytes,
                    .chunk_bytes = chunk_bytes,
                    .range_bytes_max = RangeBytesMax(chunk_bytes),
                    .writes_in_flight = kWritesInFlight,
                    .compares = options.only_differing,
                    .cores = options.cores > 0 ? options.cores : ReadProcessLimits().cores});
  plan.held_bytes += kept_bytes;
  if (options.workers_max > 0) {
    plan.workers = std::min(plan.workers, options.workers_max);
  }
  return plan;
}

// One run of the downloader, with all its state.
class RestoreRun {
 public:
  RestoreRun(const CallContext& ctx, repository::Repository& repository, BlockDevice& target,
             const VolumeRecord& record, const DownloadOptions& options, const DownloadPlan& plan,
             RestoreResult& result)
      : plan_(plan),
        repository_(repository),
        target_(target),
        record_(record),
        layout_(record.layout),
        options_(options),
        result_(result),
        tasks_(kTasksWaitingMax),
        writers_(static_cast<std::size_t>(plan.workers)),
        fetcher_(ctx, repository, {.ranges = plan.ranges, .decoders = plan.workers}),
        comparing_(fetcher_.context()) {}

  absl::Status Do();

 private:
  // Fetches what the target does not hold already, by the hash of what is read there.
  absl::Status CompareAll(const CallContext& ctx);
  absl::Status Compare(const CallContext& ctx, const RestoreTask& task, HeldChunk& held);

  // For a writer; false if one has failed.
  bool Fetch(RestoreTask task);
  absl::Status RestoreLevel1(int64_t level1);

  absl::Status QueueBlobs(std::vector<ChunkPosition> places);

  // Adds a chunk of zeros to the run of zeros, which is made as one.
  absl::Status AddZeros(const Extent& extent);
  absl::Status FlushZeros();

  absl::Status QueueAll();
  int64_t DoneBytes() const {
    return Shared(result_.written_bytes) + Shared(result_.kept_bytes) + Shared(result_.zero_bytes);
  }

  void Report();

  const DownloadPlan plan_;
  repository::Repository& repository_;
  BlockDevice& target_;
  const VolumeRecord& record_;
  const VolumeLayout layout_;
  const DownloadOptions& options_;
  RestoreResult& result_;
  std::atomic<bool> all_is_known_ = false;  // which chunks are zeros
  Mutex report_mutex_;
  BoundedQueue<RestoreTask> tasks_;  // that are compared first
  std::vector<std::unique_ptr<ChunkWriter>> writers_;
  repository::RangeFetcher fetcher_;
  WorkerPool comparing_;  // ends when fetcher_ does
  std::optional<Extent> zeros_;
};

absl::Status RestoreRun::Do() {
  for (std::unique_ptr<ChunkWriter>& writer : writers_) {
    writer = std::make_unique<ChunkWriter>(repository_, layout_, result_);
    RETURN_IF_ERROR(writer->Open(target_, options_.only_differing));
  }
  if (options_.only_differing) {
    comparing_.Start(plan_.workers,
                     [this](const CallContext& ctx, int) { return CompareAll(ctx); });
  }
  // A worker's error came first, if there is one: then ours only says that it stopped.
  comparing_.Fail(QueueAll());
  tasks_.Close();
  RETURN_IF_ERROR(fetcher_.Finish(comparing_.Join()));
  for (const std::unique_ptr<ChunkWriter>& writer : writers_) {
    RETURN_IF_ERROR(writer->Finish(fetcher_.context()));
  }
  if (DoneBytes() != layout_.size_bytes()) {
    return absl::InternalError(
        absl::StrCat("restored ", DoneBytes(), " of ", layout_.size_bytes(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status RestoreRun::CompareAll(const CallContext& ctx) {
  HeldChunk held;
  RETURN_IF_ERROR(held.Open(target_, layout_.chunk_bytes()));
  while (const std::optional<RestoreTask> task = tasks_.Pop(ctx.stop)) {
    RETURN_IF_ERROR(Compare(ctx, *task, held));
    Report();
  }
  return ctx.Check();
}

absl::Status RestoreRun::Compare(const CallContext& ctx, const RestoreTask& task, HeldChunk& held) {
  auto places = std::make_shared<std::vector<ChunkPosition>>();
  std::vector<WantedBlob> wanted;
  for (const WantedBlob& part : task.range.parts) {
    const auto tag = std::ssize(*places);
    for (std::size_t i = static_cast<std::size_t>(part.tag);
         i < task.places->size() && (*task.places)[i].id == part.handle.id; ++i) {
      const ChunkPosition& place = (*task.places)[i];
      const Extent extent = {layout_.ChunkOffset(place.chunk), layout_.ChunkLength(place.chunk)};
      ASSIGN_OR_RETURN(const std::optional<absl::string_view> bytes,
                       held.Read(ctx, extent, result_));
      if (bytes.has_value() && BlobId::Of(*bytes) == place.id) {
        Shared(result_.kept_bytes) += extent.length_bytes;
      } else {
        places->push_back(place);
      }
    }
    if (tag < std::ssize(*places)) {
      wanted.push_back({.handle = part.handle, .location = part.location, .tag = tag});
    }
  }
  for (PackRange& range : CoalesceRanges(std::move(wanted), plan_.range_bytes)) {
    if (!Fetch({.range = std::move(range), .places = places})) {
      return absl::CancelledError("a writer has failed");
    }
  }
  return absl::OkStatus();
}

bool RestoreRun::Fetch(RestoreTask task) {
  const repository::PackId pack = task.range.pack;
  const Extent extent = {task.range.offset_bytes, task.range.length_bytes};
  return fetcher_.Add(pack, extent,
                      [this, task = std::move(task)](
                          const CallContext& ctx, const repository::RangeFetcher::Decoder& decoder,
                          absl::StatusOr<std::string> bytes) -> absl::Status {
                        RETURN_IF_ERROR(writers_[decoder.number]->Write(ctx, task, decoder.codec,
                                                                        std::move(bytes)));
                        Report();
                        return absl::OkStatus();
                      });
}

absl::Status RestoreRun::RestoreLevel1(int64_t level1) {
  const CallContext& ctx = fetcher_.context();
  const int64_t chunk_bytes = layout_.chunk_bytes();
  ASSIGN_OR_RETURN(const std::vector<BlobId> leaf_trees, LoadLeafIds(ctx, record_, level1));
  std::vector<int64_t> leaves(leaf_trees.size());
  std::iota(leaves.begin(), leaves.end(), level1 * kFanout);
  ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> chunks,
                   LoadChunkIds(ctx, record_, leaves, leaf_trees));
  const BlobId& zero_chunk = repository::ZeroChunkId(chunk_bytes);
  std::vector<ChunkPosition> places;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    for (std::size_t slot = 0; slot < chunks[i].size(); ++slot) {
      const int64_t chunk = leaves[i] * kLeafChunks + static_cast<int64_t>(slot);
      if (chunks[i][slot] == zero_chunk && layout_.ChunkLength(chunk) == chunk_bytes) {
        RETURN_IF_ERROR(AddZeros({layout_.ChunkOffset(chunk), chunk_bytes}));
      } else {
        places.push_back({.id = chunks[i][slot], .chunk = chunk});
      }
    }
  }
  return QueueBlobs(std::move(places));
}

absl::Status RestoreRun::QueueBlobs(std::vector<ChunkPosition> places) {
  std::sort(places.begin(), places.end());
  const auto shared = std::make_shared<const std::vector<ChunkPosition>>(std::move(places));
  std::vector<WantedBlob> wanted;
  repository::BlobIndex::Cursor cursor(repository_.index());
  for (std::size_t i = 0; i < shared->size(); ++i) {
    if (i > 0 && (*shared)[i].id == (*shared)[i - 1].id) {
      continue;
    }
    WantedBlob blob{.handle = {BlobType::kData, (*shared)[i].id}, .tag = static_cast<int64_t>(i)};
    ASSIGN_OR_RETURN(const repository::IndexedCopy* copy, cursor.Find(blob.handle));
    if (copy == nullptr) {
      return absl::DataLossError(absl::StrCat(Describe(blob.handle), ", chunk ", (*shared)[i].chunk,
                                              ", is in no index; run csi-delta repair index",
                                              repository_.UnreadableIndexNote()));
    }
    blob.location = repository_.index().LocationOf(*copy);
    if (blob.location.span.sealed_bytes >
        layout_.chunk_bytes() + repository::kSealedExtraBytesMax) {
      return absl::DataLossError(absl::StrCat(Describe(blob.handle), " of ",
                                              blob.location.span.sealed_bytes,
                                              " bytes in the index is no chunk"));
    }
    wanted.push_back(blob);
  }
  for (PackRange& range : CoalesceRanges(std::move(wanted), plan_.range_bytes)) {
    RestoreTask task = {.range = std::move(range), .places = shared};
    if (options_.only_differing ? !tasks_.Push(std::move(task), 1, comparing_.context().stop)
                                : !Fetch(std::move(task))) {
      return absl::CancelledError("a writer has failed");
    }
  }
  return absl::OkStatus();
}

absl::Status RestoreRun::AddZeros(const Extent& extent) {
  if (zeros_.has_value() && zeros_->end_bytes() == extent.offset_bytes) {
    zeros_->length_bytes += extent.length_bytes;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(FlushZeros());
  zeros_ = extent;
  return absl::OkStatus();
}

absl::Status RestoreRun::FlushZeros() {
  if (!zeros_.has_value()) {
    return absl::OkStatus();
  }
  const Extent extent = *std::exchange(zeros_, std::nullopt);
  Shared(result_.zero_bytes) += extent.length_bytes;
  return options_.target_is_zero ? absl::OkStatus() : target_.MakeZero(fetcher_.context(), extent);
}

absl::Status RestoreRun::QueueAll() {
  for (int64_t level1 = 0; level1 < layout_.level1_count(); ++level1) {
    RETURN_IF_ERROR(fetcher_.context().Check());
    RETURN_IF_ERROR(RestoreLevel1(level1));
    Report();
  }
  RETURN_IF_ERROR(FlushZeros());
  all_is_known_ = true;
  Report();
  return absl::OkStatus();
}

void RestoreRun::Report() {
  if (!options_.on_progress) {
    return;
  }
  const MutexLock lock(report_mutex_);  // So that older numbers never come last.
  options_.on_progress({.stage = "restore",
                        .done_bytes = Shared(result_.written_bytes) + Shared(result_.kept_bytes),
                        .total_bytes = layout_.size_bytes() - Shared(result_.zero_bytes),
                        .is_at_most = !all_is_known_});
}

// Looks at some chunks of a target that is said to be zero.
absl::Status CheckZeroTarget(const CallContext& ctx, BlockDevice& target,
                             const VolumeLayout& layout, uint64_t seed) {
  const AuditDraw draw = DrawAudit(
      layout.leaf_count(), [&](int64_t leaf) { return layout.ChunksInLeaf(leaf); }, seed);
  ASSIGN_OR_RETURN(const std::unique_ptr<ChunkReader> reader,
                   ChunkReader::Make(ctx, target, {.chunk_bytes = layout.chunk_bytes()}));
  for (const AuditLeaf& leaf : draw.leaves) {
    for (const int64_t slot : leaf.ordinals) {
      const int64_t chunk = leaf.leaf * kLeafChunks + slot;
      const int64_t offset = layout.ChunkOffset(chunk);
      RETURN_IF_ERROR(reader->Read(
          {offset, layout.ChunkLength(chunk)}, [offset](absl::string_view bytes) -> absl::Status {
            return IsZero(bytes) ? absl::OkStatus()
                                 : absl::FailedPreconditionError(absl::StrCat(
                                       "the target is not zero, near offset ", offset));
          }));
    }
  }
  return reader->Finish();
}

// What a target begins with that no file system is found on.
std::string MarkText(const CallContext& ctx, const VolumeRecord& record) {
  const repository::RepoSnapshot& snapshot = record.stored.snapshot;
  return absl::StrCat(
      "Snapshot ", record.stored.id.Hex(), " of host ", snapshot.hostname, ", ",
      absl::StrJoin(snapshot.paths, ", "), ", was being written here, since ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ctx.clock->Now(), absl::UTCTimeZone()),
      ".\nAs long as this stands here, a part of it is missing: restore it again.\n");
}

}  // namespace

Json ToJson(const RestoreResult& result) {
  return {{"message_type", "result"},
          {"schema_version", kResultSchemaVersion},
          {"snapshot_id", result.snapshot.Hex()},
          {"engine", result.engine},
          {"file_system", result.file_system},
          {"logical_bytes", result.logical_bytes},
          {"written_bytes", result.written_bytes},
          {"kept_bytes", result.kept_bytes},
          {"compared_bytes", result.compared_bytes},
          {"zero_bytes", result.zero_bytes},
          {"fetched_bytes", result.fetched_bytes},
          {"damaged_copies", result.damaged_copies},
          {"requests", result.store.requests},
          {"retries", result.store.retries},
          {"duration_ms", result.duration_ms},
          {"peak_memory_bytes", result.peak_memory_bytes},
          {"scratch_bytes", result.scratch_bytes}};
}

std::vector<Extent> DifferingRanges(absl::string_view wanted, absl::string_view held) {
  CSIDELTA_CHECK(wanted.size() == held.size());
  std::vector<Extent> ranges;
  const auto size = static_cast<int64_t>(wanted.size());
  for (int64_t at = 0; at < size; at += kDifferenceBytes) {
    const int64_t length = std::min(kDifferenceBytes, size - at);
    if (std::memcmp(wanted.data() + at, held.data() + at, static_cast<std::size_t>(length)) != 0) {
      AppendExtent(ranges, {at, length});
    }
  }
  return ranges;
}

absl::StatusOr<RestoreResult> DownloadBlocks(const CallContext& ctx,
                                             repository::Repository& repository,
                                             BlockDevice& target, Random& random,
                                             const VolumeRecord& record,
                                             const DownloadOptions& options) {
  CSIDELTA_CHECK(!options.target_is_zero || !options.only_differing);
  const DeviceInfo& info = target.info();
  if (info.size_bytes < record.layout.size_bytes()) {
    return absl::OutOfRangeError(absl::StrCat("the target has ", info.size_bytes,
                                              " bytes, the volume ", record.layout.size_bytes()));
  }
  RestoreResult result{.snapshot = record.stored.id,
                       .engine = info.engine,
                       .logical_bytes = record.layout.size_bytes()};
  const StoreNumbers before = options.store_numbers ? options.store_numbers() : StoreNumbers{};
  const absl::Duration began = ctx.clock->Uptime();
  const auto elapsed_ms = [&] { return absl::ToInt64Milliseconds(ctx.clock->Uptime() - began); };
  RETURN_IF_ERROR(repository.LoadReadableIndex(ctx));
  if (options.target_is_zero) {
    RETURN_IF_ERROR(CheckZeroTarget(ctx, target, record.layout, random.Below(uint64_t{1} << 63)));
  }
  result.duration_ms["open"] = elapsed_ms();
  // Before anything is written.
  MemoryBudget& memory = repository.memory();
  const DownloadPlan plan = PlanRun(memory, options, record.layout.chunk_bytes());
  ASSIGN_OR_RETURN(
      const MemoryBudget::Share share,
      memory.Take(plan.held_bytes,
                  absl::StrCat("restoring chunks of ", FormatBytes(record.layout.chunk_bytes()))));
  MarkedTarget marked(target, record.layout.size_bytes(), record.layout.chunk_bytes());
  RETURN_IF_ERROR(marked.Begin(ctx, MarkText(ctx, record), options.only_differing));
  RETURN_IF_ERROR(RestoreRun(ctx, repository, marked, record, options, plan, result).Do());
  result.duration_ms["transfer"] = elapsed_ms() - result.duration_ms["open"];
  RETURN_IF_ERROR(marked.Flush(ctx));
  ASSIGN_OR_RETURN(const std::string beginning, ReadBeginning(ctx, target));
  result.file_system = FileSystemOf(beginning);
  result.duration_ms["total"] = elapsed_ms();
  result.store = options.store_numbers ? options.store_numbers() - before : before;
  result.peak_memory_bytes = PeakMemoryBytes();
  result.scratch_bytes = repository.scratch().peak_bytes();
  return result;
}

}  // namespace csidelta::incremental
