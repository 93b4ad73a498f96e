#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/program.h"
#include "datamover/former_outcome.h"
#include "datamover/outcome.h"
#include "datamover/task_runner.h"

namespace csidelta::cli {
namespace {

using datamover::OutcomeCause;
using datamover::OutcomeCode;
using datamover::TaskPhase;
using datamover::TaskProgress;

// What a worker is for; the others need nobody to watch them.
constexpr absl::string_view kVerbs[] = {"backup", "restore", "forget"};
constexpr int kWordsMax = 1000;
constexpr char kNodeVariable[] = "NODE_NAME";
constexpr char kPodVariable[] = "POD_UID";

// What a verb prints and how it fails: progress is passed on at once, the last document is kept. A
// verb writes whole lines, one thread at a time.
class VerbOutput {
 public:
  explicit VerbOutput(const TaskProgress& progress) : progress_(&progress) {}

  bool TakeOut(absl::string_view bytes) {
    rest_.append(bytes.data(), bytes.size());
    for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      TakeLine(absl::string_view(rest_).substr(0, end));
      rest_.erase(0, end + 1);
    }
    return true;
  }

  void TakeFailure(const absl::Status& failure, const std::string& sentence) {
    failure_ = datamover::OutcomeOf(failure);
    failure_->message = sentence;
  }

  datamover::Outcome End(absl::string_view verb, ExitCode code) const {
    if (failure_.has_value()) {
      return *failure_;
    }
    // A list of changes that was not true is told beside a backup that is.
    if (code != ExitCode::kOk && code != ExitCode::kAuditMismatch) {
      return {.code = OutcomeCode::kFailed,
              .message = absl::StrCat("ended with exit code ", static_cast<int>(code))};
    }
    datamover::Outcome outcome{.code = OutcomeCode::kDone};
    if (code == ExitCode::kAuditMismatch) {
      outcome.cause = GetBool(result_, {"audit", "mismatch"}) ? OutcomeCause::kAuditMismatch
                                                              : OutcomeCause::kListRefused;
    }
    if (verb == "backup") {
      outcome.backup = datamover::FormerBackupFigures(result_);
    } else if (verb == "restore") {
      outcome.restore = datamover::FormerRestoreFigures(result_);
    }
    return outcome;
  }

 private:
  void TakeLine(absl::string_view line) {
    absl::StatusOr<Json> document = ParseJsonObject(line);
    if (!document.ok()) {
      return;
    }
    if (GetString(*document, {"message_type"}) == "status") {
      (*progress_)(GetString(*document, {"stage"}), GetInt(*document, {"bytes_done"}),
                   GetInt(*document, {"total_bytes"}));
    } else {
      result_ = *std::move(document);
    }
  }

  const TaskProgress* progress_;
  std::string rest_;
  std::optional<datamover::Outcome> failure_;
  Json result_;
};

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
    RETURN_IF_ERROR(ReadVerb());
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
                             return RunVerb(verb_ctx, progress, environment);
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
  absl::Status ReadVerb() {
    const ProgramSyntax program = DeclareFlags(verb_options_);
    std::vector<VerbSyntax> verbs;
    const std::vector<std::unique_ptr<Command>> commands = AllCommands();
    verbs.reserve(commands.size());
    for (const std::unique_ptr<Command>& command : commands) {
      verbs.push_back(command->Declare());
    }
    ASSIGN_OR_RETURN(const ParsedLine parsed, ParseCommandLine(words_, program, verbs));
    if (std::find(std::begin(kVerbs), std::end(kVerbs), parsed.verb) == std::end(kVerbs) ||
        parsed.help) {
      return absl::InvalidArgumentError(absl::StrCat("a worker runs ", absl::StrJoin(kVerbs, ", "),
                                                     ", not ",
                                                     parsed.help ? "--help" : parsed.verb));
    }
    if (!verb_options_.json) {
      words_.insert(words_.begin(), "--json");
    }
    verb_ = parsed.verb;
    return absl::OkStatus();
  }

  datamover::Outcome RunVerb(const CallContext& ctx, const TaskProgress& progress,
                             const ProgramEnvironment& environment) const {
    VerbOutput output(progress);
    ProgramEnvironment inner = environment;
    inner.out = [&output](absl::string_view bytes) { return output.TakeOut(bytes); };
    inner.on_failure = [&output](const absl::Status& failure, const std::string& sentence) {
      output.TakeFailure(failure, sentence);
    };
    inner.error_is_terminal = false;
    inner.confirm = nullptr;
    inner.witnesses = [this, &environment] {
      repository::LockWitnesses witnesses = environment.witnesses();
      witnesses.pod_is_gone = [this](const std::string& uid) { return HasEnded(uid); };
      return witnesses;
    };
    ExitCode code = RunProgram(ctx, words_, inner);
    if (code == ExitCode::kNoRepository && init_) {
      if (const std::optional<datamover::Outcome> failed = MakeRepository(ctx, inner);
          failed.has_value()) {
        return *failed;
      }
      output = VerbOutput(progress);
      code = RunProgram(ctx, words_, inner);
    }
    return output.End(verb_, code);
  }

  // Nothing when it is there: another worker may make it at the same time.
  std::optional<datamover::Outcome> MakeRepository(const CallContext& ctx,
                                                   const ProgramEnvironment& environment) const {
    Console console(environment.out, environment.error, {.json = true});
    Session session(verb_options_, environment, console);
    const absl::Status made = session.Init(ctx).status();
    if (made.ok() || absl::IsAlreadyExists(made)) {
      console.Note(absl::StrCat("made repository ", session.place()));
      return std::nullopt;
    }
    datamover::Outcome failed = datamover::OutcomeOf(made);
    failed.message = Explain(made, session.place());
    failed.code = ctx.stop.stop_requested() ? OutcomeCode::kStopped : failed.code;
    console.Warn(failed.message);
    return failed;
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
  std::string verb_;  // that they begin with
  GlobalOptions verb_options_;
};

}  // namespace

std::unique_ptr<Command> MakeWorkerCommand() { return std::make_unique<WorkerCommand>(); }

}  // namespace csidelta::cli
