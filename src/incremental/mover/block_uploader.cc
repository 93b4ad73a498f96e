#include "incremental/mover/block_uploader.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "incremental/mover/audit.h"
#include "incremental/mover/chunk_plan.h"
#include "incremental/mover/chunk_reader.h"
#include "incremental/mover/image_builder.h"
#include "incremental/mover/process_limits.h"
#include "incremental/mover/tree_positions.h"
#include "incremental/mover/volume_group_tags.h"
#include "incremental/sources/checked_listing.h"
#include "incremental/sources/image_extent_source.h"
#include "incremental/sources/listing_failure.h"
#include "repository/blob_writer.h"
#include "repository/chain.h"
#include "repository/maintenance_memory.h"

namespace csidelta::incremental {
namespace {

using repository::BlobId;
using repository::BlobLocation;
using repository::BlobType;
using repository::BlobWriter;
using repository::Repository;
using repository::VolumeLayout;

constexpr StatusMark kFallbackRefused("csi-delta/fallback-refused");
constexpr char kFullScan[] = "full-scan";
// 18 MiB of ids at most; beyond it a blob that comes again is stored again.
constexpr int64_t kRememberedBlobsMax = 250'000;
// What the journal of an earlier run may take of the memory.
constexpr int64_t kJournalShare = 8;

absl::Status FallbackRefused(const WhyFull& why) {
  return kFallbackRefused.On(absl::FailedPreconditionError(absl::StrCat(
      "this backup would read the whole volume (", ToString(why), "), which is not allowed")));
}

// Why a full comes of what a source answered; nullopt where the answer ends the run.
std::optional<FullReason> ReasonOf(const absl::Status& of_source) {
  const std::optional<ListingFailure> failure = FailureOf(of_source);
  if (!failure.has_value()) {
    const bool refused = absl::IsFailedPrecondition(of_source) || absl::IsNotFound(of_source);
    return refused ? std::optional(FullReason::kListRefused) : std::nullopt;
  }
  switch (*failure) {
    case ListingFailure::kBaseGone:
    case ListingFailure::kNotComparable:
      return FullReason::kBaseSnapshotGone;
    case ListingFailure::kDriverHasNoService:
      return FullReason::kDriverHasNoMetadataService;
    case ListingFailure::kMetadataUnavailable:
      return FullReason::kMetadataUnavailable;
    case ListingFailure::kMetadataVersion:
      return FullReason::kMetadataVersion;
    case ListingFailure::kMalformedList:
      return FullReason::kListRefused;
    case ListingFailure::kOtherBase:
      return FullReason::kListBaseMismatch;
    case ListingFailure::kPermanent:
      return std::nullopt;
  }
  return std::nullopt;
}

// Adds every tree and chunk of a volume to `blobs`, some chunks many times. Reads all of its trees,
// those below one level-1 tree at a time. REQUIRES a loaded index. An error names what cannot be
// read, or is DATA_LOSS as AddTree() has it.
absl::Status AddBlobsOf(const CallContext& ctx, const VolumeRecord& record,
                        repository::NeededBlobs& blobs) {
  RETURN_IF_ERROR(blobs.AddTree(record.stored.snapshot.tree));
  RETURN_IF_ERROR(blobs.AddTree(record.root.image_tree));
  RETURN_IF_ERROR(blobs.AddData({record.root.manifest_blob}));
  for (int64_t level1 = 0; level1 < record.layout.level1_count(); ++level1) {
    RETURN_IF_ERROR(ctx.Check());
    RETURN_IF_ERROR(blobs.AddTree(record.level1_trees[static_cast<std::size_t>(level1)]));
    ASSIGN_OR_RETURN(const std::vector<BlobId> trees, LoadLeafIds(ctx, record, level1));
    for (const BlobId& tree : trees) {
      RETURN_IF_ERROR(blobs.AddTree(tree));
    }
    std::vector<int64_t> leaves(trees.size());
    std::iota(leaves.begin(), leaves.end(), level1 * repository::kFanout);
    ASSIGN_OR_RETURN(const std::vector<std::vector<BlobId>> chunks,
                     LoadChunkIds(ctx, record, leaves, trees));
    for (const std::vector<BlobId>& ids : chunks) {
      RETURN_IF_ERROR(blobs.AddData(ids));
    }
  }
  return absl::OkStatus();
}

// The stages' clock: how long each took, in the order of the run.
class StageTimer {
 public:
  StageTimer(const Clock& clock, BackupResult& result)
      : clock_(clock), result_(result), began_(clock.Uptime()), stage_began_(began_) {}

  void End(const std::string& stage) {
    const absl::Duration now = clock_.Uptime();
    result_.duration_ms[stage] += absl::ToInt64Milliseconds(now - stage_began_);
    result_.duration_ms["total"] = absl::ToInt64Milliseconds(now - began_);
    stage_began_ = now;
  }

 private:
  const Clock& clock_;
  BackupResult& result_;
  const absl::Duration began_;
  absl::Duration stage_began_;
};

// One run of the uploader, with all its state.
class UploadRun {
 public:
  UploadRun(const CallContext& ctx, Repository& repository, BlockDevice& device,
            ChangedBlockSource& source, Random& random, const UploadOptions& options)
      : ctx_(ctx),
        repository_(repository),
        device_(device),
        source_(source),
        random_(random),
        options_(options),
        timer_(*ctx.clock, result_),
        began_(ctx.clock->Now()) {}

  absl::StatusOr<BackupResult> Do();

 private:
  // What a pass over the volume goes by. With a parent, changed means since then, and allocated
  // that all else is zero; without one the source is asked the same in both cases.
  enum class Listing { kChanged, kAllocated, kEverything };
  // How a pass ended.
  enum class PassEnd { kDone, kSourceRefused, kParentFailed };

  const WhyFull& SetWhy(FullReason reason, absl::string_view detail = "") {
    return result_.why.emplace(WhyFull{.reason = reason, .detail = std::string(detail)});
  }
  // Whether the parent is of the volume that this one was restored from.
  bool is_restored() const {
    return !options_.incremental_asked && options_.full_reason == FullReason::kRestored;
  }
  absl::Status OpenParent();
  // Goes on without a parent that cannot be read; else returns `why`.
  absl::Status GiveUpParent(const absl::Status& why);
  // Goes on without it: the trees that it has may not read, though they are stored. They are few.
  void DropParent();
  absl::Status ChooseLayout();
  absl::Status StartWriter();
  void OpenJournal();
  // Which of the packs of the index cannot be relied on.
  absl::Status LearnPacks();
  // Has the writer count as stored what the index lists in packs that are there.
  absl::Status LearnStored();
  // After a check that found damage: drops a parent that needs what is damaged.
  absl::Status ProveParent();
  // Whether a pass takes the parent's word for what is stored.
  bool TrustsParent(Listing listing) const {
    return parent_ != nullptr && listing == Listing::kChanged && source_.compares();
  }
  Listing FirstListing();
  absl::StatusOr<PassEnd> Pass(Listing listing, const char* stage);
  absl::Status Feed(Listing listing, ChunkPlanner::Sink sink, absl::Status& of_source);
  // Of all chunks up to the end of `plan`, those that are read are what is left.
  void CountUnread(const Level1Plan& plan, int64_t& planned_chunks);
  // What a dry run says, by the list alone.
  absl::Status Estimate();
  // Gives up what a list promised and reads everything.
  absl::Status Rescan(const WhyFull& why);
  absl::Status Transfer();
  absl::Status Audit();
  // Has proof_ say that what the backup relies on is held. DATA_LOSS or NOT_FOUND when it is not.
  absl::Status Prove();
  absl::Status Commit();
  absl::Status CommitOrSkip();
  void Count(int64_t other_stored_bytes);
  absl::Status RunStages();
  // Lists what is stored, for the next run to find.
  void SaveProgress();
  repository::RepoSnapshot MakeSnapshot(const BlobId& root) const;
  // Where the trees are that the parent does not have at their place.
  LocatorChange MakeLocatorChange(const BlobId& root,
                                  std::optional<repository::SnapshotNeeds> needs) const;
  // Adds to `stored_bytes` what was put. The backup is there already: what goes wrong is a warning.
  void SaveSidecar(const BlobId& root, const absl::StatusOr<repository::SnapshotNeeds>& needs,
                   int64_t& stored_bytes);
  std::string MakeManifest() const;
  ChunkReaderOptions ReaderOptions() const;
  StoreNumbers Numbers() const {
    return options_.store_numbers ? options_.store_numbers() : StoreNumbers{};
  }
  // Says how far the run is; from any thread. `stage` begins; null: none.
  void Report(const char* stage, const BlobWriter& writer);

  const CallContext& ctx_;
  Repository& repository_;
  BlockDevice& device_;
  ChangedBlockSource& source_;
  Random& random_;
  const UploadOptions& options_;
  BackupResult result_;
  StageTimer timer_;

  // What is reported; before the writer, whose threads use it until they end.
  Mutex report_mutex_;
  const char* stage_ ABSL_GUARDED_BY(report_mutex_) = "";
  std::atomic<int64_t> unread_chunks_ = 0;  // of this pass, at most
  std::atomic<int64_t> resumed_chunks_ = 0;
  std::atomic<int64_t> sampled_chunks_ = 0;
  std::atomic<int64_t> drawn_chunks_ = 0;  // to be sampled
  const absl::Time began_;

  StoreNumbers numbers_before_;
  MemoryPlan plan_;
  std::optional<VolumeLayout> layout_;
  std::shared_ptr<VolumeRecord> parent_;
  std::optional<ChunkLedger> ledger_;
  std::optional<BlobWriter> writer_;
  std::shared_ptr<repository::StoredBlobs> stored_;  // what LearnPacks() found
  bool uses_stored_ = false;                         // after LearnStored()
  bool stores_trees_again_ = false;
  std::optional<repository::SnapshotProof> proof_;
  std::unique_ptr<ChunkJournal> journal_;  // of an immutable source
  ListingStats listing_stats_;             // of the last pass
  bool trusted_parent_ = false;            // in the last pass
  BlobId manifest_blob_;
  BuiltImage image_;
};

absl::StatusOr<BackupResult> UploadRun::Do() {
  if (const absl::Status status = RunStages(); !status.ok()) {
    SaveProgress();
    return status;
  }
  return std::move(result_);
}

ChunkReaderOptions UploadRun::ReaderOptions() const {
  return {.chunk_bytes = layout_->chunk_bytes(),
          .queue_depth = plan_.queue_depth,
          .workers = plan_.workers,
          .buffers = plan_.buffers};
}

absl::Status UploadRun::OpenParent() {
  result_.mode_asked = options_.incremental_asked || is_restored() ? "incremental" : "full";
  result_.logical_bytes = device_.info().size_bytes;
  result_.engine = device_.info().engine;
  if (!options_.parent_damage.ok()) {
    const WhyFull& why = SetWhy(FullReason::kParentDamaged, options_.parent_damage.message());
    return options_.fail_on_fallback ? FallbackRefused(why) : absl::OkStatus();
  }
  if (!options_.parent.has_value()) {
    SetWhy(options_.incremental_asked ? FullReason::kNoParent : options_.full_reason,
           options_.full_detail);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<VolumeRecord>> parent =
      options_.parent_record.has_value() ? *options_.parent_record
                                         : OpenVolumeRecord(ctx_, repository_, *options_.parent);
  if (parent.ok()) {
    parent_ = *std::move(parent);
    // A full that was asked for takes nothing of it unseen.
    return options_.damage.has_value() && options_.incremental_asked ? ProveParent()
                                                                     : absl::OkStatus();
  }
  return GiveUpParent(parent.status());
}

void UploadRun::DropParent() {
  parent_.reset();
  result_.base.clear();
  stores_trees_again_ = true;
}

absl::Status UploadRun::GiveUpParent(const absl::Status& why) {
  const bool unusable = absl::IsDataLoss(why) || absl::IsNotFound(why) ||
                        absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why);
  if (!unusable) {
    return why;
  }
  DropParent();
  const WhyFull& damaged = SetWhy(FullReason::kParentDamaged, why.message());
  return options_.fail_on_fallback ? FallbackRefused(damaged) : absl::OkStatus();
}

absl::Status UploadRun::ProveParent() {
  RETURN_IF_ERROR(LearnPacks());
  repository::NeededBlobs blobs(repository_, stored_->unusable(), *options_.damage);
  absl::Status whole = AddBlobsOf(ctx_, *parent_, blobs);
  if (whole.ok()) {
    whole = blobs.Resolve();
  }
  if (options_.damage->empty() && !repository_.UnreadableIndexNote().empty()) {
    return absl::OkStatus();  // The index is the damage, and repair index mends it.
  }
  return whole.ok() ? absl::OkStatus() : GiveUpParent(whole);
}

absl::Status UploadRun::ChooseLayout() {
  const int64_t size_bytes = device_.info().size_bytes;
  if (size_bytes == 0) {
    return absl::InvalidArgumentError("the volume is empty");
  }
  const int64_t parents = parent_ == nullptr ? repository::DefaultChunkBytes(size_bytes)
                                             : parent_->layout.chunk_bytes();
  const int64_t chunk_bytes = options_.chunk_bytes == 0 ? parents : options_.chunk_bytes;
  ASSIGN_OR_RETURN(layout_, VolumeLayout::Make(size_bytes, chunk_bytes));
  if (parent_ != nullptr && chunk_bytes != parents) {
    if (!options_.new_chain) {
      return absl::FailedPreconditionError(
          absl::StrCat("this chain has chunks of ", parents, " bytes, not ", chunk_bytes,
                       "; a new chunk size begins a new chain: --new-chain"));
    }
    parent_.reset();
    SetWhy(FullReason::kChunkSizeChanged);
  }
  result_.chunk_bytes = chunk_bytes;
  result_.base = parent_ == nullptr ? "" : parent_->stored.id.Hex();
  return absl::OkStatus();
}

absl::Status UploadRun::StartWriter() {
  MemoryRequest memory = options_.memory;
  memory.chunk_bytes = layout_->chunk_bytes();
  memory.reserved_bytes += journal_ == nullptr ? 0 : journal_->memory_bytes();
  if (memory.cores <= 0) {
    memory.cores = ReadProcessLimits().cores;
  }
  if (memory.pack_bytes_max <= 0) {
    memory.pack_bytes_max = repository::kPackTargetBytesLocal;
  }
  if (options_.packs_follow_volume) {
    memory.pack_bytes_first = repository::VolumePackBytes(layout_->size_bytes());
    memory.pack_bytes_max = std::max(memory.pack_bytes_max, memory.pack_bytes_first);
  }
  ASSIGN_OR_RETURN(plan_, PlanMemory(memory));
  result_.memory_budget_bytes = plan_.budget_bytes;
  result_.pack_bytes = plan_.pack_bytes;
  result_.uploads_in_flight = plan_.uploads_in_flight;
  result_.workers = plan_.workers;
  result_.open_packs = plan_.open_packs;
  writer_.emplace(ctx_, repository_,
                  repository::BlobWriterOptions{
                      .data_compression_level = options_.compression_level,
                      .pack_target_bytes = plan_.pack_bytes,
                      .open_packs_max = plan_.open_packs,
                      .uploads_in_flight_max = plan_.uploads_in_flight,
                      .remembered_blobs_max = kRememberedBlobsMax,
                      .fence = options_.fence_if_old,
                      .on_stored = [this](const BlobWriter& writer) { Report(nullptr, writer); }});
  return options_.known == nullptr ? absl::OkStatus() : LearnStored();
}

absl::Status UploadRun::LearnPacks() {
  if (stored_ != nullptr) {
    return absl::OkStatus();
  }
  const repository::BlobIndex* index = options_.known;
  if (index == nullptr) {
    RETURN_IF_ERROR(repository_.LoadReadableIndex(ctx_));
    index = &repository_.index();
  }
  const absl::Time listed_at = ctx_.clock->Now();
  ASSIGN_OR_RETURN(
      repository::PackBits unusable,
      repository::FindAbsentPacks(ctx_, repository_, *index,
                                  options_.damage.value_or(repository::DistrustedPacks())));
  stored_ = std::make_shared<repository::StoredBlobs>(*index, std::move(unusable), listed_at);
  return absl::OkStatus();
}

absl::Status UploadRun::LearnStored() {
  RETURN_IF_ERROR(LearnPacks());
  writer_->UseKnown(stored_);
  uses_stored_ = true;
  return absl::OkStatus();
}

void UploadRun::OpenJournal() {
  if (options_.immutable_identity.empty()) {
    return;
  }
  journal_ = std::make_unique<ChunkJournal>(repository_, options_.immutable_identity, *layout_,
                                            options_.journal);
  if (options_.known != nullptr) {
    const MemoryRequest& memory = options_.memory;
    const int64_t spare_bytes =
        memory.budget_bytes - memory.reserved_bytes - LeastMemoryBytes(layout_->chunk_bytes());
    journal_->Load(ctx_,
                   std::clamp<int64_t>(spare_bytes / 2, 0, memory.budget_bytes / kJournalShare));
  }
}

// Lists and plans. `of_source` is the source's own error, as opposed to one of what is behind it.
absl::Status UploadRun::Feed(Listing listing, ChunkPlanner::Sink sink, absl::Status& of_source) {
  const std::optional<VolumeLayout> parent_layout =
      parent_ == nullptr ? std::nullopt : std::optional<VolumeLayout>(parent_->layout);
  ChunkPlanner planner(*layout_, parent_layout, sink);
  DiffRequest request{
      .base = "", .target = options_.target_handle, .size_bytes = layout_->size_bytes()};
  if (parent_ != nullptr && listing != Listing::kAllocated) {
    request.base = options_.base_handle.empty() ? parent_->stored.id.Hex() : options_.base_handle;
    const std::optional<repository::Id>& original = parent_->stored.snapshot.original;
    for (const std::string& name : {parent_->manifest.snapshot_handle, parent_->manifest.change_id,
                                    original.has_value() ? original->Hex() : ""}) {
      if (!name.empty()) {
        request.base_names.push_back(name);
      }
    }
  }
  const auto add = [&](const ListedExtent& extent) { return planner.Add(extent); };
  // Beside a parent, what is not listed would be called unchanged.
  GapFiller gaps(parent_ != nullptr && listing == Listing::kAllocated, layout_->size_bytes(), add);
  FullScanSource everything(options_.image);
  ChangedBlockSource& source = listing == Listing::kEverything ? everything : source_;
  absl::Status of_sink;
  const auto take_extent = [&](const ListedExtent& extent) {
    if (extent.kind == ExtentKind::kUnknown) {
      result_.unknown_bytes += extent.extent.length_bytes;
    }
    return of_sink = gaps.Add(extent);
  };
  const absl::Status listed = ListChecked(ctx_, source, request, take_extent, &listing_stats_);
  RETURN_IF_ERROR(of_sink);
  of_source = listed;
  RETURN_IF_ERROR(listed);
  RETURN_IF_ERROR(gaps.Finish());
  return planner.Finish();
}

void UploadRun::CountUnread(const Level1Plan& plan, int64_t& planned_chunks) {
  const int64_t end = plan.level1 * repository::kLevel1Chunks + std::ssize(plan.states);
  unread_chunks_ -=
      end - planned_chunks - std::count(plan.states.begin(), plan.states.end(), ChunkState::kRead);
  planned_chunks = end;
  Report(nullptr, *writer_);
}

void UploadRun::Report(const char* stage, const BlobWriter& writer) {
  if (!options_.on_progress) {
    return;
  }
  const MutexLock lock(report_mutex_);  // So that older numbers never come last.
  stage_ = stage == nullptr ? stage_ : stage;
  const repository::BlobWriterCounts counts = writer.counts();
  const int64_t unread_bytes =
      std::min(layout_->size_bytes(), unread_chunks_ * layout_->chunk_bytes());
  const bool uploads = absl::string_view(stage_) == "commit" && counts.waiting_bytes > 0;
  options_.on_progress({.stage = uploads ? "uploads" : stage_,
                        .done_bytes = counts.stored_bytes,
                        .total_bytes = counts.stored_bytes + counts.waiting_bytes + unread_bytes,
                        .is_at_most = unread_bytes > 0,
                        .resumed_bytes = resumed_chunks_ * layout_->chunk_bytes(),
                        .sampled_bytes = sampled_chunks_ * layout_->chunk_bytes(),
                        .to_sample_bytes = drawn_chunks_ * layout_->chunk_bytes()});
}

absl::StatusOr<UploadRun::PassEnd> UploadRun::Pass(Listing listing, const char* stage) {
  const bool has_history = options_.parent.has_value() || !options_.parent_damage.ok();
  if (has_history && !TrustsParent(listing)) {
    RETURN_IF_ERROR(LearnStored());
    if (stores_trees_again_) {
      stored_->DistrustTrees();
    }
  }
  unread_chunks_ = layout_->chunk_count();
  Report(stage, *writer_);
  ledger_.emplace(*layout_);
  result_.source = std::string(listing == Listing::kEverything ? kFullScan : source_.name());
  result_.unknown_bytes = 0;
  ASSIGN_OR_RETURN(std::unique_ptr<ChunkReader> reader,
                   ChunkReader::Make(ctx_, device_, ReaderOptions()));
  trusted_parent_ = TrustsParent(listing);
  ImageBuilder builder(*layout_, parent_.get(), trusted_parent_, *reader, *writer_, journal_.get(),
                       [this](bool resumed) {
                         --unread_chunks_;
                         resumed_chunks_ += resumed ? 1 : 0;
                         Report(nullptr, *writer_);
                       });
  if (is_restored()) {
    const int64_t stride = std::min(kRestoredSampleOneIn, layout_->chunk_count());
    builder.SampleEvery(stride, static_cast<int64_t>(random_.Below(static_cast<uint64_t>(stride))));
  }
  // The reader's threads call the builder: they end first.
  const absl::Cleanup stop_reader = [&reader] { reader.reset(); };
  int64_t planned_chunks = 0;
  const auto take = [&](const Level1Plan& plan) {
    ledger_->Record(plan);
    CountUnread(plan, planned_chunks);
    return builder.AddLevel1(plan);
  };
  absl::Status of_source;
  const absl::Status fed = Feed(listing, take, of_source);
  if (fed.ok()) {
    unread_chunks_ -= layout_->chunk_count() - planned_chunks;
    Report(nullptr, *writer_);
  }
  absl::StatusOr<BuiltImage> image = fed.ok() ? builder.Finish() : fed;
  result_.read_bytes += reader->read_bytes();
  if (image.ok()) {
    image_ = *std::move(image);
    return PassEnd::kDone;
  }
  if (const std::optional<FullReason> refused = ReasonOf(of_source); refused.has_value()) {
    const bool with_its_group = FailureOf(of_source) == ListingFailure::kBaseGone &&
                                options_.parent.has_value() &&
                                ParseGroupTags(options_.parent->snapshot).has_value();
    const FullReason reason = with_its_group ? FullReason::kGroupBaseReleased : *refused;
    const bool list_refused =
        *refused == FullReason::kListRefused || *refused == FullReason::kListBaseMismatch;
    result_.list_refused = result_.list_refused || list_refused;
    // What came first stays the reason; but that there is no parent is none to read everything.
    const bool counts =
        !result_.why.has_value() || (list_refused && result_.why->reason == FullReason::kNoParent);
    SetWhy(counts ? reason : result_.why->reason, of_source.message());
    return PassEnd::kSourceRefused;
  }
  if (builder.parent_failed()) {
    SetWhy(FullReason::kParentDamaged, image.status().message());
    return PassEnd::kParentFailed;
  }
  return image.status();
}

absl::Status UploadRun::Rescan(const WhyFull& why) {
  if (options_.fail_on_fallback) {
    return FallbackRefused(why);
  }
  ASSIGN_OR_RETURN(PassEnd end, Pass(Listing::kEverything, "rescan"));
  if (end == PassEnd::kParentFailed) {
    DropParent();
    ASSIGN_OR_RETURN(end, Pass(Listing::kEverything, "rescan"));
  }
  if (end != PassEnd::kDone) {
    return absl::InternalError(absl::StrCat("full scan: ", ToString(*result_.why)));
  }
  result_.mode_done = "full";
  timer_.End("rescan");
  return absl::OkStatus();
}

UploadRun::Listing UploadRun::FirstListing() {
  if (!options_.incremental_asked) {
    return Listing::kEverything;
  }
  if (!options_.parent.has_value() && options_.parent_damage.ok()) {
    return Listing::kChanged;
  }
  if (parent_ == nullptr) {
    // A list that is relative to a parent means something else without it.
    return source_.lists_allocated() ? Listing::kAllocated : Listing::kEverything;
  }
  if (!source_.lists_changes()) {
    SetWhy(FullReason::kNoChangedBlockList, "the list says what is allocated");
    return Listing::kAllocated;
  }
  if (source_.lists_allocated() && !options_.base_known) {
    SetWhy(FullReason::kNoChangedBlockList, "the parent's VolumeSnapshot is not known");
    return Listing::kAllocated;
  }
  const int64_t before_bytes = parent_->layout.size_bytes();
  if (source_.lists_allocated() && before_bytes != layout_->size_bytes()) {
    // Drivers have lost changes of volumes that grew.
    SetWhy(FullReason::kVolumeResized,
           absl::StrCat("from ", before_bytes, " to ", layout_->size_bytes(), " bytes"));
    return Listing::kAllocated;
  }
  return Listing::kChanged;
}

absl::Status UploadRun::Transfer() {
  Listing listing = FirstListing();
  if (listing == Listing::kAllocated && options_.fail_on_fallback &&
      TextOf(result_.why->reason).is_fallback) {
    return FallbackRefused(*result_.why);
  }
  ASSIGN_OR_RETURN(PassEnd end, Pass(listing, "transfer"));
  const bool base_refused = end == PassEnd::kSourceRefused && parent_ != nullptr &&
                            listing == Listing::kChanged &&
                            (result_.why->reason == FullReason::kBaseSnapshotGone ||
                             result_.why->reason == FullReason::kGroupBaseReleased);
  if (base_refused && source_.lists_allocated() && !options_.fail_on_fallback) {
    listing = Listing::kAllocated;
    ASSIGN_OR_RETURN(end, Pass(listing, "transfer"));
  }
  timer_.End("transfer");
  if (end == PassEnd::kParentFailed) {
    DropParent();
  }
  if (end != PassEnd::kDone) {
    return Rescan(*result_.why);
  }
  const bool scanned = result_.source == kFullScan;
  const bool incremental = parent_ != nullptr && listing == Listing::kChanged && !scanned;
  result_.mode_done = incremental ? "incremental" : "full";
  if (parent_ != nullptr && scanned) {
    options_.incremental_asked ? SetWhy(FullReason::kNoChangedBlockList)
                               : SetWhy(options_.full_reason, options_.full_detail);
  }
  return absl::OkStatus();
}

absl::Status UploadRun::Audit() {
  const int64_t requests_before = Numbers().requests;
  // 63 bits: the seed is shown, and some readers have no unsigned numbers.
  result_.audit_seed = random_.Below(uint64_t{1} << 63);
  AuditResult audit;
  absl::Status status =
      RunAudit(ctx_, device_,
               {.layout = *layout_,
                .ledger = *ledger_,
                .parent = parent_.get(),
                .resumed = image_.resumed,
                .journal = journal_.get(),
                .sample = image_.sample,
                .reader = ReaderOptions(),
                .seed = result_.audit_seed,
                .one_in = options_.audit_one_in,
                .first_chunks = result_.mode_done == "full" ? options_.audit_first_chunks : 0,
                .on_drawn =
                    [&](int64_t chunks) {
                      drawn_chunks_ = chunks;
                      Report("audit", *writer_);
                    },
                .on_chunk =
                    [&] {
                      ++sampled_chunks_;
                      Report(nullptr, *writer_);
                    }},
               audit);
  if (status.ok() && !audit.mismatch && trusted_parent_) {
    status = Prove();
    audit.parent_failed = absl::IsDataLoss(status) || absl::IsNotFound(status);
  }
  if (!status.ok() && !audit.parent_failed) {
    return Annotate(status, "audit");
  }
  result_.audit = std::move(audit.kinds);
  result_.audit_bytes = audit.read_bytes;
  result_.audit_mismatch = audit.mismatch;
  result_.audit_requests = Numbers().requests - requests_before;
  timer_.End("audit");
  if ((audit.mismatch || audit.parent_failed) && journal_ != nullptr) {
    // What comes now is not audited again: nothing that an earlier run has read is believed.
    journal_->Forget(ctx_);
  }
  if (audit.parent_failed) {
    const WhyFull why = SetWhy(FullReason::kParentDamaged, status.message());
    DropParent();
    return Rescan(why);
  }
  if (audit.mismatch) {
    return Rescan(
        SetWhy(audit.resumed_differs ? FullReason::kResumedChanged : FullReason::kAuditMismatch));
  }
  return absl::OkStatus();
}

absl::Status UploadRun::Prove() {
  const repository::Inherited inherited = {
      .needs = trusted_parent_ ? parent_->places->locator().needs : std::nullopt,
      .walk = [this](repository::NeededBlobs& blobs) { return AddBlobsOf(ctx_, *parent_, blobs); }};
  ASSIGN_OR_RETURN(proof_, repository::ProveNeeds(ctx_, repository_, *writer_,
                                                  trusted_parent_ ? &inherited : nullptr,
                                                  options_.proof_limits));
  return absl::OkStatus();
}

std::string UploadRun::MakeManifest() const {
  repository::VolumeManifest manifest = options_.manifest;
  manifest.size_bytes = layout_->size_bytes();
  manifest.chunk_bytes = layout_->chunk_bytes();
  manifest.image_tree = image_.tree;
  manifest.source = result_.source;
  if (result_.source != kFullScan) {
    manifest.unknown[kListingMember] = ToJson(listing_stats_);  // Unknown to the layout.
  }
  manifest.kind = result_.mode_done;
  manifest.reason = NameOf(result_.why);
  manifest.parent_snapshot = result_.base;
  manifest.extents_bytes = image_.listed_bytes;
  manifest.read_bytes = result_.read_bytes;
  manifest.new_bytes = writer_->counts().plaintext_bytes;
  manifest.zero_chunks = image_.zero_chunks;
  manifest.program = options_.snapshot.program_version;
  manifest.created = FormatRfc3339(began_);
  return repository::EncodeManifest(manifest);
}

repository::RepoSnapshot UploadRun::MakeSnapshot(const BlobId& root) const {
  repository::RepoSnapshot snapshot = options_.snapshot;
  snapshot.tree = root;
  snapshot.parent.reset();
  if (parent_ != nullptr) {
    snapshot.parent = parent_->stored.id;
  }
  if (snapshot.time == absl::Time()) {
    snapshot.time = began_;
  }
  snapshot.tags.push_back(absl::StrCat(kModeTag, "block"));
  snapshot.tags.push_back(absl::StrCat(kKindTag, result_.mode_done == "full" ? "full" : "incr"));
  snapshot.tags.push_back(absl::StrCat(kLayoutTag, repository::kLayoutVersion));
  const repository::BlobWriterCounts counts = writer_->counts();
  snapshot.summary = repository::SnapshotSummary{
      .backup_start = began_,
      .backup_end = ctx_.clock->Now(),
      .files_changed = static_cast<uint64_t>(image_.leaves_touched),
      .files_unmodified = static_cast<uint64_t>(layout_->leaf_count() - image_.leaves_touched),
      .data_blobs = counts.data_blobs,
      .tree_blobs = counts.tree_blobs,
      .data_added = static_cast<uint64_t>(counts.plaintext_bytes),
      .data_added_packed = static_cast<uint64_t>(counts.packed_bytes),
      .total_files_processed = static_cast<uint64_t>(layout_->leaf_count()),
      .total_bytes_processed = static_cast<uint64_t>(layout_->size_bytes())};
  snapshot.volume =
      repository::VolumeSummary{.mode = result_.mode_done,
                                .reason = NameOf(result_.why),
                                .changed_bytes = ListsChanges(result_.mode_done, result_.source)
                                                     ? std::optional<int64_t>(image_.listed_bytes)
                                                     : std::nullopt};
  return snapshot;
}

LocatorChange UploadRun::MakeLocatorChange(const BlobId& root,
                                           std::optional<repository::SnapshotNeeds> needs) const {
  std::vector<repository::TreeLocation> written = writer_->tree_locations();
  const auto by_id = [](const repository::TreeLocation& left,
                        const repository::TreeLocation& right) { return left.tree < right.tree; };
  std::sort(written.begin(), written.end(), by_id);
  const auto find = [&](BlobType type, const BlobId& id) -> std::optional<BlobLocation> {
    const auto found =
        std::lower_bound(written.begin(), written.end(),
                         repository::TreeLocation{.tree = id, .location = {}}, by_id);
    if (found != written.end() && found->tree == id) {
      return found->location;
    }
    return uses_stored_ ? stored_->Find({type, id}) : std::nullopt;
  };
  LocatorChange change{
      .layout = *layout_,
      .volume = repository::ChainOf(options_.snapshot.hostname, options_.snapshot.paths),
      .trees = {},
      .root = find(BlobType::kTree, root),
      .image_tree = find(BlobType::kTree, image_.tree),
      .manifest = find(BlobType::kData, manifest_blob_),
      .needs = std::move(needs)};
  if (parent_ != nullptr && parent_->root.image_tree == image_.tree && trusted_parent_) {
    change.image_tree = parent_->places->locator().image_tree;
  }
  for (const PlacedTree& tree : image_.moved_trees) {
    change.trees.push_back({.position = tree.position, .place = find(BlobType::kTree, tree.id)});
  }
  return change;
}

absl::Status UploadRun::Commit() {
  Report("commit", *writer_);
  const std::string manifest = MakeManifest();
  manifest_blob_ = BlobId::Of(manifest);
  writer_->RememberLocation(manifest_blob_);
  RETURN_IF_ERROR(writer_->AddBlob(BlobType::kData, manifest_blob_, manifest).status());
  const std::string root_text = repository::EncodeRootTree(image_.tree, manifest_blob_,
                                                           static_cast<int64_t>(manifest.size()));
  const BlobId root = BlobId::Of(root_text);
  RETURN_IF_ERROR(writer_->AddBlob(BlobType::kTree, root, root_text).status());
  if (!proof_.has_value()) {
    RETURN_IF_ERROR(Prove());
  }
  ASSIGN_OR_RETURN(repository::CommittedSnapshot committed,
                   repository::CommitSnapshot(
                       ctx_, repository_, *writer_, *proof_, options_.fence,
                       [&] { return MakeSnapshot(root); }, options_.proof_limits));
  result_.snapshot = committed.id;
  SaveSidecar(root, committed.needs, committed.stored_bytes);
  if (journal_ != nullptr) {
    journal_->Remove(ctx_);
  }
  timer_.End("commit");
  Count(committed.stored_bytes);
  return absl::OkStatus();
}

void UploadRun::SaveSidecar(const BlobId& root,
                            const absl::StatusOr<repository::SnapshotNeeds>& needs,
                            int64_t& stored_bytes) {
  LocatorChange change = MakeLocatorChange(
      root, needs.ok() ? std::optional<repository::SnapshotNeeds>(*needs) : std::nullopt);
  absl::Status saved =
      SaveLocator(ctx_, repository_, result_.snapshot, change,
                  parent_ == nullptr ? nullptr : parent_->places.get(), stored_bytes);
  saved.Update(needs.status());
  if (!saved.ok()) {
    result_.warnings.push_back(absl::StrCat(
        "the sidecar of this backup could not be stored (", saved.message(),
        "); the next incremental backup reads the index and all trees of this one instead"));
  }
}

absl::Status UploadRun::CommitOrSkip() {
  result_.unchanged = parent_ != nullptr && parent_->root.image_tree == image_.tree &&
                      parent_->layout.size_bytes() == layout_->size_bytes();
  // What a full found lost and stored again is to be listed in the index.
  const repository::BlobWriterCounts counts = writer_->counts();
  // A parent of another volume is no backup of this one.
  const bool is_own =
      parent_ != nullptr &&
      repository::ChainOf(parent_->stored.snapshot.hostname, parent_->stored.snapshot.paths) ==
          repository::ChainOf(options_.snapshot.hostname, options_.snapshot.paths);
  if (!options_.skip_if_unchanged || !result_.unchanged || !is_own || counts.data_blobs > 0 ||
      counts.tree_blobs > 0) {
    return Commit();
  }
  if (options_.fence) {
    RETURN_IF_ERROR(options_.fence(ctx_));  // The parent may be forgotten by now.
  }
  result_.skipped = true;
  result_.snapshot = parent_->stored.id;
  if (journal_ != nullptr) {
    journal_->Remove(ctx_);
  }
  timer_.End("commit");
  Count(/*other_stored_bytes=*/0);
  return absl::OkStatus();
}

absl::Status UploadRun::Estimate() {
  const Listing listing = FirstListing();
  const auto count = [this](const Level1Plan& plan) {
    for (std::size_t i = 0; i < plan.states.size(); ++i) {
      const int64_t chunk = plan.level1 * repository::kLevel1Chunks + static_cast<int64_t>(i);
      result_.read_bytes += plan.states[i] == ChunkState::kRead ? layout_->ChunkLength(chunk) : 0;
    }
    return absl::OkStatus();
  };
  result_.dry_run = true;
  result_.source = std::string(listing == Listing::kEverything ? kFullScan : source_.name());
  absl::Status of_source;
  const absl::Status fed = Feed(listing, count, of_source);
  if (const std::optional<FullReason> refused = ReasonOf(of_source); refused.has_value()) {
    SetWhy(*refused, of_source.message());
    result_.read_bytes = layout_->size_bytes();
  } else {
    RETURN_IF_ERROR(fed);
  }
  if (options_.fail_on_fallback && result_.why.has_value() &&
      TextOf(result_.why->reason).is_fallback) {
    return FallbackRefused(*result_.why);
  }
  const bool compares = parent_ != nullptr && listing == Listing::kChanged;
  result_.mode_done = compares && !result_.why.has_value() ? "incremental" : "full";
  timer_.End("open");
  return absl::OkStatus();
}

void UploadRun::Count(int64_t other_stored_bytes) {
  const repository::BlobWriterCounts counts = writer_->counts();
  result_.image_tree = image_.tree;
  result_.allocated_bytes =
      std::max<int64_t>(0, layout_->size_bytes() - image_.zero_chunks * layout_->chunk_bytes());
  result_.changed_bytes = image_.listed_bytes;
  result_.resumed_bytes = image_.resumed_bytes;
  result_.leaves_touched = image_.leaves_touched;
  result_.level1_touched = image_.level1_touched;
  result_.new_bytes = counts.plaintext_bytes;
  result_.data_blobs = counts.data_blobs;
  result_.tree_blobs = counts.tree_blobs;
  result_.objects = counts.packs + counts.index_files;
  result_.store = Numbers() - numbers_before_;
  result_.stored_bytes =
      options_.store_numbers ? result_.store.put_bytes : counts.stored_bytes + other_stored_bytes;
  result_.peak_memory_bytes = PeakMemoryBytes();
  result_.scratch_bytes = repository_.scratch().peak_bytes();
}

absl::Status UploadRun::RunStages() {
  numbers_before_ = Numbers();
  RETURN_IF_ERROR(OpenParent());
  RETURN_IF_ERROR(ChooseLayout());
  if (options_.dry_run) {
    return Estimate();
  }
  OpenJournal();
  RETURN_IF_ERROR(StartWriter());
  timer_.End("open");
  RETURN_IF_ERROR(Transfer());
  RETURN_IF_ERROR(Audit());
  return CommitOrSkip();
}

void UploadRun::SaveProgress() {
  if (!writer_.has_value()) {
    return;
  }
  // The caller's context may be what ended the run.
  const CallContext ctx = FinalContext(ctx_);
  // Without the lock, what was stored may be gone by now.
  if (!options_.fence || options_.fence(ctx).ok()) {
    writer_->Checkpoint(ctx).IgnoreError();
    if (journal_ != nullptr) {
      journal_->Flush(ctx);
    }
  }
}

}  // namespace

bool IsFallbackRefused(const absl::Status& status) { return kFallbackRefused.IsOn(status); }

absl::StatusOr<BackupResult> UploadBlocks(const CallContext& ctx, Repository& repository,
                                          BlockDevice& device, ChangedBlockSource& source,
                                          Random& random, const UploadOptions& options) {
  return UploadRun(ctx, repository, device, source, random, options).Do();
}

}  // namespace csidelta::incremental
