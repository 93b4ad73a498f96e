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

// What a worker does for a VolumeTask: the same that the verbs of csi-delta do.
namespace csidelta::datamover {

// Does the work of `job` in the session's repository, without a question, and returns what it did.
// The session is made from what the rest of the job says. `cluster`: where the VolumeSnapshot of an
// upload is. Errors are those of the work; OutcomeOf() makes an outcome of them.
absl::StatusOr<objects::Outcome> DoJob(const CallContext& ctx, engine::Session& session,
                                       const objects::VolumeJob& job,
                                       const k8s::ClientSettings& cluster,
                                       const TaskProgress& progress);

// What a task says of a backup that is there. Pure.
objects::Outcome OutcomeOf(const incremental::BackupResult& result);
objects::BackupFigures FiguresOf(const incremental::BackupResult& result);
objects::RestoreFigures FiguresOf(const incremental::RestoreResult& result);
objects::CheckFigures FiguresOf(const repository::CheckReport& report);
// A renewal that ended with an error counts as one that failed for one object.
objects::LockFigures FiguresOf(const absl::StatusOr<repository::RenewLocksResult>& result);

}  // namespace csidelta::datamover
