#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/snapshot_filter.h"
#include "cli/text.h"
#include "incremental/block_downloader.h"
#include "incremental/file_block_device.h"
#include "incremental/gated_block_device.h"

namespace csidelta::cli {
namespace {

using incremental::BlockDownloader;
using incremental::FileBlockDevice;
using incremental::RestoreResult;
using incremental::VolumeRecord;

std::string Summary(const RestoreResult& result, const std::string& target) {
  const auto total = result.duration_ms.find("total");
  const absl::Duration elapsed =
      absl::Milliseconds(total == result.duration_ms.end() ? 0 : total->second);
  return absl::StrCat("restored snapshot ", result.snapshot.ShortHex(), " to ", target, ": ",
                      FormatBytes(result.logical_bytes), ", of which ",
                      FormatBytes(result.written_bytes), " written and ",
                      FormatBytes(result.zero_bytes), " zero, in ", FormatElapsed(elapsed), "\n");
}

class RestoreCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddWord("ID", "the snapshot, by the beginning of its id, or \"latest\"", id_);
    table.Add("-t,--target", "PATH", "the block device or image file to write over", target_);
    table.Add("--target-is-zero",
              "the target reads as zeros, so zeros need not be written; checked on a sample",
              target_is_zero_);
    DeclareFilterFlags(table, filter_);
    table.AddBytes("--memory-budget", "memory to work with (256MiB)", memory_budget_bytes_);
    return {.name = "restore",
            .summary = "Write a volume back to a device or an image file",
            .details =
                "What the target holds is overwritten, zeros included. A file that is not there "
                "is made; what a larger target holds behind the volume stays. A device that is "
                "mounted or in use is refused. Every byte is verified before it is written.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    if (target_.empty()) {
      return absl::InvalidArgumentError(
          "where to restore is not said; name a device or an image file with --target");
    }
    ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, LockKind::kRead));
    ASSIGN_OR_RETURN(const repository::StoredSnapshot stored,
                     ChooseSnapshot(ctx, session.console(), *repository, id_, filter_));
    ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> record,
                     incremental::OpenVolumeRecord(ctx, *repository, stored));
    ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> device,
                     OpenTarget(record->manifest.size_bytes));
    incremental::GatedBlockDevice gated(*device,
                                        [&] { return session.environment().await_writing(ctx); });
    ProgressMeter meter(session.console(), *ctx.clock);
    const incremental::DownloadOptions options{
        .target_is_zero = target_is_zero_,
        .memory_budget_bytes = memory_budget_bytes_,
        .store_numbers = [&session] { return session.Numbers(); },
        .on_progress =
            [&meter](const incremental::DownloadProgress& progress) {
              meter.ReportBytes("restore", progress.done_bytes, progress.total_bytes);
            }};
    ASSIGN_OR_RETURN(const RestoreResult result,
                     BlockDownloader(*repository, gated, *session.environment().random)
                         .Run(ctx, *record, options));
    if (result.damaged_copies > 0) {
      session.console().Warn(absl::StrCat(
          result.damaged_copies,
          " damaged blobs were replaced by other copies; csi-delta check --read-data names them"));
    }
    session.console().PrintResult(incremental::ToJson(result), Summary(result, target_));
    return ExitCode::kOk;
  }

 private:
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
  bool target_is_zero_ = false;
  SnapshotFilter filter_;
  int64_t memory_budget_bytes_ = incremental::kMemoryBudgetBytes;
};

}  // namespace

std::unique_ptr<Command> MakeRestoreCommand() { return std::make_unique<RestoreCommand>(); }

}  // namespace csidelta::cli
