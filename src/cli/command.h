#pragma once

#include <memory>
#include <utility>
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
  explicit Command(VerbFamily family = VerbFamily::kPlain) : family_(family) {}
  virtual ~Command() = default;

  // The flags are bound to members of this object.
  VerbSyntax Declare() {
    ArgumentTable table;
    VerbSyntax syntax = Describe(table);
    syntax.table = std::move(table);
    syntax.family = family_;
    return syntax;
  }

  virtual absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) = 0;

 protected:
  // Adds the flags to `table`, and returns name, summary, details and examples.
  virtual VerbSyntax Describe(ArgumentTable& table) = 0;

 private:
  const VerbFamily family_;
};

struct RepositoryCommand : Command {
  RepositoryCommand() : Command(VerbFamily::kRepository) {}
};
struct NewRepositoryCommand : Command {
  NewRepositoryCommand() : Command(VerbFamily::kNewRepository) {}
};

using Commands = std::vector<std::unique_ptr<Command>>;

// Adds a command of each type.
template <typename... Verbs>
void AddEach(Commands& all) {
  (all.push_back(std::make_unique<Verbs>()), ...);
}

// Each adds the verbs of a file.
using AddsCommands = void(Commands& all);
AddsCommands AddInitCommand, AddBackupCommand, AddRestoreCommand, AddSnapshotsCommand,
    AddShowCommand, AddMapCommand, AddLsCommand, AddDiffCommand, AddStatsCommand, AddCheckCommand,
    AddForgetCommand, AddPruneCommand, AddCopyCommand, AddRepairCommands, AddRepairVersionsCommand,
    AddExtendLocksCommand, AddKeyCommands, AddDatamoverCommand, AddDiffsnapCommand,
    AddConformanceCommand, AddStatusCommand, AddDoctorCommand, AddWorkerCommand,
    AddDeletionsCommands, AddMoverKeyCommands, AddAdoptCommand, AddBasesCommands, AddDebugCommand,
    AddTryCommand, AddUninstallCommand, AddSnapshotCreateCommand, AddSnapshotListCommand,
    AddSnapshotShowCommand, AddSnapshotDeleteCommand, AddSnapshotPruneCommand,
    AddSnapshotPromoteCommand, AddSnapshotRestoreCommand, AddSnapshotImportCommand,
    AddSnapshotScheduleCommand, AddLonghornCommands, AddReportCommand, AddCompletionCommand;

// All verbs, in the order of --help.
Commands AllCommands();

}  // namespace csidelta::cli
