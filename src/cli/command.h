#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/session.h"

namespace csidelta::cli {

// One verb with the values of its flags. It is declared once, then run at most once.
class Command {
 public:
  virtual ~Command() = default;

  // Name, summary, details and flags. The flags are bound to members of this object.
  virtual VerbSyntax Declare() = 0;

  virtual absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) = 0;
};

std::unique_ptr<Command> MakeInitCommand();
std::unique_ptr<Command> MakeBackupCommand();
std::unique_ptr<Command> MakeRestoreCommand();
std::unique_ptr<Command> MakeSnapshotsCommand();
std::unique_ptr<Command> MakeShowCommand();
std::unique_ptr<Command> MakeMapCommand();
std::unique_ptr<Command> MakeLsCommand();
std::unique_ptr<Command> MakeDiffCommand();
std::unique_ptr<Command> MakeStatsCommand();
std::unique_ptr<Command> MakeCheckCommand();
std::unique_ptr<Command> MakeForgetCommand();
std::unique_ptr<Command> MakePruneCommand();
std::unique_ptr<Command> MakeCopyCommand();
std::unique_ptr<Command> MakeRepairConfigCommand();
std::unique_ptr<Command> MakeRepairIndexCommand();
std::unique_ptr<Command> MakeRepairPacksCommand();
std::unique_ptr<Command> MakeRepairSnapshotsCommand();
std::unique_ptr<Command> MakeRepairVersionsCommand();
std::unique_ptr<Command> MakeExtendLocksCommand();
std::unique_ptr<Command> MakeKeyListCommand();
std::unique_ptr<Command> MakeKeyAddCommand();
std::unique_ptr<Command> MakeKeyRemoveCommand();
std::unique_ptr<Command> MakeKeyPasswdCommand();
std::unique_ptr<Command> MakeDatamoverCommand();
std::unique_ptr<Command> MakeDiffsnapCommand();
std::unique_ptr<Command> MakeConformanceCommand();
std::unique_ptr<Command> MakeStatusCommand();
std::unique_ptr<Command> MakeDoctorCommand();
std::unique_ptr<Command> MakeWorkerCommand();
std::unique_ptr<Command> MakeDeletionsListCommand();
std::unique_ptr<Command> MakeDeletionsRetryCommand();
std::unique_ptr<Command> MakeMoverKeyExportCommand();
std::unique_ptr<Command> MakeMoverKeyImportCommand();
std::unique_ptr<Command> MakeMoverKeyRemoveCommand();
std::unique_ptr<Command> MakeAdoptCommand();
std::unique_ptr<Command> MakeBasesListCommand();
std::unique_ptr<Command> MakeBasesDropCommand();
std::unique_ptr<Command> MakeTryCommand();
std::unique_ptr<Command> MakeUninstallCommand();
std::unique_ptr<Command> MakeSnapshotCreateCommand();
std::unique_ptr<Command> MakeSnapshotListCommand();
std::unique_ptr<Command> MakeSnapshotShowCommand();
std::unique_ptr<Command> MakeSnapshotDeleteCommand();
std::unique_ptr<Command> MakeSnapshotPruneCommand();
std::unique_ptr<Command> MakeSnapshotPromoteCommand();
std::unique_ptr<Command> MakeSnapshotRestoreCommand();
std::unique_ptr<Command> MakeSnapshotImportCommand();
std::unique_ptr<Command> MakeSnapshotScheduleCommand();
std::unique_ptr<Command> MakeLonghornListCommand();
std::unique_ptr<Command> MakeLonghornPruneCommand();
std::unique_ptr<Command> MakeCompletionCommand();
std::unique_ptr<Command> MakeVersionCommand();

// All verbs, in the order of --help.
std::vector<std::unique_ptr<Command>> AllCommands();

}  // namespace csidelta::cli
