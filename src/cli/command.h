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

using Commands = std::vector<std::unique_ptr<Command>>;

// Adds a command of each type.
template <typename... Verbs>
void AddEach(Commands& all) {
  (all.push_back(std::make_unique<Verbs>()), ...);
}

// Each adds the verbs of a file.
void AddInitCommand(Commands& all);
void AddBackupCommand(Commands& all);
void AddRestoreCommand(Commands& all);
void AddSnapshotsCommand(Commands& all);
void AddShowCommand(Commands& all);
void AddMapCommand(Commands& all);
void AddLsCommand(Commands& all);
void AddDiffCommand(Commands& all);
void AddStatsCommand(Commands& all);
void AddCheckCommand(Commands& all);
void AddForgetCommand(Commands& all);
void AddPruneCommand(Commands& all);
void AddCopyCommand(Commands& all);
void AddRepairCommands(Commands& all);
void AddRepairVersionsCommand(Commands& all);
void AddExtendLocksCommand(Commands& all);
void AddKeyCommands(Commands& all);
void AddDatamoverCommand(Commands& all);
void AddDiffsnapCommand(Commands& all);
void AddConformanceCommand(Commands& all);
void AddStatusCommand(Commands& all);
void AddDoctorCommand(Commands& all);
void AddWorkerCommand(Commands& all);
void AddDeletionsCommands(Commands& all);
void AddMoverKeyCommands(Commands& all);
void AddAdoptCommand(Commands& all);
void AddBasesCommands(Commands& all);
void AddDebugCommand(Commands& all);
void AddTryCommand(Commands& all);
void AddUninstallCommand(Commands& all);
void AddSnapshotCreateCommand(Commands& all);
void AddSnapshotListCommand(Commands& all);
void AddSnapshotShowCommand(Commands& all);
void AddSnapshotDeleteCommand(Commands& all);
void AddSnapshotPruneCommand(Commands& all);
void AddSnapshotPromoteCommand(Commands& all);
void AddSnapshotRestoreCommand(Commands& all);
void AddSnapshotImportCommand(Commands& all);
void AddSnapshotScheduleCommand(Commands& all);
void AddLonghornCommands(Commands& all);
void AddCompletionCommand(Commands& all);

// All verbs, in the order of --help.
Commands AllCommands();

}  // namespace csidelta::cli
