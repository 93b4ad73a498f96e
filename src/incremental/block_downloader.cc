#include "incremental/block_downloader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/human_text.h"
#include "base/memory_budget.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "incremental/audit_plan.h"
#include "incremental/chunk_reader.h"
#include "incremental/chunk_writer.h"
#include "incremental/file_system.h"
#include "incremental/process_limits.h"
#include "incremental/restore_mark.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::BlobType;
using repository::kFanout;
using repository::kLeafChunks;
using repository::VolumeLayout;

constexpr int kWritesInFlight = 4;
constexpr int64_t kTasksWaitingMax = 64;

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
                    .range_bytes_max = kRangeBytesMax,
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
             const VolumeRecord& record, const DownloadOptions& options, const DownloadPlan& plan)
      : plan_(plan),
        repository_(repository),
        target_(target),
        record_(record),
        layout_(record.layout),
        options_(options),
        tasks_(kTasksWaitingMax),
        pool_(ctx),
        fetcher_(repository, *record.places) {}

  absl::Status Do(RestoreResult& result);

 private:
  absl::Status Work(const CallContext& ctx);
  absl::Status RestoreLevel1(int64_t level1);
  absl::Status QueueBlobs(std::vector<ChunkPosition> places);
  // Adds a chunk of zeros to the run of zeros, which is made as one.
  absl::Status AddZeros(const Extent& extent);
  absl::Status FlushZeros();
  absl::Status QueueAll();
  int64_t DoneBytes() const { return counts_.written_bytes + counts_.kept_bytes + zero_bytes_; }
  void Report() const;

  const DownloadPlan plan_;
  repository::Repository& repository_;
  BlockDevice& target_;
  const VolumeRecord& record_;
  const VolumeLayout layout_;
  const DownloadOptions& options_;
  BoundedQueue<RestoreTask> tasks_;
  RestoreCounts counts_;
  WorkerPool pool_;
  TreeFetcher fetcher_;
  std::optional<Extent> zeros_;
  int64_t zero_bytes_ = 0;
};

absl::Status RestoreRun::Work(const CallContext& ctx) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChunkWriter> writer,
      ChunkWriter::Make(repository_, layout_, target_,
                        {.depth = kWritesInFlight, .only_differing = options_.only_differing},
                        counts_));
  while (const std::optional<RestoreTask> task = tasks_.Pop(ctx.stop)) {
    RETURN_IF_ERROR(writer->Do(ctx, *task));
  }
  RETURN_IF_ERROR(ctx.Check());
  return writer->Finish(ctx);
}

absl::Status RestoreRun::FlushZeros() {
  if (!zeros_.has_value()) {
    return absl::OkStatus();
  }
  const Extent extent = *std::exchange(zeros_, std::nullopt);
  zero_bytes_ += extent.length_bytes;
  return options_.target_is_zero ? absl::OkStatus() : target_.MakeZero(pool_.context(), extent);
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

void RestoreRun::Report() const {
  if (options_.on_progress) {
    options_.on_progress({.done_bytes = DoneBytes(), .total_bytes = layout_.size_bytes()});
  }
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
    if (!tasks_.Push({.range = std::move(range), .places = shared}, 1, pool_.context().stop)) {
      return absl::CancelledError("a writer has failed");
    }
    Report();
  }
  return absl::OkStatus();
}

absl::Status RestoreRun::RestoreLevel1(int64_t level1) {
  const CallContext& ctx = pool_.context();
  const int64_t chunk_bytes = layout_.chunk_bytes();
  const BlobId& tree = record_.level1_trees[static_cast<std::size_t>(level1)];
  const int64_t level1_bytes = repository::kLevel1Chunks * chunk_bytes;
  if (tree == repository::ZeroLevel1TreeId(chunk_bytes) &&
      (level1 + 1) * level1_bytes <= layout_.size_bytes()) {
    return AddZeros({level1 * level1_bytes, level1_bytes});
  }
  ASSIGN_OR_RETURN(const std::vector<BlobId> leaf_trees,
                   LoadLeafIds(ctx, record_, fetcher_, level1));
  std::vector<int64_t> leaves;
  for (std::size_t i = 0; i < leaf_trees.size(); ++i) {
    leaves.push_back(level1 * kFanout + static_cast<int64_t>(i));
  }
  ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> chunks,
                   LoadChunkIds(ctx, record_, fetcher_, leaves, leaf_trees));
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

absl::Status RestoreRun::QueueAll() {
  for (int64_t level1 = 0; level1 < layout_.level1_count(); ++level1) {
    RETURN_IF_ERROR(pool_.context().Check());
    RETURN_IF_ERROR(RestoreLevel1(level1));
    Report();
  }
  return FlushZeros();
}

absl::Status RestoreRun::Do(RestoreResult& result) {
  pool_.Start(plan_.workers, [this](const CallContext& ctx, int) { return Work(ctx); });
  const absl::Status queued = QueueAll();
  tasks_.Close();
  // A worker's error came first, if there is one: then ours only says that it stopped.
  if (!queued.ok()) {
    pool_.Fail(queued);
  }
  RETURN_IF_ERROR(pool_.Join());
  if (DoneBytes() != layout_.size_bytes()) {
    return absl::InternalError(
        absl::StrCat("restored ", DoneBytes(), " of ", layout_.size_bytes(), " bytes"));
  }
  result.written_bytes = counts_.written_bytes;
  result.kept_bytes = counts_.kept_bytes;
  result.compared_bytes = counts_.compared_bytes;
  result.zero_bytes = zero_bytes_;
  result.fetched_bytes = counts_.fetched_bytes;
  result.damaged_copies = counts_.damaged_copies;
  return absl::OkStatus();
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

absl::StatusOr<RestoreResult> BlockDownloader::Run(const CallContext& ctx,
                                                   const VolumeRecord& record,
                                                   const DownloadOptions& options) {
  CSIDELTA_CHECK(!options.target_is_zero || !options.only_differing);
  const DeviceInfo& info = target_.info();
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
  RETURN_IF_ERROR(repository_.LoadReadableIndex(ctx));
  if (options.target_is_zero) {
    RETURN_IF_ERROR(CheckZeroTarget(ctx, target_, record.layout, random_.Below(uint64_t{1} << 63)));
  }
  result.duration_ms["open"] = elapsed_ms();
  // Before anything is written.
  MemoryBudget& memory = repository_.memory();
  const DownloadPlan plan = PlanRun(memory, options, record.layout.chunk_bytes());
  ASSIGN_OR_RETURN(
      const MemoryBudget::Share share,
      memory.Take(plan.held_bytes,
                  absl::StrCat("restoring chunks of ", FormatBytes(record.layout.chunk_bytes()))));
  MarkedTarget marked(target_, record.layout.size_bytes(), record.layout.chunk_bytes());
  RETURN_IF_ERROR(marked.Begin(ctx, MarkText(ctx, record), options.only_differing));
  RETURN_IF_ERROR(RestoreRun(ctx, repository_, marked, record, options, plan).Do(result));
  result.duration_ms["transfer"] = elapsed_ms() - result.duration_ms["open"];
  RETURN_IF_ERROR(marked.Flush(ctx));
  ASSIGN_OR_RETURN(result.file_system, ReadFileSystem(ctx, target_));
  result.duration_ms["total"] = elapsed_ms();
  if (options.store_numbers) {
    const StoreNumbers now = options.store_numbers();
    result.store = {.requests = now.requests - before.requests,
                    .writes = now.writes - before.writes,
                    .retries = now.retries - before.retries,
                    .put_bytes = now.put_bytes - before.put_bytes};
  }
  result.peak_memory_bytes = PeakMemoryBytes();
  result.scratch_bytes = repository_.scratch().peak_bytes();
  return result;
}

}  // namespace csidelta::incremental
