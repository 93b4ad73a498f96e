#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
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
#include "storage/limited_object_store.h"

namespace csidelta::cli {
namespace {

using datamover::TaskProgress;
using objects::TaskPhase;
using objects::VolumeJob;

constexpr char kNodeVariable[] = "NODE_NAME";
constexpr char kPodVariable[] = "POD_UID";

class WorkerCommand : public Command {
 public:
  VerbSyntax Describe(ArgumentTable& table) override;
  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override;

 private:
  absl::StatusOr<k8s::ObjectKey> TaskKey() const;
  objects::Outcome RunJob(const CallContext& ctx, const VolumeJob& job,
                          const TaskProgress& progress,
                          const ProgramEnvironment& environment) const;
  GlobalOptions OptionsOf(const VolumeJob& job) const;

  // Of all stores that the job opens; their rates follow the task.
  const std::shared_ptr<storage::ByteLimiters> limiters_ =
      std::make_shared<storage::ByteLimiters>();
  std::string task_;
  ClusterAccess access_;
};

VerbSyntax WorkerCommand::Describe(ArgumentTable& table) {
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
  ASSIGN_OR_RETURN(
      const TaskPhase phase,
      datamover::RunTask(
          ctx, *api, task, Variable(get, kNodeVariable),
          [&](const CallContext& job_ctx, const VolumeJob& job, const TaskProgress& progress) {
            return RunJob(job_ctx, job, progress, environment);
          },
          {.uid = Variable(get, kPodVariable),
           .fence = &fence,
           .set_rates = [&](const objects::JobRates& rates) {
             limiters_->SetRates(*ctx.clock, 1024.0 * static_cast<double>(rates.upload),
                                 1024.0 * static_cast<double>(rates.download));
           }}));
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
  // Closes the repository before the outcome is reported: a remaining lock would make others wait.
  const auto in_session = [&](absl::FunctionRef<absl::StatusOr<objects::Outcome>(Session&)> work)
      -> absl::StatusOr<objects::Outcome> {
    Session session(options, inner, console);
    absl::StatusOr<objects::Outcome> outcome = work(session);
    location = session.location();
    return outcome.ok() || !ctx.stop.stop_requested()
               ? outcome
               : absl::CancelledError(outcome.status().message());
  };
  const auto do_job = [&](Session& session) {
    return datamover::DoJob(ctx, session.engine(), job, access_.Settings(), progress);
  };
  absl::StatusOr<objects::Outcome> outcome = in_session(do_job);
  if (repository::IsNoRepository(outcome.status()) &&
      std::holds_alternative<objects::UploadWork>(job.work)) {
    outcome = in_session([&](Session& session) -> absl::StatusOr<objects::Outcome> {
      const absl::Status made = session.Init(ctx).status();
      if (!made.ok() && !absl::IsAlreadyExists(made)) {  // Another worker may have made it.
        return made;
      }
      console.Info(absl::StrCat("created repository ", session.location()));
      return objects::Outcome{.code = objects::OutcomeCode::kDone};
    });
    outcome = outcome.ok() ? in_session(do_job) : outcome;
  }
  if (outcome.ok()) {
    return *std::move(outcome);
  }
  objects::Outcome failed = datamover::OutcomeOf(outcome.status());
  failed.message = Explain(outcome.status(), location);
  console.Fail(ExitCodeOf(outcome.status()), failed.message);
  return failed;
}

GlobalOptions WorkerCommand::OptionsOf(const VolumeJob& job) const {
  GlobalOptions options = cli::OptionsOf(job.repository);
  options.retry_lock = job.lock_wait;
  options.byte_limiters = limiters_;
  if (job.limits.memory_bytes > 0) {
    options.memory_budget_bytes = job.limits.memory_bytes;
  }
  return options;
}

}  // namespace

void AddWorkerCommand(Commands& all) { AddEach<WorkerCommand>(all); }

}  // namespace csidelta::cli
