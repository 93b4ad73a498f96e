#include "datamover/controller/deletion_reconciler.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/repository_access.h"
#include "datamover/worker/worker_run.h"
#include "k8s/cached_client.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/protected_volume.h"
#include "objects/volume_task.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kDeletionMessageBytesMax = 4096;
// A worker does not wait for a long upload: the next attempt does. A living client replaces its
// locks by others: one that attempts have met unchanged for long enough is watched until it is
// known to be dead.
constexpr absl::Duration kLockWait = absl::Seconds(10);
constexpr absl::Duration kStaleLockWait = absl::Minutes(31);
constexpr absl::Duration kWatchedAfter = absl::Minutes(10);

// The locks that a worker met just now, with what is known of them.
std::vector<objects::SeenLock> Seen(const std::vector<std::string>& ids,
                                    const std::vector<objects::SeenLock>& before, absl::Time now) {
  std::vector<objects::SeenLock> seen;
  for (const std::string& id : ids) {
    const auto known = std::find_if(before.begin(), before.end(),
                                    [&id](const objects::SeenLock& lock) { return lock.id == id; });
    seen.push_back({.id = id, .since = known == before.end() ? now : known->since, .until = now});
  }
  return seen;
}

absl::Duration AgainAfter(objects::DeletionTrouble trouble, absl::Duration lasts) {
  switch (trouble) {
    case objects::DeletionTrouble::kLocked:
      return std::min(kLockedAgainMax, kLockedAgainFirst + lasts / 2);
    case objects::DeletionTrouble::kRetained:
      return std::min(kRetainedAgainMax, kRetainedAgainFirst + lasts);
    default:
      return std::min(kDeletionAgainMax, kDeletionAgainFirst + lasts);
  }
}

// What kept a worker from its work.
objects::DeletionTrouble TroubleOf(objects::OutcomeCause cause) {
  switch (cause) {
    case objects::OutcomeCause::kLocked:
      return objects::DeletionTrouble::kLocked;
    case objects::OutcomeCause::kRetained:
      return objects::DeletionTrouble::kRetained;
    default:
      return objects::DeletionTrouble::kFailed;
  }
}

bool IsOpen(objects::DeletionPhase phase) {
  return phase != objects::DeletionPhase::kCompleted && phase != objects::DeletionPhase::kFailed;
}

bool IsRetried(const objects::DataDeletion& deletion) {
  return deletion.annotations().contains(objects::kRetryAnnotation);
}

// Never older than the last write of this process. Nothing where none exists.
absl::StatusOr<std::optional<objects::DataDeletion>> FindDeletion(const CallContext& ctx,
                                                                  const MoverEnvironment& env,
                                                                  const k8s::ObjectKey& key) {
  k8s::CachedReader reader(env.api, env.cache);
  return objects::Find<objects::DataDeletion>(ctx, reader, key);
}

// What became of an attempt, beside the phase.
struct Failure {
  absl::string_view why;
  objects::DeletionTrouble trouble;
  absl::Time at;
  absl::Duration give_up_after;
};

std::string Text(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

// Writes an attempt that failed into the status of a DataDeletion that it was about. Returns
// whether that is news: the failure is of another kind than before, or it is the last attempt.
bool RecordFailure(const Failure& failure, objects::DataDeletionStatus& status) {
  bool is_new = failure.trouble != status.trouble || !status.trouble_since.has_value();
  if (is_new) {
    status.trouble = failure.trouble;
    status.trouble_since = failure.at;
  }
  const absl::Duration lasts = failure.at - *status.trouble_since;
  const absl::Duration pause = AgainAfter(failure.trouble, lasts);
  status.phase = objects::DeletionPhase::kWaiting;
  status.next_attempt_at = failure.at + pause;
  status.message = absl::StrCat("attempt ", status.attempts, " failed, and is made again in ",
                                Text(pause), ": ", failure.why);
  if (failure.trouble == objects::DeletionTrouble::kFailed && lasts >= failure.give_up_after) {
    is_new = true;
    status.phase = objects::DeletionPhase::kFailed;
    status.next_attempt_at.reset();
    status.message =
        absl::StrCat("given up: every attempt since ", FormatRfc3339(*status.trouble_since),
                     " failed; once the cause is removed, request it again with csi-delta "
                     "deletions retry; the last of ",
                     status.attempts, " attempts: ", failure.why);
  }
  status.message = CutText(status.message, kDeletionMessageBytesMax);
  return is_new;
}

void RecordDone(absl::string_view message, absl::Time now, objects::DataDeletionStatus& status) {
  status.phase = objects::DeletionPhase::kCompleted;
  status.trouble = objects::DeletionTrouble::kNone;
  status.trouble_since.reset();
  status.next_attempt_at.reset();
  status.locks.clear();
  status.message = std::string(message);
  status.completed_at = now;
}

// One look at one DataDeletion.
class Deletion {
 public:
  Deletion(const CallContext& ctx, const MoverEnvironment& env, DeletionQueue& queue,
           const VolumeRecords* records, objects::DataDeletion object);
  absl::StatusOr<absl::Time> Step();

 private:
  absl::StatusOr<absl::Time> AgeOut();
  absl::StatusOr<absl::Time> Refuse(const absl::Status& why);
  absl::StatusOr<absl::Time> Retry();
  absl::StatusOr<absl::Time> Begin();
  absl::StatusOr<absl::Time> Follow();
  absl::StatusOr<WorkerView> StepWorker();
  absl::StatusOr<RepositoryAccess> Access();
  absl::StatusOr<WorkerRun::NextPod> MakePod(const objects::VolumeTask& task);
  bool SeesStaleLock() const;
  absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& task);
  absl::StatusOr<absl::Time> TryLater(
      absl::string_view why, objects::DeletionTrouble trouble = objects::DeletionTrouble::kFailed);

  // What the worker was told to remove, or would have been.
  absl::StatusOr<std::vector<objects::ForgetItem>> Items();
  // Changes the status of each other open DataDeletion that the worker was about, and writes it
  // where `change` returns true. Returns of how many.
  absl::StatusOr<int> ForOthers(absl::FunctionRef<bool(objects::DataDeletionStatus&)> change);

  // An Event with the message that was just written.
  void Emit(k8s::EventType type, absl::string_view reason);
  absl::Status Write();

  const CallContext& ctx_;
  const MoverEnvironment& env_;
  DeletionQueue& queue_;
  const VolumeRecords* const records_;
  objects::DataDeletion object_;
  const objects::DataDeletionSpec spec_;
  objects::DataDeletionStatus status_;
  const std::string task_name_;
  WorkerRun run_;
  velero::DataReference reference_;
};

Deletion::Deletion(const CallContext& ctx, const MoverEnvironment& env, DeletionQueue& queue,
                   const VolumeRecords* records, objects::DataDeletion object)
    : ctx_(ctx),
      env_(env),
      queue_(queue),
      records_(records),
      object_(std::move(object)),
      spec_(object_.spec()),
      status_(object_.status()),
      task_name_(TaskNameOf("DataDeletion", object_.uid())),
      run_(env, task_name_) {}

absl::StatusOr<absl::Time> Deletion::Step() {
  queue_.Put(object_);
  if (object_.is_being_deleted()) {
    return absl::InfiniteFuture();
  }
  if (IsRetried(object_)) {
    return Retry();
  }
  if (status_.phase == objects::DeletionPhase::kFailed) {
    return absl::InfiniteFuture();
  }
  if (status_.phase == objects::DeletionPhase::kCompleted) {
    return AgeOut();
  }
  absl::StatusOr<velero::DataReference> reference = ReferenceOf(spec_);
  if (!reference.ok()) {
    return Refuse(reference.status());
  }
  reference_ = *std::move(reference);
  return status_.phase == objects::DeletionPhase::kInProgress ? Follow() : Begin();
}

absl::StatusOr<absl::Time> Deletion::AgeOut() {
  const absl::Time until = status_.completed_at.value_or(ctx_.clock->Now()) + kDeletionKeptFor;
  if (ctx_.clock->Now() < until) {
    return until;
  }
  RETURN_IF_ERROR(
      k8s::IgnoreNotFound(env_.api.Delete(ctx_, object_.key(), {.uid = object_.uid()})));
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Deletion::Refuse(const absl::Status& why) {
  status_.phase = objects::DeletionPhase::kFailed;
  status_.message = std::string(why.message());
  RETURN_IF_ERROR(Write());
  Emit(k8s::EventType::kWarning, "Refused");
  return absl::InfiniteFuture();
}

// The status first: the annotation is what asks for it.
absl::StatusOr<absl::Time> Deletion::Retry() {
  if (status_.phase == objects::DeletionPhase::kFailed ||
      status_.phase == objects::DeletionPhase::kWaiting) {
    status_.phase = objects::DeletionPhase::kWaiting;
    status_.trouble = objects::DeletionTrouble::kNone;
    status_.trouble_since.reset();
    status_.next_attempt_at.reset();
    status_.message = CutText(absl::StrCat("requested again; before: ", status_.message),
                              kDeletionMessageBytesMax);
    RETURN_IF_ERROR(Write());
  }
  ASSIGN_OR_RETURN(object_, objects::Apply<objects::DataDeletion>(
                                ctx_, env_.api, object_.key(),
                                objects::Patch()
                                    .RemoveAnnotation(objects::kRetryAnnotation)
                                    .IfVersion(object_.resource_version())));
  queue_.Put(object_);
  return ctx_.clock->Now();
}

// One that waits for another to lead, or for a worker to end, is woken by the queue.
absl::StatusOr<absl::Time> Deletion::Begin() {
  const absl::Time at = DueAt(object_);
  if (ctx_.clock->Now() < at) {
    return at;
  }
  if (!queue_.Lead(object_.uid())) {
    return absl::InfiniteFuture();
  }
  status_.phase = objects::DeletionPhase::kInProgress;
  status_.message = "a worker is made";
  status_.next_attempt_at.reset();
  status_.started_at = status_.started_at.value_or(ctx_.clock->Now());
  ++status_.attempts;
  RETURN_IF_ERROR(Write());
  return Follow();
}

absl::StatusOr<absl::Time> Deletion::Follow() {
  if (!queue_.Lead(object_.uid())) {
    return absl::InfiniteFuture();
  }
  absl::StatusOr<WorkerView> view = StepWorker();
  const absl::Status& error = view.ok() ? view->refusal : view.status();
  if (absl::IsFailedPrecondition(error) || absl::IsNotFound(error) ||
      absl::IsPermissionDenied(error)) {
    return TryLater(error.message());  // What a person may put right meanwhile.
  }
  RETURN_IF_ERROR(view.status());
  if (view->state == WorkerView::State::kEnded) {
    return Conclude(view->status);
  }
  if (view->state == WorkerView::State::kStarting &&
      ctx_.clock->Now() - view->attempt_since > env_.settings.prepare_timeout) {
    return TryLater(absl::StrCat("the worker does not start: ", view->message));
  }
  const std::string message = view->state == WorkerView::State::kRunning
                                  ? absl::StrCat("a worker is at it: ", view->status.stage)
                                  : absl::StrCat("the worker starts: ", view->message);
  if (message != status_.message) {
    status_.message = CutText(message, kDeletionMessageBytesMax);
    RETURN_IF_ERROR(Write());
  }
  return view->requeue_time;
}

absl::StatusOr<WorkerView> Deletion::StepWorker() {
  RETURN_IF_ERROR(run_.EnsureTask(ctx_,
                                  {.kind = objects::TaskKind::kForget,
                                   .subject = {.kind = "DataDeletion",
                                               .namespace_name = object_.namespace_name(),
                                               .name = object_.name(),
                                               .uid = object_.uid()},
                                   .volume = {.namespace_name = reference_.namespace_name,
                                              .claim_uid = reference_.claim_uid}},
                                  LabelsFor(task_name_, object_.namespace_name()))
                      .status());
  return run_.Step(ctx_, [this](const objects::VolumeTask& task) { return MakePod(task); });
}

absl::StatusOr<RepositoryAccess> Deletion::Access() {
  return OpenAccess(ctx_, env_, object_,
                    {.velero_namespace = object_.namespace_name(),
                     .location = spec_.location,
                     .repository_path = velero::RepositoryPath(reference_),
                     .for_writing = true,
                     .for_deleting = true,
                     .written_with_key = reference_.key});
}

absl::StatusOr<WorkerRun::NextPod> Deletion::MakePod(const objects::VolumeTask& task) {
  ASSIGN_OR_RETURN(RepositoryAccess access, Access());
  ASSIGN_OR_RETURN(
      std::optional<objects::RepositoryDamage> damage,
      FindDamage(ctx_, env_.api, records_, {object_.namespace_name(), spec_.location, reference_}));
  return run_.PodFor(ctx_, task,
                     {.work = objects::ForgetWork{.items = queue_.Batch(object_.uid()),
                                                  .damage = std::move(damage)},
                      .lock_wait = SeesStaleLock() ? kStaleLockWait : kLockWait,
                      .access = std::move(access),
                      .has_volume = false});
}

bool Deletion::SeesStaleLock() const {
  return std::any_of(status_.locks.begin(), status_.locks.end(), [](const objects::SeenLock& lock) {
    return lock.until - lock.since >= kWatchedAfter;
  });
}

// Each other one first: as long as the task is there, what it was about is known.
absl::StatusOr<absl::Time> Deletion::Conclude(const objects::VolumeTaskStatus& task) {
  const bool is_gone = CauseOf(task) == objects::OutcomeCause::kNoRepository;
  if (task.phase != objects::TaskPhase::kSucceeded && !is_gone) {
    status_.locks =
        Seen(task.outcome.has_value() ? task.outcome->locks : std::vector<std::string>(),
             status_.locks, ctx_.clock->Now());
    return TryLater(WithMissingKey(task, Access()), TroubleOf(CauseOf(task)));
  }
  const char* const message = is_gone ? "the repository was gone already" : "the data is gone";
  const absl::Time now = ctx_.clock->Now();
  ASSIGN_OR_RETURN(const int others, ForOthers([&](objects::DataDeletionStatus& status) {
                     ++status.attempts;
                     status.started_at =
                         status.started_at.value_or(status_.started_at.value_or(now));
                     RecordDone(message, now, status);
                     return true;
                   }));
  RETURN_IF_ERROR(run_.RemoveWithTask(ctx_));
  RecordDone(message, now, status_);
  if (!is_gone && !MessageOf(task).empty()) {
    absl::StrAppend(&status_.message, "; ", MessageOf(task));
    status_.message = CutText(status_.message, kDeletionMessageBytesMax);
  }
  if (others > 0) {
    absl::StrAppend(&status_.message, ", with that of ", others, " other DataDeletions");
  }
  RETURN_IF_ERROR(Write());
  Emit(k8s::EventType::kNormal, "Completed");
  CSIDELTA_LOG(kInfo, "data deleted", {"namespace", object_.namespace_name()},
               {"name", object_.name()}, {"backup", spec_.backup},
               {"others", absl::StrCat(others)});
  return now + kDeletionKeptFor;
}

// The others are told only what is news: their next attempt is that of the one that leads.
absl::StatusOr<absl::Time> Deletion::TryLater(absl::string_view why,
                                              objects::DeletionTrouble trouble) {
  const Failure failure{.why = why,
                        .trouble = trouble,
                        .at = ctx_.clock->Now(),
                        .give_up_after = env_.settings.deletions.give_up_after};
  RETURN_IF_ERROR(ForOthers([&failure](objects::DataDeletionStatus& status) {
                    ++status.attempts;
                    return RecordFailure(failure, status);
                  }).status());
  RETURN_IF_ERROR(run_.RemoveWithTask(ctx_));
  if (trouble != objects::DeletionTrouble::kLocked) {
    status_.locks.clear();
  }
  const bool is_new = RecordFailure(failure, status_);
  RETURN_IF_ERROR(Write());
  if (is_new) {
    Emit(k8s::EventType::kWarning,
         status_.phase == objects::DeletionPhase::kFailed ? "GivenUp" : ToString(trouble));
  }
  return status_.next_attempt_at.value_or(absl::InfiniteFuture());
}

absl::StatusOr<std::vector<objects::ForgetItem>> Deletion::Items() {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.CachedTask(ctx_));
  if (task.has_value()) {
    const absl::StatusOr<objects::VolumeJob> job = task->job();
    const auto* const work = job.ok() ? std::get_if<objects::ForgetWork>(&job->work) : nullptr;
    if (work != nullptr) {
      return work->items;
    }
  }
  return queue_.Batch(object_.uid());
}

absl::StatusOr<int> Deletion::ForOthers(
    absl::FunctionRef<bool(objects::DataDeletionStatus&)> change) {
  ASSIGN_OR_RETURN(const std::vector<objects::ForgetItem> items, Items());
  int count = 0;
  for (const DeletionQueue::Name& name : queue_.Others(object_.uid(), items)) {
    const k8s::ObjectKey key = objects::DataDeletion::Key(name.namespace_name, name.name);
    ASSIGN_OR_RETURN(const std::optional<objects::DataDeletion> other,
                     FindDeletion(ctx_, env_, key));
    if (!other.has_value() || !IsOpen(other->phase()) || other->is_being_deleted()) {
      continue;
    }
    ++count;
    objects::DataDeletionStatus status = other->status();
    if (!change(status)) {
      continue;
    }
    const absl::StatusOr<objects::DataDeletion> stored = objects::Apply<objects::DataDeletion>(
        ctx_, env_.api, key,
        objects::Patch().SetStatus(status).IfVersion(other->resource_version()), "status");
    RETURN_IF_ERROR(k8s::IgnoreNotFound(stored.status()));
    if (stored.ok()) {
      queue_.Put(*stored);
      queue_.Enqueue(name);  // What is to come for it depends on its status.
    }
  }
  return count;
}

void Deletion::Emit(k8s::EventType type, absl::string_view reason) {
  EmitMoverEvent(ctx_, env_, object_, type, reason, status_.message);
}

// ABORTED where it changed meanwhile, such as by an operator who retries it.
absl::Status Deletion::Write() {
  ASSIGN_OR_RETURN(
      object_,
      objects::Apply<objects::DataDeletion>(
          ctx_, env_.api, object_.key(),
          objects::Patch().SetStatus(status_).IfVersion(object_.resource_version()), "status"));
  queue_.Put(object_);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::Time> DeletionReconciler::ReconcileOne(const CallContext& ctx,
                                                            const objects::DataDeletion& deletion) {
  ASSIGN_OR_RETURN(std::optional<objects::DataDeletion> fresh,
                   FindDeletion(ctx, env_, deletion.key()));
  if (!fresh.has_value()) {
    return absl::InfiniteFuture();
  }
  return Deletion(ctx, env_, queue_, records_, *std::move(fresh)).Step();
}

bool DeletionReconciler::IsConcerned(const objects::DataDeletion& deletion) const {
  return deletion.phase() != objects::DeletionPhase::kFailed || IsRetried(deletion);
}

TaskSubjects DeletionSubjects(DeletionQueue& queue) {
  const auto take = [&queue](const objects::Object& object) {
    const absl::StatusOr<objects::DataDeletion> deletion = objects::DataDeletion::From(object);
    if (!deletion.ok()) {
      return false;
    }
    queue.Put(*deletion);
    return IsOpen(deletion->phase());
  };
  return {.kind = objects::DataDeletion::kKind.kind,
          .take = take,
          .leave = [&queue](const std::string& uid) { queue.Remove(uid); }};
}

}  // namespace csidelta::datamover
