#include "cli/program.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/cluster_verb.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "datamover/controller/mover_kinds.h"
#include "objects/client.h"
#include "objects/workload.h"
#include "repository/format.h"
#include "repository/lock.h"
#include "repository/repository.h"

namespace csidelta::cli {
namespace {

class VersionCommand : public MoverCommand {
 public:
  VerbSyntax Describe(ArgumentTable& table) override {
    table.Add("--cluster",
              "also the images of Velero, plugin and data mover, and the CRDs; so does --context",
              cluster_);
    return {.name = "version",
            .summary = "Print the version of this program, and what runs in a cluster",
            .examples = {"version", "version --context prod"}};
  }

  absl::StatusOr<ExitCode> Work() override {
    const std::string program = ProgramVersion();
    const std::string& commit = session().environment().commit;
    Json result = {{"message_type", "version"},
                   {"version", program.substr(program.find(' ') + 1)},
                   {"repository_version", repository::kRepositoryVersion},
                   {"commit", commit}};
    std::string text =
        absl::StrCat(program, commit.empty() ? "" : absl::StrCat(" (commit ", commit, ")"), "\n");
    if (cluster_ || !cluster().access.kubecontext.empty()) {
      AddInstalled(ctx().WithTimeout(kClusterTimeMax), result, text);
    }
    console().PrintResult(result, text);
    return ExitCode::kOk;
  }

 private:
  static constexpr absl::Duration kClusterTimeMax = absl::Seconds(10);

  // An error of the cluster is a line of the result: the version is known all the same.
  void AddInstalled(const CallContext& limited, Json& result, std::string& text) const {
    std::vector<std::string> spaces =
        absl::StrSplit(cluster().velero_namespaces, ',', absl::SkipEmpty());
    spaces.push_back(cluster().mover_namespace);
    for (const std::string& space : spaces) {
      const auto deployments = objects::List<objects::Deployment>(limited, api(), space);
      std::set<std::string> images;
      for (const auto& deployment : deployments.value_or(std::vector<objects::Deployment>())) {
        for (const auto& containers : {deployment.containers(), deployment.init_containers()}) {
          for (const objects::DeployedContainer& container : containers) {
            images.insert(container.image);
          }
        }
      }
      absl::StrAppend(&text, "namespace ", space, ": ",
                      !deployments.ok() ? deployments.status().message()
                      : images.empty()  ? "no Deployment"
                                        : absl::StrJoin(images, ", "),
                      "\n");
      result["images"][space] = images;
    }
    const absl::Status kinds = datamover::CheckMoverKinds(limited, api());
    result["crds"] = kinds.ok() ? "ok" : std::string(kinds.message());
    absl::StrAppend(&text, "CRDs: ", kinds.ok() ? "of this version" : kinds.message(), "\n");
  }

  bool cluster_ = false;
};

std::vector<VerbTopic> Topics() {
  std::vector<VerbTopic> topics;
  const auto add = [&](const char* title, absl::Span<const char* const> names) {
    VerbTopic& topic = topics.emplace_back(VerbTopic{.title = title, .verbs = {}});
    for (const absl::string_view name : names) {
      const std::vector<std::string> parts = absl::StrSplit(name, absl::MaxSplits('|', 1));
      topic.verbs.emplace_back(parts.front(), parts.size() > 1 ? parts.back() : "");
    }
  };
  add("Repository", {"init", "backup", "restore", "snapshots", "show", "map", "ls", "diff", "stats",
                     "check", "forget", "prune", "copy", "repair|Damaged parts", "key|Passwords"});
  add("Snapshots in a cluster", {"snapshot|VolumeSnapshots", "longhorn|Longhorn's Snapshots"});
  add("Data mover", {"try", "status", "bases|Base snapshots", "deletions|Data of deleted backups",
                     "mover-key|Keys of repositories", "adopt", "uninstall"});
  add("Operations", {"report", "doctor", "debug", "conformance", "completion", "version"});
  add("Run by Pods and CronJobs", {"datamover", "worker", "diffsnap", "extend-locks"});
  topics.back().in_overview = false;
  return topics;
}

// The verbs of restic that do not exist here.
std::vector<std::pair<std::string, std::string>> Answers() {
  return {
      {"unlock", "a stale lock expires after 30 minutes; --retry-lock 31m waits for that"},
      {"rebuild-index", "csi-delta repair index does that"},
      {"repair snapshots", "csi-delta check names them, csi-delta repair --forget removes them"},
      {"recover", "csi-delta repair index, then csi-delta check names what can be restored"},
      {"mount", "csi-delta restore ID --target FILE, then mount -o loop,ro FILE /mnt"},
      {"dump", "csi-delta restore ID --target FILE writes the whole volume"},
      {"find", "csi-delta snapshots lists by host, path and tag, csi-delta ls ID the parts of one"},
      {"cat", "csi-delta show ID prints a snapshot, csi-delta key list the keys"},
      {"list", "csi-delta snapshots, csi-delta key list and csi-delta stats list what there is"},
      {"cache", "no cache is kept: what does not fit into memory is in --scratch-dir, for one run"},
      {"tag", "a snapshot gets its tags when it is made, by csi-delta backup --tag"},
      {"rewrite", "a volume is restored whole, so nothing can be left out of its snapshots"},
      {"migrate", "restic migrate upgrade_repo_v2 makes version 2, which csi-delta writes"},
      {"self-update", "the program is part of the image of the plugin: update both together"},
      {"generate", "csi-delta completion SHELL prints what a shell needs"},
      {"drill", "csi-delta try NAMESPACE --backup latest restores the newest backup"},
  };
}

std::vector<std::pair<std::string, std::string>> ExitCodes() {
  return {
      {"0", "done"},
      {"1", "failed; check: something is damaged"},
      {"3", "done, except for what is named: it is damaged, cannot be read or was not deleted"},
      {"10", "the repository does not exist"},
      {"11", "locked by another program, or another operation on the volume is under way"},
      {"12", "wrong password"},
      {"20", "the backup is good, but its list was refused or found wrong: everything was read"},
      {"21", "--on-fallback fail: everything would have to be read"},
      {"22", "the target of a restore is smaller than the volume; nothing was written"},
      {"23", "snapshot delete: all that was named is kept for a reason; nothing was deleted"},
      {"130", "interrupted"},
  };
}

// Variables of restic that are set, and that the program does not read.
void NoteVariables(const GetVariable& get, Console& console) {
  constexpr std::pair<const char*, absl::string_view> kVariables[] = {
      {"RESTIC_COMPRESSION", "give --compression"},
      {"RESTIC_PACK_SIZE", "give --pack-size"},
      {"RESTIC_HOST", "give --host"},
      {"RESTIC_KEY_HINT", "every key is tried"},
      {"RESTIC_CACHE_DIR", "no cache is kept; --scratch-dir names a folder"},
      {"RESTIC_PROGRESS_FPS", "progress is drawn once a second"},
      {"RESTIC_READ_CONCURRENCY", "give --cores"},
  };
  for (const auto& [name, instead] : kVariables) {
    if (!Variable(get, name).empty()) {
      console.Info(absl::StrCat(name, " is set, but not read: ", instead));
    }
  }
}

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

template <typename... Adders>
void CallEach(Commands& commands, Adders... add) {
  (add(commands), ...);
}

}  // namespace

Commands AllCommands() {
  Commands commands;
  CallEach(commands, AddInitCommand, AddBackupCommand, AddRestoreCommand, AddSnapshotsCommand,
           AddShowCommand, AddMapCommand, AddLsCommand, AddDiffCommand, AddStatsCommand,
           AddCheckCommand, AddForgetCommand, AddPruneCommand, AddCopyCommand, AddRepairCommands,
           AddRepairVersionsCommand, AddExtendLocksCommand, AddKeyCommands, AddDatamoverCommand,
           AddDiffsnapCommand, AddConformanceCommand, AddStatusCommand, AddDoctorCommand,
           AddDebugCommand, AddWorkerCommand, AddMoverKeyCommands, AddAdoptCommand,
           AddBasesCommands, AddDeletionsCommands, AddTryCommand, AddUninstallCommand,
           AddSnapshotCreateCommand, AddSnapshotListCommand, AddSnapshotShowCommand,
           AddSnapshotDeleteCommand, AddSnapshotPruneCommand, AddSnapshotPromoteCommand,
           AddSnapshotRestoreCommand, AddSnapshotImportCommand, AddSnapshotScheduleCommand,
           AddLonghornCommands, AddReportCommand, AddCompletionCommand);
  AddEach<VersionCommand>(commands);
  return commands;
}

ExitCode RunProgram(const CallContext& ctx, absl::Span<const std::string> arguments,
                    const ProgramEnvironment& environment) {
  GlobalOptions options;
  ProgramSyntax program = DeclareFlags(options);
  program.name = environment.program;
  program.topics = Topics();
  program.answers = Answers();
  program.exit_codes = ExitCodes();
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
  const VerbSyntax* const verb = parsed.ok() ? VerbOf(parsed->verb, verbs) : nullptr;
  const bool is_of_mover = verb != nullptr && verb->family == VerbFamily::kMover;
  options.json = options.json || (is_of_mover && options.cluster.output == "json");
  Console console(environment.out, environment.error,
                  {.json = parsed.ok() ? options.json : asks_json,
                   .yaml = !options.json && options.cluster.output == "yaml",
                   .quiet = options.quiet,
                   .error_is_terminal = environment.error_is_terminal,
                   .error_columns = environment.error_columns});
  if (!parsed.ok()) {
    return console.Fail(ExitCode::kFailed, parsed.status().message());
  }
  if (parsed->help) {
    console.Print(HelpText(parsed->verb, program, verbs, environment.columns, parsed->all));
    return ExitCode::kOk;
  }
  if (verb == nullptr) {
    environment.error(HelpText("", program, verbs, environment.columns));
    return ExitCode::kFailed;
  }
  console.InfoAll(parsed->notes);
  if (verb->family == VerbFamily::kRepository || verb->family == VerbFamily::kNewRepository) {
    NoteVariables(environment.get, console);
  }
  std::string location;
  Command& command = *commands[static_cast<std::size_t>(verb - verbs.data())];
  absl::StatusOr<ExitCode> code = RunVerb(ctx, command, console, options, environment, location);
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
