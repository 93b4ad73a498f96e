#pragma once

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "datamover/worker/task_runner.h"
#include "engine/session.h"
#include "incremental/mover/backup_result.h"
#include "incremental/mover/block_downloader.h"
#include "k8s/config.h"
#include "objects/volume_task.h"
#include "repository/checker.h"
#include "repository/lock_renewal.h"

// The work of a worker for a VolumeTask: the same as that of the verbs of csi-delta.
namespace csidelta::datamover {

// Does the work of `job` in the session's repository, without a question, and returns the outcome.
// The session is made from the rest of the job. `cluster`: where the VolumeSnapshot of an upload
// is. Errors are those of the work; OutcomeOf() makes an outcome of them.
absl::StatusOr<objects::Outcome> DoJob(const CallContext& ctx, engine::Session& session,
                                       const objects::VolumeJob& job,
                                       const k8s::ClientSettings& cluster,
                                       const TaskProgress& progress);

// The outcome of a backup that was made. Pure.
objects::Outcome OutcomeOf(const incremental::BackupResult& result);
objects::BackupFigures FiguresOf(const incremental::BackupResult& result);
objects::RestoreFigures FiguresOf(const incremental::RestoreResult& result);
objects::CheckFigures FiguresOf(const repository::CheckReport& report);
// A renewal that ended with an error counts as one failed object.
objects::LockFigures FiguresOf(const absl::StatusOr<repository::RenewLocksResult>& result);

}  // namespace csidelta::datamover
