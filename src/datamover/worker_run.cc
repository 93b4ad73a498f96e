#include "datamover/worker_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "datamover/lost_pods.h"
#include "datamover/node_slots.h"
#include "datamover/worker_pod.h"
#include "datamover/write_fence.h"
#include "k8s/cached_client.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

using Presence = k8s::ObjectCache::Presence;

// While something is waited for that nobody tells of: the less often the longer it takes.
constexpr absl::Duration kLookAgain = absl::Milliseconds(500);
constexpr absl::Duration kLookAgainMax = absl::Seconds(5);
constexpr absl::Duration kLookAgainIdleMax = absl::Minutes(1);
constexpr absl::Duration kLookAtUnsteadyAgain = absl::Seconds(10);
constexpr absl::Duration kRefusedAgain = absl::Seconds(2);
constexpr absl::Duration kRefusedAgainMax = absl::Seconds(30);
constexpr std::size_t kReasonBytesMax = 400;
// How the API server begins what it writes of a ResourceQuota that leaves too little.
constexpr char kOverQuota[] = "exceeded quota: ";

absl::Time CreatedAt(const Json& object, absl::Time fallback) {
  return k8s::CreatedAt(object).value_or(fallback);
}

// 2 s, 4 s, 8 s, ... after the first, second, third.
absl::Duration PauseAfter(int attempts) {
  const int doublings = std::clamp(attempts - 1, 0, 10);
  return std::min(kWorkerAgainMax, kWorkerAgainFirst * (int64_t{1} << doublings));
}

// "Pod 7 was lost, 2 of at most 5 that count: Error with exit code 134".
std::string LossWords(int attempts, int counted, absl::string_view words) {
  return absl::StrCat("Pod ", attempts, " was lost, ",
                      counted == 0
                          ? "which does not count, as it made progress"
                          : absl::StrCat(counted, " of at most ", kLostPodsMax, " that count"),
                      ": ", words);
}

// "Evicted: The node was low on resource: memory."
std::string Join(absl::string_view reason, absl::string_view message) {
  if (reason.empty() || message.empty()) {
    return absl::StrCat(reason, message).substr(0, kReasonBytesMax);
  }
  return absl::StrCat(reason, ": ", message).substr(0, kReasonBytesMax);
}

std::string TerminationWords(const Json& terminated) {
  const std::string reason = GetString(terminated, {"reason"});
  if (reason == "OOMKilled") {
    return "OOMKilled: it needed more memory than its limit; raise worker.resources.limits.memory "
           "in "
           "the settings";
  }
  return Join(absl::StrCat(reason, " with exit code ", GetInt(terminated, {"exitCode"}, -1)),
              GetString(terminated, {"message"}));
}

std::string ContainerWords(const Json& pod) {
  const Json* statuses = FindJson(pod, {"status", "containerStatuses"});
  if (statuses == nullptr || !statuses->is_array()) {
    return "";
  }
  for (const Json& status : *statuses) {
    if (const Json* terminated = FindJson(status, {"state", "terminated"}); terminated != nullptr) {
      return TerminationWords(*terminated);
    }
    if (const Json* waiting = FindJson(status, {"state", "waiting"}); waiting != nullptr) {
      return Join(GetString(*waiting, {"reason"}), GetString(*waiting, {"message"}));
    }
  }
  return "";
}

std::string ConditionWords(const Json& pod) {
  const Json* conditions = FindJson(pod, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) {
    return "";
  }
  for (const Json& condition : *conditions) {
    if (GetString(condition, {"type"}) == "PodScheduled" &&
        GetString(condition, {"status"}) == "False") {
      return Join(GetString(condition, {"reason"}), GetString(condition, {"message"}));
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
bool IsRestore(const Json& task) {
  const absl::StatusOr<VolumeTaskSpec> spec = TaskSpecOf(task);
  return spec.ok() && spec->kind == TaskKind::kDownload;
}

// Whether it was to be gone long ago.
bool IsStuck(const Json& pod, absl::Time now) {
  const std::optional<absl::Time> gone_at = k8s::DeletedAt(pod);
  return gone_at.has_value() && now >= *gone_at + kPodGoneAfter;
}

// Makes it, or sees to it that the one that is there has the same data.
absl::Status PutSecret(const CallContext& ctx, k8s::ApiClient& api, const Json& secret) {
  const absl::Status made =
      api.Create(ctx, csi::SecretType(), k8s::Namespace(secret), secret).status();
  if (!absl::IsAlreadyExists(made)) {
    return made;
  }
  return api
      .Patch(ctx, {csi::SecretType(), k8s::Namespace(secret), k8s::Name(secret)},
             k8s::PatchKind::kMerge, {{"data", secret.at("data")}}, "")
      .status();
}

}  // namespace

int AttemptsOf(const Json& task) {
  int attempts = 0;
  return absl::SimpleAtoi(k8s::Annotation(task, objects::kAttemptsAnnotation), &attempts) ? attempts
                                                                                          : 0;
}

std::string PodWords(const Json& pod) {
  std::string words =
      Join(GetString(pod, {"status", "reason"}), GetString(pod, {"status", "message"}));
  if (words.empty()) {
    words = ContainerWords(pod);
  }
  return words.empty() ? ConditionWords(pod) : words;
}

WorkerRun::WorkerRun(const MoverEnvironment& env, std::string stem)
    : env_(env), stem_(std::move(stem)) {}

k8s::ObjectKey WorkerRun::TaskKey() const {
  return {VolumeTaskType(), env_.mover_namespace, stem_};
}
k8s::ObjectKey WorkerRun::PodKey() const { return {csi::PodType(), env_.mover_namespace, stem_}; }

absl::StatusOr<Json> WorkerRun::FindTask(const CallContext& ctx) const {
  return k8s::FindOrNull(ctx, env_.api, TaskKey());
}

absl::StatusOr<Json> WorkerRun::FindPod(const CallContext& ctx) const {
  return k8s::FindOrNull(ctx, env_.api, PodKey());
}

k8s::ObjectCache::Answer WorkerRun::Cached(const k8s::ObjectKey& key) const {
  return env_.cache == nullptr ? k8s::ObjectCache::Answer() : env_.cache->Find(key);
}

absl::StatusOr<Json> WorkerRun::CachedTask(const CallContext& ctx) const {
  k8s::CachedReader reader(env_.api, env_.cache);
  return k8s::FindOrNull(ctx, reader, TaskKey());
}

absl::StatusOr<Json> WorkerRun::EnsureTask(const CallContext& ctx, const VolumeTaskSpec& spec,
                                           const std::map<std::string, std::string>& labels) {
  k8s::ObjectCache::Answer cached = Cached(TaskKey());
  if (cached.presence == Presence::kUnknown) {
    ASSIGN_OR_RETURN(cached.object, FindTask(ctx));
  }
  if (!cached.object.is_null()) {
    return std::move(cached.object);
  }
  absl::StatusOr<Json> task =
      env_.api.Create(ctx, VolumeTaskType(), env_.mover_namespace,
                      MakeVolumeTask(env_.mover_namespace, stem_, spec, labels));
  return absl::IsAlreadyExists(task.status()) ? env_.api.Get(ctx, TaskKey()) : task;
}

absl::StatusOr<Json> WorkerRun::NoteTask(const CallContext& ctx, Json annotations) {
  return env_.api.Patch(ctx, TaskKey(), k8s::PatchKind::kMerge,
                        {{"metadata", {{"annotations", std::move(annotations)}}}}, "");
}

// As they were a moment ago, as long as that cannot mislead. That a Pod is gone is for the API
// server to say where one was counted; and what a Pod that has ended wrote into the task is there
// only if the task is read afterwards.
absl::StatusOr<WorkerRun::Seen> WorkerRun::Look(const CallContext& ctx) const {
  const k8s::ObjectCache::Answer pod = Cached(PodKey());
  k8s::ObjectCache::Answer task = Cached(TaskKey());
  const bool is_first = AttemptsOf(task.object) == 0 &&
                        k8s::Annotation(task.object, objects::kTaskPodAnnotation).empty();
  const bool pod_may_be_old = pod.presence == Presence::kFound
                                  ? !HasEnded(pod.object) && !k8s::BeingDeleted(pod.object)
                                  : pod.presence == Presence::kAbsent && is_first;
  const bool may_be_old = task.presence == Presence::kFound &&
                          (pod_may_be_old || IsLast(TaskStatusOf(task.object).phase));
  if (may_be_old) {
    return Seen{.pod = pod.object, .task = std::move(task.object)};
  }
  Seen seen;
  ASSIGN_OR_RETURN(seen.pod, FindPod(ctx));
  ASSIGN_OR_RETURN(seen.task, env_.api.Get(ctx, TaskKey()));
  return seen;
}

absl::StatusOr<WorkerView> WorkerRun::Step(const CallContext& ctx, const PodMaker& make_pod) {
  ASSIGN_OR_RETURN(const Seen seen, Look(ctx));
  const auto& [pod, task] = seen;
  if (VolumeTaskStatus status = TaskStatusOf(task); IsLast(status.phase)) {
    WorkerView view;
    view.state = WorkerView::State::kEnded;
    view.node = status.node;
    view.attempts = AttemptsOf(task);
    view.status = std::move(status);
    return view;
  }
  const std::string counted = k8s::Annotation(task, objects::kTaskPodAnnotation);
  if (pod.is_null()) {
    return counted.empty() ? Make(ctx, task, make_pod) : NextAttempt(ctx, pod, task);
  }
  if (counted.empty() && AttemptsOf(task) > 0 && (k8s::BeingDeleted(pod) || HasEnded(pod))) {
    // The one before, on its way out.
    RETURN_IF_ERROR(k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {.uid = k8s::Uid(pod)})));
    WorkerView view;
    view.words = k8s::Annotation(task, objects::kLastEndAnnotation);
    view.attempts = AttemptsOf(task);
    view.pods_lost = view.attempts;
    view.attempt_since = ParseRfc3339(k8s::Annotation(task, objects::kAttemptAtAnnotation))
                             .value_or(ctx.clock->Now());
    view.look_again = ctx.clock->Now() + kLookAgain;
    return view;
  }
  if (counted != k8s::Uid(pod)) {
    ASSIGN_OR_RETURN(
        const Json noted,
        NoteTask(ctx, {{objects::kTaskPodAnnotation, k8s::Uid(pod)},
                       {objects::kAttemptsAnnotation, absl::StrCat(AttemptsOf(task) + 1)}}));
    return HasEnded(pod) ? NextAttempt(ctx, pod, noted) : LookAtPod(ctx, pod, noted);
  }
  return HasEnded(pod) ? NextAttempt(ctx, pod, task) : LookAtPod(ctx, pod, task);
}

absl::StatusOr<WorkerView> WorkerRun::LookAtPod(const CallContext& ctx, const Json& pod,
                                                const Json& task) {
  WorkerView view;
  view.status = TaskStatusOf(task);
  view.node = GetString(pod, {"spec", "nodeName"});
  view.words = PodWords(pod);
  view.attempts = AttemptsOf(task);
  view.pods_lost = std::max(0, view.attempts - 1);
  view.attempt_since = CreatedAt(pod, ctx.clock->Now());
  view.has_pod = true;
  if (GetString(pod, {"status", "phase"}) == "Running") {
    view.state = WorkerView::State::kRunning;
  }
  if (view.state == WorkerView::State::kStarting && view.node.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Json> pods, AllPods(ctx));
    view.waits_for_node = WaitsForSlot(pod, pods);
    view.is_unschedulable = IsUnschedulable(pod) && !view.waits_for_node;
    view.unschedulable_pods =
        static_cast<int>(std::count_if(pods.begin(), pods.end(), IsUnschedulable));
  }
  view.is_usual = view.pods_lost == 0 && !view.is_unschedulable && !view.waits_for_node;
  // What changes of a Pod or a task is told; but not that a worker is silent, or a Pod does not go.
  const bool is_steady = view.state == WorkerView::State::kRunning && !k8s::BeingDeleted(pod) &&
                         view.status.phase == TaskPhase::kRunning;
  view.look_again = ctx.clock->Now() + (is_steady ? kRunningLookedAtEvery : kLookAtUnsteadyAgain);
  RETURN_IF_ERROR(RemoveDead(ctx, pod, view.status));
  return view;
}

absl::StatusOr<std::vector<Json>> WorkerRun::AllPods(const CallContext& ctx) const {
  k8s::CachedReader reader(env_.api, env_.cache);
  ASSIGN_OR_RETURN(k8s::ObjectList pods,
                   reader.List(ctx, csi::PodType(), env_.mover_namespace,
                               {.label_selector = objects::kMoverTaskLabel, .field_selector = ""}));
  return std::move(pods.items);
}

absl::Status WorkerRun::RemoveDead(const CallContext& ctx, const Json& pod,
                                   const VolumeTaskStatus& status) {
  const absl::Time now = ctx.clock->Now();
  const bool is_stuck = IsStuck(pod, now);
  const absl::Time heard_at =
      std::max(CreatedAt(pod, now), status.heartbeat_at.value_or(absl::InfinitePast()));
  const bool is_silent =
      GetString(pod, {"status", "phase"}) == "Running" && now >= heard_at + kWorkerSilenceMax;
  if (!is_stuck && !is_silent) {
    return absl::OkStatus();
  }
  CSIDELTA_LOG(kWarn, "nothing is heard of a worker Pod any more; it is removed",
               {"namespace", env_.mover_namespace}, {"name", stem_},
               {"node", GetString(pod, {"spec", "nodeName"})});
  return k8s::IgnoreNotFound(
      env_.api.Delete(ctx, PodKey(), {.uid = k8s::Uid(pod), .at_once = true}));
}

absl::StatusOr<WorkerView> WorkerRun::NextAttempt(const CallContext& ctx, const Json& pod,
                                                  const Json& task) {
  env_.ended_pods->Note(pod);
  std::string words =
      pod.is_null() ? "it is gone: somebody deleted it, or its node" : PodWords(pod);
  if (TaskStatusOf(task).phase == TaskPhase::kInterrupted && HasEnded(pod)) {
    words = Join("it had to end early", MessageOf(TaskStatusOf(task)));
  }
  const int attempts = AttemptsOf(task);
  const std::string counted = k8s::Annotation(task, objects::kTaskPodAnnotation);
  const bool end_was_seen = env_.ended_pods->Has(counted);
  WorkerView view;
  view.attempts = attempts;
  view.pods_lost = attempts;
  view.status = TaskStatusOf(task);
  const LostPods lost = AfterLoss(task, pod);
  if (lost.counted >= kLostPodsMax) {
    view.state = WorkerView::State::kEnded;
    view.status.phase = TaskPhase::kFailed;
    view.status.outcome = Outcome{
        .code = OutcomeCode::kFailed,
        .message = absl::StrCat(
            "the worker Pod was lost ", attempts, " times",
            attempts > lost.counted ? absl::StrCat(", ", lost.counted, " of which count") : "",
            "; of the last one is said: ", words)};
    return view;
  }
  CSIDELTA_LOG(kWarn, "a worker Pod is lost; another takes over",
               {"namespace", env_.mover_namespace}, {"name", stem_}, {"words", words},
               {"attempts", absl::StrCat(attempts)});
  view.attempt_since = ctx.clock->Now() + PauseAfter(lost.counted);
  view.words = LossWords(attempts, lost.counted, words);
  if (!end_was_seen && IsRestore(task)) {
    // It may still write, on a node that nobody reaches, until it finds itself cut off.
    view.attempt_since = std::max(view.attempt_since, ctx.clock->Now() + kFencedAfter);
    absl::StrAppend(&view.words, "; another one begins when that one surely writes no more");
  }
  view.look_again = ctx.clock->Now();
  Json notes = {{objects::kTaskPodAnnotation, nullptr},
                {objects::kAttemptAtAnnotation, FormatRfc3339(view.attempt_since)},
                {objects::kLastEndAnnotation, view.words}};
  SetAnnotations(lost, notes);
  if (!end_was_seen) {
    notes[objects::kUnseenEndAnnotation] = counted;
  }
  RETURN_IF_ERROR(NoteTask(ctx, std::move(notes)).status());
  return view;
}

absl::StatusOr<WorkerView> WorkerRun::Make(const CallContext& ctx, const Json& task,
                                           const PodMaker& make_pod) {
  WorkerView view;
  view.status = TaskStatusOf(task);
  view.attempts = AttemptsOf(task);
  view.pods_lost = view.attempts;
  view.words = k8s::Annotation(task, objects::kLastEndAnnotation);
  view.attempt_since = ParseRfc3339(k8s::Annotation(task, objects::kAttemptAtAnnotation))
                           .value_or(CreatedAt(task, ctx.clock->Now()));
  if (view.attempts > 0 && ctx.clock->Now() < view.attempt_since) {
    view.look_again = view.attempt_since;
    return view;
  }
  const absl::StatusOr<NextPod> next = make_pod(task);
  if (MayPassLater(next.status())) {
    return Refused(ctx, std::move(view), next.status());
  }
  RETURN_IF_ERROR(next.status());
  if (!next->waiting_for.empty()) {
    view.words = next->waiting_for;
    view.is_usual = next->is_usual;
    view.look_again =
        ctx.clock->Now() + std::clamp((ctx.clock->Now() - view.attempt_since) / 8, kLookAgain,
                                      next->is_idle ? kLookAgainIdleMax : kLookAgainMax);
    return view;
  }
  const absl::StatusOr<Json> pod = CreatePod(ctx, next->pod);
  view.look_again = ctx.clock->Now();
  if (absl::IsAlreadyExists(pod.status())) {
    return view;
  }
  if (env_.cache != nullptr) {
    view.look_again += kLookAtUnsteadyAgain;  // What becomes of it is told.
  }
  if (MayPassLater(pod.status())) {
    return Refused(ctx, std::move(view), pod.status());
  }
  RETURN_IF_ERROR(pod.status());
  ++view.attempts;
  view.has_pod = true;
  RETURN_IF_ERROR(NoteTask(ctx, {{objects::kTaskPodAnnotation, k8s::Uid(*pod)},
                                 {objects::kAttemptsAnnotation, absl::StrCat(view.attempts)}})
                      .status());
  return view;
}

absl::StatusOr<WorkerView> WorkerRun::Refused(const CallContext& ctx, WorkerView view,
                                              const absl::Status& why) const {
  const absl::Time now = ctx.clock->Now();
  view.refusal = why;
  view.words = std::string(why.message());
  view.look_again =
      now + std::clamp((now - view.attempt_since) / 8, kRefusedAgain, kRefusedAgainMax);
  if (IsOverQuota(why)) {
    ASSIGN_OR_RETURN(const std::vector<Json> pods, AllPods(ctx));
    view.waits_for_quota = std::any_of(pods.begin(), pods.end(), [](const Json& pod) {
      return !HasEnded(pod) && !GetString(pod, {"spec", "nodeName"}).empty();
    });
  }
  return view;
}

absl::StatusOr<Json> WorkerRun::CreatePod(const CallContext& ctx, Json pod) {
  ASSIGN_OR_RETURN(const std::vector<Json> pods, AllPods(ctx));
  SetSlot(pod,
          env_.slots->Choose(pod, pods, env_.settings.transfers_per_node_max, ctx.clock->Now()));
  return env_.api.Create(ctx, csi::PodType(), env_.mover_namespace, pod);
}

VolumeJob WorkerRun::Describe(const WorkerJob& job) const {
  const WorkerSettings& worker = env_.settings.worker;
  return {.repository = job.access.repository,
          .limits = {.memory_bytes = MemoryBudgetBytes(worker.resources),
                     .upload_kib_per_second = worker.upload_kib_per_second_max,
                     .download_kib_per_second = worker.download_kib_per_second_max},
          .lock_wait = job.lock_wait,
          .ended_pods = env_.ended_pods->Of(job.access.repository.address),
          .work = job.work};
}

// A Pod that is refused is tried again with the same job.
absl::Status WorkerRun::PutJob(const CallContext& ctx, const Json& task, const VolumeJob& job) {
  const absl::StatusOr<VolumeJob> told = JobOf(task);
  if (told.ok() && *told == job) {
    return absl::OkStatus();
  }
  return env_.api
      .Patch(ctx, TaskKey(), k8s::PatchKind::kMerge, {{"spec", {{"job", ToJson(job)}}}}, "")
      .status();
}

absl::StatusOr<WorkerRun::NextPod> WorkerRun::PodFor(const CallContext& ctx, const Json& task,
                                                     const WorkerJob& job) {
  const objects::OwnerReference owner = OwnerReferenceTo(task);
  const std::map<std::string, std::string> labels =
      LabelsFor(stem_, GetString(task, {"spec", "subject", "namespace"}));
  RETURN_IF_ERROR(PutSecret(
      ctx, env_.api, MakeAccessSecret(env_.mover_namespace, stem_, labels, owner, job.access)));
  RETURN_IF_ERROR(PutJob(ctx, task, Describe(job)));
  return NextPod{.pod = MakeWorkerPod(
                     {.name = stem_,
                      .namespace_name = env_.mover_namespace,
                      .image = env_.image,
                      .args = {"worker", "--task", absl::StrCat(env_.mover_namespace, "/", stem_)},
                      .env = job.access.env,
                      .claim = job.has_volume ? stem_ : "",
                      .repository = job.access.repository.address,
                      .labels = labels,
                      .owner = owner,
                      .storage_class = job.storage_class,
                      .node_affinity = job.node_affinity,
                      .settings = env_.settings,
                      .service_account = env_.worker_service_account}),
                 .waiting_for = ""};
}

absl::StatusOr<bool> WorkerRun::Stop(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const Json task, FindTask(ctx));
  if (!task.is_null() && !GetBool(task, {"spec", "cancel"})) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        env_.api.Patch(ctx, TaskKey(), k8s::PatchKind::kMerge, {{"spec", {{"cancel", true}}}}, "")
            .status()));
  }
  ASSIGN_OR_RETURN(const Json pod, FindPod(ctx));
  if (pod.is_null()) {
    return true;
  }
  env_.ended_pods->Note(pod);
  if (!k8s::BeingDeleted(pod)) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {.uid = k8s::Uid(pod)})));
  }
  return HasEnded(pod);
}

absl::StatusOr<bool> WorkerRun::HasSurelyEnded(const CallContext& ctx, const Json& task) const {
  // One that was just made may not be counted yet.
  ASSIGN_OR_RETURN(const Json pod, FindPod(ctx));
  env_.ended_pods->Note(pod);
  const std::string counted = k8s::Annotation(task, objects::kTaskPodAnnotation);
  return k8s::Annotation(task, objects::kUnseenEndAnnotation).empty() &&
         (counted.empty() || env_.ended_pods->Has(counted)) &&
         (pod.is_null() || env_.ended_pods->Has(k8s::Uid(pod)));
}

absl::Status WorkerRun::Remove(const CallContext& ctx) {
  RETURN_IF_ERROR(k8s::IgnoreNotFound(env_.api.Delete(ctx, PodKey(), {})));
  return k8s::IgnoreNotFound(
      env_.api.Delete(ctx, {csi::SecretType(), env_.mover_namespace, stem_}, {}));
}

absl::Status WorkerRun::RemoveEnded(const CallContext& ctx) {
  ASSIGN_OR_RETURN(const Json pod, FindPod(ctx));
  if (!pod.is_null() && IsStuck(pod, ctx.clock->Now())) {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(
        env_.api.Delete(ctx, PodKey(), {.uid = k8s::Uid(pod), .at_once = true})));
  }
  return Remove(ctx);
}

absl::Status WorkerRun::RemoveTask(const CallContext& ctx) {
  return k8s::IgnoreNotFound(env_.api.Delete(ctx, TaskKey(), {}));
}

}  // namespace csidelta::datamover
