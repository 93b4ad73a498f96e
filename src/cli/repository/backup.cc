#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/cluster_snapshot_flags.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/repository/snapshot_filter.h"
#include "cli/text.h"
#include "engine/backup.h"
#include "incremental/mover/full_reason.h"

namespace csidelta::cli {
namespace {

using incremental::BackupResult;

struct CompressionName {
  absl::string_view name;
  int level;
};
constexpr int64_t kCoresMax = 4096;

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

// "incremental on 400716bd", "full (first backup)".
std::string ModeText(const BackupResult& result) {
  return absl::StrCat(result.mode_done,
                      result.why.has_value()
                          ? absl::StrCat(" (", incremental::LabelOf(NameOf(result.why)), ")")
                          : "",
                      result.base.empty() ? "" : absl::StrCat(" on ", result.base.substr(0, 8)));
}

// What was done, in two lines; one if nothing changed.
std::string Summary(const BackupResult& result) {
  const std::string volume = FormatBytes(result.logical_bytes);
  if (result.dry_run) {
    return absl::StrCat("would read ", FormatBytes(result.read_bytes), " of ", volume, ": ",
                        ModeText(result), "\n");
  }
  const std::string took = FormatTotal(result.duration_ms);
  if (result.skipped) {
    return absl::StrCat("nothing changed since ", result.snapshot.ShortHex(),
                        ": no new snapshot, in ", took, "\n");
  }
  const std::string head =
      absl::StrCat("saved ", result.snapshot.ShortHex(), ": ", ModeText(result), ", ");
  if (result.unchanged) {
    return absl::StrCat(head, "nothing changed, in ", took, "\n");
  }
  // Other sources say what is allocated, or nothing: what changed is then seen in what is stored.
  const bool has_changes = incremental::ListsChanges(result.mode_done, result.source);
  return absl::StrCat(
      head, has_changes ? absl::StrCat(FormatBytes(result.changed_bytes), " of ") : "volume of ",
      volume, has_changes ? " changed" : "", "\n  read ", FormatBytes(result.read_bytes),
      ", stored ", FormatBytes(result.stored_bytes), ", in ", took, "\n");
}

// What -v adds.
std::string Details(const BackupResult& result) {
  const std::string detail = result.why.has_value() ? result.why->detail : "";
  return absl::StrCat("  audited ", FormatBytes(result.audit_bytes),
                      " of the rest: ", result.audit_mismatch ? "a block differs" : "no difference",
                      "\n  new ", FormatBytes(result.new_bytes), " before compression, ",
                      Counted(result.store.requests, "request"), ", peak memory ",
                      FormatBytes(result.peak_memory_bytes), "\n",
                      detail.empty() ? "" : absl::StrCat("  why full: ", detail, "\n"));
}

class BackupCommand : public NewRepositoryCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  void DeclareRecordFlags(ArgumentTable& table);
  absl::StatusOr<engine::BackupJob> Job() const;

  engine::BackupJob job_;  // what the flags fill in as it stands
  ClusterSnapshotFlags cluster_flags_;
  std::string on_fallback_ = "warn";
  std::string compression_ = "auto";
  int64_t pack_mib_ = 0;
  bool is_verbose_ = false;
  std::vector<std::string> tags_;
  std::string time_;
};

VerbSyntax BackupCommand::Describe(ArgumentTable& table) {
  table.AddPositional("DEVICE", "the block device or image file to read", job_.device);
  table.Add("--extents", "FILE",
            "a list of what changed since the parent, or of what is allocated; \"-\": standard "
            "input",
            job_.extents);
  cluster_flags_.Declare(table);
  table.Add(
      "--parent", "ID",
      "the snapshot to build on, by the beginning of its id (default: the newest of this host "
      "and path)",
      job_.parent);
  table.Add("-f,--force", "read everything, and ignore any list", job_.reads_all);
  table.Add("--new-chain", "make a full backup with another chunk size than the parent's",
            job_.new_chain);
  table.Add("--immutable",
            "DEVICE is a snapshot that never changes: an interrupted run of the last seven days is "
            "resumed without reading its data again, but for a sample",
            job_.immutable);
  table.Add("--immutable-id", "NAME",
            "as --immutable; NAME identifies the content of DEVICE, and differs when the content "
            "differs; for devices whose changes the kernel does not report",
            job_.immutable_id);
  table.Add("--skip-if-unchanged", "make no snapshot if nothing changed since the parent",
            job_.skip_if_unchanged);
  table.Add("-n,--dry-run", "only print what would be read, by the list if there is one",
            job_.dry_run);
  table.Add("-v,--verbose", "also print what was audited, requests, and peak memory", is_verbose_);
  table.Add("--measure", "also report how large the repository is, and how many snapshots it holds",
            job_.measure);
  table.AddBytes("--chunk-size",
                 "a power of two from 256KiB to 4MiB (default: the parent's; for a first backup "
                 "512KiB, and 1MiB above 4 TiB)",
                 job_.chunk_bytes);
  table.AddChoice(
      "--on-fallback", {"proceed", "warn", "fail"},
      "when an incremental backup would become a full one: continue, continue and warn, "
      "or end with exit code 21",
      on_fallback_);
  table.AddChoice("--compression", CompressionNames(), "how hard to compress data", compression_);
  table.AddNumber("--cores", "N",
                  "processors to work with (default: those that its cgroup and CPU affinity allow)",
                  1, kCoresMax, job_.cores);
  table.AddNumber("--pack-size", "MIB", "wanted size of packs (default: 16, in a bucket 32)", 4,
                  128, pack_mib_);
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
          "Blocks that are not listed are audited: a sample of them is read, and one mismatch "
          "makes "
          "the backup a full one. That, and a refused list, ends with exit code 20.",
      .examples = {"backup /dev/vg/orders --path /orders",
                   "backup /dev/vg/orders --extents changed.jsonl"}};
}

void BackupCommand::DeclareRecordFlags(ArgumentTable& table) {
  table.AddList("--tag", "TAG[,TAG]", "tags of the snapshot; may be given again", tags_);
  table.Add("-H,--host", "HOST", "host of the snapshot (default: this machine's name)", job_.host);
  table.Add("--path", "PATH", "path of the snapshot (default: that of DEVICE)", job_.path);
  table.Add("--time", "TIME", "time of the snapshot, \"2026-11-21 13:05:00\" (default: now)",
            time_);
}

absl::StatusOr<engine::BackupJob> BackupCommand::Job() const {
  engine::BackupJob job = job_;
  job.cluster = cluster_flags_.Query();
  job.on_fallback = objects::ParseOnFallback(on_fallback_).value_or(job.on_fallback);
  job.compression_level = CompressionLevel(compression_);
  job.pack_bytes = pack_mib_ << 20;
  job.tags = SplitTags(tags_);
  if (!time_.empty()) {
    ASSIGN_OR_RETURN(job.time, ParseMoment(time_, absl::LocalTimeZone()));
  }
  return job;
}

absl::StatusOr<ExitCode> BackupCommand::Run(const CallContext& ctx, Session& session) {
  ASSIGN_OR_RETURN(const engine::BackupJob job, Job());
  ProgressMeter meter(session.console(), *ctx.clock, session.Opening());
  ASSIGN_OR_RETURN(const BackupResult result,
                   engine::RunBackup(ctx, session.engine(), job, BytesOf(meter)));
  const bool has_details = is_verbose_ && !result.dry_run;
  session.console().PrintResult(incremental::ToJson(result),
                                absl::StrCat(Summary(result), has_details ? Details(result) : ""));
  return result.audit_mismatch || result.list_refused ? ExitCode::kAuditMismatch : ExitCode::kOk;
}

}  // namespace

void AddBackupCommand(Commands& all) { AddEach<BackupCommand>(all); }

}  // namespace csidelta::cli
