#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/pod_flags.h"
#include "cli/progress.h"
#include "cli/restore_into.h"
#include "cli/restore_target.h"
#include "cli/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/block_downloader.h"
#include "incremental/file_block_device.h"
#include "incremental/gated_block_device.h"
#include "incremental/restore_mark.h"

namespace csidelta::cli {
namespace {

using incremental::BlockDownloader;
using incremental::FileBlockDevice;
using incremental::RestoreResult;
using incremental::VolumeRecord;
using repository::StoredSnapshot;

// "snapshot 8ab6fc6f of shop:/orders, 2026-11-21 13:05:00"
std::string SnapshotText(const StoredSnapshot& stored) {
  return absl::StrCat(
      "snapshot ", stored.id.ShortHex(), " of ", VolumeName(stored.snapshot), ", ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S", stored.snapshot.time, absl::LocalTimeZone()));
}

std::string Summary(const RestoreResult& result, const StoredSnapshot& stored,
                    const RestoreTarget& target, const std::string& path) {
  const auto total = result.duration_ms.find("total");
  const absl::Duration elapsed =
      absl::Milliseconds(total == result.duration_ms.end() ? 0 : total->second);
  return absl::StrCat(
      "restored ", SnapshotText(stored), "\n", Describe(target), " ", path, ": ",
      FormatBytes(result.logical_bytes), ", of which ", FormatBytes(result.written_bytes),
      " written, ",
      result.compared_bytes > 0 ? absl::StrCat(FormatBytes(result.kept_bytes), " held already, ")
                                : "",
      "and ", FormatBytes(result.zero_bytes), " zero, in ", FormatElapsed(elapsed), "\n");
}

class RestoreCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddOptionalWord("ID", "the snapshot, by the beginning of its id, or \"latest\"", id_);
    table.Add("-t,--target", "PATH", "the block device or image file to write over", target_);
    table.Add("-n,--dry-run", "only say what would be written over", dry_run_);
    table.Add("--yes", "do not ask on a terminal before something is written over", yes_);
    table.Add("--target-is-zero",
              "the target reads as zeros, so zeros need not be written; checked on a sample",
              target_is_zero_);
    table.Add("--differing",
              "read the target, and fetch and write only what differs from the snapshot",
              only_differing_);
    DeclareFilterFlags(table, filter_);
    table.AddBytes("--memory-budget", "memory to work with (256MiB)", memory_budget_bytes_);
    pod_.Declare(table);
    into_.Declare(table);
    return {
        .name = "restore",
        .summary = "Write a volume back to a device or an image file",
        .details =
            "What the target holds is overwritten, zeros included. A file that is not there "
            "is made; what a larger target holds behind the volume stays. A device that is "
            "mounted or in use is refused, as is a path below /dev that is no device, and "
            "\"latest\" where snapshots of several hosts and paths match. On a terminal you are "
            "asked before something is written over. Every byte is verified before it is "
            "written, and as long as the restore has not come to its end the target begins "
            "with a text that says so. With --into the data of a PVC is replaced, by a Pod in its "
            "namespace and with the caller's rights there, or with --upload by the data mover; "
            "nothing of the repository is read here.",
        .table = std::move(table),
        .family = VerbFamily::kRepository};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (into_.is_asked_for() == !target_.empty()) {
      return absl::InvalidArgumentError(
          "name one place to restore to: a device or an image file with --target, or a PVC with "
          "--into");
    }
    RETURN_IF_ERROR(into_.Check(id_));
    if (into_.is_asked_for()) {
      return RunRestoreInto(ctx, session, into_,
                            {.words = SnapshotWords(), .is_dry_run = dry_run_, .yes = yes_});
    }
    RETURN_IF_ERROR(pod_.CheckTime(ctx));
    if (only_differing_ && target_is_zero_) {
      return absl::InvalidArgumentError(
          "--differing and --target-is-zero contradict each other: give one of them");
    }
    ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, LockKind::kRead));
    ASSIGN_OR_RETURN(
        const StoredSnapshot stored,
        ChooseSnapshot(ctx, session.console(), *repository, id_, filter_, LatestOf::kOneVolume));
    ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> record,
                     incremental::OpenVolumeRecord(ctx, *repository, stored));
    const int64_t volume_bytes = record->manifest.size_bytes;
    ASSIGN_OR_RETURN(const RestoreTarget target, ExamineTarget(target_, volume_bytes));
    if (dry_run_) {
      PrintPlan(session.console(), stored, target, volume_bytes);
      return ExitCode::kOk;
    }
    RETURN_IF_ERROR(Announce(ctx, session, stored, target, volume_bytes));
    ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> device, OpenTarget(volume_bytes));
    absl::StatusOr<RestoreResult> result = Write(ctx, session, *repository, *record, *device);
    if (!result.ok()) {
      TellWhatIsLeft(session.console(), *device);
      return result.status();
    }
    Json json = incremental::ToJson(*result);
    json["target"] = target_;
    json["target_kind"] = NameOf(target.kind);
    session.console().PrintResult(json, Summary(*result, stored, target, target_));
    pod_.LeaveResult(json);
    return ExitCode::kOk;
  }

 private:
  // What another restore is told to restore the same.
  std::vector<std::string> SnapshotWords() const {
    std::vector<std::string> words = {id_};
    const auto add = [&words](const char* flag, const std::vector<std::string>& values) {
      for (const std::string& value : values) {
        words.insert(words.end(), {flag, value});
      }
    };
    add("--host", filter_.hosts);
    add("--path", filter_.paths);
    add("--tag", filter_.tags);
    return words;
  }

  // What is lost by it, in one sentence; "" when nothing is.
  std::string Loss(const RestoreTarget& target, int64_t volume_bytes) const {
    if (!target.holds_something()) {
      return "";
    }
    const int64_t kept_bytes = target.size_bytes - volume_bytes;
    return absl::StrCat(
        "what ", target.kind == RestoreTarget::Kind::kDevice ? "device " : "file ", target_, " of ",
        FormatBytes(target.size_bytes), " holds is overwritten",
        kept_bytes > 0 ? absl::StrCat(", but for the last ", FormatBytes(kept_bytes)) : "");
  }

  void PrintPlan(Console& console, const StoredSnapshot& stored, const RestoreTarget& target,
                 int64_t volume_bytes) const {
    const std::string loss = Loss(target, volume_bytes);
    console.PrintResult(
        {{"message_type", "result"},
         {"dry_run", true},
         {"snapshot_id", stored.id.Hex()},
         {"logical_bytes", volume_bytes},
         {"target", target_},
         {"target_kind", NameOf(target.kind)},
         {"target_bytes", target.size_bytes}},
        absl::StrCat("would restore ", SnapshotText(stored), ", ", FormatBytes(volume_bytes), "\n",
                     loss.empty() ? absl::StrCat(target_, " would be made") : loss, "\n"));
  }

  absl::Status Announce(const CallContext& ctx, Session& session, const StoredSnapshot& stored,
                        const RestoreTarget& target, int64_t volume_bytes) const {
    const std::string loss = Loss(target, volume_bytes);
    if (loss.empty()) {
      return absl::OkStatus();
    }
    const std::string text = absl::StrCat("restoring ", SnapshotText(stored), ", ",
                                          FormatBytes(volume_bytes), ": ", loss);
    if (yes_ || session.environment().confirm == nullptr) {
      session.console().Note(text);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool confirmed,
                     session.environment().confirm(ctx, absl::StrCat(text, ". Go on?")));
    return confirmed ? absl::OkStatus()
                     : absl::FailedPreconditionError("nothing was written; --yes does not ask");
  }

  // A target that is still as it was says nothing.
  void TellWhatIsLeft(Console& console, FileBlockDevice& device) const {
    if (incremental::HasRestoreMark(CallContext{}, device).value_or(false)) {
      console.Warn(absl::StrCat(target_,
                                " holds a part of the volume only, which its beginning "
                                "says; restore it again"));
    }
  }

  absl::StatusOr<RestoreResult> Write(const CallContext& ctx, Session& session,
                                      repository::Repository& repository,
                                      const VolumeRecord& record, FileBlockDevice& device) const {
    incremental::GatedBlockDevice gated(device,
                                        [&] { return session.environment().await_writing(ctx); });
    ProgressMeter meter(session.console(), *ctx.clock);
    const incremental::DownloadOptions options{
        .target_is_zero = target_is_zero_,
        .only_differing = only_differing_,
        .memory_budget_bytes = memory_budget_bytes_,
        .store_numbers = [&session] { return session.Numbers(); },
        .on_progress =
            [&meter](const incremental::DownloadProgress& progress) {
              meter.ReportBytes("restore", progress.done_bytes, progress.total_bytes);
            }};
    ASSIGN_OR_RETURN(const RestoreResult result,
                     BlockDownloader(repository, gated, *session.environment().random)
                         .Run(ctx, record, options));
    if (result.damaged_copies > 0) {
      session.console().Warn(absl::StrCat(
          result.damaged_copies,
          " damaged blobs were replaced by other copies; csi-delta check --read-data names them"));
    }
    return result;
  }

  absl::StatusOr<std::unique_ptr<FileBlockDevice>> OpenTarget(int64_t volume_bytes) const {
    absl::StatusOr<std::unique_ptr<FileBlockDevice>> device =
        FileBlockDevice::OpenForWrite(target_, volume_bytes);
    if (absl::IsOutOfRange(device.status())) {
      return AsTargetTooSmall(device.status());
    }
    return device;
  }

  std::string id_;
  std::string target_;
  bool dry_run_ = false;
  bool yes_ = false;
  bool target_is_zero_ = false;
  bool only_differing_ = false;
  PodFlags pod_;
  RestoreIntoFlags into_;
  SnapshotFilter filter_;
  int64_t memory_budget_bytes_ = incremental::kMemoryBudgetBytes;
};

}  // namespace

std::unique_ptr<Command> MakeRestoreCommand() { return std::make_unique<RestoreCommand>(); }

}  // namespace csidelta::cli
