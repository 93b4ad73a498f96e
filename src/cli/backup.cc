#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/cluster_snapshot.h"
#include "cli/command.h"
#include "cli/mounts.h"
#include "cli/progress.h"
#include "cli/resume.h"
#include "cli/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/block_uploader.h"
#include "incremental/chunk_journal.h"
#include "incremental/extent_list_source.h"
#include "incremental/file_block_device.h"
#include "incremental/full_scan_source.h"
#include "incremental/image_extent_source.h"
#include "incremental/memory_plan.h"
#include "incremental/source_identity.h"
#include "incremental/volume_record.h"
#include "repository/chain.h"

namespace csidelta::cli {
namespace {

using incremental::BackupResult;
using incremental::BlockUploader;
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
constexpr int kUploadsToBucketMax = 16;
// What the lists that tell the repository's size may take.
constexpr absl::Duration kMeasureTimeMax = absl::Seconds(30);

struct CompressionName {
  absl::string_view name;
  int level;
};
constexpr CompressionName kCompressions[] = {{"auto", repository::kDataCompressionLevel},
                                             {"off", repository::kNoCompression},
                                             {"better", 3},
                                             {"max", 9}};

std::vector<std::string> CompressionNames() {
  std::vector<std::string> names;
  for (const CompressionName& compression : kCompressions) {
    names.emplace_back(compression.name);
  }
  return names;
}

int CompressionLevel(absl::string_view name) {
  return std::find_if(std::begin(kCompressions), std::end(kCompressions),
                      [&](const CompressionName& known) { return known.name == name; })
      ->level;
}

std::string Summary(const BackupResult& result) {
  const auto total = result.duration_ms.find("total");
  const absl::Duration elapsed =
      absl::Milliseconds(total == result.duration_ms.end() ? 0 : total->second);
  std::string text =
      absl::StrCat("saved snapshot ", result.snapshot.ShortHex(), ": ", result.mode_done);
  if (!result.base.empty()) {
    absl::StrAppend(&text, " on ", result.base.substr(0, 8));
  }
  if (result.why.has_value()) {
    absl::StrAppend(&text, " (",
                    result.why->reason == incremental::FullReason::kNoParent
                        ? "no earlier backup of this volume"
                        : ToString(*result.why),
                    ")");
  }
  absl::StrAppend(&text, "\n  volume ", FormatBytes(result.logical_bytes));
  // Other sources say what is allocated, or nothing: what changed is then seen in what is new.
  if (result.mode_done == "incremental" && result.source != "image-extents" &&
      result.source != "full-scan") {
    absl::StrAppend(&text, ", changed ", FormatBytes(result.changed_bytes));
  }
  absl::StrAppend(&text, ", read ", FormatBytes(result.read_bytes), ", audited ",
                  FormatBytes(result.audit_bytes));
  absl::StrAppend(&text, "\n  new ", FormatBytes(result.new_bytes), ", stored ",
                  FormatBytes(result.stored_bytes), " with ",
                  Counted(result.store.requests, "request"));
  absl::StrAppend(&text, "\n  ", FormatElapsed(elapsed), ", peak memory ",
                  FormatBytes(result.peak_memory_bytes), "\n");
  return text;
}

class BackupCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  void DeclareRecordFlags(ArgumentTable& table);
  absl::StatusOr<std::unique_ptr<ChangedBlockSource>> OpenSource(const CallContext& ctx,
                                                                 bool is_block_device) const;
  absl::StatusOr<std::unique_ptr<ChangedBlockSource>> AskCluster(const CallContext& ctx,
                                                                 Session& session,
                                                                 Repository& repository,
                                                                 UploadOptions& options);
  absl::StatusOr<std::string> RecordedPath() const;
  absl::StatusOr<repository::RepoSnapshot> MakeRecord(const Session& session) const;
  absl::Status ChooseParent(const CallContext& ctx, Session& session, Repository& repository,
                            UploadOptions& options) const;
  absl::StatusOr<UploadOptions> MakeOptions(const CallContext& ctx, Session& session,
                                            Repository& repository) const;
  // The name of the source and its state, for --immutable. REQUIRES AskCluster() with
  // --volume-snapshot.
  absl::StatusOr<std::string> Identity(const UploadOptions& options) const;
  absl::StatusOr<ResumeAnswer> UseUnfinished(const CallContext& ctx, Session& session,
                                             Repository& repository, int64_t volume_bytes,
                                             UploadOptions& options) const;
  int64_t ChunkBytes(const UploadOptions& options, int64_t volume_bytes) const;
  ExitCode Tell(Session& session, const BackupResult& result) const;

  std::string device_;
  std::string extents_;
  ClusterSnapshotFlags cluster_flags_;
  std::unique_ptr<ClusterSnapshot> cluster_snapshot_;
  std::string parent_;
  bool force_ = false;
  bool new_chain_ = false;
  bool immutable_ = false;
  std::string immutable_id_;
  bool measure_ = false;
  int64_t chunk_bytes_ = 0;
  std::string on_fallback_ = "warn";
  std::string compression_ = "auto";
  int64_t memory_budget_bytes_ = incremental::kMemoryBudgetBytes;
  int64_t pack_mib_ = 0;
  std::vector<std::string> tags_;
  std::string host_;
  std::string path_;
  std::string time_;
};

VerbSyntax BackupCommand::Declare() {
  ArgumentTable table;
  table.AddWord("DEVICE", "the block device or image file to read", device_);
  table.Add("--extents", "FILE",
            "a list of what changed since the parent, or of what is allocated; \"-\": standard "
            "input",
            extents_);
  cluster_flags_.Declare(table);
  table.Add("--parent", "ID",
            "the snapshot to build on, by the beginning of its id; else the newest of this host "
            "and path",
            parent_);
  table.Add("-f,--force", "read everything, whatever a list says", force_);
  table.Add("--new-chain", "let the chunk size differ from the parent's: a full backup",
            new_chain_);
  table.Add(
      "--immutable",
      "DEVICE is a snapshot that is not written to: what an interrupted run has read of it and "
      "stored in the last seven days is not read again, but for a sample",
      immutable_);
  table.Add("--immutable-id", "NAME",
            "--immutable, and the name of what DEVICE holds: another content has another name; for "
            "devices of which the kernel does not say when their content becomes another",
            immutable_id_);
  table.Add("--measure", "also say how large the repository is, and how many snapshots it holds",
            measure_);
  table.AddBytes("--chunk-size",
                 "a power of two from 256KiB to 4MiB; else the parent's, or for a first backup "
                 "512KiB, and 1MiB above 4 TiB",
                 chunk_bytes_);
  table.AddChoice("--on-fallback", {"proceed", "warn", "fail"},
                  "when an incremental backup would become a full one: go on, go on and say so "
                  "(the default), or end with exit code 21",
                  on_fallback_);
  table.AddChoice("--compression", CompressionNames(), "how hard to compress data (auto)",
                  compression_);
  table.AddBytes("--memory-budget",
                 "memory to work with, from which the number and size of buffers, packs and "
                 "uploads follow (256MiB)",
                 memory_budget_bytes_);
  table.AddNumber("--pack-size", "MIB", "wanted size of packs (16, in a bucket 32)", 4, 128,
                  pack_mib_);
  DeclareRecordFlags(table);
  return {
      .name = "backup",
      .summary = "Back up a block device or an image file",
      .details =
          "The list of --extents has one JSON object per line. The first says what the list is: "
          "{\"base\":ID}, of what changed since that snapshot, or {\"allocated\":true}. Then "
          "come the extents in bytes, {\"offset\":0,\"length\":4096}, and last {\"end\":true}; "
          "with no extents between the two nothing changed, or nothing is allocated. A list "
          "since another snapshot than the parent is refused, and everything is read. Without a "
          "list an image file is asked for what it has allocated, and a device is read as a "
          "whole.\n"
          "With --volume-snapshot the list comes from the CSI driver, by the service that its "
          "SnapshotMetadataService names or by a DifferentialSnapshot: what changed since the "
          "parent's volume snapshot, or without a parent what is allocated.\n"
          "What was not read is audited: a sample of it is read again, and one mismatch makes "
          "the backup a full one. That, and a list that was refused, ends with exit code 20.",
      .table = std::move(table),
      .family = VerbFamily::kRepository};
}

void BackupCommand::DeclareRecordFlags(ArgumentTable& table) {
  table.AddList("--tag", "TAG[,TAG]", "tags of the snapshot; may be given again", tags_);
  table.Add("-H,--host", "HOST", "host of the snapshot; else this machine's name", host_);
  table.Add("--path", "PATH", "path of the snapshot; else that of DEVICE", path_);
  table.Add("--time", "TIME", "time of the snapshot, \"2026-11-21 13:05:00\"; else now", time_);
}

absl::StatusOr<std::unique_ptr<ChangedBlockSource>> BackupCommand::OpenSource(
    const CallContext& ctx, bool is_block_device) const {
  if (!extents_.empty()) {
    ASSIGN_OR_RETURN(ExtentListSource source, ExtentListSource::Open(ctx, extents_));
    return std::make_unique<ExtentListSource>(std::move(source));
  }
  if (is_block_device) {
    return std::make_unique<FullScanSource>();
  }
  ASSIGN_OR_RETURN(ImageExtentSource source, ImageExtentSource::Open(device_));
  return std::make_unique<ImageExtentSource>(std::move(source));
}

// The driver of the VolumeSnapshot, with what the options then need to know of it.
absl::StatusOr<std::unique_ptr<ChangedBlockSource>> BackupCommand::AskCluster(
    const CallContext& ctx, Session& session, Repository& repository, UploadOptions& options) {
  ASSIGN_OR_RETURN(cluster_snapshot_, ClusterSnapshot::Open(ctx, cluster_flags_));
  cluster_snapshot_->Record(options.manifest);
  options.target_handle = cluster_flags_.volume_snapshot;
  incremental::BaseFacts base;
  if (options.parent.has_value()) {
    options.parent_record = incremental::OpenVolumeRecord(ctx, repository, *options.parent);
  }
  if (options.parent_record.has_value() && options.parent_record->ok()) {
    const repository::VolumeManifest& parent = (**options.parent_record)->manifest;
    options.base_handle = cluster_snapshot_->BaseOf(parent);
    options.base_known = !options.base_handle.empty();
    base = FactsOf(parent);
  }
  if (!options.base_known) {
    session.console().Warn(
        absl::StrCat("parent ", options.parent->id.ShortHex(),
                     " does not say which volume snapshot it was made of, so what changed since "
                     "cannot be asked; the next backup will know, or --base-handle says it"));
  }
  return cluster_snapshot_->MakeSource(ctx, std::move(base), *session.environment().random);
}

absl::StatusOr<std::string> BackupCommand::RecordedPath() const {
  if (!path_.empty()) {
    // Every snapshot is found by an absolute path, and of which folder a relative one is the next
    // run does not know.
    return path_.front() == '/' ? absl::StatusOr<std::string>(path_)
                                : absl::InvalidArgumentError(absl::StrCat(
                                      "--path ", path_, " is not absolute; begin it with /"));
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(device_, error);
  if (error) {
    return absl::InternalError(absl::StrCat(device_, ": ", error.message()));
  }
  return path.lexically_normal().string();
}

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

absl::StatusOr<repository::RepoSnapshot> BackupCommand::MakeRecord(const Session& session) const {
  repository::RepoSnapshot record;
  ASSIGN_OR_RETURN(const std::string path, RecordedPath());
  record.paths = {path};
  record.hostname = host_.empty() ? HostName() : host_;
  record.username = UserName(session.environment().get);
  record.uid = ::getuid();
  record.gid = ::getgid();
  record.tags = SplitTags(tags_);
  RETURN_IF_ERROR(CheckTags(record.tags));
  record.program_version = ProgramVersion();
  if (!time_.empty()) {
    ASSIGN_OR_RETURN(record.time, ParseMoment(time_, absl::LocalTimeZone()));
  }
  return record;
}

absl::Status BackupCommand::ChooseParent(const CallContext& ctx, Session& session,
                                         Repository& repository, UploadOptions& options) const {
  if (!parent_.empty()) {
    ASSIGN_OR_RETURN(options.parent, ChooseSnapshot(ctx, session.console(), repository, parent_, {},
                                                    LatestOf::kOneVolume));
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<StoredSnapshot>> end = repository::FindChainEnd(
      ctx, repository, repository::ChainOf(options.snapshot.hostname, options.snapshot.paths));
  if (absl::IsDataLoss(end.status())) {
    options.parent_damage = end.status();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(options.parent, std::move(end));
  return absl::OkStatus();
}

absl::StatusOr<UploadOptions> BackupCommand::MakeOptions(const CallContext& ctx, Session& session,
                                                         Repository& repository) const {
  UploadOptions options;
  ASSIGN_OR_RETURN(options.snapshot, MakeRecord(session));
  RETURN_IF_ERROR(ChooseParent(ctx, session, repository, options));
  options.incremental_asked = !force_;
  options.chunk_bytes = chunk_bytes_;
  options.new_chain = new_chain_;
  options.fail_on_fallback = on_fallback_ == "fail";
  options.memory.budget_bytes = memory_budget_bytes_;
  options.memory.pack_bytes_max = pack_mib_ != 0        ? pack_mib_ << 20
                                  : session.in_bucket() ? repository::kPackTargetBytesRemote
                                                        : repository::kPackTargetBytesLocal;
  if (session.in_bucket()) {
    options.memory.uploads_in_flight_max = kUploadsToBucketMax;
  }
  options.compression_level = CompressionLevel(compression_);
  options.fence = [lock = session.lock()](const CallContext& fence_ctx) {
    return lock->Fence(fence_ctx);
  };
  options.store_numbers = [&session] { return session.Numbers(); };
  return options;
}

absl::StatusOr<std::string> BackupCommand::Identity(const UploadOptions& options) const {
  const std::string volume =
      absl::StrCat(options.snapshot.hostname, "\n", options.snapshot.paths[0], "\n");
  if (!immutable_id_.empty()) {
    return absl::StrCat(volume, "id\n", immutable_id_);
  }
  if (cluster_snapshot_ != nullptr) {
    // Wherever it is looked at: the driver's handle is the same in each Pod and on each node.
    const csi::BoundSnapshot& snapshot = cluster_snapshot_->snapshot();
    return absl::StrCat(volume, snapshot.driver, "\n", snapshot.snapshot_handle);
  }
  ASSIGN_OR_RETURN(const incremental::SourceFacts facts, incremental::ReadSourceFacts(device_));
  ASSIGN_OR_RETURN(const std::string content, incremental::ContentIdentity(device_, facts));
  return absl::StrCat(volume, content);
}

// As far as it is known before the parent is read.
int64_t BackupCommand::ChunkBytes(const UploadOptions& options, int64_t volume_bytes) const {
  if (chunk_bytes_ != 0) {
    return chunk_bytes_;
  }
  const bool has_record = options.parent_record.has_value() && options.parent_record->ok();
  return has_record ? (**options.parent_record)->layout.chunk_bytes()
                    : repository::DefaultChunkBytes(volume_bytes);
}

absl::StatusOr<ResumeAnswer> BackupCommand::UseUnfinished(const CallContext& ctx, Session& session,
                                                          Repository& repository,
                                                          int64_t volume_bytes,
                                                          UploadOptions& options) const {
  const bool has_journal =
      immutable_ && incremental::ChunkJournal::Exists(ctx, repository, options.immutable_identity);
  // While others are at work, packs without an index may be theirs. What a journal names is ours.
  OrphanScope scope = {.all = session.lock()->unfinished().others == 0, .ours = {}};
  if (has_journal && !scope.all) {
    scope.ours = incremental::ChunkJournal::Blobs(ctx, repository, options.immutable_identity,
                                                  memory_budget_bytes_ / kKnownShare);
  }
  const bool look = !options.parent.has_value() || has_journal;
  const int64_t spare_bytes = memory_budget_bytes_ - options.memory.reserved_bytes -
                              incremental::LeastMemoryBytes(ChunkBytes(options, volume_bytes));
  ASSIGN_OR_RETURN(ResumeAnswer answer,
                   FindUnfinished(ctx, repository, look,
                                  std::clamp<int64_t>(spare_bytes / kSpareShare, 0,
                                                      memory_budget_bytes_ / kKnownShare),
                                  scope));
  if (answer.packs_found > 0) {
    session.console().Note(absl::StrCat("found ", Counted(answer.packs_found, "pack"),
                                        " of a backup that did not come to its end"));
  }
  if (answer.known != nullptr) {
    options.known = answer.known;
    options.memory.reserved_bytes += answer.known->memory_bytes();
  }
  if (answer.memory_bytes_missing > 0) {
    // Half of what an index may take is for its tables, which grow with it.
    const int64_t needed_bytes =
        memory_budget_bytes_ + 2 * kKnownShare * answer.memory_bytes_missing;
    session.console().Note(
        absl::StrCat("the repository's index does not fit into the memory budget of ",
                     FormatBytes(memory_budget_bytes_),
                     ", so what an interrupted backup has stored is read and stored again; give "
                     "--memory-budget ",
                     (needed_bytes >> 20) + 1, "MiB or more"));
  }
  return answer;
}

ExitCode BackupCommand::Tell(Session& session, const BackupResult& result) const {
  const bool told = on_fallback_ == "warn" || result.audit_mismatch;
  if (result.why.has_value() && TextOf(result.why->reason).is_fallback && told) {
    session.console().Warn(Explain(*result.why));
  }
  session.console().PrintResult(incremental::ToJson(result), Summary(result));
  return result.audit_mismatch || result.list_refused ? ExitCode::kAuditMismatch : ExitCode::kOk;
}

// The backup is good without it.
void Measure(const CallContext& ctx, Session& session, const Repository& repository,
             BackupResult& result) {
  const absl::StatusOr<repository::RepositorySize> size =
      repository::MeasureRepository(ctx.WithTimeout(kMeasureTimeMax), repository);
  if (size.ok()) {
    result.repository = *size;
  } else {
    session.console().Warn(
        absl::StrCat("the repository's size is not known: ", size.status().message()));
  }
}

absl::StatusOr<ExitCode> BackupCommand::Run(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> device,
                   FileBlockDevice::OpenForRead(device_));
  if (const std::string place = MountedForWriting(device_); !place.empty()) {
    session.console().Warn(absl::StrCat(
        device_, " is mounted at ", place,
        " and may be written to meanwhile: what comes back may be torn; back up a snapshot of it"));
  }
  const bool asks_cluster = !cluster_flags_.volume_snapshot.empty();
  if (asks_cluster && !extents_.empty()) {
    return absl::InvalidArgumentError("--extents and --volume-snapshot are two lists; give one");
  }
  std::unique_ptr<ChangedBlockSource> source;
  if (!asks_cluster) {
    ASSIGN_OR_RETURN(source, OpenSource(ctx, device->facts().is_block_device));
  }
  ASSIGN_OR_RETURN(Repository * repository, session.Open(ctx, LockKind::kWrite));
  ASSIGN_OR_RETURN(UploadOptions options, MakeOptions(ctx, session, *repository));
  if (asks_cluster) {
    ASSIGN_OR_RETURN(source, AskCluster(ctx, session, *repository, options));
  }
  options.memory.reserved_bytes = source->memory_bytes();
  immutable_ = immutable_ || !immutable_id_.empty();
  if (immutable_) {
    ASSIGN_OR_RETURN(options.immutable_identity, Identity(options));
  }
  ASSIGN_OR_RETURN(const ResumeAnswer unfinished,
                   UseUnfinished(ctx, session, *repository, device->facts().size_bytes, options));
  ProgressMeter meter(session.console(), *ctx.clock);
  options.on_progress = [&meter](const incremental::UploadProgress& progress) {
    meter.ReportBytes(progress.stage, progress.done_bytes, progress.total_bytes);
  };
  absl::StatusOr<BackupResult> result =
      BlockUploader(*repository, *device, *source, *session.environment().random).Run(ctx, options);
  NoteEnd(ctx, *repository, unfinished, result.ok());
  if (!result.ok() && ctx.stop.stop_requested()) {
    return absl::CancelledError(unfinished.memory_bytes_missing > 0
                                    ? "interrupted; run it again"
                                    : "interrupted; run it again, what is stored already is looked "
                                      "for and not stored again");
  }
  RETURN_IF_ERROR(result.status());
  if (measure_) {
    Measure(ctx, session, *repository, *result);
  }
  return Tell(session, *result);
}

}  // namespace

std::unique_ptr<Command> MakeBackupCommand() { return std::make_unique<BackupCommand>(); }

}  // namespace csidelta::cli
