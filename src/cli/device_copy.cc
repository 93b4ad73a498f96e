#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "cli/cluster_snapshot_flags.h"
#include "cli/command.h"
#include "cli/pod_flags.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "engine/restore_target.h"
#include "incremental/block_copier.h"
#include "incremental/extent_list_source.h"
#include "incremental/file_block_device.h"
#include "incremental/restore_mark.h"

namespace csidelta::cli {
namespace {

using engine::ClusterBase;
using engine::ClusterSnapshot;
using engine::ExamineTarget;
using engine::RestoreTarget;
using incremental::CopyOptions;
using incremental::CopyResult;
using incremental::FileBlockDevice;

// A termination message of Kubernetes, which the result must fit into, has 4 KiB.
constexpr std::size_t kRefusedBytesMax = 1000;

// What lists where the two may differ, and why it could not.
struct CopyList {
  std::optional<std::vector<Extent>> listed = {};
  std::string refused = {};  // "": no program was asked, or it answered
};

std::string HowCompared(const CopyResult& result) {
  if (result.used_list) {
    return absl::StrCat("; of ", FormatBytes(result.listed_bytes), " listed");
  }
  if (result.audit_mismatch) {
    return "; the list omits blocks that differ, so everything was compared";
  }
  return result.was_unfinished ? "; an earlier copy did not finish, so everything was compared"
                               : "; everything was compared";
}

class DeviceCopyCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::Status CheckFlags(const CallContext& ctx) const;
  absl::StatusOr<CopyList> List(const CallContext& ctx, Session& session,
                                int64_t volume_bytes) const;
  absl::StatusOr<std::vector<Extent>> AskCluster(const CallContext& ctx, Session& session,
                                                 int64_t volume_bytes) const;
  absl::Status Confirm(const CallContext& ctx, Session& session, const RestoreTarget& target) const;
  absl::StatusOr<CopyResult> Copy(const CallContext& ctx, Session& session, CopyList list,
                                  FileBlockDevice& source, FileBlockDevice& target) const;

  std::string source_;
  std::string target_;
  std::string extents_;
  std::string base_;
  PodFlags pod_;
  bool yes_ = false;
  ClusterSnapshotFlags cluster_;
};

VerbSyntax DeviceCopyCommand::Declare() {
  ArgumentTable table;
  table.Add("--source", "PATH", "the block device or image file to read", source_);
  table.Add("-t,--target", "PATH", "the block device or image file to write to", target_);
  table.Add("--extents", "FILE",
            "where the two may differ, as diff --extents prints it; \"-\" is standard input",
            extents_);
  table.Add("--base", "NAME",
            "what the list is since: the VolumeSnapshot that SOURCE was made of, or the base that "
            "the list of --extents names",
            base_);
  pod_.Declare(table);
  table.Add("--yes", "do not ask on a terminal before something is written over", yes_);
  table.Add("--volume-snapshot", "NS/NAME",
            "the VolumeSnapshot of TARGET as it is now: its CSI driver is asked what differs from "
            "--base",
            cluster_.query.volume_snapshot);
  cluster_.DeclareAccess(table);
  return {.name = "device-copy",
          .summary = "Make a device hold what another holds, writing only what differs",
          .details =
              "Runs in the Pods of snapshot restore --method copy. Both are read and compared in "
              "blocks of 4 KiB, everywhere or where a list says that they may differ; a list is "
              "used only when a sample outside of it is equal. Blocks that differ are "
              "written. As long as the copy is not complete the target begins with a text that "
              "says so, and the next run compares everything. Bytes past the end of the "
              "source stay untouched in a larger target. Exit code 20 when the list omits blocks, "
              "which were then found "
              "by comparing; 22 when the target is too small.",
          .table = std::move(table)};
}

absl::Status DeviceCopyCommand::CheckFlags(const CallContext& ctx) const {
  if (source_.empty() || target_.empty()) {
    return absl::InvalidArgumentError("name both devices, with --source and --target");
  }
  const bool has_list = !extents_.empty() || !cluster_.query.volume_snapshot.empty();
  if (!extents_.empty() && !cluster_.query.volume_snapshot.empty()) {
    return absl::InvalidArgumentError(
        "--extents and --volume-snapshot are two lists of what differs: give one of them");
  }
  if (has_list == base_.empty()) {
    return absl::InvalidArgumentError(
        "--base goes with --extents or --volume-snapshot: a list says what differs from a base");
  }
  return pod_.CheckTime(ctx);
}

absl::StatusOr<std::vector<Extent>> DeviceCopyCommand::AskCluster(const CallContext& ctx,
                                                                  Session& session,
                                                                  int64_t volume_bytes) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<ClusterSnapshot> snapshot,
                   ClusterSnapshot::Open(ctx, cluster_.Query()));
  ASSIGN_OR_RETURN(const ClusterBase base, snapshot->FindBase(ctx, base_));
  const std::unique_ptr<incremental::ChangedBlockSource> source =
      snapshot->MakeSource(ctx, base.info, *session.environment().random);
  if (!source->compares()) {
    return absl::FailedPreconditionError("the driver lists no changed blocks");
  }
  return incremental::GatherListed(
      ctx, *source,
      {.base = base.handle,
       .target = cluster_.query.volume_snapshot,
       .size_bytes = snapshot->snapshot().restore_size_bytes.value_or(volume_bytes)},
      volume_bytes);
}

// A list that a person gave must be good; what a driver does not list is compared.
absl::StatusOr<CopyList> DeviceCopyCommand::List(const CallContext& ctx, Session& session,
                                                 int64_t volume_bytes) const {
  CopyList list;
  if (!extents_.empty()) {
    ASSIGN_OR_RETURN(incremental::ExtentListSource source,
                     incremental::ExtentListSource::Open(ctx, extents_));
    ASSIGN_OR_RETURN(
        list.listed,
        incremental::GatherListed(
            ctx, source,
            {.base = base_, .target = target_, .size_bytes = volume_bytes, .base_names = {base_}},
            volume_bytes));
  } else if (!cluster_.query.volume_snapshot.empty()) {
    absl::StatusOr<std::vector<Extent>> listed = AskCluster(ctx, session, volume_bytes);
    RETURN_IF_ERROR(ctx.Check());
    if (listed.ok()) {
      list.listed = *std::move(listed);
    } else {
      list.refused = std::string(listed.status().message());
      session.console().Warn(
          absl::StrCat("everything is compared: the driver's list was not had: ", list.refused));
    }
  }
  return list;
}

absl::Status DeviceCopyCommand::Confirm(const CallContext& ctx, Session& session,
                                        const RestoreTarget& target) const {
  if (!target.holds_something()) {
    return absl::OkStatus();
  }
  const std::string text =
      absl::StrCat("copying ", source_, ": what ", target_, " of ", FormatBytes(target.size_bytes),
                   " holds otherwise is overwritten");
  if (yes_ || session.environment().confirm == nullptr) {
    session.console().Note(text);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool confirmed,
                   session.environment().confirm(ctx, absl::StrCat(text, ". Go on?")));
  return confirmed ? absl::OkStatus()
                   : absl::FailedPreconditionError("nothing was written; --yes does not ask");
}

absl::StatusOr<CopyResult> DeviceCopyCommand::Copy(const CallContext& ctx, Session& session,
                                                   CopyList list, FileBlockDevice& source,
                                                   FileBlockDevice& target) const {
  ProgressMeter meter(session.console(), *ctx.clock);
  const CopyOptions options{
      .listed = std::move(list.listed),
      .mark_text = absl::StrCat("A copy of ", source_, " was being written here, since ",
                                FormatRfc3339(ctx.clock->Now()),
                                ".\nAs long as this stands here, a part of it is missing, and the "
                                "rest is old: copy it again.\n"),
      .on_progress = [&meter](const incremental::TransferProgress& progress) {
        meter.ReportBytes("copy", progress.done_bytes, progress.total_bytes);
      }};
  absl::StatusOr<CopyResult> result =
      incremental::CopyBlocks(ctx, source, target, *session.environment().random, options);
  if (!result.ok() && incremental::HasRestoreMark(CallContext{}, target).value_or(false)) {
    return absl::Status(result.status().code(),
                        absl::StrCat(result.status().message(), "; ", target_,
                                     " is partly old, which its beginning says: copy it again"));
  }
  return result;
}

absl::StatusOr<ExitCode> DeviceCopyCommand::Run(const CallContext& ctx, Session& session) {
  RETURN_IF_ERROR(CheckFlags(ctx));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> source,
                   FileBlockDevice::OpenForRead(source_));
  const int64_t volume_bytes = source->info().size_bytes;
  ASSIGN_OR_RETURN(const RestoreTarget target, ExamineTarget(target_, volume_bytes));
  RETURN_IF_ERROR(Confirm(ctx, session, target));
  ASSIGN_OR_RETURN(CopyList list, List(ctx, session, volume_bytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> device,
                   FileBlockDevice::OpenForWrite(target_, volume_bytes));
  const std::string refused = list.refused.substr(0, kRefusedBytesMax);
  ASSIGN_OR_RETURN(const CopyResult result, Copy(ctx, session, std::move(list), *source, *device));
  Json json = incremental::ToJson(result);
  json["source"] = source_;
  json["target"] = target_;
  json["list_refused"] = refused;
  session.console().PrintResult(
      json, absl::StrCat(
                "copied ", source_, " to ", target_, ": ", FormatBytes(result.logical_bytes),
                ", of which ", FormatBytes(result.written_bytes), " written, ",
                FormatBytes(result.zero_bytes), " made zero and ", FormatBytes(result.kept_bytes),
                " held already, in ", FormatTotal(result.duration_ms), HowCompared(result), "\n"));
  pod_.LeaveResult(json);
  return result.audit_mismatch ? ExitCode::kAuditMismatch : ExitCode::kOk;
}

}  // namespace

std::unique_ptr<Command> MakeDeviceCopyCommand() { return std::make_unique<DeviceCopyCommand>(); }

}  // namespace csidelta::cli
