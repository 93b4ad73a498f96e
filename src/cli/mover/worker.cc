#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/location_store.h"
#include "cli/password.h"
#include "datamover/worker/job.h"
#include "datamover/worker/task_runner.h"
#include "k8s/rest_client.h"
#include "repository/repository.h"

namespace csidelta::cli {
namespace {

using datamover::TaskProgress;
using objects::TaskPhase;
using objects::VolumeJob;

constexpr char kNodeVariable[] = "NODE_NAME";
constexpr char kPodVariable[] = "POD_UID";

class WorkerCommand : public Command {
 public:
  VerbSyntax Declare() override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<k8s::ObjectKey> TaskKey() const;
  objects::Outcome RunJob(const CallContext& ctx, const VolumeJob& job,
                          const TaskProgress& progress,
                          const ProgramEnvironment& environment) const;
  static GlobalOptions OptionsOf(const VolumeJob& job);

  // Closes the repository before the outcome is reported: a remaining lock would make others wait.
  absl::StatusOr<objects::Outcome> DoJob(const CallContext& ctx, const VolumeJob& job,
                                         const GlobalOptions& options,
                                         const ProgramEnvironment& environment, Console& console,
                                         const TaskProgress& progress, std::string& location) const;

  static absl::Status OrStopped(const CallContext& ctx, const absl::Status& failure) {
    return ctx.stop.stop_requested() ? absl::CancelledError(failure.message()) : failure;
  }

  // OK also when it is there: another worker may make it at the same time.
  static absl::StatusOr<objects::Outcome> MakeRepository(const CallContext& ctx,
                                                         const GlobalOptions& options,
                                                         const ProgramEnvironment& environment,
                                                         Console& console, std::string& location);

  std::string task_;
  ClusterAccess access_;
};

VerbSyntax WorkerCommand::Declare() {
  ArgumentTable table;
  table.Add("--task", "NS/NAME", "the VolumeTask that this is for", task_);
  access_.Declare(table);
  return {
      .name = "worker",
      .summary = "Run the job of a VolumeTask, and record its progress",
      .details =
          "Runs in the Pods of the data mover. spec.job of the task is the job: a backup, a "
          "restore, a removal or a check. Progress and outcome are written to its status. The "
          "worker stops when spec.cancel of the task becomes true (Canceled), or on a signal "
          "(Interrupted). It continues while the API server is not reachable. A restore then "
          "pauses its writes after two minutes, until the task confirms that it still belongs "
          "to this Pod. Exits 0 once the final status has been recorded, including on failure.",
      .table = std::move(table),
      .examples = {"worker --task csi-delta/up-1", "worker --task csi-delta/up-1 --context prod"}};
}

absl::StatusOr<ExitCode> WorkerCommand::Run(const CallContext& ctx, Session& session) {
  SetLogLevel(LogLevel::kInfo);
  ASSIGN_OR_RETURN(const k8s::ObjectKey task, TaskKey());
  const std::unique_ptr<k8s::ApiClient> api = k8s::MakeClient(access_.Settings());
  const GetVariable& get = session.environment().get;
  datamover::WriteFence fence(*ctx.clock);
  ProgramEnvironment environment = session.environment();
  environment.await_writing = [&fence](const CallContext& job_ctx) { return fence.Await(job_ctx); };
  ASSIGN_OR_RETURN(const TaskPhase phase,
                   datamover::RunTask(ctx, *api, task, Variable(get, kNodeVariable),
                                      [&](const CallContext& job_ctx, const VolumeJob& job,
                                          const TaskProgress& progress) {
                                        return RunJob(job_ctx, job, progress, environment);
                                      },
                                      {.uid = Variable(get, kPodVariable), .fence = &fence}));
  session.console().Info(phase == TaskPhase::kNone ? absl::StrCat("task ", task_, " is gone")
                                                   : absl::StrCat("task ", task_, " ended as ",
                                                                  objects::ToString(phase)));
  return ExitCode::kOk;
}

absl::StatusOr<k8s::ObjectKey> WorkerCommand::TaskKey() const {
  const std::vector<std::string> parts = absl::StrSplit(task_, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return absl::InvalidArgumentError("--task names the VolumeTask as NAMESPACE/NAME");
  }
  return objects::VolumeTask::Key(parts[0], parts[1]);
}

objects::Outcome WorkerCommand::RunJob(const CallContext& ctx, const VolumeJob& job,
                                       const TaskProgress& progress,
                                       const ProgramEnvironment& environment) const {
  ProgramEnvironment inner = environment;
  inner.liveness_probes = [&job, &environment] {
    repository::LivenessProbes liveness_probes = environment.liveness_probes();
    liveness_probes.pod_is_gone = [&job](const std::string& uid) {
      return absl::c_linear_search(job.ended_pods, uid);
    };
    return liveness_probes;
  };
  Console console(environment.out, environment.error, {.json = true});
  const GlobalOptions options = OptionsOf(job);
  std::string location;
  absl::StatusOr<objects::Outcome> outcome =
      DoJob(ctx, job, options, inner, console, progress, location);
  if (repository::IsNoRepository(outcome.status()) &&
      std::holds_alternative<objects::UploadWork>(job.work)) {
    outcome = MakeRepository(ctx, options, inner, console, location);
    if (outcome.ok()) {
      outcome = DoJob(ctx, job, options, inner, console, progress, location);
    }
  }
  if (outcome.ok()) {
    return *std::move(outcome);
  }
  objects::Outcome failed = datamover::OutcomeOf(outcome.status());
  failed.message = Explain(outcome.status(), location);
  console.Fail(ExitCodeOf(outcome.status()), failed.message);
  return failed;
}

GlobalOptions WorkerCommand::OptionsOf(const VolumeJob& job) {
  GlobalOptions options = cli::OptionsOf(job.repository);
  options.retry_lock = job.lock_wait;
  options.limit_upload_kib = job.limits.upload_kib_per_second;
  options.limit_download_kib = job.limits.download_kib_per_second;
  if (job.limits.memory_bytes > 0) {
    options.memory_budget_bytes = job.limits.memory_bytes;
  }
  return options;
}

absl::StatusOr<objects::Outcome> WorkerCommand::DoJob(const CallContext& ctx, const VolumeJob& job,
                                                      const GlobalOptions& options,
                                                      const ProgramEnvironment& environment,
                                                      Console& console,
                                                      const TaskProgress& progress,
                                                      std::string& location) const {
  Session session(options, environment, console);
  absl::StatusOr<objects::Outcome> outcome =
      datamover::DoJob(ctx, session.engine(), job, access_.Settings(), progress);
  location = session.location();
  return outcome.ok() ? outcome : OrStopped(ctx, outcome.status());
}

absl::StatusOr<objects::Outcome> WorkerCommand::MakeRepository(
    const CallContext& ctx, const GlobalOptions& options, const ProgramEnvironment& environment,
    Console& console, std::string& location) {
  Session session(options, environment, console);
  const absl::Status made = session.Init(ctx).status();
  location = session.location();
  if (!made.ok() && !absl::IsAlreadyExists(made)) {
    return OrStopped(ctx, made);
  }
  console.Info(absl::StrCat("created repository ", location));
  return objects::Outcome{.code = objects::OutcomeCode::kDone};
}

}  // namespace

void AddWorkerCommand(Commands& all) { AddEach<WorkerCommand>(all); }

}  // namespace csidelta::cli
