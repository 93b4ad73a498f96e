#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "datamover/job.h"
#include "datamover/outcome.h"
#include "datamover/task_runner.h"
#include "repository/repository.h"

namespace csidelta::cli {
namespace {

using datamover::TaskPhase;
using datamover::TaskProgress;

constexpr int kWordsMax = 1000;
constexpr char kNodeVariable[] = "NODE_NAME";
constexpr char kPodVariable[] = "POD_UID";

class WorkerCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    table.AddWords("VERB WORDS...", "backup, restore or forget, with its words, behind \"--\"", 1,
                   kWordsMax, words_);
    table.Add("--task", "NS/NAME", "the VolumeTask that this is for", task_);
    table.Add("--init", "make the repository where there is none", init_);
    table.AddList("--ended-pods", "UID[,UID]", "Pods that have ended: their locks are dead",
                  ended_pods_);
    access_.Declare(table);
    return {.name = "worker",
            .summary = "Run a verb for a VolumeTask, and write into it how far it is",
            .details =
                "Runs in the Pods of the data mover. The verb runs as it would without this; its "
                "progress and its outcome go into the status of the task. It is stopped when "
                "spec.cancel of the task becomes true (Canceled), or when this program is "
                "(Interrupted). While the API server is away it goes on, but a restore writes "
                "nothing after two minutes, until the task says that it is still this Pod's. The "
                "exit code is 0 once the end is written, whatever the end is.",
            .table = std::move(table),
            .family = VerbFamily::kRepository};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    SetLogLevel(LogLevel::kInfo);
    ASSIGN_OR_RETURN(const k8s::ObjectKey task, TaskKey());
    RETURN_IF_ERROR(ReadJob());
    const std::unique_ptr<k8s::ApiClient> api = access_.MakeClient();
    const auto variable = [&session](const char* name) -> std::string {
      const char* const value = session.environment().get(name);
      return value == nullptr ? "" : value;
    };
    datamover::WriteFence fence(*ctx.clock);
    ProgramEnvironment environment = session.environment();
    environment.await_writing = [&fence](const CallContext& verb_ctx) {
      return fence.Await(verb_ctx);
    };
    ASSIGN_OR_RETURN(
        const TaskPhase phase,
        datamover::RunTask(ctx, *api, task, variable(kNodeVariable),
                           [&](const CallContext& verb_ctx, const TaskProgress& progress) {
                             return RunJob(verb_ctx, progress, environment);
                           },
                           {.uid = variable(kPodVariable), .fence = &fence}));
    session.console().Note(phase == TaskPhase::kNone ? absl::StrCat("task ", task_, " is gone")
                                                     : absl::StrCat("task ", task_, " ended as ",
                                                                    datamover::ToString(phase)));
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<k8s::ObjectKey> TaskKey() const {
    const std::vector<std::string> parts = absl::StrSplit(task_, '/');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError("--task names the VolumeTask as NAMESPACE/NAME");
    }
    return k8s::ObjectKey{
        .type = datamover::VolumeTaskType(), .namespace_name = parts[0], .name = parts[1]};
  }

  // What is wrong with the words is told before anything is done.
  absl::Status ReadJob() {
    const ProgramSyntax program = DeclareFlags(verb_options_);
    std::vector<VerbSyntax> verbs;
    const std::vector<std::unique_ptr<Command>> commands = AllCommands();
    verbs.reserve(commands.size());
    for (const std::unique_ptr<Command>& command : commands) {
      verbs.push_back(command->Declare());
    }
    ASSIGN_OR_RETURN(const ParsedLine parsed, ParseCommandLine(words_, program, verbs));
    const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const VerbSyntax& known) {
      return known.name == parsed.verb && !parsed.help;
    });
    if (verb == verbs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a worker runs backup, restore or forget, not ", parsed.help ? "--help" : parsed.verb));
    }
    ASSIGN_OR_RETURN(job_, commands[static_cast<std::size_t>(verb - verbs.begin())]->WorkerJob());
    return absl::OkStatus();
  }

  datamover::Outcome RunJob(const CallContext& ctx, const TaskProgress& progress,
                            const ProgramEnvironment& environment) const {
    ProgramEnvironment inner = environment;
    inner.witnesses = [this, &environment] {
      repository::LockWitnesses witnesses = environment.witnesses();
      witnesses.pod_is_gone = [this](const std::string& uid) { return HasEnded(uid); };
      return witnesses;
    };
    Console console(environment.out, environment.error, {.json = true});
    std::string place;
    absl::StatusOr<datamover::Outcome> outcome = DoJob(ctx, inner, console, progress, place);
    if (repository::IsNoRepository(outcome.status()) && init_) {
      outcome = MakeRepository(ctx, inner, console, place);
      if (outcome.ok()) {
        outcome = DoJob(ctx, inner, console, progress, place);
      }
    }
    if (outcome.ok()) {
      return *std::move(outcome);
    }
    datamover::Outcome failed = datamover::OutcomeOf(outcome.status());
    failed.message = Explain(outcome.status(), place);
    console.Fail(static_cast<int>(ExitCodeOf(outcome.status())), failed.message);
    return failed;
  }

  // Closes the repository before its end is told: a lock that stays is worth a wait.
  absl::StatusOr<datamover::Outcome> DoJob(const CallContext& ctx,
                                           const ProgramEnvironment& environment, Console& console,
                                           const TaskProgress& progress, std::string& place) const {
    Session session(verb_options_, environment, console);
    absl::StatusOr<datamover::Outcome> outcome =
        datamover::DoJob(ctx, session.engine(), job_, progress);
    place = session.place();
    return outcome.ok() ? outcome : OrStopped(ctx, outcome.status());
  }

  static absl::Status OrStopped(const CallContext& ctx, const absl::Status& failure) {
    return ctx.stop.stop_requested() ? absl::CancelledError(failure.message()) : failure;
  }

  // OK also when it is there: another worker may make it at the same time.
  absl::StatusOr<datamover::Outcome> MakeRepository(const CallContext& ctx,
                                                    const ProgramEnvironment& environment,
                                                    Console& console, std::string& place) const {
    Session session(verb_options_, environment, console);
    const absl::Status made = session.Init(ctx).status();
    place = session.place();
    if (!made.ok() && !absl::IsAlreadyExists(made)) {
      return OrStopped(ctx, made);
    }
    console.Note(absl::StrCat("made repository ", place));
    return datamover::Outcome{.code = datamover::OutcomeCode::kDone};
  }

  bool HasEnded(const std::string& pod_uid) const {
    return std::any_of(ended_pods_.begin(), ended_pods_.end(), [&](const std::string& list) {
      const std::vector<std::string> uids = absl::StrSplit(list, ',');
      return std::find(uids.begin(), uids.end(), pod_uid) != uids.end();
    });
  }

  std::string task_;
  std::vector<std::string> ended_pods_;
  bool init_ = false;
  ClusterAccess access_;
  std::vector<std::string> words_;
  datamover::Job job_;  // that they say
  GlobalOptions verb_options_;
};

}  // namespace

std::unique_ptr<Command> MakeWorkerCommand() { return std::make_unique<WorkerCommand>(); }

}  // namespace csidelta::cli
