#include "datamover/deletion_reconciler.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datamover/repository_access.h"
#include "datamover/volume_task.h"
#include "datamover/worker_run.h"
#include "k8s/find.h"
#include "objects/client.h"
#include "objects/event.h"
#include "objects/patch.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

constexpr absl::Duration kLookAtWorker = absl::Seconds(2);
constexpr absl::Duration kLookAtTurn = absl::Seconds(10);
constexpr std::size_t kDeletionMessageBytesMax = 4096;
// A worker does not wait for a long upload: the next attempt does. Whoever lives replaces its locks
// by others: one that attempts have met unchanged for long enough is watched until it is known to
// be dead.
constexpr absl::Duration kLockWait = absl::Seconds(10);
constexpr absl::Duration kDeadLockWait = absl::Minutes(31);
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
objects::DeletionTrouble TroubleOf(OutcomeCause cause) {
  switch (cause) {
    case OutcomeCause::kLocked:
      return objects::DeletionTrouble::kLocked;
    case OutcomeCause::kRetained:
      return objects::DeletionTrouble::kRetained;
    default:
      return objects::DeletionTrouble::kFailed;
  }
}

// One look at one DataDeletion.
class Deletion {
 public:
  Deletion(const CallContext& ctx, const MoverEnvironment& env, objects::DataDeletion object);
  absl::StatusOr<absl::Time> Step();

 private:
  absl::StatusOr<absl::Time> AgeOut();
  absl::StatusOr<absl::Time> Refuse(const absl::Status& why);
  absl::StatusOr<absl::Time> Begin();

  // For whom this one waits; "": for nobody. A worker that forgets has the repository alone.
  absl::StatusOr<std::string> WaitsFor();
  absl::StatusOr<absl::Time> Follow();
  absl::StatusOr<WorkerView> StepWorker();
  absl::StatusOr<RepositoryAccess> Access();
  absl::StatusOr<WorkerRun::NextPod> MakePod(const objects::VolumeTask& task);
  bool SeesDeadLock() const;
  ForgetWork Work() const;
  absl::StatusOr<absl::Time> Conclude(const VolumeTaskStatus& task);
  absl::StatusOr<absl::Time> TryLater(
      absl::string_view why, objects::DeletionTrouble trouble = objects::DeletionTrouble::kFailed);
  absl::Status RemoveWorker();

  // An Event with the message that was just written.
  void Tell(k8s::EventType type, absl::string_view reason);
  absl::Status Write();

  TaskVolume Volume() const;

  const CallContext& ctx_;
  const MoverEnvironment& env_;
  const objects::DataDeletion object_;
  const objects::DataDeletionSpec spec_;
  objects::DataDeletionStatus status_;
  const std::string stem_;
  WorkerRun run_;
  velero::DataReference reference_;
};

Deletion::Deletion(const CallContext& ctx, const MoverEnvironment& env,
                   objects::DataDeletion object)
    : ctx_(ctx),
      env_(env),
      object_(std::move(object)),
      spec_(object_.spec()),
      status_(object_.status()),
      stem_(StemOf("DataDeletion", object_.uid())),
      run_(env, stem_) {}

absl::StatusOr<absl::Time> Deletion::Step() {
  if (object_.is_being_deleted() || status_.phase == objects::DeletionPhase::kFailed) {
    return absl::InfiniteFuture();
  }
  if (status_.phase == objects::DeletionPhase::kCompleted) {
    return AgeOut();
  }
  absl::StatusOr<velero::DataReference> reference = velero::ParseDataReference(spec_.snapshot_id);
  if (!reference.ok()) {
    return Refuse(reference.status());
  }
  if (!spec_.upload.empty() && !velero::IsUid(spec_.upload)) {
    return Refuse(absl::InvalidArgumentError("spec.upload is not the uid of a DataUpload"));
  }
  reference_ = *std::move(reference);
  return status_.phase == objects::DeletionPhase::kInProgress ? Follow() : Begin();
}

absl::StatusOr<absl::Time> Deletion::AgeOut() {
  const absl::Time until = status_.completed_at.value_or(ctx_.clock->Now()) + kDeletionKeptFor;
  if (ctx_.clock->Now() < until) {
    return until;
  }
  RETURN_IF_ERROR(k8s::IgnoreNotFound(
      env_.api.Delete(ctx_, object_.key(), {.uid = object_.uid(), .resource_version = ""})));
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Deletion::Refuse(const absl::Status& why) {
  status_.phase = objects::DeletionPhase::kFailed;
  status_.message = std::string(why.message());
  RETURN_IF_ERROR(Write());
  Tell(k8s::EventType::kWarning, "Refused");
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Deletion::Begin() {
  const absl::Time earliest =
      spec_.upload.empty() || spec_.worker_ended
          ? absl::InfinitePast()
          : object_.created_at().value_or(ctx_.clock->Now()) + kUnnamedDeletionAfter;
  const absl::Time at = status_.next_attempt_at.value_or(earliest);
  if (ctx_.clock->Now() < at) {
    return at;
  }
  ASSIGN_OR_RETURN(const std::string waits_for, WaitsFor());
  if (!waits_for.empty()) {
    if (status_.message != waits_for) {
      status_.phase = objects::DeletionPhase::kWaiting;
      status_.message = waits_for;
      RETURN_IF_ERROR(Write());
    }
    return ctx_.clock->Now() + kLookAtTurn;
  }
  status_.phase = objects::DeletionPhase::kInProgress;
  status_.message = "a worker is made";
  status_.next_attempt_at.reset();
  status_.started_at = status_.started_at.value_or(ctx_.clock->Now());
  ++status_.attempts;
  RETURN_IF_ERROR(Write());
  return Follow();
}

absl::StatusOr<std::string> Deletion::WaitsFor() {
  ASSIGN_OR_RETURN(const std::vector<objects::VolumeTask> tasks,
                   objects::List<objects::VolumeTask>(ctx_, env_.api, env_.mover_namespace));
  int running = 0;
  for (const objects::VolumeTask& task : tasks) {
    const absl::StatusOr<VolumeTaskSpec> spec = task.spec();
    if (!spec.ok() || spec->kind != TaskKind::kForget || task.name() == stem_) {
      continue;
    }
    ++running;
    if (spec->volume == Volume()) {
      return absl::StrCat("waits for DataDeletion ", spec->subject.namespace_name, "/",
                          spec->subject.name, ", which is at the same volume");
    }
  }
  return running < kDeletionsMax ? "" : absl::StrCat("waits for ", running, " other DataDeletions");
}

absl::StatusOr<absl::Time> Deletion::Follow() {
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
  const absl::Time now = ctx_.clock->Now();
  if (view->state == WorkerView::State::kStarting &&
      now - view->attempt_since > env_.settings.prepare_timeout) {
    return TryLater(absl::StrCat("the worker does not start: ", view->words));
  }
  const std::string message = view->state == WorkerView::State::kRunning
                                  ? absl::StrCat("a worker is at it: ", view->status.stage)
                                  : absl::StrCat("the worker starts: ", view->words);
  if (message != status_.message) {
    status_.message = message.substr(0, kDeletionMessageBytesMax);
    RETURN_IF_ERROR(Write());
  }
  return std::min(view->look_again, now + kLookAtWorker);
}

absl::StatusOr<WorkerView> Deletion::StepWorker() {
  RETURN_IF_ERROR(run_.EnsureTask(ctx_,
                                  {.kind = TaskKind::kForget,
                                   .subject = {.kind = "DataDeletion",
                                               .namespace_name = object_.namespace_name(),
                                               .name = object_.name(),
                                               .uid = object_.uid()},
                                   .volume = Volume()},
                                  LabelsFor(stem_, object_.namespace_name()))
                      .status());
  return run_.Step(ctx_, [this](const objects::VolumeTask& task) { return MakePod(task); });
}

absl::StatusOr<RepositoryAccess> Deletion::Access() {
  return OpenRepositoryAccess(ctx_, env_.api,
                              {.velero_namespace = object_.namespace_name(),
                               .location = spec_.location,
                               .mover_namespace = env_.mover_namespace,
                               .repository_path = velero::RepositoryPath(reference_),
                               .for_writing = true,
                               .written_with_key = reference_.key},
                              env_.secure_random);
}

absl::StatusOr<WorkerRun::NextPod> Deletion::MakePod(const objects::VolumeTask& task) {
  ASSIGN_OR_RETURN(RepositoryAccess access, Access());
  return run_.PodFor(ctx_, task,
                     {.work = Work(),
                      .lock_wait = SeesDeadLock() ? kDeadLockWait : kLockWait,
                      .access = std::move(access),
                      .has_volume = false});
}

bool Deletion::SeesDeadLock() const {
  return std::any_of(status_.locks.begin(), status_.locks.end(), [](const objects::SeenLock& lock) {
    return lock.until - lock.since >= kWatchedAfter;
  });
}

ForgetWork Deletion::Work() const {
  return spec_.upload.empty() ? ForgetWork{.snapshot_id = reference_.snapshot_id}
                              : ForgetWork{.tag = StemOf("DataUpload", spec_.upload)};
}

absl::StatusOr<absl::Time> Deletion::Conclude(const VolumeTaskStatus& task) {
  const bool is_gone = CauseOf(task) == OutcomeCause::kNoRepository;
  if (task.phase != TaskPhase::kSucceeded && !is_gone) {
    status_.locks =
        Seen(task.outcome.has_value() ? task.outcome->locks : std::vector<std::string>(),
             status_.locks, ctx_.clock->Now());
    return TryLater(WithMissingKey(task, Access()), TroubleOf(CauseOf(task)));
  }
  RETURN_IF_ERROR(RemoveWorker());
  status_.phase = objects::DeletionPhase::kCompleted;
  status_.trouble = objects::DeletionTrouble::kNone;
  status_.trouble_since.reset();
  status_.locks.clear();
  status_.message = is_gone ? "the repository was gone already" : "the data is gone";
  status_.completed_at = ctx_.clock->Now();
  RETURN_IF_ERROR(Write());
  Tell(k8s::EventType::kNormal, "Completed");
  CSIDELTA_LOG(kInfo, "data deleted", {"namespace", object_.namespace_name()},
               {"name", object_.name()}, {"backup", spec_.backup});
  return *status_.completed_at + kDeletionKeptFor;
}

absl::StatusOr<absl::Time> Deletion::TryLater(absl::string_view why,
                                              objects::DeletionTrouble trouble) {
  RETURN_IF_ERROR(RemoveWorker());
  const absl::Time now = ctx_.clock->Now();
  if (trouble != objects::DeletionTrouble::kLocked) {
    status_.locks.clear();
  }
  const bool is_news = trouble != status_.trouble || !status_.trouble_since.has_value();
  if (is_news) {
    status_.trouble = trouble;
    status_.trouble_since = now;
  }
  const absl::Duration pause = AgainAfter(trouble, now - *status_.trouble_since);
  status_.phase = objects::DeletionPhase::kWaiting;
  status_.message =
      absl::StrCat("attempt ", status_.attempts, " failed, and is made again in ",
                   absl::FormatDuration(absl::Trunc(pause, absl::Seconds(1))), ": ", why)
          .substr(0, kDeletionMessageBytesMax);
  status_.next_attempt_at = now + pause;
  RETURN_IF_ERROR(Write());
  if (is_news || trouble == objects::DeletionTrouble::kFailed) {
    Tell(k8s::EventType::kWarning, ToString(trouble));
  }
  return now + pause;
}

absl::Status Deletion::RemoveWorker() {
  RETURN_IF_ERROR(run_.Remove(ctx_));
  return run_.RemoveTask(ctx_);
}

void Deletion::Tell(k8s::EventType type, absl::string_view reason) {
  const absl::Status told =
      objects::EmitEvent(ctx_, env_.api, object_, type, reason, status_.message, kMoverComponent);
  if (!told.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", object_.namespace_name()},
                 {"name", object_.name()}, {"error", std::string(told.message())});
  }
}

absl::Status Deletion::Write() {
  return objects::Apply(ctx_, env_.api, object_.key(), objects::Patch().SetStatus(status_),
                        "status");
}

TaskVolume Deletion::Volume() const {
  return {
      .namespace_name = reference_.namespace_name, .claim = "", .claim_uid = reference_.claim_uid};
}

}  // namespace

absl::StatusOr<absl::Time> DeletionReconciler::ReconcileOne(const CallContext& ctx,
                                                            const objects::DataDeletion& deletion) {
  // What was told of it may be older than what we wrote, and be done already.
  ASSIGN_OR_RETURN(std::optional<objects::DataDeletion> fresh,
                   objects::Find<objects::DataDeletion>(ctx, env_.api, deletion.key()));
  if (!fresh.has_value()) {
    return absl::InfiniteFuture();
  }
  return Deletion(ctx, env_, *std::move(fresh)).Step();
}

DeletionFollower::DeletionFollower(WakeTable& wakes, k8s::ReconcileLoop& loop)
    : SubjectFollower(objects::DataDeletion::kKind.kind, wakes, loop) {}

bool DeletionFollower::Take(const objects::Object& object) {
  const absl::StatusOr<objects::DataDeletion> deletion = objects::DataDeletion::From(object);
  return deletion.ok() && deletion->phase() != objects::DeletionPhase::kCompleted &&
         deletion->phase() != objects::DeletionPhase::kFailed;
}

absl::Status RemoveDeletionLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                     const objects::VolumeTask& task) {
  WorkerRun run(env, task.name());
  RETURN_IF_ERROR(run.Remove(ctx));
  return run.RemoveTask(ctx);
}

}  // namespace csidelta::datamover
