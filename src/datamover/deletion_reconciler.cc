#include "datamover/deletion_reconciler.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/data_transfer.h"
#include "datamover/data_deletion.h"
#include "datamover/repository_access.h"
#include "datamover/volume_task.h"
#include "datamover/worker_run.h"
#include "k8s/event_recorder.h"
#include "k8s/find.h"
#include "k8s/object.h"
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
std::vector<SeenLock> Seen(const std::vector<std::string>& ids, const std::vector<SeenLock>& before,
                           absl::Time now) {
  std::vector<SeenLock> seen;
  for (const std::string& id : ids) {
    const auto known = std::find_if(before.begin(), before.end(),
                                    [&id](const SeenLock& lock) { return lock.id == id; });
    seen.push_back({.id = id, .since = known == before.end() ? now : known->since, .until = now});
  }
  return seen;
}

absl::Duration AgainAfter(DeletionTrouble trouble, absl::Duration lasts) {
  switch (trouble) {
    case DeletionTrouble::kLocked:
      return std::min(kLockedAgainMax, kLockedAgainFirst + lasts / 2);
    case DeletionTrouble::kRetained:
      return std::min(kRetainedAgainMax, kRetainedAgainFirst + lasts);
    default:
      return std::min(kDeletionAgainMax, kDeletionAgainFirst + lasts);
  }
}

// What kept a worker from its work.
DeletionTrouble TroubleOf(OutcomeCause cause) {
  switch (cause) {
    case OutcomeCause::kLocked:
      return DeletionTrouble::kLocked;
    case OutcomeCause::kRetained:
      return DeletionTrouble::kRetained;
    default:
      return DeletionTrouble::kFailed;
  }
}

// One look at one DataDeletion.
class Deletion {
 public:
  Deletion(const CallContext& ctx, const MoverEnvironment& env, const Json& object);
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
  absl::StatusOr<WorkerRun::NextPod> MakePod(const Json& task);
  bool SeesDeadLock() const;
  ForgetWork Work() const;
  absl::StatusOr<absl::Time> Conclude(const VolumeTaskStatus& task);
  absl::StatusOr<absl::Time> TryLater(absl::string_view why,
                                      DeletionTrouble trouble = DeletionTrouble::kFailed);
  absl::Status RemoveWorker();

  // An Event with the message that was just written.
  void Tell(k8s::EventType type, absl::string_view reason);
  absl::Status Write();

  k8s::ObjectKey Key() const {
    return {csi::DataDeletionType(), deletion_.namespace_name, deletion_.name};
  }
  TaskVolume Volume() const;

  const CallContext& ctx_;
  const MoverEnvironment& env_;
  const Json& object_;
  DataDeletion deletion_;
  const std::string stem_;
  WorkerRun run_;
  velero::DataReference reference_;
};

Deletion::Deletion(const CallContext& ctx, const MoverEnvironment& env, const Json& object)
    : ctx_(ctx),
      env_(env),
      object_(object),
      deletion_(DataDeletionOf(object)),
      stem_(StemOf("DataDeletion", deletion_.uid)),
      run_(env, stem_) {}

absl::StatusOr<absl::Time> Deletion::Step() {
  if (deletion_.being_deleted || deletion_.phase == DeletionPhase::kFailed) {
    return absl::InfiniteFuture();
  }
  if (deletion_.phase == DeletionPhase::kCompleted) {
    return AgeOut();
  }
  absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(deletion_.snapshot_id);
  if (!reference.ok()) {
    return Refuse(reference.status());
  }
  if (!deletion_.upload.empty() && !velero::IsUid(deletion_.upload)) {
    return Refuse(absl::InvalidArgumentError("spec.upload is not the uid of a DataUpload"));
  }
  reference_ = *std::move(reference);
  return deletion_.phase == DeletionPhase::kInProgress ? Follow() : Begin();
}

absl::StatusOr<absl::Time> Deletion::AgeOut() {
  const absl::Time until = deletion_.completed_at.value_or(ctx_.clock->Now()) + kDeletionKeptFor;
  if (ctx_.clock->Now() < until) {
    return until;
  }
  RETURN_IF_ERROR(k8s::IgnoreNotFound(
      env_.api.Delete(ctx_, Key(), {.uid = deletion_.uid, .resource_version = ""})));
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Deletion::Refuse(const absl::Status& why) {
  deletion_.phase = DeletionPhase::kFailed;
  deletion_.message = std::string(why.message());
  RETURN_IF_ERROR(Write());
  Tell(k8s::EventType::kWarning, "Refused");
  return absl::InfiniteFuture();
}

absl::StatusOr<absl::Time> Deletion::Begin() {
  const absl::Time earliest =
      deletion_.upload.empty() || deletion_.worker_ended
          ? absl::InfinitePast()
          : deletion_.created_at.value_or(ctx_.clock->Now()) + kUnnamedDeletionAfter;
  const absl::Time at = deletion_.next_attempt_at.value_or(earliest);
  if (ctx_.clock->Now() < at) {
    return at;
  }
  ASSIGN_OR_RETURN(const std::string waits_for, WaitsFor());
  if (!waits_for.empty()) {
    if (deletion_.message != waits_for) {
      deletion_.phase = DeletionPhase::kWaiting;
      deletion_.message = waits_for;
      RETURN_IF_ERROR(Write());
    }
    return ctx_.clock->Now() + kLookAtTurn;
  }
  deletion_.phase = DeletionPhase::kInProgress;
  deletion_.message = "a worker is made";
  deletion_.next_attempt_at.reset();
  deletion_.started_at = deletion_.started_at.value_or(ctx_.clock->Now());
  ++deletion_.attempts;
  RETURN_IF_ERROR(Write());
  return Follow();
}

absl::StatusOr<std::string> Deletion::WaitsFor() {
  ASSIGN_OR_RETURN(const k8s::ObjectList tasks,
                   env_.api.List(ctx_, VolumeTaskType(), env_.mover_namespace, {}));
  int running = 0;
  for (const Json& task : tasks.items) {
    const absl::StatusOr<VolumeTaskSpec> spec = TaskSpecOf(task);
    if (!spec.ok() || spec->kind != TaskKind::kForget || k8s::Name(task) == stem_) {
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
  if (message != deletion_.message) {
    deletion_.message = message.substr(0, kDeletionMessageBytesMax);
    RETURN_IF_ERROR(Write());
  }
  return std::min(view->look_again, now + kLookAtWorker);
}

absl::StatusOr<WorkerView> Deletion::StepWorker() {
  RETURN_IF_ERROR(run_.EnsureTask(ctx_,
                                  {.kind = TaskKind::kForget,
                                   .subject = {.kind = "DataDeletion",
                                               .namespace_name = deletion_.namespace_name,
                                               .name = deletion_.name,
                                               .uid = deletion_.uid},
                                   .volume = Volume()},
                                  LabelsFor(stem_, deletion_.namespace_name))
                      .status());
  return run_.Step(ctx_, [this](const Json& task) { return MakePod(task); });
}

absl::StatusOr<RepositoryAccess> Deletion::Access() {
  return OpenRepositoryAccess(ctx_, env_.api,
                              {.velero_namespace = deletion_.namespace_name,
                               .location = deletion_.location,
                               .mover_namespace = env_.mover_namespace,
                               .repository_path = velero::RepositoryPath(reference_),
                               .for_writing = true,
                               .written_with_key = reference_.key},
                              env_.secure_random);
}

absl::StatusOr<WorkerRun::NextPod> Deletion::MakePod(const Json& task) {
  ASSIGN_OR_RETURN(RepositoryAccess access, Access());
  return run_.PodFor(ctx_, task,
                     {.work = Work(),
                      .lock_wait = SeesDeadLock() ? kDeadLockWait : kLockWait,
                      .access = std::move(access),
                      .has_volume = false});
}

bool Deletion::SeesDeadLock() const {
  return std::any_of(deletion_.locks.begin(), deletion_.locks.end(),
                     [](const SeenLock& lock) { return lock.until - lock.since >= kWatchedAfter; });
}

ForgetWork Deletion::Work() const {
  return deletion_.upload.empty() ? ForgetWork{.snapshot_id = reference_.snapshot_id}
                                  : ForgetWork{.tag = StemOf("DataUpload", deletion_.upload)};
}

absl::StatusOr<absl::Time> Deletion::Conclude(const VolumeTaskStatus& task) {
  const bool is_gone = CauseOf(task) == OutcomeCause::kNoRepository;
  if (task.phase != TaskPhase::kSucceeded && !is_gone) {
    deletion_.locks =
        Seen(task.outcome.has_value() ? task.outcome->locks : std::vector<std::string>(),
             deletion_.locks, ctx_.clock->Now());
    return TryLater(WithMissingKey(task, Access()), TroubleOf(CauseOf(task)));
  }
  RETURN_IF_ERROR(RemoveWorker());
  deletion_.phase = DeletionPhase::kCompleted;
  deletion_.trouble = DeletionTrouble::kNone;
  deletion_.trouble_since.reset();
  deletion_.locks.clear();
  deletion_.message = is_gone ? "the repository was gone already" : "the data is gone";
  deletion_.completed_at = ctx_.clock->Now();
  RETURN_IF_ERROR(Write());
  Tell(k8s::EventType::kNormal, "Completed");
  CSIDELTA_LOG(kInfo, "data deleted", {"namespace", deletion_.namespace_name},
               {"name", deletion_.name}, {"backup", deletion_.backup});
  return *deletion_.completed_at + kDeletionKeptFor;
}

absl::StatusOr<absl::Time> Deletion::TryLater(absl::string_view why, DeletionTrouble trouble) {
  RETURN_IF_ERROR(RemoveWorker());
  const absl::Time now = ctx_.clock->Now();
  if (trouble != DeletionTrouble::kLocked) {
    deletion_.locks.clear();
  }
  const bool is_news = trouble != deletion_.trouble || !deletion_.trouble_since.has_value();
  if (is_news) {
    deletion_.trouble = trouble;
    deletion_.trouble_since = now;
  }
  const absl::Duration pause = AgainAfter(trouble, now - *deletion_.trouble_since);
  deletion_.phase = DeletionPhase::kWaiting;
  deletion_.message =
      absl::StrCat("attempt ", deletion_.attempts, " failed, and is made again in ",
                   absl::FormatDuration(absl::Trunc(pause, absl::Seconds(1))), ": ", why)
          .substr(0, kDeletionMessageBytesMax);
  deletion_.next_attempt_at = now + pause;
  RETURN_IF_ERROR(Write());
  if (is_news || trouble == DeletionTrouble::kFailed) {
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
      k8s::EmitEvent(ctx_, env_.api, object_, type, reason, deletion_.message, kMoverComponent);
  if (!told.ok()) {
    CSIDELTA_LOG(kWarn, "the event was not written", {"namespace", deletion_.namespace_name},
                 {"name", deletion_.name}, {"error", std::string(told.message())});
  }
}

absl::Status Deletion::Write() {
  return env_.api
      .Patch(ctx_, Key(), k8s::PatchKind::kMerge, {{"status", StatusJson(deletion_)}}, "status")
      .status();
}

TaskVolume Deletion::Volume() const {
  return {
      .namespace_name = reference_.namespace_name, .claim = "", .claim_uid = reference_.claim_uid};
}

}  // namespace

absl::StatusOr<absl::Time> DeletionReconciler::Reconcile(const CallContext& ctx,
                                                         const Json& object) {
  // What was told of it may be older than what we wrote, and be done already.
  ASSIGN_OR_RETURN(const std::optional<Json> fresh,
                   k8s::Find(ctx, env_.api,
                             {csi::DataDeletionType(), k8s::Namespace(object), k8s::Name(object)}));
  if (!fresh.has_value()) {
    return absl::InfiniteFuture();
  }
  return Deletion(ctx, env_, *fresh).Step();
}

DeletionFollower::DeletionFollower(WakeTable& wakes, k8s::ReconcileLoop& loop)
    : SubjectFollower(csi::DataDeletionType().kind, wakes, loop) {}

bool DeletionFollower::Take(const Json& object) {
  const DeletionPhase phase = DataDeletionOf(object).phase;
  return phase != DeletionPhase::kCompleted && phase != DeletionPhase::kFailed;
}

absl::Status RemoveDeletionLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                     const Json& task) {
  WorkerRun run(env, k8s::Name(task));
  RETURN_IF_ERROR(run.Remove(ctx));
  return run.RemoveTask(ctx);
}

}  // namespace csidelta::datamover
