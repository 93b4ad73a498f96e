#pragma once

#include <variant>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "datamover/outcome.h"
#include "datamover/task_runner.h"
#include "engine/backup.h"
#include "engine/forget.h"
#include "engine/restore.h"
#include "engine/session.h"
#include "incremental/backup_result.h"
#include "incremental/block_downloader.h"

// What a worker does for a VolumeTask: the same that the verbs of csi-delta do.
namespace csidelta::datamover {

using Job = std::variant<engine::BackupJob, engine::RestoreJob, engine::ForgetJob>;

// Does it in the session's repository, without a question, and returns what it did. Errors are
// those of the work; OutcomeOf() makes an outcome of them.
absl::StatusOr<Outcome> DoJob(const CallContext& ctx, engine::Session& session, const Job& job,
                              const TaskProgress& progress);

// What a task says of it. Pure.
BackupFigures FiguresOf(const incremental::BackupResult& result);
RestoreFigures FiguresOf(const incremental::RestoreResult& result);

}  // namespace csidelta::datamover
