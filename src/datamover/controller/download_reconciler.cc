#include "datamover/controller/download_reconciler.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/expose/restored_volume.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/repository_access.h"
#include "datamover/settings.h"
#include "datamover/worker/worker_run.h"
#include "datamover/write_fence.h"
#include "incremental/mover/file_system.h"
#include "inplace/in_place_volume.h"
#include "k8s/event_recorder.h"
#include "objects/backup.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"
#include "objects/restricted_pod.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

using objects::DataPhase;

// Nothing tells of PVCs and PersistentVolumes.
constexpr absl::Duration kBindingRequeueMax = absl::Seconds(15);
constexpr absl::Duration kCheckInPlaceEvery = absl::Seconds(10);
// Drivers make volumes of whole GiB.
constexpr int64_t kGrowStepBytes = int64_t{1} << 30;

// Whether no worker of the task writes any more: it said so by the last phase, or its end was seen.
absl::StatusOr<bool> WritesNoMore(const CallContext& ctx, const WorkerRun& run) {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run.FindTask(ctx));
  if (task.has_value() && IsLast(task->status().phase)) {
    return true;
  }
  return run.HasSurelyEnded(ctx, task.value_or(objects::VolumeTask()));
}

// The uid of the target that a DataDownload writes into in place; "" for others. Fixed when it is
// accepted: what is begun in one way is ended in that.
std::string TargetInPlace(const objects::DataDownload& download) {
  return download.Annotation(download.known_phase() == DataPhase::kNew
                                 ? objects::kIntoAnnotation
                                 : objects::kInPlaceAnnotation);
}

// Of one that is InProgress. Once its volume is known, only the target is waited for.
const char* StageOf(const objects::Object& object) {
  return object.Annotation(objects::kRestoredVolumeAnnotation).empty() ? "downloading" : "binding";
}

// Fills a volume of its own and gives it to the target.
class DownloadStep : public TransferStep {
 public:
  DownloadStep(const CallContext& ctx, const MoverEnvironment& env, TransferScheduler& scheduler,
               const OnTransferEnd& on_end, objects::DataDownload download,
               velero::DataReference reference);

 protected:
  // Its limit counts when the download is admitted, so it is known by then.
  absl::Status PrepareAccept() override;
  absl::StatusOr<WorkerRun::NextPod> PrepareWorker(const objects::VolumeTask& task) override;
  absl::StatusOr<std::string> InspectClaim(const objects::VolumeTask& task) override;

  // From here on the volume is known, whatever becomes of the claim that it was filled through.
  absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& task) override;

  // "" where its claim is gone.
  virtual absl::StatusOr<std::string> FilledVolume() const;
  // Whether the target has the volume now; in place, whether it has it for itself again.
  virtual absl::StatusOr<csi::RebindResult> RebindNow();
  // What happened until RebindNow() is done, for people.
  virtual absl::string_view UnboundText() const {
    return "its volume was filled, but not bound to it within ";
  }

  // Of both kinds, whatever this one says of itself by now.
  absl::StatusOr<std::string> RemoveAll() override;

  inplace::InPlaceRequest InPlace(std::optional<objects::OwnerReference> owner) const;
  absl::Time StartBefore() const;
  absl::StatusOr<WorkerRun::NextPod> PodFor(const objects::VolumeTask& task,
                                            const std::string& storage_class,
                                            const objects::NodeSelector& node_affinity,
                                            objects::DownloadWork work);
  static WorkerRun::NextPod WaitFor(absl::string_view what) {
    return {.pod = {}, .waiting_for = absl::StrCat("waits for ", what)};
  }
  static objects::RestoreFigures FiguresOf(const objects::VolumeTaskStatus& task) {
    return task.outcome.value_or(objects::Outcome()).restore.value_or(objects::RestoreFigures());
  }

  const objects::DataDownload download_;
  const std::string into_;  // TargetInPlace()

 private:
  absl::StatusOr<objects::TaskVolume> Volume() override;
  csi::RestoreRequest Restoring(std::optional<objects::OwnerReference> owner) const;

  // That of Velero which it belongs to; nothing if none does, or is gone: then it goes, too.
  absl::StatusOr<std::optional<objects::Restore>> FindRestore() const;

  // The PVC that gets the volume; nothing while it does not exist.
  absl::StatusOr<std::optional<objects::PersistentVolumeClaim>> FindTarget() const;
  // The target's volume. A target that waits for a Pod is not made to wait by a restore without
  // Pods, where none may ever come.
  absl::StatusOr<csi::RestoredVolume> Prepare(csi::RestoreRequest request) const;

  // FAILED_PRECONDITION when the target's PVC will not be made any more.
  absl::Status CheckTargetMayCome() const;
  void RecordClass(const std::string& storage_class);

  // What the worker has seen is so, whatever anybody expects.
  std::string FileSystem() const;
  std::string FailureMessage(const objects::VolumeTaskStatus& failed) override {
    return WithMissingKey(failed, Access());
  }

  absl::StatusOr<RepositoryAccess> Access();

  // Where the target's next upload goes on, written before the target has its volume. A target of
  // another name begins a repository of its own; one that exists has it already.
  absl::Status RecordOrigin(const objects::RestoreFigures& figures);

  // --- From the worker's volume to the target's

  // Whether Conclude() was reached, so that no worker is needed any more.
  bool IsConcluding() const {
    return !object_.Annotation(objects::kRestoredVolumeAnnotation).empty();
  }
  absl::StatusOr<absl::Time> WorkOn() override {
    return IsConcluding() ? Rebind() : TransferStep::WorkOn();
  }
  absl::StatusOr<absl::Time> Rebind();

  // --- Its end

  // Half given is sooner finished than taken back.
  absl::StatusOr<std::optional<absl::Time>> CompleteIfDone(absl::Time latest) override;

  void ReportEnd(DataPhase phase, const std::string& message) override;
  // Says that the file system, which is as large as in the backup, leaves a part of its volume
  // unused. Drivers differ in whether they grow it when they mount it.
  void ReportUnusedSize();

  const velero::DataReference reference_;
  const OnTransferEnd& on_end_;
};

// Writes what differs into the volume that the target has.
class RestoreInPlaceStep : public DownloadStep {
 public:
  using DownloadStep::DownloadStep;

 private:
  absl::Status PrepareAccept() override;
  // FAILED_PRECONDITION if it may not write into a PVC. Untrusted clients may create DataDownloads.
  absl::Status CheckAllowed() const;
  // Else one could be left behind that begins in a year. The time at which it was made is the API
  // server's.
  absl::Status CheckStartBefore() const;
  absl::StatusOr<WorkerRun::NextPod> PrepareWorker(const objects::VolumeTask& task) override;
  absl::StatusOr<std::string> InspectClaim(const objects::VolumeTask& task) override;
  // No change of the worker shows whether others use the volume meanwhile.
  absl::StatusOr<absl::Time> CheckRunning() override;
  absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& task) override;
  absl::StatusOr<std::string> FilledVolume() const override { return task_name_; }
  absl::StatusOr<csi::RebindResult> RebindNow() override;
  absl::string_view UnboundText() const override {
    return "its data was restored, but its volume was not released within ";
  }
};

DownloadStep::DownloadStep(const CallContext& ctx, const MoverEnvironment& env,
                           TransferScheduler& scheduler, const OnTransferEnd& on_end,
                           objects::DataDownload download, velero::DataReference reference)
    : TransferStep(ctx, env, scheduler,
                   {.task = objects::TaskKind::kDownload,
                    .type = objects::DataDownload::Type(),
                    .volume = absl::StrCat(download.target_namespace(), "/", download.target_pvc()),
                    .moving = &StageOf,
                    .queued = QueuedDownload},
                   download),
      download_(std::move(download)),
      into_(TargetInPlace(download_)),
      reference_(std::move(reference)),
      on_end_(on_end) {}

absl::StatusOr<objects::TaskVolume> DownloadStep::Volume() {
  return objects::TaskVolume{.namespace_name = download_.target_namespace(),
                             .claim = download_.target_pvc(),
                             .claim_uid = reference_.claim_uid};
}

csi::RestoreRequest DownloadStep::Restoring(std::optional<objects::OwnerReference> owner) const {
  return {.name = task_name_,
          .mover_namespace = env_.mover_namespace,
          .target_namespace = download_.target_namespace(),
          .target_claim = download_.target_pvc(),
          .target_uid = object_.Annotation(objects::kTargetUidAnnotation),
          .size_bytes_least = download_.moved_bytes(),
          .file_system = FileSystem(),
          .ignore_delay_binding = env_.settings.ignore_delay_binding,
          .labels = labels_,
          .owner = std::move(owner)};
}

absl::Status RestoreInPlaceStep::PrepareAccept() {
  RETURN_IF_ERROR(CheckAllowed());
  object_.SetAnnotation(objects::kInPlaceAnnotation, into_);
  return DownloadStep::PrepareAccept();
}

absl::Status RestoreInPlaceStep::CheckAllowed() const {
  RETURN_IF_ERROR(CheckWritesIntoExisting(env_.settings));
  if (download_.HasLabel(objects::kRestoreNameLabel)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a restore of Velero made this DataDownload, with the annotation ",
        objects::kIntoAnnotation, ": only csi-delta restore --upload may write into a PVC"));
  }
  return CheckStartBefore();
}

absl::Status RestoreInPlaceStep::CheckStartBefore() const {
  const std::optional<absl::Time> start_before =
      ParseRfc3339(object_.Annotation(objects::kStartBeforeAnnotation));
  if (!start_before.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("its annotation ", objects::kStartBeforeAnnotation, " is not a time"));
  }
  const absl::Duration kLongest = inplace::kMoverStartTimeMax + inplace::kMoverClockSkewMax;
  const absl::Time made_at = object_.object().created_at().value_or(absl::InfinitePast());
  return *start_before <= made_at + kLongest
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "its annotation ", objects::kStartBeforeAnnotation, " is more than ",
                   absl::FormatDuration(kLongest),
                   " after it was made; run csi-delta restore --upload again, and see that the "
                   "clock is right where it runs"));
}

absl::StatusOr<std::optional<objects::PersistentVolumeClaim>> DownloadStep::FindTarget() const {
  return objects::Find<objects::PersistentVolumeClaim>(ctx_, env_.api, download_.target_namespace(),
                                                       download_.target_pvc());
}

absl::StatusOr<std::optional<objects::Restore>> DownloadStep::FindRestore() const {
  const std::optional<objects::OwnerReference> owner = VeleroOwnerOf(object_.object(), "Restore");
  if (!owner.has_value()) {
    return std::optional<objects::Restore>();
  }
  ASSIGN_OR_RETURN(
      std::optional<objects::Restore> restore,
      objects::Find<objects::Restore>(ctx_, env_.api, download_.namespace_name(), owner->name));
  const bool is_it = restore.has_value() && restore->uid() == owner->uid;
  return is_it ? std::move(restore) : std::nullopt;
}

absl::StatusOr<csi::RestoredVolume> DownloadStep::Prepare(csi::RestoreRequest request) const {
  ASSIGN_OR_RETURN(csi::RestoredVolume volume, csi::PrepareVolume(ctx_, env_.api, request));
  if (!volume.awaits_target || !volume.is_target_there) {
    return volume;
  }
  ASSIGN_OR_RETURN(const std::optional<objects::Restore> restore, FindRestore());
  request.ignore_delay_binding = restore.has_value() && !restore->RestoresPods();
  return request.ignore_delay_binding ? csi::PrepareVolume(ctx_, env_.api, request)
                                      : std::move(volume);
}

// Velero makes PVCs while it restores items, and not when it waits for their operations. One whose
// action failed after the DataDownload was made, because its plugin died, say, never comes.
absl::Status DownloadStep::CheckTargetMayCome() const {
  ASSIGN_OR_RETURN(const std::optional<objects::Restore> restore, FindRestore());
  if (!restore.has_value() || restore->RestoresItems()) {
    return absl::OkStatus();
  }
  // It may have come between the two looks.
  ASSIGN_OR_RETURN(const auto target, FindTarget());
  return target.has_value()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "claim ", download_.target_namespace(), "/", download_.target_pvc(),
                   " was not restored: Restore ", restore->name(), " is ", restore->phase(),
                   ", and makes no more claims; its errors say why"));
}

absl::Status DownloadStep::PrepareAccept() {
  // One that Velero made and that a restore brings back would write again.
  object_.SetLabel(objects::kExcludeFromBackupLabel, "true");
  ASSIGN_OR_RETURN(const auto target, FindTarget());
  if (target.has_value()) {
    RecordClass(target->storage_class().value_or(""));
  }
  return absl::OkStatus();
}

void DownloadStep::RecordClass(const std::string& storage_class) {
  if (!storage_class.empty()) {
    object_.SetAnnotation(objects::kTargetClassAnnotation, storage_class);
  }
}

inplace::InPlaceRequest DownloadStep::InPlace(std::optional<objects::OwnerReference> owner) const {
  return {.name = task_name_,
          .mover_namespace = env_.mover_namespace,
          .target_namespace = download_.target_namespace(),
          .target_claim = download_.target_pvc(),
          .target_uid = into_,
          .target_volume = download_.target_volume(),
          .transfer = absl::StrCat(download_.namespace_name(), "/", download_.name()),
          .transfer_uid = download_.uid(),
          .upload = object_.Annotation(objects::kIntoUploadAnnotation),
          .consent_before = PreparedSince().value_or(absl::InfinitePast()) + kConsentTimeMax,
          .start_before = StartBefore(),
          .owner = std::move(owner)};
}

absl::Time DownloadStep::StartBefore() const {
  return ParseRfc3339(object_.Annotation(objects::kStartBeforeAnnotation))
      .value_or(absl::InfinitePast());
}

std::string DownloadStep::FileSystem() const {
  const std::string seen = object_.Annotation(objects::kRestoredFileSystemAnnotation);
  return seen.empty() ? object_.object().file_system() : seen;
}

absl::StatusOr<WorkerRun::NextPod> RestoreInPlaceStep::PrepareWorker(
    const objects::VolumeTask& task) {
  RETURN_IF_ERROR(CheckAllowed());  // Its creator may write any phase.
  ASSIGN_OR_RETURN(const inplace::InPlaceVolume volume,
                   inplace::ExposeInPlace(ctx_, env_.api, InPlace(task.AsOwner())));
  if (!volume.waiting_for.empty()) {
    return WaitFor(volume.waiting_for);
  }
  // One that starts late must not begin once the PVC is in use again. A later attempt finishes what
  // is partly old.
  const absl::Time prepared = Now() + env_.settings.prepare_timeout;
  return PodFor(
      task, volume.storage_class, {},
      {.only_differing = true,
       .start_before = task.attempts() == 0 ? std::min(prepared, StartBefore()) : prepared});
}

absl::StatusOr<WorkerRun::NextPod> DownloadStep::PrepareWorker(const objects::VolumeTask& task) {
  csi::RestoreRequest request = Restoring(task.AsOwner());
  request.is_without_claim = !IsAdmitted();
  ASSIGN_OR_RETURN(const csi::RestoredVolume volume, Prepare(std::move(request)));
  if (!volume.target_uid.empty()) {
    object_.SetAnnotation(objects::kTargetUidAnnotation, volume.target_uid);
  }
  if (!volume.is_target_there) {
    RETURN_IF_ERROR(CheckTargetMayCome());
  }
  RecordClass(volume.storage_class);
  RETURN_IF_ERROR(Write());
  if (volume.state == csi::RestoredVolume::State::kWaiting) {
    WorkerRun::NextPod waiting = WaitFor(volume.waiting_for);
    waiting.is_idle = volume.awaits_target;
    return waiting;
  }
  return PodFor(task, volume.storage_class, volume.node_affinity, {});
}

absl::StatusOr<WorkerRun::NextPod> DownloadStep::PodFor(const objects::VolumeTask& task,
                                                        const std::string& storage_class,
                                                        const objects::NodeSelector& node_affinity,
                                                        objects::DownloadWork work) {
  ASSIGN_OR_RETURN(RepositoryAccess access, Access());
  work.device = objects::kVolumePath;
  work.snapshot_id = reference_.snapshot_id;
  return run_.PodFor(ctx_, task,
                     {.work = std::move(work),
                      .access = std::move(access),
                      .storage_class = storage_class,
                      .node_affinity = node_affinity});
}

absl::StatusOr<std::string> RestoreInPlaceStep::InspectClaim(const objects::VolumeTask& task) {
  ASSIGN_OR_RETURN(const inplace::InPlaceVolume volume,
                   inplace::ExposeInPlace(ctx_, env_.api, InPlace(task.AsOwner())));
  return volume.waiting_for;
}

absl::StatusOr<absl::Time> RestoreInPlaceStep::CheckRunning() {
  RETURN_IF_ERROR(inplace::CheckInPlace(ctx_, env_.api, InPlace(std::nullopt)));
  return Now() + kCheckInPlaceEvery;
}

absl::StatusOr<std::string> DownloadStep::InspectClaim(const objects::VolumeTask& task) {
  ASSIGN_OR_RETURN(const csi::RestoredVolume volume, Prepare(Restoring(task.AsOwner())));
  return volume.waiting_for;
}

absl::StatusOr<RepositoryAccess> DownloadStep::Access() {
  absl::StatusOr<RepositoryAccess> access =
      OpenAccess(ctx_, env_, download_,
                 {.velero_namespace = download_.namespace_name(),
                  .location = download_.storage_location(),
                  .repository_path = velero::RepositoryPath(reference_),
                  .for_writing = false,
                  .written_with_key = reference_.key});
  // What is not there now is not expected to come.
  return absl::IsNotFound(access.status())
             ? absl::FailedPreconditionError(access.status().message())
             : std::move(access);
}

absl::StatusOr<absl::Time> RestoreInPlaceStep::Conclude(const objects::VolumeTaskStatus& task) {
  const absl::Status checked = inplace::CheckInPlace(ctx_, env_.api, InPlace(std::nullopt));
  if (absl::IsFailedPrecondition(checked)) {
    return BeginFailure(checked.message());
  }
  RETURN_IF_ERROR(checked);
  const objects::RestoreFigures figures = FiguresOf(task);
  object_.SetAnnotation(objects::kRestoredBytesAnnotation, objects::FormatRestoredBytes(figures));
  return DownloadStep::Conclude(task);
}

absl::Status DownloadStep::RecordOrigin(const objects::RestoreFigures& figures) {
  const std::string path =
      absl::StrCat("/", download_.target_namespace(), "/", download_.target_pvc());
  const bool is_same_pvc = figures.path == path && figures.host == reference_.cluster &&
                           reference_.namespace_name == download_.target_namespace();
  if (!into_.empty() || !is_same_pvc) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto target, FindTarget());
  if (!target.has_value() || target->uid() != object_.Annotation(objects::kTargetUidAnnotation)) {
    return absl::OkStatus();  // It gets no volume.
  }
  const absl::Status recorded = RecordRestored(
      ctx_, env_,
      {.velero_namespace = download_.namespace_name(),
       .location = download_.storage_location(),
       .pvc_namespace = download_.target_namespace(),
       .pvc = download_.target_pvc()},
      {.pvc_uid = target->uid(), .source = reference_, .data_bytes = figures.written_bytes});
  if (recorded.ok() && reference_.cluster != env_.cluster) {
    Emit(k8s::EventType::kNormal, "RestoredFromAnotherCluster",
         absl::StrCat("the first backup of ", path.substr(1), " stores ",
                      FormatBytes(figures.written_bytes),
                      " once more, unless csi-delta adopt --from-cluster ", reference_.cluster,
                      " declares before that it is lost"));
  }
  if (!absl::IsPermissionDenied(recorded)) {
    return recorded;
  }
  // Such as by a quota: the data are worth more.
  CSIDELTA_LOG(kWarn, "what a PVC is restored from is not recorded: its next backup starts over",
               {"namespace", download_.target_namespace()}, {"pvc", download_.target_pvc()},
               {"error", std::string(recorded.message())});
  return absl::OkStatus();
}

absl::StatusOr<absl::Time> DownloadStep::Conclude(const objects::VolumeTaskStatus& task) {
  ASSIGN_OR_RETURN(const std::string volume, FilledVolume());
  if (volume.empty()) {
    return BeginFailure("the volume that was filled is gone: its claim was deleted");
  }
  RETURN_IF_ERROR(RecordOrigin(FiguresOf(task)));
  object_.SetPhase(DataPhase::kInProgress);
  if (!download_.started_at().has_value()) {  // It was done before it was seen to begin.
    object_.SetStartedAt(Stamp());
  }
  object_.SetAnnotation(objects::kRestoredVolumeAnnotation, volume);
  const objects::RestoreFigures figures = FiguresOf(task);
  if (incremental::IsFileSystem(figures.file_system)) {
    object_.SetAnnotation(objects::kRestoredFileSystemAnnotation, figures.file_system);
  }
  object_.SetTime(objects::kRebindingAtAnnotation, Now());
  const int64_t restored_bytes = std::max(task.total_bytes, figures.logical_bytes);
  object_.SetProgress(restored_bytes, restored_bytes);
  RETURN_IF_ERROR(Write());
  return Now();
}

absl::StatusOr<std::string> DownloadStep::FilledVolume() const {
  ASSIGN_OR_RETURN(const auto claim, objects::Find<objects::PersistentVolumeClaim>(
                                         ctx_, env_.api, env_.mover_namespace, task_name_));
  return claim.has_value() ? claim->volume_name() : "";
}

absl::StatusOr<csi::RebindResult> DownloadStep::RebindNow() {
  RETURN_IF_ERROR(run_.RemoveEnded(ctx_));
  return csi::RebindVolume(ctx_, env_.api, Restoring(std::nullopt),
                           object_.Annotation(objects::kRestoredVolumeAnnotation));
}

absl::StatusOr<csi::RebindResult> RestoreInPlaceStep::RebindNow() {
  RETURN_IF_ERROR(run_.RemoveEnded(ctx_));
  RETURN_IF_ERROR(inplace::CheckSameTarget(ctx_, env_.api, InPlace(std::nullopt)));
  ASSIGN_OR_RETURN(std::string waiting_for,
                   inplace::HideInPlace(ctx_, env_.api, InPlace(std::nullopt), {.is_whole = true}));
  const bool is_done = waiting_for.empty();
  return csi::RebindResult{.is_done = is_done, .waiting_for = std::move(waiting_for)};
}

absl::StatusOr<absl::Time> DownloadStep::Rebind() {
  const absl::StatusOr<csi::RebindResult> over = RebindNow();
  if (absl::IsFailedPrecondition(over.status())) {
    return BeginFailure(over.status().message());
  }
  if (over.ok() && over->is_done) {
    return End(DataPhase::kCompleted, "");
  }
  if (absl::IsAborted(over.status()) || absl::IsCancelled(over.status())) {
    return over.status();
  }
  const absl::Time since = object_.TimeOf(objects::kRebindingAtAnnotation).value_or(Now());
  const absl::Time deadline = since + kBindingTimeMax;
  const std::string waits = over.ok() ? absl::StrCat("waits for ", over->waiting_for)
                                      : std::string(over.status().message());
  if (Now() >= deadline) {
    return BeginFailure(
        absl::StrCat(UnboundText(), absl::FormatDuration(kBindingTimeMax), ": ", waits));
  }
  if (IsAdmitted()) {
    GiveBackAdmission();
  }
  object_.SetMessage(absl::StrCat("all of its data is restored; until ",
                                  FormatRfc3339Seconds(deadline), " it ", waits));
  RETURN_IF_ERROR(Write());
  RETURN_IF_ERROR(over.status());
  return std::min(
      deadline, Now() + std::clamp((Now() - since) / 8, kTransferRequeueAfter, kBindingRequeueMax));
}

absl::StatusOr<std::optional<absl::Time>> DownloadStep::CompleteIfDone(absl::Time latest) {
  if (!IsConcluding()) {
    return std::optional<absl::Time>();
  }
  const absl::StatusOr<csi::RebindResult> over = RebindNow();
  if (over.ok() && over->is_done) {
    ASSIGN_OR_RETURN(const absl::Time next, End(DataPhase::kCompleted, ""));
    return std::optional(next);
  }
  const bool may_wait = !absl::IsFailedPrecondition(over.status()) && Now() < latest;
  return may_wait ? std::optional(std::min(latest, Now() + kTransferRequeueAfter)) : std::nullopt;
}

absl::StatusOr<std::string> DownloadStep::RemoveAll() {
  ASSIGN_OR_RETURN(const bool has_ended, WritesNoMore(ctx_, run_));
  RETURN_IF_ERROR(run_.Remove(ctx_));
  ASSIGN_OR_RETURN(std::string waits_for,
                   inplace::HideInPlace(ctx_, env_.api, InPlace(std::nullopt),
                                        {.is_whole = !into_.empty() && IsConcluding(),
                                         .is_fenced = IsFenced(),
                                         .may_still_write = !has_ended && !IsFenced()}));
  if (waits_for.empty()) {
    RETURN_IF_ERROR(
        csi::RemoveRestoredVolume(ctx_, env_.api, Restoring(std::nullopt),
                                  object_.Annotation(objects::kRestoredVolumeAnnotation)));
  }
  return waits_for;
}

void DownloadStep::ReportEnd(DataPhase phase, const std::string& message) {
  const bool is_good = phase == DataPhase::kCompleted;
  Emit(is_good ? k8s::EventType::kNormal : k8s::EventType::kWarning, objects::ToString(phase),
       is_good ? absl::StrCat("volume ", download_.target_namespace(), "/", download_.target_pvc(),
                              " is restored")
               : message);
  if (is_good && into_.empty()) {
    ReportUnusedSize();
  }
  on_end_({.phase = phase, .restored_bytes = is_good ? object_.object().total_bytes() : 0});
}

void DownloadStep::ReportUnusedSize() {
  const std::string name = download_.target_pvc();
  const auto target = FindTarget();
  if (!target.ok() || !target->has_value() || (*target)->mode() == objects::VolumeMode::kBlock) {
    return;
  }
  const int64_t restored_bytes = object_.object().total_bytes();
  const int64_t requested_bytes = (*target)->requested_bytes().value_or(0);
  if (restored_bytes <= 0 || requested_bytes <= restored_bytes) {
    return;
  }
  Emit(k8s::EventType::kNormal, "FileSystemNotGrown",
       absl::StrCat("PVC ", download_.target_namespace(), "/", name, " has ",
                    FormatBinaryQuantity(requested_bytes), ", its file system ",
                    FormatBinaryQuantity(restored_bytes),
                    " as in the backup, unless the driver grows it when it mounts it; if df shows "
                    "less, request more, which grows both if the StorageClass allows expansion: "
                    "kubectl patch pvc ",
                    name, " -n ", download_.target_namespace(),
                    R"( -p '{"spec":{"resources":{"requests":{"storage":")",
                    FormatBinaryQuantity(requested_bytes + kGrowStepBytes), R"("}}}}')"));
}

// The text may come from anybody who may write a DataDownload, and names a place in the bucket.
absl::StatusOr<velero::DataReference> ParsedReference(const objects::DataDownload& download) {
  if (download.moved_snapshot().empty()) {
    return absl::InvalidArgumentError(
        "spec.snapshotID is empty: the backup's upload of this volume did not complete; restore "
        "from another backup");
  }
  return Annotate(velero::ParseDataReference(download.moved_snapshot()), "spec.snapshotID");
}

// When a worker whose end was not observed is cut off; noted in the task, which is all that is
// left.
absl::StatusOr<absl::Time> FencedAt(const CallContext& ctx, const MoverEnvironment& env,
                                    const std::string& task_name) {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task,
                   WorkerRun(env, task_name).FindTask(ctx));
  const std::optional<absl::Time> noted =
      task.has_value() ? ParseRfc3339(task->Annotation(objects::kStoppingAtAnnotation))
                       : std::nullopt;
  if (noted.has_value()) {
    return *noted + kFencedAfter;
  }
  RETURN_IF_ERROR(objects::Apply(ctx, env.api,
                                 objects::VolumeTask::Key(env.mover_namespace, task_name),
                                 objects::Patch().SetAnnotation(objects::kStoppingAtAnnotation,
                                                                FormatRfc3339(ctx.clock->Now()))));
  return ctx.clock->Now() + kFencedAfter;
}

// What is known of it once the DataDownload may be gone.
inplace::InPlaceRequest InPlaceLeftover(const MoverEnvironment& env, const std::string& task_name,
                                        const objects::VolumeTaskSpec& spec) {
  return {.name = task_name,
          .mover_namespace = env.mover_namespace,
          .target_namespace = spec.volume.namespace_name,
          .target_claim = spec.volume.claim,
          .transfer = absl::StrCat(spec.subject.namespace_name, "/", spec.subject.name),
          .transfer_uid = spec.subject.uid};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TransferStep>> DownloadReconciler::StepFor(
    const CallContext& ctx, const objects::DataTransfer& object) {
  ASSIGN_OR_RETURN(objects::DataDownload download, objects::DataDownload::Parse(object));
  ASSIGN_OR_RETURN(velero::DataReference reference, ParsedReference(download));
  if (!TargetInPlace(download).empty()) {
    return std::make_unique<RestoreInPlaceStep>(ctx, env_, scheduler_, on_end_, std::move(download),
                                                std::move(reference));
  }
  return std::make_unique<DownloadStep>(ctx, env_, scheduler_, on_end_, std::move(download),
                                        std::move(reference));
}

std::optional<QueuedTransfer> QueuedDownload(const objects::Object& object) {
  const absl::StatusOr<objects::DataDownload> download = objects::DataDownload::Parse(object);
  if (!download.ok() || !IsToBeMoved(*download)) {
    return std::nullopt;
  }
  QueuedTransfer queued = QueuedTransferOf(*download, objects::DataDownload::kKind.kind);
  queued.kind = TransferKind::kRestore;
  queued.volume =
      absl::StrCat("target/", download->target_namespace(), "/", download->target_pvc());
  queued.volume_namespace = download->target_namespace();
  queued.storage_class = object.Annotation(objects::kTargetClassAnnotation);
  return queued;
}

absl::Status RemoveDownloadLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                     const objects::VolumeTask& task) {
  const std::string task_name = task.name();
  const auto remove_volume = [&](const objects::VolumeTaskSpec& spec,
                                 const objects::DataTransfer* download) -> absl::Status {
    ASSIGN_OR_RETURN(const bool has_ended, WritesNoMore(ctx, WorkerRun(env, task_name)));
    const inplace::InPlaceRequest request = InPlaceLeftover(env, task_name, spec);
    ASSIGN_OR_RETURN(std::string waiting_for,
                     inplace::HideInPlace(ctx, env.api, request, {.may_still_write = !has_ended}));
    if (!waiting_for.empty()) {
      ASSIGN_OR_RETURN(const absl::Time fenced_at, FencedAt(ctx, env, task_name));
      if (ctx.clock->Now() >= fenced_at) {
        ASSIGN_OR_RETURN(waiting_for,
                         inplace::HideInPlace(ctx, env.api, request, {.is_fenced = true}));
      }
    }
    if (!waiting_for.empty()) {
      return absl::UnavailableError(absl::StrCat("waits for ", waiting_for));
    }
    const auto noted = [download](absl::string_view key) {
      return download == nullptr ? "" : download->Annotation(key);
    };
    return csi::RemoveRestoredVolume(ctx, env.api,
                                     {.name = task_name,
                                      .mover_namespace = env.mover_namespace,
                                      .target_namespace = spec.volume.namespace_name,
                                      .target_claim = spec.volume.claim,
                                      .target_uid = noted(objects::kTargetUidAnnotation),
                                      .labels = LabelsFor(task_name, spec.subject.namespace_name)},
                                     noted(objects::kRestoredVolumeAnnotation));
  };
  return RemoveTransferLeftovers(ctx, env, objects::DataDownload::Type(), task, remove_volume);
}

}  // namespace csidelta::datamover
