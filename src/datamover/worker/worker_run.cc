#include "datamover/worker/worker_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/node_slots.h"
#include "datamover/worker/lost_pods.h"
#include "datamover/worker/worker_pod.h"
#include "datamover/write_fence.h"
#include "k8s/cached_client.h"
#include "objects/core.h"
#include "objects/event.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using objects::Pod;
using Presence = k8s::ObjectCache::Presence;

// While something is waited for that no watch reports: the less often the longer it takes.
constexpr absl::Duration kRequeueAfter = absl::Milliseconds(500);
constexpr absl::Duration kRequeueAfterMax = absl::Seconds(5);
constexpr absl::Duration kRequeueIdleMax = absl::Minutes(1);
constexpr absl::Duration kRequeueUnsteadyAfter = absl::Seconds(10);
constexpr absl::Duration kRefusedAgain = absl::Seconds(2);
constexpr absl::Duration kRefusedAgainMax = absl::Seconds(30);
constexpr std::size_t kReasonBytesMax = 400;
// How the API server begins what it writes of a ResourceQuota that leaves too little.
constexpr char kOverQuota[] = "exceeded quota: ";

// 2 s, 4 s, 8 s, ... after the first, second, third.
absl::Duration PauseAfter(int attempts) {
  const int doublings = std::clamp(attempts - 1, 0, 10);
  return std::min(kWorkerAgainMax, kWorkerAgainFirst * (int64_t{1} << doublings));
}

// "Pod 7 was lost, 2 of at most 5 that count: Error with exit code 134".
std::string LossMessage(int attempts, int counted, absl::string_view message) {
  return absl::StrCat("Pod ", attempts, " was lost, ", counted, " of at most ", kLostPodsMax,
                      " that count: ", message);
}

// "Evicted: The node was low on resource: memory."
std::string Join(absl::string_view reason, absl::string_view message) {
  if (reason.empty() || message.empty()) {
    return absl::StrCat(reason, message).substr(0, kReasonBytesMax);
  }
  return absl::StrCat(reason, ": ", message).substr(0, kReasonBytesMax);
}

std::string TerminationMessage(const objects::ContainerStatus::Terminated& terminated) {
  if (terminated.reason == "OOMKilled") {
    return "OOMKilled: it needed more memory than its limit; raise worker.resources.limits.memory "
           "in the settings";
  }
  return Join(absl::StrCat(terminated.reason, " with exit code ", terminated.exit_code),
              terminated.message);
}

std::string ContainerMessage(const Pod& pod) {
  for (const objects::ContainerStatus& container : pod.containers()) {
    if (container.terminated.has_value()) {
      return TerminationMessage(*container.terminated);
    }
    if (container.waiting.has_value()) {
      return Join(container.waiting->reason, container.waiting->message);
    }
  }
  return "";
}

std::string ConditionMessage(const Pod& pod) {
  for (const objects::Condition& condition : pod.conditions()) {
    if (condition.type == "PodScheduled" && condition.status == "False") {
      return Join(condition.reason, condition.message);
    }
  }
  return "";
}

// Whether the same may be taken another time: not what will never do, nor what was about something
// that has changed or is gone, or is to be left.
bool MayPassLater(const absl::Status& error) {
  return !error.ok() && !absl::IsFailedPrecondition(error) && !absl::IsInvalidArgument(error) &&
         !absl::IsNotFound(error) && !absl::IsAborted(error) && !absl::IsCancelled(error);
}

bool IsOverQuota(const absl::Status& why) {
  return absl::IsPermissionDenied(why) && absl::StrContains(why.message(), kOverQuota);
}

// Whether its worker writes into a volume.
bool IsRestore(const objects::VolumeTask& task) {
  const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
  return spec.ok() && spec->kind == objects::TaskKind::kDownload;
}

// Whether it was to be gone long ago.
bool IsStuck(const Pod& pod, absl::Time now) {
  const std::optional<absl::Time> gone_at = pod.deleted_at();
  return gone_at.has_value() && now >= *gone_at + kPodGoneAfter;
}

// Makes it, or sees to it that the one that is there has the same data.
absl::Status PutSecret(const CallContext& ctx, k8s::ApiClient& api, const objects::Secret& secret) {
  const absl::Status made = objects::Create(ctx, api, secret).status();
  if (!absl::IsAlreadyExists(made)) {
    return made;
  }
  return objects::Apply(ctx, api, secret.key(),
                        objects::Patch().SetEncodedData(secret.encoded_data()));
}

// A Pod of the task counts, and is not counted again.
objects::Patch CountedPod(absl::string_view uid, int attempts) {
  return objects::Patch()
      .SetAnnotation(objects::kTaskPodAnnotation, uid)
      .SetAnnotation(objects::kAttemptsAnnotation, absl::StrCat(attempts));
}

}  // namespace

std::string PodMessage(const Pod& pod) {
  std::string message = Join(pod.reason(), pod.message());
  if (message.empty()) {
    message = ContainerMessage(pod);
  }
  return message.empty() ? ConditionMessage(pod) : message;
}

WorkerRun::WorkerRun(const MoverEnvironment& env, std::string task_name)
    : env_(env), task_name_(std::move(task_name)) {}

k8s::ObjectKey WorkerRun::TaskKey() const {
  return objects::VolumeTask::Key(env_.mover_namespace, task_name_);
}
k8s::ObjectKey WorkerRun::PodKey() const { return Pod::Key(env_.mover_namespace, task_name_); }

absl::StatusOr<std::optional<objects::VolumeTask>> WorkerRun::FindTask(
    const CallContext& ctx) const {
  return objects::Find<objects::VolumeTask>(ctx, env_.api, TaskKey());
}

absl::StatusOr<std::optional<Pod>> WorkerRun::FindPod(const CallContext& ctx) const {
  return objects::Find<Pod>(ctx, env_.api, PodKey());
}

absl::StatusOr<std::optional<objects::VolumeTask>> WorkerRun::CachedTask(
    const CallContext& ctx) const {
  k8s::CachedReader reader(env_.api, env_.cache);
  return objects::Find<objects::VolumeTask>(ctx, reader, TaskKey());
}

bool WorkerRun::MayHaveTask() const {
  return objects::FindCached<objects::VolumeTask>(env_.cache, TaskKey()).presence !=
         Presence::kAbsent;
}

absl::StatusOr<objects::VolumeTask> WorkerRun::EnsureTask(
    const CallContext& ctx, const objects::VolumeTaskSpec& spec,
    const std::map<std::string, std::string>& labels) {
  objects::Cached<objects::VolumeTask> cached =
      objects::FindCached<objects::VolumeTask>(env_.cache, TaskKey());
  if (cached.presence == Presence::kUnknown) {
    ASSIGN_OR_RETURN(cached.object, FindTask(ctx));
  }
  return cached.object.has_value()
             ? *std::move(cached.object)
             : objects::CreateOrGet(
                   ctx, env_.api,
                   objects::VolumeTask::Make(env_.mover_namespace, task_name_, spec, labels));
}

absl::StatusOr<objects::VolumeTask> WorkerRun::RecordTask(const CallContext& ctx,
                                                          const objects::Patch& changes) {
  return objects::Apply<objects::VolumeTask>(ctx, env_.api, TaskKey(), changes);
}

// As they were a moment ago, as long as that cannot mislead. That a Pod is gone is for the API
// server to say where one was counted; and what a Pod that has ended wrote into the task is there
// only if the task is read afterwards.
absl::StatusOr<WorkerRun::Seen> WorkerRun::Read(const CallContext& ctx) const {
  objects::Cached<Pod> pod = objects::FindCached<Pod>(env_.cache, PodKey());
  objects::Cached<objects::VolumeTask> task =
      objects::FindCached<objects::VolumeTask>(env_.cache, TaskKey());
  if (task.object.has_value()) {
    const bool is_first = task.object->attempts() == 0 && task.object->counted_pod().empty();
    const bool pod_may_be_old = pod.object.has_value()
                                    ? pod.object->is_active() && !pod.object->is_being_deleted()
                                    : pod.presence == Presence::kAbsent && is_first;
    if (pod_may_be_old || IsLast(task.object->status().phase)) {
      return Seen{.pod = std::move(pod.object), .task = *std::move(task.object)};
    }
  }
  Seen seen;
  ASSIGN_OR_RETURN(seen.pod, FindPod(ctx));
  ASSIGN_OR_RETURN(seen.task, objects::Get<objects::VolumeTask>(ctx, env_.api, TaskKey()));
  return seen;
}

absl::StatusOr<WorkerView> WorkerRun::Step(const CallContext& ctx, const PodMaker& make_pod) {
  ASSIGN_OR_RETURN(const Seen seen, Read(ctx));
  const std::optional<Pod>& pod = seen.pod;
  const objects::VolumeTask& task = seen.task;
  WorkerView view;
  view.status = task.status();
  view.attempts = task.attempts();
  if (IsLast(view.status.phase)) {
    view.state = WorkerView::State::kEnded;
    view.node = view.status.node;
    return view;
  }
  const std::string counted = task.counted_pod();
  if (!pod.has_value()) {
    return counted.empty() ? Make(ctx, task, make_pod) : NextAttempt(ctx, nullptr, task);
  }
  if (counted.empty() && task.attempts() > 0 && (pod->is_being_deleted() || !pod->is_active())) {
    // The one before, on its way out.
    RETURN_IF_ERROR(k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {.uid = pod->uid()})));
    view.message = task.Annotation(objects::kLastEndAnnotation);
    view.pods_lost = view.attempts;
    view.attempt_since = task.attempt_at().value_or(ctx.clock->Now());
    view.requeue_time = ctx.clock->Now() + kRequeueAfter;
    return view;
  }
  const auto go_on = [&](const objects::VolumeTask& noted) {
    return pod->is_active() ? InspectPod(ctx, *pod, noted) : NextAttempt(ctx, &*pod, noted);
  };
  if (counted != pod->uid()) {
    ASSIGN_OR_RETURN(const objects::VolumeTask noted,
                     RecordTask(ctx, CountedPod(pod->uid(), task.attempts() + 1)));
    return go_on(noted);
  }
  return go_on(task);
}

absl::StatusOr<WorkerView> WorkerRun::InspectPod(const CallContext& ctx, const Pod& pod,
                                                 const objects::VolumeTask& task) {
  WorkerView view;
  view.status = task.status();
  view.node = pod.node();
  const std::string why = objects::WhyPodWaits(ctx, env_.api, pod);
  view.message = why.empty() ? PodMessage(pod) : why;
  view.attempts = task.attempts();
  view.pods_lost = std::max(0, view.attempts - 1);
  view.attempt_since = pod.created_at().value_or(ctx.clock->Now());
  view.has_pod = true;
  if (pod.is_running()) {
    view.state = WorkerView::State::kRunning;
  }
  if (view.state == WorkerView::State::kStarting && view.node.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Pod> pods, AllPods(ctx));
    view.waits_for_node = WaitsForSlot(pod, pods);
    view.is_unschedulable = IsUnschedulable(pod) && !view.waits_for_node;
    view.unschedulable_pods =
        static_cast<int>(std::count_if(pods.begin(), pods.end(), IsUnschedulable));
  }
  view.is_usual =
      view.pods_lost == 0 && !view.is_unschedulable && !view.waits_for_node && why.empty();
  // What changes of a Pod or a task is told; but not that a worker is silent, or a Pod does not go.
  const bool is_steady = view.state == WorkerView::State::kRunning && !pod.is_being_deleted() &&
                         view.status.phase == objects::TaskPhase::kRunning;
  view.requeue_time =
      ctx.clock->Now() + (is_steady ? kRunningReconciledEvery : kRequeueUnsteadyAfter);
  RETURN_IF_ERROR(RemoveDead(ctx, pod, view.status));
  return view;
}

absl::StatusOr<std::vector<Pod>> WorkerRun::AllPods(const CallContext& ctx) const {
  k8s::CachedReader reader(env_.api, env_.cache);
  return objects::List<Pod>(ctx, reader, env_.mover_namespace,
                            {.label_selector = objects::kMoverTaskLabel});
}

absl::Status WorkerRun::RemoveDead(const CallContext& ctx, const Pod& pod,
                                   const objects::VolumeTaskStatus& status) {
  const absl::Time now = ctx.clock->Now();
  const bool is_stuck = IsStuck(pod, now);
  const absl::Time heard_at =
      std::max(pod.created_at().value_or(now), status.heartbeat_at.value_or(absl::InfinitePast()));
  const bool is_silent = pod.is_running() && now >= heard_at + kWorkerSilenceMax;
  if (!is_stuck && !is_silent) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kWarn, "nothing is heard of a worker Pod any more; it is removed",
               {"namespace", env_.mover_namespace}, {"name", task_name_}, {"node", pod.node()});
  return k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {.uid = pod.uid(), .at_once = true}));
}

absl::StatusOr<WorkerView> WorkerRun::NextAttempt(const CallContext& ctx, const Pod* pod,
                                                  const objects::VolumeTask& task) {
  if (pod != nullptr) {
    env_.ended_pods->Record(*pod);
  }
  std::string message =
      pod == nullptr ? "it is gone: it was deleted, or its node was" : PodMessage(*pod);
  objects::VolumeTaskStatus status = task.status();
  if (status.phase == objects::TaskPhase::kInterrupted && pod != nullptr && !pod->is_active()) {
    message = Join("it had to end early", MessageOf(status));
  }
  const int attempts = task.attempts();
  const std::string counted = task.counted_pod();
  const bool end_was_seen = env_.ended_pods->Has(counted);
  WorkerView view;
  view.attempts = attempts;
  view.pods_lost = attempts;
  view.status = std::move(status);
  const LostPods lost = AfterLoss(task, pod);
  if (lost.counted >= kLostPodsMax) {
    view.state = WorkerView::State::kEnded;
    view.status.phase = objects::TaskPhase::kFailed;
    view.status.outcome = objects::Outcome{
        .code = objects::OutcomeCode::kFailed,
        .message = absl::StrCat(
            "the worker Pod was lost ", attempts, " times",
            attempts > lost.counted ? absl::StrCat(", ", lost.counted, " of which count") : "",
            "; the last one: ", message)};
    return view;
  }
  CSIDELTA_LOG(kWarn, "a worker Pod is lost; another takes over",
               {"namespace", env_.mover_namespace}, {"name", task_name_}, {"message", message},
               {"attempts", absl::StrCat(attempts)});
  view.attempt_since = ctx.clock->Now() + PauseAfter(lost.counted);
  view.message = LossMessage(attempts, lost.counted, message);
  if (!end_was_seen && IsRestore(task)) {
    // It may still write, on an unreachable node, until it finds itself cut off.
    view.attempt_since = std::max(view.attempt_since, ctx.clock->Now() + kFencedAfter);
    absl::StrAppend(&view.message, "; the next one starts once this one surely writes no more");
  }
  view.requeue_time = ctx.clock->Now();
  objects::Patch changes;
  changes.RemoveAnnotation(objects::kTaskPodAnnotation)
      .SetAnnotation(objects::kAttemptAtAnnotation, FormatRfc3339(view.attempt_since))
      .SetAnnotation(objects::kLastEndAnnotation, view.message);
  SetAnnotations(lost, changes);
  if (!end_was_seen) {
    changes.SetAnnotation(objects::kUnseenEndAnnotation, counted);
  }
  RETURN_IF_ERROR(RecordTask(ctx, changes).status());
  return view;
}

absl::StatusOr<WorkerView> WorkerRun::Make(const CallContext& ctx, const objects::VolumeTask& task,
                                           const PodMaker& make_pod) {
  WorkerView view;
  view.status = task.status();
  view.attempts = task.attempts();
  view.pods_lost = view.attempts;
  view.message = task.Annotation(objects::kLastEndAnnotation);
  view.attempt_since = task.attempt_at().value_or(task.created_at().value_or(ctx.clock->Now()));
  if (view.attempts > 0 && ctx.clock->Now() < view.attempt_since) {
    view.requeue_time = view.attempt_since;
    return view;
  }
  const absl::StatusOr<NextPod> next = make_pod(task);
  if (MayPassLater(next.status())) {
    return Refused(ctx, std::move(view), next.status());
  }
  RETURN_IF_ERROR(next.status());
  if (!next->waiting_for.empty()) {
    view.message = next->waiting_for;
    view.is_usual = next->is_usual;
    view.requeue_time =
        ctx.clock->Now() + std::clamp((ctx.clock->Now() - view.attempt_since) / 8, kRequeueAfter,
                                      next->is_idle ? kRequeueIdleMax : kRequeueAfterMax);
    return view;
  }
  const absl::StatusOr<Pod> pod =
      next->has_slot ? CreatePod(ctx, next->pod) : objects::Create(ctx, env_.api, next->pod);
  view.requeue_time = ctx.clock->Now();
  if (absl::IsAlreadyExists(pod.status())) {
    return view;
  }
  if (env_.cache != nullptr) {
    view.requeue_time += kRequeueUnsteadyAfter;  // What becomes of it is told.
  }
  if (MayPassLater(pod.status())) {
    return Refused(ctx, std::move(view), pod.status());
  }
  RETURN_IF_ERROR(pod.status());
  ++view.attempts;
  view.has_pod = true;
  RETURN_IF_ERROR(RecordTask(ctx, CountedPod(pod->uid(), view.attempts)).status());
  return view;
}

absl::StatusOr<WorkerView> WorkerRun::Refused(const CallContext& ctx, WorkerView view,
                                              const absl::Status& why) const {
  const absl::Time now = ctx.clock->Now();
  view.refusal = why;
  view.message = std::string(why.message());
  view.requeue_time =
      now + std::clamp((now - view.attempt_since) / 8, kRefusedAgain, kRefusedAgainMax);
  if (IsOverQuota(why)) {
    ASSIGN_OR_RETURN(const std::vector<Pod> pods, AllPods(ctx));
    view.waits_for_quota = std::any_of(pods.begin(), pods.end(), [](const Pod& pod) {
      return pod.is_active() && !pod.node().empty();
    });
  }
  return view;
}

absl::StatusOr<Pod> WorkerRun::CreatePod(const CallContext& ctx, Pod pod) {
  ASSIGN_OR_RETURN(const std::vector<Pod> pods, AllPods(ctx));
  SetSlot(pod,
          env_.slots->Choose(pod, pods, env_.settings.transfers_per_node_max, ctx.clock->Now()));
  return objects::Create(ctx, env_.api, pod);
}

objects::VolumeJob WorkerRun::Describe(const objects::VolumeTask& task,
                                       const WorkerJob& job) const {
  return {.repository = job.access.repository,
          .limits = {.memory_bytes = MemoryBudgetBytes(env_.settings.worker.resources),
                     .rates = task.rates().value_or(FirstRates(env_.settings))},
          .lock_wait = job.lock_wait,
          .ended_pods = env_.ended_pods->Of(job.access.repository.address),
          .work = job.work};
}

// A Pod that is refused is tried again with the same job.
absl::Status WorkerRun::PutJob(const CallContext& ctx, const objects::VolumeTask& task,
                               const objects::VolumeJob& job) {
  const absl::StatusOr<objects::VolumeJob> known = task.job();
  if (known.ok() && *known == job) {
    return absl::OkStatus();
  }
  return objects::Apply(ctx, env_.api, TaskKey(), objects::Patch().SetJob(job));
}

absl::StatusOr<WorkerRun::NextPod> WorkerRun::PodFor(const CallContext& ctx,
                                                     const objects::VolumeTask& task,
                                                     const WorkerJob& job) {
  const objects::OwnerReference owner = task.AsOwner();
  const std::map<std::string, std::string> labels =
      LabelsFor(task_name_, task.subject().namespace_name);
  RETURN_IF_ERROR(
      PutSecret(ctx, env_.api,
                MakeAccessSecret(env_.mover_namespace, task_name_, labels, owner, job.access)));
  env_.access_keeper->RecordMade(job.access, task_name_, ctx.clock->Now());
  RETURN_IF_ERROR(PutJob(ctx, task, Describe(task, job)));
  return NextPod{
      .pod = MakeWorkerPod(
          {.namespace_name = env_.mover_namespace,
           .name = task_name_,
           .labels = labels,
           .annotations = {{objects::kRepositoryAnnotation, job.access.repository.address}},
           .owner = owner,
           .image = env_.image,
           .service_account = env_.worker_service_account,
           .args = {"worker", "--task", absl::StrCat(env_.mover_namespace, "/", task_name_)},
           .env = job.access.env,
           .claim = job.has_volume ? task_name_ : "",
           .node_affinity = job.node_affinity},
          env_.settings, job.storage_class),
      .waiting_for = "",
      .has_slot = job.has_volume};
}

absl::StatusOr<bool> WorkerRun::Stop(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, FindTask(ctx));
  if (task.has_value() && !task->is_canceled()) {
    RETURN_IF_ERROR(
        k8s::IgnoreNotFound(objects::Apply(ctx, env_.api, TaskKey(), objects::Patch().Cancel())));
  }
  ASSIGN_OR_RETURN(const std::optional<Pod> pod, FindPod(ctx));
  if (!pod.has_value()) {
    return true;
  }
  env_.ended_pods->Record(*pod);
  if (!pod->is_being_deleted()) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {.uid = pod->uid()})));
  }
  return !pod->is_active();
}

absl::StatusOr<bool> WorkerRun::HasSurelyEnded(const CallContext& ctx,
                                               const objects::VolumeTask& task) const {
  // One that was just made may not be counted yet.
  ASSIGN_OR_RETURN(const std::optional<Pod> pod, FindPod(ctx));
  if (pod.has_value()) {
    env_.ended_pods->Record(*pod);
  }
  const std::string counted = task.counted_pod();
  return task.unseen_end().empty() && (counted.empty() || env_.ended_pods->Has(counted)) &&
         (!pod.has_value() || env_.ended_pods->Has(pod->uid()));
}

absl::Status WorkerRun::Remove(const CallContext& ctx) {
  RETURN_IF_ERROR(k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {})));
  return k8s::IgnoreNotFound(
      env_.api.Delete(ctx, objects::Secret::Key(env_.mover_namespace, task_name_), {}));
}

absl::Status WorkerRun::RemoveEnded(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const std::optional<Pod> pod, FindPod(ctx));
  if (pod.has_value() && IsStuck(*pod, ctx.clock->Now())) {
    RETURN_IF_ERROR(
        k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {.uid = pod->uid(), .at_once = true})));
  }
  return Remove(ctx);
}

absl::Status WorkerRun::RemoveTask(const CallContext& ctx) {
  return k8s::IgnoreNotFound(env_.api.Delete(ctx, TaskKey(), {}));
}

absl::Status WorkerRun::RemoveWithTask(const CallContext& ctx) {
  RETURN_IF_ERROR(Remove(ctx));
  return RemoveTask(ctx);
}

}  // namespace csidelta::datamover
