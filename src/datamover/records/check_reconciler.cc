#include "datamover/records/check_reconciler.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/crypto.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datamover/repository_access.h"
#include "datamover/worker/deletion_queue.h"
#include "datamover/worker/worker_run.h"
#include "k8s/object.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/data_deletion.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/volume_task.h"
#include "velero/data_reference.h"
#include "velero/labels.h"

namespace csidelta::datamover {
namespace {

using objects::ProtectedVolume;
using objects::Verification;

constexpr char kRecordKind[] = "ProtectedVolume";
// Another check's end enqueues the first one that waits; transfers that wait no more do not.
constexpr absl::Duration kAskFirstAgain = absl::Seconds(30);
constexpr absl::Duration kAskAgain = absl::Minutes(10);
constexpr absl::Duration kObserveAgain = absl::Minutes(1);
constexpr absl::Duration kCheckLockWait = absl::Seconds(10);
constexpr std::size_t kBackupsNamedMax = 10;  // in one sentence
constexpr int kDoublingsMax = 10;

// From 0 up to `range`, the same for the same uid.
absl::Duration SpreadOf(absl::string_view uid, absl::Duration range) {
  uint32_t digest = 0;
  if (!absl::SimpleHexAtoi(Sha256Hex(uid).substr(0, 8), &digest)) {
    return absl::ZeroDuration();
  }
  return range * (static_cast<double>(digest) / (uint64_t{1} << 32));
}

// "a, b and 3 more".
std::string NameSome(const std::vector<std::string>& names) {
  const std::size_t count = std::min(names.size(), kBackupsNamedMax);
  std::string text = absl::StrJoin(names.begin(), names.begin() + count, ", ");
  if (names.size() > count) {
    absl::StrAppend(&text, " and ", names.size() - count, " more");
  }
  return text;
}

// Of a check with errors.
std::string FindingText(const objects::CheckFigures& figures,
                        const std::vector<std::string>& backups) {
  std::string text = absl::StrCat(Counted(figures.errors, "error"), "; ");
  if (figures.broken_snapshots == 0) {
    absl::StrAppend(&text, "every backup can be restored");
  } else {
    absl::StrAppend(&text, figures.broken_snapshots, " of ",
                    Counted(figures.snapshots, "repository snapshot"), " cannot be restored");
  }
  if (!backups.empty()) {
    absl::StrAppend(&text, backups.size() == 1 ? ", backup: " : ", backups: ", NameSome(backups));
  }
  if (!figures.findings.empty()) {
    absl::StrAppend(&text, "; ", figures.findings.front());
  }
  return text;
}

// One look at the record of one volume.
class CheckStep {
 public:
  CheckStep(const CallContext& ctx, const MoverEnvironment& env, CheckQueue& queue,
            const std::function<bool()>& may_begin, const ProtectedVolume& volume)
      : ctx_(ctx),
        env_(env),
        queue_(queue),
        may_begin_(may_begin),
        volume_(volume),
        status_(volume.status()),
        task_name_(TaskNameOf(kRecordKind, volume.uid())),
        run_(env, task_name_) {}

  absl::StatusOr<absl::Time> Step();

 private:
  absl::StatusOr<absl::Time> Begin(int workers_max);
  // How many checks may run, with one due since `due`: 0 while transfers have priority.
  int WorkersMax(absl::Time due) const;
  // How many workers check others, as the API server has it.
  absl::StatusOr<int> CountOthers() const;
  absl::StatusOr<absl::Time> Observe();
  absl::StatusOr<RepositoryAccess> Access() const;
  absl::StatusOr<WorkerRun::NextPod> MakePod(const objects::VolumeTask& task);
  absl::StatusOr<objects::CheckWork> Work() const;
  void AddRenewal(objects::CheckWork& work) const;
  absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& ended);
  // Where the renewal of object locks goes on; nothing where the job asks for none.
  std::optional<objects::LockRenewal> NextLocks(
      const objects::CheckWork& work, absl::Time began,
      const std::optional<objects::LockFigures>& done) const;
  // Where the verification goes on after a check of this work, which began then.
  Verification Next(const objects::CheckWork& work, absl::Time began, bool is_good) const;
  absl::Status Record(const Verification& next);
  // Names of the Backups whose repository snapshots have these tags.
  absl::StatusOr<std::vector<std::string>> BackupsOf(const std::vector<std::string>& tags) const;
  absl::StatusOr<std::vector<objects::DataUpload>> Uploads() const;
  // Notes which of the reported repository snapshots are orphaned.
  absl::Status RecordOrphans(const objects::CheckFigures& figures, Verification& next) const;
  absl::StatusOr<std::set<objects::ForgetItem>> DeletionsOf(const std::string& backup) const;
  absl::StatusOr<absl::Time> TryLater(absl::string_view why, absl::Duration first);
  absl::Status RemoveWorker();

  const CallContext& ctx_;
  const MoverEnvironment& env_;
  CheckQueue& queue_;
  const std::function<bool()>& may_begin_;
  const ProtectedVolume& volume_;
  const objects::ProtectedVolumeStatus status_;
  const std::string task_name_;
  WorkerRun run_;
};

absl::StatusOr<absl::Time> CheckStep::Step() {
  const std::optional<absl::Time> due = CheckDueAt(volume_);
  const std::optional<absl::Time> at =
      due.has_value() && !volume_.is_being_deleted()
          ? std::optional(
                std::max(*due, queue_.PostponedUntil(task_name_).value_or(absl::InfinitePast())))
          : std::nullopt;
  const absl::Time now = ctx_.clock->Now();
  const bool is_due = at.has_value() && now >= *at;
  // Each completed upload changes the record: while no check is due, the API server need not
  // say that there is no task.
  if (is_due || run_.MayHaveTask()) {
    ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.CachedTask(ctx_));
    if (task.has_value()) {
      return Observe();
    }
  }
  if (!is_due) {
    queue_.Leave(task_name_);
    return at.value_or(absl::InfiniteFuture());
  }
  if (!queue_.IsFirst(task_name_, *due, env_.settings.checks.workers)) {
    return now + kAskAgain;
  }
  const int workers_max = WorkersMax(*due);
  return workers_max > 0 ? Begin(workers_max) : now + kAskFirstAgain;
}

int CheckStep::WorkersMax(absl::Time due) const {
  if (env_.settings.is_paused) {
    return 0;
  }
  if (may_begin_()) {
    return env_.settings.checks.workers;
  }
  return ctx_.clock->Now() - due >= kCheckOverdue ? 1 : 0;
}

absl::StatusOr<absl::Time> CheckStep::Begin(int workers_max) {
  // What was told of it may be older than what we wrote.
  ASSIGN_OR_RETURN(const std::optional<ProtectedVolume> fresh,
                   objects::Find<ProtectedVolume>(ctx_, env_.api, volume_.key()));
  const std::optional<absl::Time> due =
      fresh.has_value() ? CheckDueAt(*fresh) : std::optional<absl::Time>();
  if (!due.has_value() || *due > ctx_.clock->Now()) {
    queue_.Leave(task_name_);
    return due.value_or(absl::InfiniteFuture());
  }
  ASSIGN_OR_RETURN(const int others, CountOthers());
  if (others >= workers_max) {
    return ctx_.clock->Now() + kAskFirstAgain;
  }
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(fresh->status().last_good->snapshot_id);
  if (!reference.ok()) {
    return TryLater(reference.status().message(), kCheckAgainFirst);
  }
  const objects::ProtectedVolumeSpec spec = volume_.spec();
  RETURN_IF_ERROR(run_.EnsureTask(ctx_,
                                  {.kind = objects::TaskKind::kCheck,
                                   .subject = {.kind = kRecordKind,
                                               .namespace_name = volume_.namespace_name(),
                                               .name = volume_.name(),
                                               .uid = volume_.uid()},
                                   .volume = {.namespace_name = spec.pvc_namespace,
                                              .claim = spec.pvc,
                                              .claim_uid = reference->claim_uid}},
                                  LabelsFor(task_name_, volume_.namespace_name()))
                      .status());
  return Observe();
}

absl::StatusOr<int> CheckStep::CountOthers() const {
  ASSIGN_OR_RETURN(const std::vector<objects::VolumeTask> tasks,
                   objects::List<objects::VolumeTask>(ctx_, env_.api, env_.mover_namespace));
  return static_cast<int>(
      std::count_if(tasks.begin(), tasks.end(), [&](const objects::VolumeTask& task) {
        const absl::StatusOr<objects::VolumeTaskSpec> spec = task.spec();
        return spec.ok() && spec->kind == objects::TaskKind::kCheck && task.name() != task_name_;
      }));
}

absl::StatusOr<absl::Time> CheckStep::Observe() {
  queue_.RecordRunning(task_name_);
  absl::StatusOr<WorkerView> view =
      run_.Step(ctx_, [this](const objects::VolumeTask& task) { return MakePod(task); });
  const absl::Status& error = view.ok() ? view->refusal : view.status();
  if (absl::IsFailedPrecondition(error) || absl::IsNotFound(error) ||
      absl::IsPermissionDenied(error)) {
    return TryLater(error.message(), kCheckAgainFirst);  // A person may put it right meanwhile.
  }
  RETURN_IF_ERROR(view.status());
  if (view->state == WorkerView::State::kEnded) {
    return Conclude(view->status);
  }
  const absl::Time now = ctx_.clock->Now();
  if (view->state == WorkerView::State::kStarting &&
      now - view->attempt_since > env_.settings.prepare_timeout) {
    return TryLater(absl::StrCat("the worker does not start: ", view->message), kCheckAgainFirst);
  }
  return std::min(view->requeue_time, now + kObserveAgain);
}

absl::StatusOr<RepositoryAccess> CheckStep::Access() const {
  if (!status_.last_good.has_value()) {
    return absl::FailedPreconditionError("the record names no good backup");
  }
  ASSIGN_OR_RETURN(const velero::DataReference reference,
                   velero::ParseDataReference(status_.last_good->snapshot_id));
  return OpenAccess(ctx_, env_, volume_,
                    {.velero_namespace = volume_.namespace_name(),
                     .location = volume_.spec().location,
                     .repository_path = velero::RepositoryPath(reference),
                     .for_writing = true,  // of a lock
                     .written_with_key = reference.key});
}

absl::StatusOr<WorkerRun::NextPod> CheckStep::MakePod(const objects::VolumeTask& task) {
  ASSIGN_OR_RETURN(RepositoryAccess access, Access());
  ASSIGN_OR_RETURN(objects::CheckWork work, Work());
  return run_.PodFor(ctx_, task,
                     {.work = std::move(work),
                      .lock_wait = kCheckLockWait,
                      .access = std::move(access),
                      .has_volume = false});
}

absl::StatusOr<objects::CheckWork> CheckStep::Work() const {
  const Verification before = status_.verification.value_or(Verification());
  objects::CheckWork work{.part = 1, .parts = env_.settings.checks.parts()};
  if (!before.finding.empty() && before.parts > 0) {
    work.parts = before.parts;  // Other parts would leave out what was found.
  }
  if (before.parts == work.parts && before.position < work.parts) {
    work.part = before.position + 1;
  }
  if (before.read_until.has_value()) {
    work.read_newer_than = *before.read_until - kCheckOverlap;
  }
  AddRenewal(work);
  ASSIGN_OR_RETURN(const std::vector<objects::DataUpload> uploads, Uploads());
  if (uploads.size() > objects::kKnownTagsMax) {
    return work;
  }
  work.host = env_.cluster;
  work.orphans_before = ctx_.clock->Now() - kOrphanedAfter;
  work.known_tags.reserve(uploads.size());
  for (const objects::DataUpload& upload : uploads) {
    work.known_tags.push_back(TaskNameOf("DataUpload", upload.uid()));
  }
  return work;
}

// After a change of the settings all objects are looked at.
void CheckStep::AddRenewal(objects::CheckWork& work) const {
  work.renew_locks = ForLocation(env_.settings, volume_.spec().location).immutability;
  const objects::LockRenewal before =
      status_.verification.value_or(Verification()).locks.value_or(objects::LockRenewal());
  if (work.renew_locks.has_value() && before.mode == work.renew_locks->mode &&
      before.days == work.renew_locks->days) {
    work.locks_renewed_at = before.renewed_at;
  }
}

absl::StatusOr<absl::Time> CheckStep::Conclude(const objects::VolumeTaskStatus& ended) {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.FindTask(ctx_));
  if (!task.has_value()) {
    return ctx_.clock->Now();
  }
  const absl::StatusOr<objects::VolumeJob> job = task->job();
  const objects::CheckWork* const work =
      job.ok() ? std::get_if<objects::CheckWork>(&job->work) : nullptr;
  const bool is_gone = CauseOf(ended) == objects::OutcomeCause::kNoRepository;
  const bool is_done = ended.phase == objects::TaskPhase::kSucceeded && ended.outcome.has_value() &&
                       ended.outcome->check.has_value();
  if (work == nullptr || !(is_done || is_gone)) {
    return TryLater(
        WithMissingKey(ended, Access()),
        CauseOf(ended) == objects::OutcomeCause::kLocked ? kCheckLockedAgain : kCheckAgainFirst);
  }
  const absl::Time began = task->created_at().value_or(ctx_.clock->Now());
  const objects::CheckFigures figures =
      ended.outcome->check.value_or(objects::CheckFigures{.errors = 1, .broken_snapshots = 1});
  Verification next = Next(*work, began, figures.errors == 0);
  next.read_bytes = figures.read_bytes;
  next.locks = is_gone ? next.locks : NextLocks(*work, began, figures.locks);
  if (is_gone) {
    next.broken_backups = {status_.last_good.value_or(objects::LastGoodBackup()).backup};
    next.finding =
        absl::StrCat("the repository was not found, so no backup of this PVC can be restored (",
                     MessageOf(ended), ")");
  } else if (figures.errors > 0) {
    ASSIGN_OR_RETURN(next.broken_backups, BackupsOf(figures.broken_tags));
    next.finding = FindingText(figures, next.broken_backups);
    next.damage = figures.damage;
  }
  RETURN_IF_ERROR(RecordOrphans(figures, next));
  RETURN_IF_ERROR(Record(next));
  RETURN_IF_ERROR(RemoveWorker());
  queue_.EndPostponing(task_name_);
  return began + kCheckEvery;
}

std::optional<objects::LockRenewal> CheckStep::NextLocks(
    const objects::CheckWork& work, absl::Time began,
    const std::optional<objects::LockFigures>& done) const {
  if (!work.renew_locks.has_value()) {
    return std::nullopt;
  }
  const objects::LockFigures figures = done.value_or(objects::LockFigures{
      .failed = 1,
      .findings = {"the worker reports nothing of object locks; update the CRDs of csi-delta"}});
  objects::LockRenewal next{.mode = work.renew_locks->mode,
                            .days = work.renew_locks->days,
                            .renewed_at = work.locks_renewed_at,
                            .locked_until = {},
                            .objects = figures.objects,
                            .extended = figures.extended};
  const absl::Time half = began + absl::Hours(24) * (next.days / 2) - kCheckOverlap;
  if (figures.failed == 0) {
    next.renewed_at = began;
    next.locked_until = work.locks_renewed_at.has_value() ? half : figures.earliest.value_or(half);
    return next;
  }
  next.finding = absl::StrCat("object locks were not renewed: ", Counted(figures.failed, "failure"),
                              figures.findings.empty() ? "" : ", the first: ",
                              figures.findings.empty() ? "" : figures.findings.front());
  // By the run before, as far as that was for the same days, and by what was looked at since.
  if (work.locks_renewed_at.has_value() && status_.verification.has_value() &&
      status_.verification->locks.has_value()) {
    next.locked_until = status_.verification->locks->locked_until;
  }
  if (figures.earliest.has_value() && next.locked_until.has_value()) {
    next.locked_until = std::min(*next.locked_until, *figures.earliest);
  }
  return next;
}

Verification CheckStep::Next(const objects::CheckWork& work, absl::Time began, bool is_good) const {
  Verification next = status_.verification.value_or(Verification());
  next.at = began;
  next.finding.clear();
  next.broken_backups.clear();
  next.orphaned_snapshots = 0;
  next.orphans.clear();
  next.unattributed_snapshots = 0;
  next.damage.reset();
  if (work.part == 1) {
    next.round_since = began;
  }
  next.parts = work.parts;
  next.position = work.part - 1;
  if (is_good) {
    next.read_until = began;
    next.position = work.part % work.parts;
    if (work.part == work.parts) {
      next.all_since = next.round_since;
    }
  }
  return next;
}

absl::Status CheckStep::Record(const Verification& next) {
  const Verification before = status_.verification.value_or(Verification());
  if (before.at == next.at) {
    return absl::OkStatus();  // Written by the process that was here before.
  }
  RETURN_IF_ERROR(objects::Apply(ctx_, env_.api, volume_.key(),
                                 objects::Patch().SetVerification(next), "status"));
  if (!next.finding.empty()) {
    EmitMoverEvent(ctx_, env_, volume_, k8s::EventType::kWarning, "VerificationFailed",
                   next.finding);
  } else if (!before.finding.empty()) {
    EmitMoverEvent(ctx_, env_, volume_, k8s::EventType::kNormal, "Verified",
                   "what an earlier check found is gone");
  }
  const auto locks = [](const Verification& one) {
    return one.locks.has_value() ? one.locks->finding : "";
  };
  if (!locks(next).empty()) {
    EmitMoverEvent(ctx_, env_, volume_, k8s::EventType::kWarning, "LocksNotRenewed", locks(next));
  } else if (!locks(before).empty() && next.locks.has_value()) {
    EmitMoverEvent(ctx_, env_, volume_, k8s::EventType::kNormal, "LocksRenewed",
                   "what snapshots need is locked again");
  }
  CSIDELTA_LOG(kInfo, "repository checked", {"namespace", volume_.namespace_name()},
               {"name", volume_.name()}, {"finding", next.finding});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CheckStep::BackupsOf(
    const std::vector<std::string>& tags) const {
  std::vector<std::string> backups;
  if (tags.empty()) {
    return backups;
  }
  ASSIGN_OR_RETURN(const std::vector<objects::DataUpload> uploads, Uploads());
  for (const std::string& tag : tags) {
    const auto upload =
        std::find_if(uploads.begin(), uploads.end(), [&tag](const objects::DataUpload& one) {
          return TaskNameOf("DataUpload", one.uid()) == tag;
        });
    const std::string backup =
        upload == uploads.end() ? "" : upload->Label(objects::kBackupNameLabel);
    backups.push_back(backup.empty()
                          ? absl::StrCat("DataUpload ", absl::StripPrefix(tag, kUploadTagPrefix))
                          : backup);
  }
  return backups;
}

// Of the PVC, and of the one that it was restored from: both are in the repository.
absl::StatusOr<std::vector<objects::DataUpload>> CheckStep::Uploads() const {
  const absl::StatusOr<velero::DataReference> reference =
      velero::ParseDataReference(status_.last_good.value_or(objects::LastGoodBackup()).snapshot_id);
  const std::string pvc_uid = volume_.spec().pvc_uid;
  const std::string selector =
      reference.ok() && reference->claim_uid != pvc_uid
          ? absl::StrCat(objects::kPvcUidLabel, " in (", pvc_uid, ",", reference->claim_uid, ")")
          : absl::StrCat(objects::kPvcUidLabel, "=", pvc_uid);
  return objects::List<objects::DataUpload>(ctx_, env_.api, volume_.namespace_name(),
                                            {.label_selector = selector});
}

absl::Status CheckStep::RecordOrphans(const objects::CheckFigures& figures,
                                      Verification& next) const {
  // The DataDeletions of each Backup that is gone; nothing for one that is there.
  std::map<std::string, std::optional<std::set<objects::ForgetItem>>> backups;
  for (const objects::OrphanedSnapshot& orphan : figures.orphans) {
    absl::string_view name = orphan.backup;
    if (name.empty()) {
      ++next.unattributed_snapshots;
      continue;
    }
    // What another Velero of this cluster made is its own, though it be in the same bucket.
    if (!absl::ConsumePrefix(&name, absl::StrCat(volume_.namespace_name(), "/")) ||
        !k8s::IsObjectName(name)) {
      continue;
    }
    const auto [found, is_new] = backups.try_emplace(std::string(name));
    if (is_new) {
      ASSIGN_OR_RETURN(
          const std::optional<objects::Backup> known,
          objects::Find<objects::Backup>(ctx_, env_.api, volume_.namespace_name(), found->first));
      if (!known.has_value()) {
        ASSIGN_OR_RETURN(found->second, DeletionsOf(found->first));
      }
    }
    if (!found->second.has_value() ||
        found->second->contains(objects::ForgetItem{.snapshot_id = orphan.id}) ||
        found->second->contains(objects::ForgetItem{.tag = orphan.upload_tag})) {
      continue;
    }
    ++next.orphaned_snapshots;
    if (next.orphans.size() < objects::kOrphansInRecordMax) {
      next.orphans.push_back(
          absl::StrCat(orphan.id, " of backup ", name, ", made at ", orphan.made_at));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<objects::ForgetItem>> CheckStep::DeletionsOf(
    const std::string& backup) const {
  ASSIGN_OR_RETURN(const std::vector<objects::DataDeletion> deletions,
                   objects::List<objects::DataDeletion>(
                       ctx_, env_.api, volume_.namespace_name(),
                       {.label_selector = absl::StrCat(objects::kBackupNameLabel, "=",
                                                       velero::ValidLabelValue(backup))}));
  std::set<objects::ForgetItem> items;
  for (const objects::DataDeletion& deletion : deletions) {
    const objects::DataDeletionSpec spec = deletion.spec();
    if (const auto reference = ReferenceOf(spec); reference.ok()) {
      items.insert(ItemOf(spec, *reference));
    }
  }
  return items;
}

absl::StatusOr<absl::Time> CheckStep::TryLater(absl::string_view why, absl::Duration first) {
  RETURN_IF_ERROR(RemoveWorker());
  const absl::Time again = queue_.Postpone(task_name_, ctx_.clock->Now(), first);
  if (first != kCheckLockedAgain) {
    EmitMoverEvent(ctx_, env_, volume_, k8s::EventType::kWarning, "CheckFailed", why);
  }
  CSIDELTA_LOG(kWarn, "the repository was not checked", {"namespace", volume_.namespace_name()},
               {"name", volume_.name()}, {"error", std::string(why)});
  return again;
}

absl::Status CheckStep::RemoveWorker() {
  RETURN_IF_ERROR(run_.RemoveWithTask(ctx_));
  queue_.Leave(task_name_);
  return absl::OkStatus();
}

}  // namespace

std::optional<absl::Time> CheckDueAt(const ProtectedVolume& volume) {
  const objects::ProtectedVolumeStatus status = volume.status();
  if (!status.last_good.has_value() || status.last_good->snapshot_id.empty()) {
    return std::nullopt;
  }
  if (status.verification.has_value() && status.verification->at.has_value()) {
    return *status.verification->at + kCheckEvery;
  }
  // Not by the last good backup: one an hour would put the check off for ever.
  return volume.created_at().value_or(absl::UnixEpoch()) + SpreadOf(volume.uid(), kCheckEvery);
}

bool CheckQueue::IsFirst(const std::string& task, absl::Time since, int workers) {
  const MutexLock lock(mutex_);
  workers_.Wait(task, since);
  return static_cast<int>(workers_.running()) < workers &&
         workers_.First(1, since) == std::vector<std::string>{task};
}

void CheckQueue::RecordRunning(const std::string& task) {
  const MutexLock lock(mutex_);
  workers_.Run(task);
}

void CheckQueue::Leave(const std::string& task) {
  const MutexLock lock(mutex_);
  if (workers_.Leave(task)) {
    absl::c_for_each(workers_.First(1, absl::InfiniteFuture()), enqueue_);
  }
}

absl::Time CheckQueue::Postpone(const std::string& task, absl::Time now, absl::Duration first) {
  const MutexLock lock(mutex_);
  Postponed& postponed = postponed_[task];
  const int doublings = std::min(postponed.failures++, kDoublingsMax);
  postponed.until = now + std::min(kCheckAgainMax, first * (int64_t{1} << doublings));
  return postponed.until;
}

std::optional<absl::Time> CheckQueue::PostponedUntil(const std::string& task) const {
  const MutexLock lock(mutex_);
  const auto found = postponed_.find(task);
  return found == postponed_.end() ? std::nullopt : std::optional(found->second.until);
}

void CheckQueue::EndPostponing(const std::string& task) {
  const MutexLock lock(mutex_);
  postponed_.erase(task);
}

absl::StatusOr<absl::Time> CheckReconciler::ReconcileOne(const CallContext& ctx,
                                                         const ProtectedVolume& volume) {
  if (env_.settings.checks.percent_per_day == 0) {
    return absl::InfiniteFuture();
  }
  return CheckStep(ctx, env_, queue_, may_begin_, volume).Step();
}

TaskSubjects CheckSubjects(const CheckSettings& settings, CheckQueue& queue) {
  const auto take = [&settings](const objects::Object& object) {
    const absl::StatusOr<ProtectedVolume> volume = ProtectedVolume::From(object);
    return volume.ok() && settings.percent_per_day > 0 && CheckDueAt(*volume).has_value();
  };
  return {.kind = kRecordKind, .take = take, .leave = [&queue](const std::string& uid) {
            const std::string task = TaskNameOf(kRecordKind, uid);
            queue.EndPostponing(task);
            queue.Leave(task);
          }};
}

}  // namespace csidelta::datamover
