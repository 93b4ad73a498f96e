#include "datamover/worker/task_runner.h"

#include <atomic>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "base/retry.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/object_rules.h"

namespace csidelta::datamover {
namespace {

// What one request may take, so that a server that hangs does not hold up those behind it.
constexpr absl::Duration kRequestTimeMax = absl::Seconds(15);
// Once stopped there is little time until the Pod is killed.
constexpr absl::Duration kLastReadTimeMax = absl::Seconds(2);
constexpr absl::Duration kWatchAgainAfter = absl::Seconds(2);
constexpr absl::Duration kProgressWriteInterval = absl::Seconds(1);
constexpr BackoffOptions kAgainBackoff = {.delay_first = absl::Milliseconds(200),
                                          .delay_max = absl::Seconds(5),
                                          .attempts_max = kAttemptsWithoutEnd};
// The controller writes into a task now and then; more in a row are none of its.
constexpr int kWriteConflictsMax = 10;

// This context, but never stopped: for what must be written in any case.
CallContext Unstopped(const CallContext& ctx) {
  CallContext context;
  context.clock = ctx.clock;
  return context;
}

// Tries until it works, the object is not there, or the time is over.
template <typename Call>
auto RetryRequest(const CallContext& ctx, const Call& call) -> decltype(call(ctx)) {
  const auto may_pass = [](const absl::Status& status) {
    return !absl::IsNotFound(status) && !absl::IsInvalidArgument(status) &&
           !absl::IsFailedPrecondition(status);
  };
  return Retry(
      ctx, kAgainBackoff, Random::Real(), may_pass,
      [&] { return call(ctx.WithTimeout(kRequestTimeMax)); },
      [](const absl::Status& status) {
        CSIDELTA_LOG(kWarn, "the API server does not answer; trying again",
                     {"error", std::string(status.message())});
      });
}

// Why the work is stopped, and the stopping.
class Stopper {
 public:
  explicit Stopper(const CallContext& ctx) : by_pod_(ctx.stop, [this] { stop_.request_stop(); }) {}

  void Cancel() {
    canceled_ = true;
    stop_.request_stop();
  }
  bool canceled() const { return canceled_; }
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::atomic<bool> canceled_ = false;
  std::stop_source stop_;
  std::stop_callback<std::function<void()>> by_pod_;
};

// Whether a task as it is now is to be given up.
bool IsGivenUp(const objects::VolumeTask* task, const std::string& uid) {
  return task == nullptr || task->is_canceled() || task->uid() != uid;
}

// Follows the task, and its rates, until it is given up or `ctx` is stopped.
void WatchTask(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& task,
               const std::string& uid, TaskReport& report, Stopper& stopper) {
  while (ctx.Check().ok()) {
    const absl::Status seen = objects::WaitFor<objects::VolumeTask>(
        ctx, api, task, [&](const objects::VolumeTask* now) -> absl::StatusOr<bool> {
          const bool is_given_up = IsGivenUp(now, uid);
          if (!is_given_up) {
            report.FollowRates(*now);
          }
          return is_given_up;
        });
    if (seen.ok()) {
      stopper.Cancel();
      return;
    }
    ctx.clock->SleepFor(kWatchAgainAfter, ctx.stop);
  }
}

void KeepReporting(const CallContext& ctx, TaskReport& report, Stopper& stopper) {
  bool answers = true;
  while (ctx.Check().ok()) {
    const absl::Status written = report.Step(ctx.WithTimeout(kRequestTimeMax));
    if (absl::IsFailedPrecondition(written)) {
      CSIDELTA_LOG(kWarn, "the worker stops", {"reason", std::string(written.message())});
      stopper.Cancel();
      return;
    }
    if (written.ok() != answers && ctx.Check().ok()) {
      answers = written.ok();
      CSIDELTA_LOG(kWarn, answers ? "progress can be written again" : "progress cannot be written",
                   {"error", std::string(written.message())});
    }
    ctx.clock->SleepFor(kProgressWriteInterval, ctx.stop);
  }
}

// Does the work beside the two that talk to the API server.
objects::Outcome RunBeside(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& task,
                           const std::string& uid, const objects::VolumeJob& job,
                           TaskReport& report, Stopper& stopper, const RunWork& run) {
  CallContext work_ctx = ctx;
  work_ctx.stop = stopper.token();
  const auto context_of = [&](std::stop_token stop) {
    CallContext context = Unstopped(ctx);
    context.stop = std::move(stop);
    return context;
  };
  const std::jthread reporting(
      [&](std::stop_token stop) { KeepReporting(context_of(std::move(stop)), report, stopper); });
  const std::jthread watching([&](std::stop_token stop) {
    WatchTask(context_of(std::move(stop)), api, task, uid, report, stopper);
  });
  return run(work_ctx, job,
             [&report](const incremental::TransferProgress& now) { report.Progress(now); });
}

objects::TaskPhase PhaseOf(objects::OutcomeCode code, bool canceled) {
  switch (code) {
    case objects::OutcomeCode::kDone:
      return objects::TaskPhase::kSucceeded;
    case objects::OutcomeCode::kStopped:
      return canceled ? objects::TaskPhase::kCanceled : objects::TaskPhase::kInterrupted;
    case objects::OutcomeCode::kFailed:
      break;
  }
  return objects::TaskPhase::kFailed;
}

// The cancellation, and the end of the Pod that follows it, may arrive in either order.
bool WasCanceled(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& task,
                 const std::string& uid, const Stopper& stopper) {
  if (stopper.canceled()) {
    return true;
  }
  const absl::StatusOr<objects::VolumeTask> now =
      objects::Get<objects::VolumeTask>(Unstopped(ctx).WithTimeout(kLastReadTimeMax), api, task);
  return now.ok() ? IsGivenUp(&*now, uid) : absl::IsNotFound(now.status());
}

objects::VolumeTaskStatus LastStatus(objects::VolumeTaskStatus status, objects::Outcome outcome,
                                     objects::TaskPhase phase, absl::Time now) {
  status.phase = phase;
  status.completed_at = now;
  status.outcome = std::move(outcome);
  status.bytes_per_second.reset();
  status.seconds_left.reset();
  return status;
}

// Has the final status written. kNone when there is no task to write it to.
absl::StatusOr<objects::TaskPhase> Conclude(const CallContext& ctx, TaskReport& report,
                                            const objects::VolumeTaskStatus& last) {
  const absl::Status written = report.Finish(Unstopped(ctx), last);
  if (absl::IsNotFound(written) || absl::IsFailedPrecondition(written)) {
    return objects::TaskPhase::kNone;
  }
  RETURN_IF_ERROR(written);
  return last.phase;
}

objects::OutcomeCause CauseOf(const absl::Status& status) {
  if (repository::IsNoRepository(status)) {
    return objects::OutcomeCause::kNoRepository;
  }
  if (repository::IsLocked(status)) {
    return objects::OutcomeCause::kLocked;
  }
  if (repository::IsWrongPassword(status)) {
    return objects::OutcomeCause::kNoKey;
  }
  return storage::IsRetained(status) ? objects::OutcomeCause::kRetained
                                     : objects::OutcomeCause::kNone;
}

}  // namespace

void TaskReport::Progress(const incremental::TransferProgress& now) {
  const MutexLock lock(mutex_);
  // The work of Pods before counts, so that the one that resumes it is seen to come further.
  resumed_bytes_ = now.resumed_bytes;
  status_.stage = std::string(now.stage);
  status_.done_bytes = now.done_bytes + now.resumed_bytes;
  status_.total_bytes = now.total_bytes + now.resumed_bytes;
}

void TaskReport::FollowRates(const objects::VolumeTask& task) {
  const absl::StatusOr<objects::VolumeJob> job = task.job();
  if (!job.ok()) {
    return;
  }
  if (pod_.set_rates) {
    pod_.set_rates(job->limits.rates);
  }
  const MutexLock lock(mutex_);
  // Only now: the controller gives to others what is reported not to be used any more.
  status_.observed_generation = task.generation();
}

bool TaskReport::IsDue(absl::Duration now) const {
  const bool is_first = written_.done_bytes == 0 && status_.done_bytes > 0;
  return now - written_at_ >= kReportEvery || is_first || status_.stage != written_.stage ||
         status_.observed_generation != written_.observed_generation ||
         (written_.total_bytes == 0 && status_.total_bytes > 0);
}

absl::Status TaskReport::Step(const CallContext& ctx) {
  const absl::Duration now = ctx.clock->Uptime();
  objects::VolumeTaskStatus status;
  {
    const MutexLock lock(mutex_);
    window_.Add(now, status_.done_bytes - resumed_bytes_, status_.total_bytes - status_.done_bytes);
    if (!IsDue(now)) {
      return absl::OkStatus();
    }
    const engine::RateWindow::Pace pace = window_.At(now);
    status_.bytes_per_second = pace.rate;
    status_.seconds_left =
        pace.left.has_value() ? std::optional(absl::ToInt64Seconds(*pace.left)) : std::nullopt;
    status_.heartbeat_at = ctx.clock->Now();
    status = status_;
  }
  RETURN_IF_ERROR(Write(ctx, status));
  const MutexLock lock(mutex_);
  written_at_ = now;
  written_ = std::move(status);
  return absl::OkStatus();
}

absl::Status TaskReport::Finish(const CallContext& ctx, objects::VolumeTaskStatus status) {
  status.heartbeat_at = ctx.clock->Now();
  const CallContext limited = ctx.WithTimeout(kFinalStatusTimeMax);
  const auto write = [&](const CallContext& attempt) { return Write(attempt, status); };
  absl::Status written = RetryRequest(limited, write);
  if (absl::IsInvalidArgument(written) && status.outcome.has_value()) {
    CSIDELTA_LOG(kWarn, "the figures are not taken", {"error", std::string(written.message())});
    status.outcome->backup.reset();
    status.outcome->restore.reset();
    written = RetryRequest(limited, write);
  }
  return written;
}

objects::VolumeTaskStatus TaskReport::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

absl::Status TaskReport::Write(const CallContext& ctx, const objects::VolumeTaskStatus& status) {
  RETURN_IF_ERROR(lost_);
  objects::Patch patch;
  patch.SetStatus(status);
  for (int tries = 0; tries < kWriteConflictsMax; ++tries) {
    if (!resource_version_.empty()) {
      patch.IfVersion(resource_version_);
    }
    const std::optional<WriteFence::Moment> asked =
        pod_.fence == nullptr ? std::nullopt : std::optional(pod_.fence->Now());
    absl::StatusOr<objects::VolumeTask> task =
        objects::Apply<objects::VolumeTask>(ctx, api_, task_, patch, "status");
    const bool conflicts = absl::IsAborted(task.status());
    if (conflicts) {
      task = objects::Get<objects::VolumeTask>(ctx, api_, task_);
    }
    RETURN_IF_ERROR(task.status());
    RETURN_IF_ERROR(ReadTask(*task));
    if (asked.has_value()) {
      pod_.fence->Renew(*asked);
    }
    if (!conflicts) {
      return absl::OkStatus();
    }
  }
  return absl::AbortedError(absl::StrCat(ToString(task_), " changes all the time"));
}

absl::Status TaskReport::ReadTask(const objects::VolumeTask& task) {
  const std::string uid = task.uid();
  if (!uid_.empty() && uid != uid_) {
    lost_ = absl::NotFoundError(absl::StrCat(ToString(task_), " is another one of the same name"));
    return lost_;
  }
  uid_ = uid;
  resource_version_ = task.resource_version();
  const std::string named = task.counted_pod();
  const bool is_given_up =
      !pod_.uid.empty() &&
      (task.unseen_end() == pod_.uid || (named != pod_.uid && (!named.empty() || was_counted_)));
  was_counted_ = was_counted_ || named == pod_.uid;
  if (!is_given_up) {
    return absl::OkStatus();
  }
  if (pod_.fence != nullptr) {
    pod_.fence->Close();
  }
  lost_ = absl::FailedPreconditionError(
      absl::StrCat(ToString(task_), " was given to another Pod than this one, ", pod_.uid));
  return lost_;
}

absl::StatusOr<objects::TaskPhase> RunTask(const CallContext& ctx, k8s::ApiClient& api,
                                           const k8s::ObjectKey& task, absl::string_view node,
                                           const RunWork& run, const WorkerPodRef& pod) {
  ASSIGN_OR_RETURN(
      const objects::VolumeTask object,
      RetryRequest(ctx.WithTimeout(kFinalStatusTimeMax), [&](const CallContext& attempt) {
        return objects::Get<objects::VolumeTask>(attempt, api, task);
      }));
  const std::string uid = object.uid();
  const objects::VolumeTaskStatus before = object.status();
  if (IsLast(before.phase)) {
    CSIDELTA_LOG(kInfo, "the task has finished already", {"task", ToString(task)},
                 {"phase", ToString(before.phase)});
    return before.phase;
  }
  objects::VolumeTaskStatus status;
  status.phase = objects::TaskPhase::kRunning;
  status.done_bytes = before.done_bytes;
  status.total_bytes = before.total_bytes;
  status.started_at = before.started_at.value_or(ctx.clock->Now());
  status.node = std::string(node);
  TaskReport report(api, task, status, object, pod);
  if (!report.is_managed()) {
    CSIDELTA_LOG(kWarn, "the task is another Pod's", {"task", ToString(task)});
    return objects::TaskPhase::kNone;
  }
  report.FollowRates(object);
  Stopper stopper(ctx);
  if (IsGivenUp(&object, uid)) {
    stopper.Cancel();
  }
  const absl::StatusOr<objects::VolumeJob> job = object.job();
  objects::Outcome outcome = stopper.token().stop_requested()
                                 ? objects::Outcome{.code = objects::OutcomeCode::kStopped,
                                                    .message = "stopped before it began"}
                             : job.ok() ? RunBeside(ctx, api, task, uid, *job, report, stopper, run)
                                        : OutcomeOf(job.status());
  const bool canceled =
      outcome.code == objects::OutcomeCode::kStopped && WasCanceled(ctx, api, task, uid, stopper);
  const objects::TaskPhase phase = PhaseOf(outcome.code, canceled);
  return Conclude(ctx, report,
                  LastStatus(report.status(), std::move(outcome), phase, ctx.clock->Now()));
}

objects::Outcome OutcomeOf(const absl::Status& status) {
  CSIDELTA_CHECK(!status.ok());
  objects::Outcome outcome{.code = absl::IsCancelled(status) ? objects::OutcomeCode::kStopped
                                                             : objects::OutcomeCode::kFailed,
                           .cause = CauseOf(status),
                           .message = std::string(status.message())};
  if (outcome.cause == objects::OutcomeCause::kLocked) {
    outcome.locks = repository::LocksOf(status);
  }
  return outcome;
}

}  // namespace csidelta::datamover
