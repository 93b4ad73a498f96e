#include "engine/restore.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "incremental/mover/file_block_device.h"
#include "incremental/mover/gated_block_device.h"
#include "incremental/mover/restore_mark.h"
#include "incremental/mover/volume_record.h"

namespace csidelta::engine {
namespace {

using incremental::FileBlockDevice;
using incremental::RestoreResult;
using incremental::VolumeRecord;

absl::StatusOr<std::unique_ptr<FileBlockDevice>> OpenTarget(const RestoreJob& job,
                                                            int64_t volume_bytes) {
  absl::StatusOr<std::unique_ptr<FileBlockDevice>> device =
      FileBlockDevice::OpenForWrite(job.target, volume_bytes);
  if (absl::IsOutOfRange(device.status())) {
    return AsTargetTooSmall(device.status());
  }
  return device;
}

// A target that is still as it was says nothing.
void WarnOfPartialTarget(const Session& session, const RestoreJob& job, FileBlockDevice& device) {
  if (incremental::HasRestoreMark(CallContext{}, device).value_or(false)) {
    session.listener().warn(
        absl::StrCat(job.target, " is incomplete and marked as such; run the restore again"));
  }
}

absl::StatusOr<RestoreResult> Write(const CallContext& ctx, Session& session,
                                    repository::Repository& repository, const RestoreJob& job,
                                    const VolumeRecord& record, FileBlockDevice& device,
                                    const ByteProgress& progress) {
  incremental::GatedBlockDevice gated(device, [&] { return session.AwaitWriting(ctx); });
  const incremental::DownloadOptions options{
      .target_is_zero = job.target_is_zero,
      .only_differing = job.only_differing,
      .memory_budget_bytes = session.memory().bytes_max(),
      .store_numbers = [&session] { return session.Numbers(); },
      .on_progress = progress};
  ASSIGN_OR_RETURN(
      const RestoreResult result,
      incremental::DownloadBlocks(ctx, repository, gated, session.random(), record, options));
  if (result.damaged_copies > 0) {
    session.listener().warn(absl::StrCat(
        result.damaged_copies,
        " damaged blobs were replaced by other copies; csi-delta check --read-data names them"));
  }
  return result;
}

}  // namespace

absl::StatusOr<RestoreOutcome> RunRestore(const CallContext& ctx, Session& session,
                                          const RestoreJob& job, const RestoreConsent& consent,
                                          const ByteProgress& progress) {
  if (job.start_before.has_value() && ctx.clock->Now() >= *job.start_before) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is later than ", FormatRfc3339(*job.start_before), ", so nothing was written"));
  }
  if (job.only_differing && job.target_is_zero) {
    return absl::InvalidArgumentError(
        "--differing and --target-is-zero contradict each other: give one of them");
  }
  ASSIGN_OR_RETURN(repository::Repository * repository, session.Open(ctx, LockKind::kRead));
  RestoreOutcome outcome;
  UnreadableSnapshots unreadable(session.listener());
  ASSIGN_OR_RETURN(outcome.plan.snapshot,
                   ChooseSnapshot(ctx, session.listener(), *repository, job.snapshot, job.filter,
                                  LatestOf::kOneVolume, &unreadable));
  outcome.plan.may_be_older = unreadable.any();
  ASSIGN_OR_RETURN(const std::unique_ptr<VolumeRecord> record,
                   incremental::OpenVolumeRecord(ctx, *repository, outcome.plan.snapshot));
  outcome.plan.volume_bytes = record->manifest.size_bytes;
  ASSIGN_OR_RETURN(outcome.plan.target, ExamineTarget(job.target, outcome.plan.volume_bytes));
  if (job.is_dry_run) {
    return outcome;
  }
  RETURN_IF_ERROR(consent(outcome.plan));
  ASSIGN_OR_RETURN(const std::unique_ptr<FileBlockDevice> device,
                   OpenTarget(job, outcome.plan.volume_bytes));
  absl::StatusOr<RestoreResult> result =
      Write(ctx, session, *repository, job, *record, *device, progress);
  if (!result.ok()) {
    WarnOfPartialTarget(session, job, *device);
    return result.status();
  }
  outcome.result = *std::move(result);
  return outcome;
}

}  // namespace csidelta::engine
