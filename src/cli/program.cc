#include "cli/program.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "repository/format.h"
#include "repository/lock.h"
#include "repository/repository.h"

namespace csidelta::cli {
namespace {

class VersionCommand : public Command {
 public:
  VerbSyntax Declare() override {
    return {.name = "version", .summary = "Print the version of this program"};
  }

  absl::StatusOr<ExitCode> Run(const CallContext&, Session& session) override {
    const std::string program = ProgramVersion();
    session.console().PrintResult({{"message_type", "version"},
                                   {"version", program.substr(program.find(' ') + 1)},
                                   {"repository_version", repository::kRepositoryVersion}},
                                  absl::StrCat(program, "\n"));
    return ExitCode::kOk;
  }
};

// Closes what the verb opened before its result is printed: a lock must not stay.
absl::StatusOr<ExitCode> RunVerb(const CallContext& ctx, Command& command, Console& console,
                                 const GlobalOptions& options,
                                 const ProgramEnvironment& environment, std::string& location) {
  Session session(options, environment, console);
  absl::StatusOr<ExitCode> code = command.Run(ctx, session);
  location = session.location();
  if (!code.ok() && ctx.stop.stop_requested()) {
    return absl::CancelledError(code.status().message());
  }
  return code;
}

}  // namespace

Commands AllCommands() {
  Commands commands;
  for (auto* add : {AddInitCommand,
                    AddBackupCommand,
                    AddRestoreCommand,
                    AddSnapshotsCommand,
                    AddShowCommand,
                    AddMapCommand,
                    AddLsCommand,
                    AddDiffCommand,
                    AddStatsCommand,
                    AddCheckCommand,
                    AddForgetCommand,
                    AddPruneCommand,
                    AddCopyCommand,
                    AddRepairCommands,
                    AddRepairVersionsCommand,
                    AddExtendLocksCommand,
                    AddKeyCommands,
                    AddDatamoverCommand,
                    AddDiffsnapCommand,
                    AddConformanceCommand,
                    AddStatusCommand,
                    AddDoctorCommand,
                    AddWorkerCommand,
                    AddMoverKeyCommands,
                    AddAdoptCommand,
                    AddBasesCommands,
                    AddDeletionsCommands,
                    AddTryCommand,
                    AddUninstallCommand,
                    AddSnapshotCreateCommand,
                    AddSnapshotListCommand,
                    AddSnapshotShowCommand,
                    AddSnapshotDeleteCommand,
                    AddSnapshotPruneCommand,
                    AddSnapshotPromoteCommand,
                    AddSnapshotRestoreCommand,
                    AddSnapshotImportCommand,
                    AddSnapshotScheduleCommand,
                    AddLonghornCommands,
                    AddCompletionCommand}) {
    add(commands);
  }
  AddEach<VersionCommand>(commands);
  return commands;
}

ExitCode RunProgram(const CallContext& ctx, absl::Span<const std::string> arguments,
                    const ProgramEnvironment& environment) {
  GlobalOptions options;
  ProgramSyntax program = DeclareFlags(options);
  program.name = environment.program;
  Commands commands = AllCommands();
  std::vector<VerbSyntax> verbs;
  verbs.reserve(commands.size());
  for (const std::unique_ptr<Command>& command : commands) {
    verbs.push_back(command->Declare());
  }
  if (!arguments.empty() && arguments.front() == kCompleteArgument) {
    for (const std::string& one : Complete(arguments.subspan(1), program, verbs)) {
      environment.out(absl::StrCat(one, "\n"));
    }
    return ExitCode::kOk;
  }
  const absl::StatusOr<ParsedLine> parsed = ParseCommandLine(arguments, program, verbs);
  // An error in the arguments is reported in the form that they request.
  const bool asks_json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  Console console(environment.out, environment.error,
                  {.json = parsed.ok() ? options.json : asks_json,
                   .quiet = options.quiet,
                   .error_is_terminal = environment.error_is_terminal});
  if (!parsed.ok()) {
    return console.Fail(ExitCode::kFailed, parsed.status().message());
  }
  if (parsed->help) {
    console.Print(HelpText(parsed->verb, program, verbs, environment.columns));
    return ExitCode::kOk;
  }
  if (parsed->verb.empty()) {
    environment.error(HelpText("", program, verbs, environment.columns));
    return ExitCode::kFailed;
  }
  std::string location;
  absl::StatusOr<ExitCode> code = ExitCode::kFailed;
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    if (verbs[i].name == parsed->verb) {
      code = RunVerb(ctx, *commands[i], console, options, environment, location);
    }
  }
  if (code.ok() && !console.Check().ok()) {
    code = console.Check();
  }
  if (!code.ok()) {
    if (options.json && repository::IsLocked(code.status())) {
      console.PrintJson(
          {{"message_type", "locked"}, {"locks", repository::LocksOf(code.status())}});
    }
    return console.Fail(ExitCodeOf(code.status()), Explain(code.status(), location));
  }
  return *code;
}

}  // namespace csidelta::cli
