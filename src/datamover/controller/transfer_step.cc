#include "datamover/controller/transfer_step.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/write_fence.h"
#include "k8s/cached_client.h"
#include "objects/client.h"

namespace csidelta::datamover {
namespace {

using objects::DataPhase;

constexpr absl::Duration kNoRoomRecordedEvery = absl::Minutes(1);
constexpr absl::Duration kRequeueAfterError = absl::Seconds(10);
// Of the time of one look, what is kept for writing how it went, whatever took so long.
constexpr absl::Duration kTimeToWrite = absl::Seconds(5);
constexpr absl::Duration kRequeueParkedAfter = absl::Minutes(1);

bool WillNeverDo(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

// Whether nothing is to be done about it as long as its worker runs.
bool OnlyMovesOn(const objects::DataTransfer& object) {
  return object.known_phase() == DataPhase::kInProgress && !object.is_cancelled() &&
         !object.is_being_deleted() && object.Annotation(objects::kStoppingAtAnnotation).empty();
}

}  // namespace

TransferStep::TransferStep(const CallContext& ctx, const MoverEnvironment& env,
                           TransferScheduler& scheduler, KindTraits kind,
                           objects::DataTransfer object)
    : ctx_(ctx),
      env_(env),
      object_(kind.type, std::move(object)),
      task_name_(TaskNameOf(kind.type.kind, object_.object().uid())),
      labels_(LabelsFor(task_name_, object_.object().namespace_name())),
      run_(env, task_name_),
      scheduler_(scheduler),
      kind_(std::move(kind)),
      transfer_(object_.object()) {}

absl::StatusOr<absl::Time> TransferStep::Run() {
  const bool is_unwanted = transfer_.is_cancelled() || transfer_.is_being_deleted();
  switch (transfer_.known_phase()) {
    case DataPhase::kNew:
      if (!is_unwanted) {
        return Accept();
      }
      RETURN_IF_ERROR(RemoveAll().status());
      return End(DataPhase::kCanceled, "cancelled before it began");
    case DataPhase::kAccepted:
    case DataPhase::kPrepared:
    case DataPhase::kInProgress:
      if (object_.TimeOf(objects::kStoppingAtAnnotation).has_value()) {
        return WindUp();
      }
      return is_unwanted ? BeginCancel() : Advance();
    case DataPhase::kCanceling:
      return WindUp();
    default:
      return absl::InfiniteFuture();
  }
}

absl::Time TransferStep::Stamp() const { return absl::FromUnixSeconds(absl::ToUnixSeconds(Now())); }

absl::StatusOr<absl::Time> TransferStep::Accept() {
  const absl::Status prepared = PrepareAccept();
  if (WillNeverDo(prepared)) {
    return End(DataPhase::kFailed, absl::StrCat("volume ", kind_.volume, ": ", prepared.message()));
  }
  RETURN_IF_ERROR(prepared);
  object_.AddFinalizer();
  object_.SetPhase(DataPhase::kAccepted);
  object_.SetAcceptedAt(Stamp());
  const TransferScheduler::Answer answer = AskForAdmission();
  object_.SetMessage(answer.waits_for);
  RETURN_IF_ERROR(Write());
  return answer.admitted_at.has_value() ? Now() : answer.ask_again;
}

// --- On its way

absl::StatusOr<absl::Time> TransferStep::Advance() {
  if (const absl::Time tries_again_at = object_.TriesAgainAt(); Now() < tries_again_at) {
    return tries_again_at;
  }
  if (!IsAdmitted() && !object_.TimeOf(objects::kAwaitingAtAnnotation).has_value()) {
    const TransferScheduler::Answer answer = AskForAdmission();
    object_.SetMessage(object_.WithRefusal(answer.waits_for));
    RETURN_IF_ERROR(Write());
    if (!answer.admitted_at.has_value()) {
      return answer.ask_again;
    }
  }
  return WorkOn();
}

// The scheduler may not have seen yet that an admission was given back, and is reported.
QueuedTransfer TransferStep::EndAwaiting() {
  const std::optional<absl::Time> given_back_at = object_.TimeOf(objects::kAwaitingAtAnnotation);
  object_.RemoveAnnotation(objects::kAwaitingAtAnnotation);
  QueuedTransfer queued = *kind_.queued(object_.object());
  queued.given_back_at = given_back_at;
  return queued;
}

TransferScheduler::Answer TransferStep::AskForAdmission() {
  TransferScheduler::Answer answer = scheduler_.Ask(EndAwaiting());
  if (answer.admitted_at.has_value()) {
    object_.SetTime(objects::kAdmittedAtAnnotation, *answer.admitted_at);
  }
  return answer;
}

void TransferStep::GiveBackAdmission() {
  object_.SetTime(objects::kAwaitingAtAnnotation,
                  object_.TimeOf(objects::kAdmittedAtAnnotation).value_or(Now()));
  object_.RemoveAnnotation(objects::kAdmittedAtAnnotation);
}

// What waits for others is no transfer: the admission is held only while the mover itself works, or
// has others work for it.
absl::StatusOr<WorkerRun::NextPod> TransferStep::NextPod(const objects::VolumeTask& task) {
  ASSIGN_OR_RETURN(WorkerRun::NextPod next, PrepareWorker(task));
  const bool is_idle = next.is_idle && !next.waiting_for.empty();
  if (IsAdmitted() && is_idle) {
    GiveBackAdmission();
  } else if (!IsAdmitted() && !is_idle) {
    const TransferScheduler::Answer answer = AskForAdmission();
    RETURN_IF_ERROR(Write());
    if (!answer.admitted_at.has_value()) {
      return WorkerRun::NextPod{.pod = {}, .waiting_for = object_.WithRefusal(answer.waits_for)};
    }
    return next.waiting_for.empty() ? next : PrepareWorker(task);
  }
  return next;
}

absl::StatusOr<absl::Time> TransferStep::WorkOn() {
  const absl::StatusOr<WorkerView> view = StepWorker();
  if (WillNeverDo(view.status())) {
    return BeginFailure(view.status().message());
  }
  if (!view.ok()) {
    return AwaitDespite(view.status());
  }
  pods_ = view->attempts;
  return Follow(*view);
}

absl::StatusOr<WorkerView> TransferStep::StepWorker() {
  const absl::Duration deadline = std::exchange(ctx_.deadline, ctx_.deadline - kTimeToWrite);
  absl::StatusOr<WorkerView> view = StepTask();
  ctx_.deadline = deadline;
  return view;
}

absl::StatusOr<WorkerView> TransferStep::StepTask() {
  ASSIGN_OR_RETURN(objects::TaskVolume volume, Volume());
  const objects::VolumeTaskSpec spec{.kind = kind_.task,
                                     .subject = {.kind = kind_.type.kind,
                                                 .namespace_name = transfer_.namespace_name(),
                                                 .name = transfer_.name(),
                                                 .uid = transfer_.uid()},
                                     .volume = std::move(volume)};
  RETURN_IF_ERROR(run_.EnsureTask(ctx_, spec, labels_).status());
  return run_.Step(ctx_, [this](const objects::VolumeTask& task) { return NextPod(task); });
}

absl::StatusOr<absl::Time> TransferStep::Follow(const WorkerView& view) {
  if (view.has_pod) {
    object_.EndRefusal();
  }
  // Its admission was given back while no node took the Pod. Now that one has, it runs, and counts.
  if (!IsAdmitted() && (view.state == WorkerView::State::kRunning || !view.node.empty())) {
    object_.SetTime(objects::kAdmittedAtAnnotation, scheduler_.AdmitRunning(EndAwaiting()));
  }
  switch (view.state) {
    case WorkerView::State::kStarting:
      return Await(view);
    case WorkerView::State::kRunning:
      return WatchRunning(view);
    case WorkerView::State::kEnded:
      break;
  }
  if (view.status.phase == objects::TaskPhase::kSucceeded) {
    return Conclude(view.status);
  }
  const std::string message = FailureMessage(view.status);
  return BeginFailure(message.empty() ? "the worker gave no reason" : message);
}

// One without a name where it is gone.
absl::StatusOr<objects::VolumeTask> TransferStep::CachedTask() const {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.CachedTask(ctx_));
  return task.value_or(objects::VolumeTask());
}

absl::StatusOr<absl::Time> TransferStep::WatchRunning(const WorkerView& view) {
  if (view.status.phase == objects::TaskPhase::kNone && Now() >= DeadlineOf(view)) {
    return BeginFailure("the worker runs, but does not report: can its Pod reach the API server?");
  }
  const absl::StatusOr<absl::Time> checked = CheckRunning();
  if (absl::IsFailedPrecondition(checked.status())) {
    return BeginFailure(checked.status().message());
  }
  object_.SetMessage("");
  const bool moves_on = transfer_.known_phase() == DataPhase::kAccepted;
  if (moves_on) {
    ASSIGN_OR_RETURN(const objects::VolumeTask task, CachedTask());
    const absl::Status begun = CheckBegun(task);
    if (absl::IsFailedPrecondition(begun)) {
      return BeginFailure(begun.message());
    }
    RETURN_IF_ERROR(begun);
    object_.SetPhase(DataPhase::kPrepared);
  } else if (view.status.phase == objects::TaskPhase::kRunning) {
    if (transfer_.known_phase() == DataPhase::kPrepared) {
      object_.SetPhase(DataPhase::kInProgress);
      object_.SetStartedAt(Stamp());
      RecordBegin();
    }
    object_.SetProgress(view.status.done_bytes, view.status.total_bytes);
  }
  RETURN_IF_ERROR(Write());
  if (moves_on) {  // InProgress is a write of its own, so that watchers see both phases.
    return Now();
  }
  const absl::Time check_again = checked.value_or(Now() + kRequeueAfterError);
  if (check_again != absl::InfiniteFuture()) {
    return std::min(view.requeue_time, check_again);
  }
  if (view.status.phase == objects::TaskPhase::kRunning) {
    const absl::Duration now = ctx_.clock->Uptime();
    env_.running->Runs(task_name_, now, now + (view.requeue_time - Now()));
  }
  return view.requeue_time;
}

// Where nothing runs yet, what keeps it from that is shown. How many Pods there were is not known
// here, so a worker that runs is left alone.
absl::StatusOr<absl::Time> TransferStep::AwaitDespite(const absl::Status& error) {
  if (transfer_.known_phase() != DataPhase::kAccepted || absl::IsAborted(error) ||
      absl::IsCancelled(error)) {
    return error;
  }
  if (IsRetryable(error)) {
    object_.SetMessage(error.message());
    RETURN_IF_ERROR(Write());
    return error;
  }
  WorkerView view;
  view.message = std::string(error.message());
  view.refusal = error;
  view.requeue_time = Now() + kRequeueAfterError;
  return Await(view);
}

// A Pod that does not run yet, or not yet again.
absl::StatusOr<absl::Time> TransferStep::Await(const WorkerView& view) {
  if (view.waits_for_node || view.waits_for_quota) {
    RecordNoRoom();
  }
  if (view.is_unschedulable && IsAdmitted() && view.unschedulable_pods <= kUnschedulablePodsMax &&
      Now() >= view.attempt_since + kUnschedulableTimeMax) {
    GiveBackAdmission();
  }
  std::string message = view.message;
  if (view.attempts > 0 && !IsBrief(view)) {  // The claim of a Pod that waits may fail yet.
    ASSIGN_OR_RETURN(const objects::VolumeTask task, CachedTask());
    const absl::StatusOr<std::string> refused = InspectClaim(task);
    if (absl::IsFailedPrecondition(refused.status())) {
      return BeginFailure(refused.status().message());
    }
    if (refused.ok() && !absl::StrContains(message, *refused)) {  // "" is in any.
      absl::StrAppend(&message, message.empty() ? "" : "; ", "it waits for ", *refused);
    }
  }
  // A full cluster is no fault of the transfer: while a node is waited for, no deadline holds.
  const absl::Time deadline = DeadlineOf(view);
  if (Now() >= deadline && !view.waits_for_node) {
    return BeginFailure(absl::StrCat("it was not prepared within ",
                                     absl::FormatDuration(env_.settings.prepare_timeout), ": ",
                                     !message.empty() ? message
                                     : view.has_pod   ? "its Pod does not run"
                                                      : "no Pod could be made"));
  }
  if (IsBrief(view)) {  // What was noted so far is written with what comes next.
    const absl::Time shown_at = PreparedSince().value_or(Now()) + kWaitShownAfter;
    return std::min({deadline, view.requeue_time, shown_at});
  }
  if (!view.refusal.ok()) {
    RecordRefused(view);
  }
  object_.SetMessage(message);
  RETURN_IF_ERROR(Write());
  if (view.waits_for_node) {
    return view.requeue_time;
  }
  // What changes of a Pod enqueues its transfer.
  const bool is_parked = view.is_unschedulable && !IsAdmitted();
  return std::min(deadline, is_parked ? Now() + kRequeueParkedAfter : view.requeue_time);
}

// The steps until the Pod runs are not worth a write each.
bool TransferStep::IsBrief(const WorkerView& view) const {
  return view.is_usual && object_.object().message().empty() &&
         Now() < PreparedSince().value_or(Now()) + kWaitShownAfter;
}

std::optional<absl::Time> TransferStep::PreparedSince() const {
  for (const char* since : {objects::kRefusedSinceAnnotation, objects::kAdmittedAtAnnotation,
                            objects::kAwaitingAtAnnotation}) {
    if (const std::optional<absl::Time> time = object_.TimeOf(since); time.has_value()) {
      return time;
    }
  }
  return std::nullopt;
}

void TransferStep::RecordRefused(const WorkerView& view) {
  CSIDELTA_LOG(kWarn, "a worker Pod cannot be made", {"kind", kind_.type.kind},
               {"namespace", transfer_.namespace_name()}, {"name", transfer_.name()},
               {"error", view.message});
  const bool gives_back = object_.is_refused() || scheduler_.refused() < kRefusedTransfersMax;
  if (IsRetryable(view.refusal) || !gives_back) {
    return;
  }
  object_.RecordRefusal(view.message, PreparedSince().value_or(Now()));
  if (IsAdmitted()) {
    GiveBackAdmission();
  }
}

void TransferStep::RecordNoRoom() {
  const absl::Time noted =
      object_.TimeOf(objects::kNoRoomAtAnnotation).value_or(absl::InfinitePast());
  if (Now() >= noted + kNoRoomRecordedEvery) {
    object_.SetTime(objects::kNoRoomAtAnnotation, Now());
  }
}

// Until when this attempt must run. The time before it was admitted does not count, nor that
// in which no node had room; nor does spec.operationTimeout, which is about single steps of
// Velero's own mover.
absl::Time TransferStep::DeadlineOf(const WorkerView& view) const {
  const absl::Time since =
      std::max({PreparedSince().value_or(Now()),
                object_.TimeOf(objects::kNoRoomAtAnnotation).value_or(absl::InfinitePast()),
                view.pods_lost > 0 ? view.attempt_since : absl::InfinitePast()});
  return since + env_.settings.prepare_timeout;
}

// --- Its end

absl::StatusOr<absl::Time> TransferStep::BeginFailure(absl::string_view why) {
  const bool is_moving = transfer_.known_phase() == DataPhase::kInProgress;
  object_.SetAnnotation(
      objects::kFailureAnnotation,
      absl::StrCat("volume ", kind_.volume, " (",
                   is_moving ? kind_.moving(object_.object()) : "preparing", "): ", why));
  object_.SetTime(objects::kStoppingAtAnnotation, Now());
  RETURN_IF_ERROR(Write());
  return WindUp();
}

absl::StatusOr<absl::Time> TransferStep::BeginCancel() {
  object_.SetPhase(DataPhase::kCanceling);
  object_.SetTime(objects::kStoppingAtAnnotation, Now());
  object_.SetMessage(transfer_.is_being_deleted()
                         ? absl::StrCat("cancelled: the ", kind_.type.kind, " is being deleted")
                         : "cancelled: spec.cancel is set");
  RETURN_IF_ERROR(Write());
  return WindUp();
}

absl::StatusOr<absl::Time> TransferStep::WindUp() {
  const std::string failure = object_.Annotation(objects::kFailureAnnotation);
  const absl::Time latest =
      object_.TimeOf(objects::kStoppingAtAnnotation).value_or(Now()) + kWorkerStopTimeMax;
  ASSIGN_OR_RETURN(const bool is_stopped, run_.Stop(ctx_));
  if (failure.empty()) {
    ASSIGN_OR_RETURN(const std::optional<absl::Time> next, CompleteIfDone(latest));
    if (next.has_value()) {
      return *next;
    }
  }
  if (!is_stopped && Now() < latest) {
    return std::min(latest, Now() + kTransferRequeueAfter);
  }
  ASSIGN_OR_RETURN(const std::string waits_for, RemoveAll());
  if (!waits_for.empty()) {
    return Now() + kTransferRequeueAfter;
  }
  return failure.empty() ? End(DataPhase::kCanceled, object_.object().message())
                         : End(DataPhase::kFailed, failure);
}

bool TransferStep::IsFenced() const {
  return Now() >= object_.TimeOf(objects::kStoppingAtAnnotation).value_or(Now()) + kFencedAfter;
}

absl::StatusOr<absl::Time> TransferStep::End(DataPhase phase, const std::string& message) {
  object_.SetPhase(phase);
  object_.SetMessage(message);
  object_.SetCompletedAt(Stamp());
  object_.RemoveFinalizer();
  RETURN_IF_ERROR(Write());
  ReportEnd(phase, message);
  env_.running->Remove(task_name_);
  RETURN_IF_ERROR(run_.RemoveTask(ctx_));
  return absl::InfiniteFuture();
}

void TransferStep::Emit(k8s::EventType type, absl::string_view reason, absl::string_view message) {
  EmitMoverEvent(ctx_, env_, object_.object(), type, reason, message);
}

// --- All of a kind

absl::StatusOr<absl::Time> TransferReconciler::ReconcileOne(const CallContext& ctx,
                                                            const objects::DataTransfer& object) {
  if (!IsToBeMoved(object)) {
    return absl::InfiniteFuture();
  }
  const std::string task = TaskNameOf(type_.kind, object.uid());
  const absl::Time keep_again = KeepAccess(ctx, object, task);
  ASSIGN_OR_RETURN(std::optional<absl::Time> next, CopyProgress(ctx, object, task));
  if (!next.has_value()) {
    ASSIGN_OR_RETURN(next, ReconcileAll(ctx, object, task));
  }
  return *next == absl::InfiniteFuture() ? *next : std::min(*next, keep_again);
}

absl::StatusOr<absl::Time> TransferReconciler::ReconcileAll(const CallContext& ctx,
                                                            const objects::DataTransfer& object,
                                                            const std::string& task) {
  env_.running->BeginReconcile(task);
  const absl::Cleanup end_reconcile = [this, &task] { env_.running->EndReconcile(task); };
  // Whatever is decided is written under the condition that it is still so.
  k8s::CachedReader reader(env_.api, env_.cache);
  ASSIGN_OR_RETURN(std::optional<objects::DataTransfer> now,
                   objects::Find<objects::DataTransfer>(
                       ctx, reader, {type_, object.namespace_name(), object.name()}));
  if (!now.has_value()) {
    env_.running->Remove(task);
    return absl::InfiniteFuture();
  }
  const absl::StatusOr<std::unique_ptr<TransferStep>> step = StepFor(ctx, *now);
  return step.ok() ? (*step)->Run() : Refuse(ctx, *std::move(now), step.status());
}

// Where only progress matters, copies it, and says when to look again. Nothing: all of it is to be
// looked at. What is copied goes into the object as it was seen last, under the condition that it
// is still so.
absl::StatusOr<std::optional<absl::Time>> TransferReconciler::CopyProgress(
    const CallContext& ctx, const objects::DataTransfer& object, const std::string& task) const {
  const absl::Duration now = ctx.clock->Uptime();
  const std::optional<RunningWorkers::Standing> standing =
      OnlyMovesOn(object) ? env_.running->Find(task, now) : std::nullopt;
  if (!standing.has_value()) {
    return std::optional<absl::Time>();
  }
  const auto at = [&](absl::Duration uptime) {
    return std::optional(ctx.clock->Now() + (uptime - now));
  };
  const RunningWorkers::Progress copied{.done_bytes = object.done_bytes(),
                                        .total_bytes = object.total_bytes()};
  const RunningWorkers::Progress reported = standing->progress.value_or(copied);
  if (reported == copied) {
    return at(standing->reconcile_at);
  }
  const bool is_first = copied.done_bytes == 0 || copied.total_bytes == 0;
  const absl::Duration due = standing->copied_at + kProgressCopiedEvery;
  if (!is_first && now < due) {
    return at(std::min(due, standing->reconcile_at));
  }
  TransferObject transfer(type_, object);
  transfer.SetProgress(reported.done_bytes, reported.total_bytes);
  RETURN_IF_ERROR(transfer.Write(ctx, env_.api));
  env_.running->Copied(task, now);
  return at(standing->reconcile_at);
}

// When to ask again.
absl::Time TransferReconciler::KeepAccess(const CallContext& ctx,
                                          const objects::DataTransfer& object,
                                          const std::string& task) {
  if (object.known_phase() != DataPhase::kInProgress) {
    return absl::InfiniteFuture();
  }
  return env_.access_keeper->Keep(ctx, env_.api,
                                  {.velero_namespace = object.namespace_name(),
                                   .location = object.storage_location(),
                                   .mover_namespace = env_.mover_namespace},
                                  task);
}

bool TransferReconciler::IsConcerned(const objects::DataTransfer& object) const {
  return IsToBeMoved(object);
}

absl::StatusOr<absl::Time> TransferReconciler::Refuse(const CallContext& ctx,
                                                      objects::DataTransfer object,
                                                      const absl::Status& why) {
  TransferObject refused(type_, std::move(object));
  refused.SetPhase(DataPhase::kFailed);
  refused.SetMessage(absl::StrCat("this ", type_.kind, " cannot be understood: ", why.message()));
  refused.SetCompletedAt(ctx.clock->Now());
  refused.RemoveFinalizer();
  RETURN_IF_ERROR(refused.Write(ctx, env_.api));
  return absl::InfiniteFuture();
}

bool IsToBeMoved(const objects::DataTransfer& transfer) {
  return transfer.is_managed() && !transfer.is_over();
}

QueuedTransfer QueuedTransferOf(const objects::DataTransfer& transfer, absl::string_view kind) {
  QueuedTransfer queued;
  queued.uid = transfer.uid();
  queued.task = TaskNameOf(kind, transfer.uid());
  queued.name = absl::StrCat(kind, " ", transfer.namespace_name(), "/", transfer.name());
  queued.location = transfer.storage_location();
  queued.created_at = transfer.created_at().value_or(absl::InfinitePast());
  queued.admitted_at = ParseRfc3339(transfer.Annotation(objects::kAdmittedAtAnnotation));
  queued.given_back_at = ParseRfc3339(transfer.Annotation(objects::kAwaitingAtAnnotation));
  queued.is_refused = !transfer.Annotation(objects::kRefusedSinceAnnotation).empty();
  queued.is_held_back = transfer.known_phase() == DataPhase::kNew || transfer.is_cancelled() ||
                        transfer.is_being_deleted() ||
                        !transfer.Annotation(objects::kStoppingAtAnnotation).empty() ||
                        queued.given_back_at.has_value();
  return queued;
}

absl::Status RemoveTransferLeftovers(
    const CallContext& ctx, const MoverEnvironment& env, const k8s::ResourceType& type,
    const objects::VolumeTask& task,
    absl::FunctionRef<absl::Status(const objects::VolumeTaskSpec&, const objects::DataTransfer*)>
        remove_rest) {
  ASSIGN_OR_RETURN(const objects::VolumeTaskSpec spec, task.spec());
  ASSIGN_OR_RETURN(const std::optional<objects::DataTransfer> transfer,
                   objects::Find<objects::DataTransfer>(
                       ctx, env.api, {type, spec.subject.namespace_name, spec.subject.name}));
  const bool is_there = transfer.has_value() && transfer->uid() == spec.subject.uid;
  if (is_there && !transfer->is_over()) {
    return absl::OkStatus();
  }
  env.running->Remove(task.name());
  WorkerRun run(env, task.name());
  RETURN_IF_ERROR(run.Remove(ctx));
  RETURN_IF_ERROR(remove_rest(spec, is_there ? &*transfer : nullptr));
  CSIDELTA_LOG(kInfo, "what was left of a transfer is removed", {"kind", type.kind},
               {"namespace", spec.subject.namespace_name}, {"name", spec.subject.name},
               {"task", task.name()});
  return run.RemoveTask(ctx);
}

}  // namespace csidelta::datamover
