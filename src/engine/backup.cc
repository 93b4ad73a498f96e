#include "engine/backup.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "engine/mounts.h"
#include "engine/resume.h"
#include "engine/snapshot_choice.h"
#include "incremental/mover/block_uploader.h"
#include "incremental/mover/chunk_journal.h"
#include "incremental/mover/file_block_device.h"
#include "incremental/mover/file_system.h"
#include "incremental/mover/full_reason.h"
#include "incremental/mover/source_identity.h"
#include "incremental/mover/volume_record.h"
#include "incremental/sources/extent_list_source.h"
#include "incremental/sources/image_extent_source.h"
#include "repository/chain.h"
#include "repository/stored_packs.h"

namespace csidelta::engine {
namespace {

using incremental::BackupResult;
using incremental::ChangedBlockSource;
using incremental::ExtentListSource;
using incremental::FileBlockDevice;
using incremental::FullScanSource;
using incremental::ImageExtentSource;
using incremental::UploadOptions;
using repository::Repository;
using repository::StoredSnapshot;

// What an index that is loaded for the sake of an unfinished run may take of the memory.
constexpr int64_t kKnownShare = 4;
// And of what the smallest plan leaves, so that a small budget is one to work with.
constexpr int64_t kSpareShare = 2;
// While one upload waits for its answer another uses the line; the budget decides how many there
// are.
constexpr int kUploadsToBucketMax = 32;
// What the lists that tell the repository's size may take.
constexpr absl::Duration kMeasureTimeMax = absl::Seconds(30);

// Backups write these themselves: a second one of a name would lie to all that read them.
absl::Status CheckTags(const std::vector<std::string>& tags) {
  for (const std::string& tag : tags) {
    for (const absl::string_view name : incremental::kReservedTags) {
      if (absl::StartsWith(tag, name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--tag ", tag, ": tags that begin with ",
                         absl::StrJoin(incremental::kReservedTags, ", "),
                         " are written by backup itself; choose another name"));
      }
    }
  }
  return absl::OkStatus();
}

// One backup. Borrows all that it is given.
class BackupRun {
 public:
  BackupRun(const CallContext& ctx, Session& session, const BackupJob& job)
      : ctx_(ctx),
        session_(session),
        job_(job),
        memory_budget_bytes_(session.memory().bytes_max()) {}

  absl::StatusOr<BackupResult> Run(const ByteProgress& progress);

 private:
  bool is_immutable() const { return job_.immutable || !job_.immutable_id.empty(); }
  absl::StatusOr<std::unique_ptr<ChangedBlockSource>> OpenSource(bool is_block_device) const;
  absl::StatusOr<std::unique_ptr<ChangedBlockSource>> AskCluster(Repository& repository,
                                                                 UploadOptions& options);
  absl::StatusOr<std::string> RecordedPath() const;
  absl::StatusOr<repository::RepoSnapshot> MakeRecord() const;
  absl::Status ChooseParent(Repository& repository, UploadOptions& options) const;
  // Of another PVC nothing but the content counts.
  absl::Status JudgeParent(Repository& repository, UploadOptions& options) const;
  // Builds on what the PVC was filled from, as long as that is there.
  absl::Status ChooseRestored(Repository& repository, UploadOptions& options) const;
  absl::StatusOr<UploadOptions> MakeOptions(Repository& repository) const;
  // The name of the source and its state. REQUIRES AskCluster() where the cluster is asked.
  absl::StatusOr<std::string> Identity(const UploadOptions& options) const;
  absl::StatusOr<ResumeAnswer> UseUnfinished(Repository& repository, int64_t volume_bytes,
                                             UploadOptions& options) const;
  int64_t ChunkBytes(const UploadOptions& options, int64_t volume_bytes) const;
  // FAILED_PRECONDITION if the file system is larger than the device: a driver cut it off.
  absl::Status CheckIsWhole(FileBlockDevice& device) const;
  // `status`; but if memory is what lacks, the budget that the whole backup needs.
  absl::Status AskForAll(const absl::Status& status, int64_t volume_bytes) const;
  void Measure(const Repository& repository, BackupResult& result) const;
  void WarnOfFallback(const BackupResult& result) const;

  const CallContext& ctx_;
  Session& session_;
  const BackupJob& job_;
  const int64_t memory_budget_bytes_;
  std::unique_ptr<ClusterSnapshot> cluster_snapshot_;
};

absl::StatusOr<std::unique_ptr<ChangedBlockSource>> BackupRun::OpenSource(
    bool is_block_device) const {
  if (!job_.extents.empty()) {
    ASSIGN_OR_RETURN(ExtentListSource source, ExtentListSource::Open(ctx_, job_.extents));
    return std::make_unique<ExtentListSource>(std::move(source));
  }
  if (is_block_device) {
    return std::make_unique<FullScanSource>();
  }
  ASSIGN_OR_RETURN(ImageExtentSource source, ImageExtentSource::Open(job_.device));
  return std::make_unique<ImageExtentSource>(std::move(source));
}

// The driver of the VolumeSnapshot, with what the options then need to know of it.
absl::StatusOr<std::unique_ptr<ChangedBlockSource>> BackupRun::AskCluster(Repository& repository,
                                                                          UploadOptions& options) {
  ASSIGN_OR_RETURN(cluster_snapshot_, ClusterSnapshot::Open(ctx_, job_.cluster));
  cluster_snapshot_->Record(options.manifest);
  options.target_handle = job_.cluster.volume_snapshot;
  incremental::BaseState base;
  if (options.parent.has_value() && !options.parent_record.has_value()) {
    options.parent_record = incremental::OpenVolumeRecord(ctx_, repository, *options.parent);
  }
  if (options.parent_record.has_value() && options.parent_record->ok()) {
    const repository::VolumeManifest& parent = (**options.parent_record)->manifest;
    options.base_handle = cluster_snapshot_->BaseOf(parent);
    options.base_known = !options.base_handle.empty();
    base = InfoOf(parent);
  }
  if (!options.base_known) {
    session_.listener().warn(
        absl::StrCat("parent ", options.parent->id.ShortHex(),
                     " does not record its volume snapshot, so the driver cannot be asked what "
                     "changed since; the next backup can ask, or give --base-handle"));
  }
  return cluster_snapshot_->MakeSource(ctx_, std::move(base), session_.random());
}

absl::StatusOr<std::string> BackupRun::RecordedPath() const {
  if (!job_.path.empty()) {
    // Every snapshot is found by an absolute path, and of which folder a relative one is the next
    // run does not know.
    return job_.path.front() == '/'
               ? absl::StatusOr<std::string>(job_.path)
               : absl::InvalidArgumentError(
                     absl::StrCat("--path ", job_.path, " is not absolute; begin it with /"));
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(job_.device, error);
  if (error) {
    return absl::InternalError(absl::StrCat(job_.device, ": ", error.message()));
  }
  return path.lexically_normal().string();
}

absl::StatusOr<repository::RepoSnapshot> BackupRun::MakeRecord() const {
  repository::RepoSnapshot record;
  ASSIGN_OR_RETURN(const std::string path, RecordedPath());
  record.paths = {path};
  record.hostname = job_.host.empty() ? session_.host() : job_.host;
  record.username = session_.user();
  record.uid = ::getuid();
  record.gid = ::getgid();
  record.tags = job_.tags;
  RETURN_IF_ERROR(CheckTags(record.tags));
  record.program_version = session_.program_version();
  record.time = job_.time.value_or(record.time);
  return record;
}

absl::Status BackupRun::ChooseParent(Repository& repository, UploadOptions& options) const {
  if (!job_.parent.empty()) {
    ASSIGN_OR_RETURN(options.parent, ChooseSnapshot(ctx_, session_.listener(), repository,
                                                    job_.parent, {}, LatestOf::kOneVolume));
    return absl::OkStatus();
  }
  UnreadableSnapshots unreadable(session_.listener());
  ASSIGN_OR_RETURN(
      options.parent,
      repository::FindChainEnd(
          ctx_, repository, repository::ChainOf(options.snapshot.hostname, options.snapshot.paths),
          unreadable.DamagedSink()));
  if (!options.parent.has_value() && unreadable.any()) {
    options.parent_damage =
        absl::DataLossError("files of snapshots/ cannot be read, and no other is of this volume");
  }
  return absl::OkStatus();
}

absl::Status BackupRun::JudgeParent(Repository& repository, UploadOptions& options) const {
  options.manifest.pvc_uid = job_.pvc_uid;
  if (!options.parent.has_value() && options.incremental_asked) {
    options.full_detail = job_.restored_snapshot.empty()
                              ? job_.why_no_parent
                              : "nothing is left of the backups that the PVC was restored from";
  }
  if (!options.parent.has_value() || job_.pvc_uid.empty() || !options.incremental_asked) {
    return absl::OkStatus();
  }
  options.parent_record = incremental::OpenVolumeRecord(ctx_, repository, *options.parent);
  RETURN_IF_ERROR(ctx_.Check());
  const std::string parents_pvc =
      options.parent_record->ok() ? (**options.parent_record)->manifest.pvc_uid : job_.pvc_uid;
  const bool is_own =
      parents_pvc.empty() ? job_.restored_snapshot.empty() : parents_pvc == job_.pvc_uid;
  if (is_own) {
    return absl::OkStatus();
  }
  options.incremental_asked = false;
  options.full_reason = incremental::FullReason::kRestored;
  const bool is_chosen = !job_.parent.empty() || job_.restored_snapshot.empty() ||
                         job_.restored_snapshot == options.parent->id.Hex();
  return is_chosen ? absl::OkStatus() : ChooseRestored(repository, options);
}

absl::Status BackupRun::ChooseRestored(Repository& repository, UploadOptions& options) const {
  std::vector<StoredSnapshot> found;
  bool is_damaged = false;
  if (const auto id = repository::Id::Parse(job_.restored_snapshot); id.ok()) {
    ASSIGN_OR_RETURN(
        found, repository.LoadSnapshots(ctx_, {*id},
                                        [&is_damaged](const repository::Id&, const absl::Status&) {
                                          is_damaged = true;
                                        }));
  }
  const repository::RepoSnapshot& own = options.snapshot;
  if (found.empty() || found.front().snapshot.hostname != own.hostname ||
      found.front().snapshot.paths != own.paths) {
    options.full_detail =
        absl::StrCat("the backup that it was restored from ",
                     is_damaged ? "cannot be read" : "is gone", ", so it builds on another");
    return absl::OkStatus();
  }
  options.parent = std::move(found.front());
  options.parent_record = incremental::OpenVolumeRecord(ctx_, repository, *options.parent);
  return ctx_.Check();
}

absl::StatusOr<UploadOptions> BackupRun::MakeOptions(Repository& repository) const {
  UploadOptions options;
  ASSIGN_OR_RETURN(options.snapshot, MakeRecord());
  RETURN_IF_ERROR(ChooseParent(repository, options));
  options.incremental_asked = !job_.reads_all && !job_.is_requested_full;
  if (job_.is_requested_full) {
    options.full_reason = incremental::FullReason::kRequested;
  }
  RETURN_IF_ERROR(JudgeParent(repository, options));
  options.chunk_bytes = job_.chunk_bytes;
  options.new_chain = job_.new_chain;
  options.skip_if_unchanged = job_.skip_if_unchanged;
  options.dry_run = job_.dry_run;
  options.damage = job_.damage;
  if (!options.damage.has_value()) {
    ASSIGN_OR_RETURN(repository::DistrustedPacks noted, repository::ReadDamaged(ctx_, repository));
    options.damage = noted.empty() ? options.damage : std::move(noted);
  }
  options.fail_on_fallback =
      options.incremental_asked && job_.on_fallback == objects::OnFallback::kFail;
  options.memory.budget_bytes = memory_budget_bytes_;
  options.memory.cores = static_cast<int>(job_.cores);
  options.memory.pack_bytes_max =
      job_.pack_bytes != 0 ? job_.pack_bytes : session_.pack_target_bytes();
  options.packs_follow_volume = job_.pack_bytes == 0;
  if (session_.in_bucket()) {
    options.memory.uploads_in_flight_max = kUploadsToBucketMax;
  }
  options.compression_level = job_.compression_level;
  if (!job_.dry_run) {
    options.fence = [lock = session_.lock()](const CallContext& fence_ctx) {
      return lock->Fence(fence_ctx);
    };
    options.fence_if_old = session_.lock()->AsFence();
  }
  options.store_numbers = [this] { return session_.Numbers(); };
  return options;
}

absl::StatusOr<std::string> BackupRun::Identity(const UploadOptions& options) const {
  const std::string volume =
      absl::StrCat(options.snapshot.hostname, "\n", options.snapshot.paths[0], "\n");
  if (!job_.immutable_id.empty()) {
    return absl::StrCat(volume, "id\n", job_.immutable_id);
  }
  if (cluster_snapshot_ != nullptr) {
    // Wherever it is looked at: the driver's handle is the same in each Pod and on each node.
    const csi::BoundSnapshot& snapshot = cluster_snapshot_->snapshot();
    return absl::StrCat(volume, snapshot.driver, "\n", snapshot.snapshot_handle);
  }
  ASSIGN_OR_RETURN(const incremental::SourceInfo info, incremental::ReadSourceInfo(job_.device));
  ASSIGN_OR_RETURN(const std::string content, incremental::ContentIdentity(job_.device, info));
  return absl::StrCat(volume, content);
}

// As far as it is known before the parent is read.
int64_t BackupRun::ChunkBytes(const UploadOptions& options, int64_t volume_bytes) const {
  if (job_.chunk_bytes != 0) {
    return job_.chunk_bytes;
  }
  const bool has_record = options.parent_record.has_value() && options.parent_record->ok();
  return has_record ? (**options.parent_record)->layout.chunk_bytes()
                    : repository::DefaultChunkBytes(volume_bytes);
}

absl::StatusOr<ResumeAnswer> BackupRun::UseUnfinished(Repository& repository, int64_t volume_bytes,
                                                      UploadOptions& options) const {
  const bool has_journal = is_immutable() && incremental::ChunkJournal::Exists(
                                                 ctx_, repository, options.immutable_identity);
  // While others are at work, packs without an index may belong to them. What a journal names is of
  // this run.
  OrphanScope scope = {
      .all = session_.lock()->unfinished().others == 0, .own = {}, .fence = options.fence_if_old};
  if (has_journal && !scope.all) {
    scope.own = incremental::ChunkJournal::Blobs(ctx_, repository, options.immutable_identity,
                                                 memory_budget_bytes_ / kKnownShare);
  }
  const bool look = !options.parent.has_value() || has_journal;
  const int64_t spare_bytes = memory_budget_bytes_ - options.memory.reserved_bytes -
                              incremental::LeastMemoryBytes(ChunkBytes(options, volume_bytes));
  ASSIGN_OR_RETURN(ResumeAnswer answer,
                   FindUnfinished(ctx_, repository, look,
                                  std::clamp<int64_t>(spare_bytes / kSpareShare, 0,
                                                      memory_budget_bytes_ / kKnownShare),
                                  scope));
  if (answer.packs_found > 0) {
    session_.listener().note(absl::StrCat("found ", Counted(answer.packs_found, "pack"),
                                          " of a backup that did not finish"));
  }
  if (answer.held_back && has_journal) {
    session_.listener().note(
        "an exclusive lock ran out, and its owner may still delete packs that no index lists: what "
        "an interrupted backup has stored is stored again; the next prune ends this");
  }
  if (answer.known != nullptr) {
    options.known = answer.known;
    options.memory.reserved_bytes += answer.known->memory_bytes();
  }
  if (answer.memory_bytes_missing > 0) {
    // Half of what an index may take is for its tables, which grow with it.
    const int64_t needed_bytes =
        memory_budget_bytes_ + 2 * kKnownShare * answer.memory_bytes_missing;
    session_.listener().note(
        absl::StrCat("the repository's index does not fit into the memory budget of ",
                     FormatBytes(memory_budget_bytes_),
                     ", so what an interrupted backup has stored is read and stored again; give "
                     "--memory-budget ",
                     (needed_bytes >> 20) + 1, "MiB or more"));
  }
  return answer;
}

absl::Status BackupRun::AskForAll(const absl::Status& status, int64_t volume_bytes) const {
  if (absl::IsResourceExhausted(status)) {
    const int64_t chunk_bytes =
        job_.chunk_bytes != 0 ? job_.chunk_bytes : repository::DefaultChunkBytes(volume_bytes);
    RETURN_IF_ERROR(incremental::CheckBudget(
        {.budget_bytes = memory_budget_bytes_, .chunk_bytes = chunk_bytes}));
  }
  return status;
}

// By the lists of packs and snapshots: one request for a thousand of them.
absl::StatusOr<incremental::RepositorySize> MeasureRepository(const CallContext& ctx,
                                                              const Repository& repository) {
  incremental::RepositorySize size;
  RETURN_IF_ERROR(
      repository::ListPacksFast(ctx, repository, [&size](const repository::FileInfo& pack) {
        size.pack_bytes += pack.size_bytes;
        return absl::OkStatus();
      }));
  ASSIGN_OR_RETURN(const std::vector<repository::FileInfo> snapshots,
                   repository.ListFiles(ctx, repository::FileKind::kSnapshot));
  size.snapshots = std::ssize(snapshots);
  return size;
}

// The backup is good without it.
void BackupRun::Measure(const Repository& repository, BackupResult& result) const {
  const absl::StatusOr<incremental::RepositorySize> size =
      MeasureRepository(ctx_.WithTimeout(kMeasureTimeMax), repository);
  if (size.ok()) {
    result.repository = *size;
  } else {
    session_.listener().warn(
        absl::StrCat("the repository's size is not known: ", size.status().message()));
  }
}

void BackupRun::WarnOfFallback(const BackupResult& result) const {
  const bool told = job_.on_fallback == objects::OnFallback::kWarn || result.audit_mismatch;
  if (result.why.has_value() && incremental::TextOf(result.why->reason).is_fallback && told) {
    session_.listener().warn(incremental::Explain(*result.why));
  }
}

absl::Status BackupRun::CheckIsWhole(FileBlockDevice& device) const {
  ASSIGN_OR_RETURN(const std::string beginning, incremental::ReadBeginning(ctx_, device));
  const int64_t needed_bytes = incremental::FileSystemBytes(beginning);
  const int64_t size_bytes = device.info().size_bytes;
  return needed_bytes <= size_bytes
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   job_.device, " has ", size_bytes, " bytes, but its ",
                   incremental::FileSystemOf(beginning), " has ", needed_bytes,
                   ": the end is missing, so nothing was backed up; the driver made a volume that "
                   "is smaller than its snapshot: leave its volumes to the file-system backup"));
}

absl::StatusOr<BackupResult> BackupRun::Run(const ByteProgress& progress) {
  ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> device,
                   FileBlockDevice::OpenForRead(job_.device));
  if (const std::string place = MountedForWriting(job_.device); !place.empty()) {
    session_.listener().warn(absl::StrCat(
        job_.device, " is mounted at ", place,
        " and may change during the backup, so the restored volume may be inconsistent; back up a "
        "snapshot of it"));
  }
  const bool asks_cluster = !job_.cluster.volume_snapshot.empty();
  RETURN_IF_ERROR(asks_cluster ? CheckIsWhole(*device) : absl::OkStatus());
  if (asks_cluster && !job_.extents.empty()) {
    return absl::InvalidArgumentError("--extents and --volume-snapshot are two lists; give one");
  }
  std::unique_ptr<ChangedBlockSource> source;
  if (!asks_cluster) {
    ASSIGN_OR_RETURN(source, OpenSource(device->info().is_block_device));
  }
  const int64_t volume_bytes = device->info().size_bytes;
  const absl::StatusOr<Repository*> opened =
      session_.Open(ctx_, job_.dry_run ? LockKind::kRead : LockKind::kWrite);
  RETURN_IF_ERROR(AskForAll(opened.status(), volume_bytes));
  Repository* const repository = *opened;
  ASSIGN_OR_RETURN(UploadOptions options, MakeOptions(*repository));
  if (asks_cluster) {
    ASSIGN_OR_RETURN(source, AskCluster(*repository, options));
  }
  options.memory.reserved_bytes = source->memory_bytes();
  if (!device->info().is_block_device) {
    options.image = job_.device;
  }
  if (is_immutable()) {
    ASSIGN_OR_RETURN(options.immutable_identity, Identity(options));
  }
  if (job_.dry_run) {
    return incremental::UploadBlocks(ctx_, *repository, *device, *source, session_.random(),
                                     options);
  }
  const absl::StatusOr<ResumeAnswer> answer = UseUnfinished(*repository, volume_bytes, options);
  RETURN_IF_ERROR(AskForAll(answer.status(), volume_bytes));
  const ResumeAnswer& unfinished = *answer;
  options.on_progress = progress;
  absl::StatusOr<BackupResult> result =
      incremental::UploadBlocks(ctx_, *repository, *device, *source, session_.random(), options);
  RecordEnd(ctx_, *repository, unfinished, result.ok());
  if (!result.ok() && ctx_.stop.stop_requested()) {
    return absl::CancelledError(unfinished.memory_bytes_missing > 0
                                    ? "interrupted; run it again"
                                    : "interrupted; run it again, what is stored already is looked "
                                      "for and not stored again");
  }
  RETURN_IF_ERROR(result.status());
  if (job_.measure) {
    Measure(*repository, *result);
  }
  for (const std::string& warning : result->warnings) {
    session_.listener().warn(warning);
  }
  WarnOfFallback(*result);
  return result;
}

}  // namespace

absl::StatusOr<BackupResult> RunBackup(const CallContext& ctx, Session& session,
                                       const BackupJob& job, const ByteProgress& progress) {
  absl::StatusOr<BackupResult> result = BackupRun(ctx, session, job).Run(progress);
  if (result.ok()) {
    result->store = session.NumbersOfAll();
  }
  return result;
}

}  // namespace csidelta::engine
