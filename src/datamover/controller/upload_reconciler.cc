#include "datamover/controller/upload_reconciler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/base_snapshots.h"
#include "csi/expose/exposed_snapshot.h"
#include "datamover/records/restored_pvcs.h"
#include "datamover/records/upload_report.h"
#include "datamover/repository_access.h"
#include "datamover/worker/deletion_queue.h"
#include "datamover/worker/worker_pod.h"
#include "datamover/worker/worker_run.h"
#include "incremental/mover/full_reason.h"
#include "incremental/mover/volume_group_tags.h"
#include "k8s/api_client.h"
#include "k8s/event_recorder.h"
#include "k8s/object.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "objects/persistent_volume.h"
#include "objects/restricted_pod.h"
#include "objects/volume_snapshot.h"
#include "velero/data_reference.h"

namespace csidelta::datamover {
namespace {

using objects::DataPhase;

// As the task has it; nothing where there is no task, or it names no PVC.
std::optional<objects::TaskVolume> VolumeIn(const std::optional<objects::VolumeTask>& task) {
  absl::StatusOr<objects::VolumeTaskSpec> spec =
      task.has_value() ? task->spec()
                       : absl::StatusOr<objects::VolumeTaskSpec>(objects::VolumeTaskSpec());
  return spec.ok() && !spec->volume.claim_uid.empty() ? std::optional(std::move(spec->volume))
                                                      : std::nullopt;
}

class UploadStep : public TransferStep {
 public:
  UploadStep(const CallContext& ctx, const MoverEnvironment& env, TransferScheduler& scheduler,
             const OnTransferEnd& on_end, const VolumeRecords* records, objects::DataUpload upload);

 private:
  // As the task has it. Without a task by the claim, and by what it was restored from: that is
  // decided once.
  absl::StatusOr<objects::TaskVolume> Volume() override;

  RestoredPlace Place() const;
  absl::StatusOr<bool> IsAdopted(const std::optional<RestoredPvc>& restored) const;

  // Velero writes it on the DataUpload; else the claim knows, while it is there.
  absl::StatusOr<std::string> ClaimUid();
  csi::BaseOwner Owner() const;
  csi::ExposeRequest Exposing(std::optional<objects::OwnerReference> owner) const;
  velero::DataReference Reference() const;
  absl::StatusOr<WorkerRun::NextPod> PrepareWorker(const objects::VolumeTask& task) override;
  objects::UploadWork Work(const std::optional<csi::MovedGroup>& group) const;
  // The repository snapshot that the DataUpload names as parent; "": it names none.
  absl::StatusOr<std::string> NamedParent() const;

  absl::StatusOr<std::string> InspectClaim(const objects::VolumeTask& task) override {
    ASSIGN_OR_RETURN(const csi::Exposure exposure,
                     csi::ExposeSnapshot(ctx_, env_.api, Exposing(task.AsOwner())));
    return exposure.waiting_for;
  }

  // A claim that waits for its Pod is bound with it, perhaps to another volume.
  absl::Status CheckBegun(const objects::VolumeTask& task) override {
    return InspectClaim(task).status();
  }

  void RecordBegin() override { object_.SetTime(objects::kUploadingAtAnnotation, Now()); }

  // --- Its end

  absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& task) override;

  // Of one that says nothing of its backup, figures that name no snapshot.
  static objects::BackupFigures FiguresOf(const objects::VolumeTaskStatus& task) {
    return task.outcome.value_or(objects::Outcome()).backup.value_or(objects::BackupFigures());
  }

  // A worker that was done before it knew.
  absl::StatusOr<std::optional<absl::Time>> CompleteIfDone(absl::Time /*latest*/) override;
  absl::StatusOr<RepositoryAccess> Access();
  static bool BaseWasMissed(const objects::BackupFigures& figures);

  // A driver that said once that the base is gone needs bases, whatever the settings say of it.
  absl::StatusOr<csi::SnapshotAction> FinalizeBase(const objects::BackupFigures& figures);
  absl::Status RemoveWithSnapshot(csi::SnapshotAction action);
  absl::StatusOr<std::string> RemoveAll() override;

  // A worker that is given up before it says how it ends may be at its last step, or be done just
  // now; so may one have been that was lost before the last. Its snapshot goes by a DataDeletion,
  // which waits until the repository is unused.
  absl::Status ForgetUnnamed();
  // Before a restore of the volume fails of it.
  void WarnOfNeeds(int64_t volume_bytes);
  void ReportEnd(DataPhase phase, const std::string& message) override;

  const objects::DataUpload upload_;
  const OnTransferEnd& on_end_;
  const VolumeRecords* const records_;
  TransferEnd end_{.phase = DataPhase::kFailed};
  objects::TaskVolume volume_;
  bool key_confirmed_ = true;
  bool list_refused_ = false;
};

UploadStep::UploadStep(const CallContext& ctx, const MoverEnvironment& env,
                       TransferScheduler& scheduler, const OnTransferEnd& on_end,
                       const VolumeRecords* records, objects::DataUpload upload)
    : TransferStep(ctx, env, scheduler,
                   {.task = objects::TaskKind::kUpload,
                    .type = objects::DataUpload::Type(),
                    .volume = absl::StrCat(upload.source_namespace(), "/", upload.source_pvc()),
                    .moving = [](const objects::Object&) { return "uploading"; },
                    .queued = QueuedUpload},
                   upload),
      upload_(std::move(upload)),
      on_end_(on_end),
      records_(records) {}

absl::StatusOr<objects::TaskVolume> UploadStep::Volume() {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.CachedTask(ctx_));
  if (const std::optional<objects::TaskVolume> known = VolumeIn(task); known.has_value()) {
    volume_ = *known;
    return volume_;
  }
  absl::StatusOr<std::string> claim_uid = ClaimUid();
  if (absl::IsNotFound(claim_uid.status())) {
    return absl::FailedPreconditionError(
        "the PVC is gone, and its uid was not recorded; back up again");
  }
  RETURN_IF_ERROR(claim_uid.status());
  ASSIGN_OR_RETURN(const std::optional<RestoredPvc> restored, FindRestored(ctx_, env_, Place()));
  ASSIGN_OR_RETURN(const bool is_adopted, IsAdopted(restored));
  volume_ = ChooseRepository(restored, env_.cluster, is_adopted,
                             {.namespace_name = upload_.source_namespace(),
                              .claim = upload_.source_pvc(),
                              .claim_uid = *std::move(claim_uid)});
  return volume_;
}

RestoredPlace UploadStep::Place() const {
  return {.velero_namespace = upload_.namespace_name(),
          .location = upload_.storage_location(),
          .pvc_namespace = upload_.source_namespace(),
          .pvc = upload_.source_pvc()};
}

absl::StatusOr<bool> UploadStep::IsAdopted(const std::optional<RestoredPvc>& restored) const {
  if (!restored.has_value() || restored->source.cluster == env_.cluster) {
    return false;
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> by,
                   FindAdoption(ctx_, env_.api,
                                {.mover_namespace = env_.mover_namespace,
                                 .velero_namespace = upload_.namespace_name(),
                                 .location = upload_.storage_location(),
                                 .cluster = restored->source.cluster}));
  return by.has_value();
}

absl::StatusOr<std::string> UploadStep::ClaimUid() {
  if (!upload_.pvc_uid().empty()) {
    return upload_.pvc_uid();
  }
  ASSIGN_OR_RETURN(const auto claim,
                   objects::Get<objects::PersistentVolumeClaim>(
                       ctx_, env_.api, upload_.source_namespace(), upload_.source_pvc()));
  return claim.uid();
}

csi::BaseOwner UploadStep::Owner() const {
  return {.velero_namespace = upload_.namespace_name(),
          .location = upload_.storage_location(),
          .claim_namespace = upload_.source_namespace(),
          .claim = upload_.source_pvc(),
          .claim_uid = volume_.claim_uid,
          .cluster = env_.cluster};
}

csi::ExposeRequest UploadStep::Exposing(std::optional<objects::OwnerReference> owner) const {
  const StorageClassSettings settings = ForStorageClass(env_.settings, upload_.storage_class());
  return {.name = task_name_,
          .source_namespace = upload_.source_namespace(),
          .source_snapshot = upload_.volume_snapshot(),
          .source_claim = upload_.source_pvc(),
          .mover_namespace = env_.mover_namespace,
          .storage_class = settings.intermediate_class,
          .labels = labels_,
          .annotations = csi::OwnerAnnotations(Owner()),
          .owner = std::move(owner),
          .read_only_many = settings.read_only_many,
          .cache = env_.cache,
          .examined = env_.examined_claims.get()};
}

velero::DataReference UploadStep::Reference() const {
  return {.cluster = volume_.repository_cluster.empty() ? env_.cluster : volume_.repository_cluster,
          .namespace_name = upload_.source_namespace(),
          .claim_uid = volume_.repository(),
          .snapshot_id = "",
          .key = ""};
}

absl::StatusOr<WorkerRun::NextPod> UploadStep::PrepareWorker(const objects::VolumeTask& task) {
  volume_ = VolumeIn(task).value_or(volume_);  // Another controller may have decided meanwhile.
  csi::ExposeRequest request = Exposing(task.AsOwner());
  request.is_without_claim = !IsAdmitted();
  ASSIGN_OR_RETURN(const csi::Exposure exposure, csi::ExposeSnapshot(ctx_, env_.api, request));
  AnnotateExposure(exposure, object_);
  if (exposure.state == csi::Exposure::State::kWaiting) {
    return WorkerRun::NextPod{.pod = {},
                              .waiting_for = absl::StrCat("waits for ", exposure.waiting_for),
                              .is_idle = exposure.awaits_snapshot,
                              .is_usual = !exposure.awaits_snapshot};
  }
  absl::StatusOr<RepositoryAccess> access = Access();
  if (absl::IsNotFound(access.status())) {
    return absl::FailedPreconditionError(access.status().message());
  }
  RETURN_IF_ERROR(access.status());
  object_.SetAnnotation(objects::kMoverDriverAnnotation, exposure.driver);
  object_.SetAnnotation(objects::kMoverKeyAnnotation, access->key_fingerprint);
  object_.SetAnnotation(objects::kAddressAnnotation, access->repository.address);
  object_.SetAnnotation(objects::kKeyConfirmedAnnotation, access->key_confirmed ? "true" : "false");
  RETURN_IF_ERROR(Write());
  objects::UploadWork work = Work(exposure.group);
  work.driver_parameters = ParametersFor(env_.settings, exposure.driver);
  ASSIGN_OR_RETURN(work.parent, NamedParent());
  ASSIGN_OR_RETURN(work.damage, FindDamage(ctx_, env_.api, records_,
                                           {upload_.namespace_name(), upload_.storage_location(),
                                            Reference(), volume_.claim_uid}));
  return run_.PodFor(ctx_, task,
                     {.work = std::move(work),
                      .access = *std::move(access),
                      .storage_class = upload_.storage_class(),
                      .node_affinity = exposure.node_affinity});
}

objects::UploadWork UploadStep::Work(const std::optional<csi::MovedGroup>& group) const {
  objects::UploadWork work{
      .device = objects::kVolumePath,
      .host = Reference().cluster,  // One chain of backups in each repository.
      .path = absl::StrCat("/", upload_.source_namespace(), "/", upload_.source_pvc()),
      .volume_snapshot = absl::StrCat(env_.mover_namespace, "/", task_name_),
      .tags = {task_name_},
      // The DataUpload may say otherwise than the settings.
      .on_fallback = objects::ParseOnFallback(upload_.Config("onFallback"))
                         .value_or(env_.settings.on_fallback),
      .is_full = upload_.is_full(),
      .pvc_uid = volume_.claim_uid,
      .restored_snapshot = volume_.restored_snapshot,
      .why_no_parent = volume_.why_own};
  // A label would name a Backup with a long name by a digest.
  if (const std::string backup = OwningBackupOf(object_.object()); k8s::IsObjectName(backup)) {
    work.tags.push_back(absl::StrCat(kBackupTag, "=", upload_.namespace_name(), "/", backup));
  }
  if (group.has_value()) {
    const std::vector<std::string> tags = incremental::FormatGroupTags(
        {.group = group->name,
         .snapshot = group->snapshot,
         .snapshot_taken_at =
             group->snapshot_taken_at.has_value() ? FormatRfc3339(*group->snapshot_taken_at) : "",
         .members = static_cast<int>(group->members)});
    work.tags.insert(work.tags.end(), tags.begin(), tags.end());
  }
  return work;
}

absl::StatusOr<std::string> UploadStep::NamedParent() const {
  const std::string named = upload_.parent_snapshot();
  if (named.empty() || named == objects::kNewestParentSnapshot || upload_.is_full()) {
    return std::string();
  }
  const absl::StatusOr<velero::DataReference> parent = velero::ParseDataReference(named);
  if (!parent.ok() || velero::RepositoryPath(*parent) != velero::RepositoryPath(Reference())) {
    return absl::FailedPreconditionError(
        absl::StrCat("spec.parentSnapshot ", Quoted(named),
                     " is not a snapshot of this volume: back up without it, or as type Full"));
  }
  return parent->snapshot_id;
}

absl::StatusOr<absl::Time> UploadStep::Conclude(const objects::VolumeTaskStatus& task) {
  const objects::BackupFigures figures = FiguresOf(task);
  RETURN_IF_ERROR(Volume().status());
  velero::DataReference reference = Reference();
  reference.snapshot_id = figures.snapshot_id;
  reference.key = object_.Annotation(objects::kMoverKeyAnnotation);
  const std::string snapshot_id = velero::FormatDataReference(reference);
  if (const absl::Status valid = velero::ParseDataReference(snapshot_id).status(); !valid.ok()) {
    return BeginFailure(absl::StrCat("the worker's result names no snapshot: ", valid.message()));
  }
  if (!volume_.why_own.empty()) {
    // All of it is stored now. It stays there, though the other cluster be adopted later.
    RETURN_IF_ERROR(ForgetRestored(ctx_, env_, Place(), volume_.claim_uid));
  }
  ASSIGN_OR_RETURN(const csi::SnapshotAction action, FinalizeBase(figures));
  RETURN_IF_ERROR(RemoveWithSnapshot(action));
  AnnotateFigures(figures, task, object_);
  object_.SetSnapshotId(snapshot_id);
  object_.SetProgress(figures.logical_bytes, figures.logical_bytes);
  if (figures.changed_bytes > 0) {
    object_.SetIncrementalBytes(figures.changed_bytes);
  }
  end_.figures = figures;
  key_confirmed_ = object_.Annotation(objects::kKeyConfirmedAnnotation) != "false";
  end_.audit_mismatch = CauseOf(task) == objects::OutcomeCause::kAuditMismatch;
  list_refused_ = CauseOf(task) == objects::OutcomeCause::kListRefused;
  return End(DataPhase::kCompleted, absl::StrCat(Summarize(figures), GroupSummary(object_)));
}

absl::StatusOr<std::optional<absl::Time>> UploadStep::CompleteIfDone(absl::Time /*latest*/) {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.FindTask(ctx_));
  const objects::VolumeTaskStatus status =
      task.has_value() ? task->status() : objects::VolumeTaskStatus();
  if (status.phase != objects::TaskPhase::kSucceeded || upload_.is_being_deleted()) {
    return std::optional<absl::Time>();  // What one that is gone has stored is unknown.
  }
  ASSIGN_OR_RETURN(const absl::Time next, Conclude(status));
  return std::optional(next);
}

absl::StatusOr<RepositoryAccess> UploadStep::Access() {
  return OpenAccess(ctx_, env_, upload_,
                    {.velero_namespace = upload_.namespace_name(),
                     .location = upload_.storage_location(),
                     .repository_path = velero::RepositoryPath(Reference()),
                     .for_writing = true,
                     .written_with_key = ""});
}

bool UploadStep::BaseWasMissed(const objects::BackupFigures& figures) {
  using incremental::FullReason;
  return figures.reason == incremental::TextOf(FullReason::kBaseSnapshotGone).name ||
         figures.reason == incremental::TextOf(FullReason::kGroupBaseReleased).name;
}

absl::StatusOr<csi::SnapshotAction> UploadStep::FinalizeBase(
    const objects::BackupFigures& figures) {
  const csi::Environment csi_env = CsiEnvironmentOf(ctx_, env_, upload_.namespace_name());
  const csi::BaseOwner owner = Owner();
  const std::string driver = object_.Annotation(objects::kMoverDriverAnnotation);
  bool is_needed = BaseWasMissed(figures);
  if (!is_needed) {
    ASSIGN_OR_RETURN(is_needed, csi::NeedsBases(ctx_, csi_env, driver));
  }
  if (!is_needed && !KeepsBase(env_.settings, driver)) {
    RETURN_IF_ERROR(csi::DropBases(ctx_, csi_env, owner));
    return csi::SnapshotAction::kDelete;
  }
  const absl::Status kept = csi::KeepAsBase(ctx_, csi_env, task_name_, owner, is_needed);
  if (absl::IsNotFound(kept)) {
    CSIDELTA_LOG(kWarn, "the volume snapshot is gone: the next backup will be a full one",
                 {"namespace", upload_.namespace_name()}, {"name", upload_.name()});
  } else {
    RETURN_IF_ERROR(kept);
  }
  return csi::SnapshotAction::kKeep;
}

absl::Status UploadStep::RemoveWithSnapshot(csi::SnapshotAction action) {
  RETURN_IF_ERROR(run_.Remove(ctx_));
  return csi::RemoveExposure(ctx_, env_.api, Exposing(std::nullopt), action);
}

absl::StatusOr<std::string> UploadStep::RemoveAll() {
  RETURN_IF_ERROR(ForgetUnnamed());
  RETURN_IF_ERROR(RemoveWithSnapshot(csi::SnapshotAction::kDelete));
  return "";
}

absl::Status UploadStep::ForgetUnnamed() {
  ASSIGN_OR_RETURN(const std::optional<objects::VolumeTask> task, run_.FindTask(ctx_));
  if (!task.has_value()) {
    return absl::OkStatus();
  }
  const objects::TaskPhase phase = task->status().phase;
  if (phase != objects::TaskPhase::kRunning && phase != objects::TaskPhase::kSucceeded &&
      task->attempts() < 2) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool has_ended, run_.HasSurelyEnded(ctx_, *task));
  volume_ = VolumeIn(task).value_or(objects::TaskVolume());
  velero::DataReference reference = Reference();
  reference.key = object_.Annotation(objects::kMoverKeyAnnotation);
  const absl::Status made =
      objects::Create(ctx_, env_.api, MakeDeletionOfUnnamed(upload_, reference, has_ended))
          .status();
  if (absl::IsPermissionDenied(made) && k8s::IsNamespaceTerminating(made.message())) {
    // The finalizer would hold the namespace for ever.
    CSIDELTA_LOG(kWarn,
                 "the namespace is being deleted: what the worker may have stored stays in the "
                 "repository",
                 {"namespace", upload_.namespace_name()}, {"name", upload_.name()},
                 {"tag", task_name_});
    return absl::OkStatus();
  }
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

void UploadStep::ReportEnd(DataPhase phase, const std::string& message) {
  end_.phase = phase;
  end_.pods_lost = std::max(0, pods_ - 1);
  const bool list_was_wrong = end_.audit_mismatch || list_refused_;
  const bool is_good = phase == DataPhase::kCompleted && !list_was_wrong;
  const std::string reason = end_.audit_mismatch ? "AuditMismatch"
                             : list_refused_     ? "ListRefused"
                                                 : objects::ToString(phase);
  const std::string text =
      list_was_wrong
          ? absl::StrCat("the driver's list of changes was wrong, so all was read: ", message)
          : message;
  Emit(is_good ? k8s::EventType::kNormal : k8s::EventType::kWarning, reason, text);
  const std::string location =
      absl::StrCat(upload_.namespace_name(), "/", upload_.storage_location());
  if (!key_confirmed_ && env_.access_keeper->IsKeyWarningDue(location, Now())) {
    Emit(k8s::EventType::kWarning, "KeyNotConfirmed",
         absl::StrCat("no copy is confirmed of the key of location ", upload_.storage_location(),
                      ": without it no backup can be read; csi-delta mover-key export"));
  }
  if (phase == DataPhase::kCompleted) {
    WarnOfNeeds(std::max(end_.figures.logical_bytes, end_.figures.repository_bytes.value_or(0)));
  }
  on_end_(end_);
}

void UploadStep::WarnOfNeeds(int64_t volume_bytes) {
  const auto warn_if_less = [&](const std::string& setting, int64_t needed, const char* reason,
                                absl::string_view name, absl::string_view need) {
    constexpr int64_t kMiB = int64_t{1} << 20;
    const absl::StatusOr<int64_t> bytes = ParseQuantity(setting);
    if (bytes.ok() && *bytes < needed) {
      Emit(k8s::EventType::kWarning, reason,
           absl::StrCat(name, " is ", setting, ", and a restore of this backup ", need, " ",
                        FormatBinaryQuantity((needed + kMiB - 1) / kMiB * kMiB),
                        ": raise it in the settings of the mover"));
    }
  };
  const WorkerSettings& worker = env_.settings.worker;
  warn_if_less(worker.scratch_size, ScratchBytesFor(volume_bytes), "ScratchTooSmall",
               "worker.scratchSize", "may need");
  warn_if_less(worker.resources.memory_limit, RestoreMemoryBytesFor(volume_bytes), "MemoryTooSmall",
               "worker.resources.limits.memory", "needs");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TransferStep>> UploadReconciler::StepFor(
    const CallContext& ctx, const objects::DataTransfer& object) {
  absl::StatusOr<objects::DataUpload> upload = objects::DataUpload::Parse(object);
  if (!upload.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(upload.status().message(), "; make a new backup"));
  }
  return std::make_unique<UploadStep>(ctx, env_, scheduler_, on_end_, records_, *std::move(upload));
}

namespace {

std::string VolumeOf(const objects::DataUpload& upload) {
  return absl::StrCat(upload.namespace_name(), "/", upload.storage_location(), "/",
                      upload.source_namespace(), "/", upload.source_pvc());
}

}  // namespace

std::optional<QueuedTransfer> QueuedUpload(const objects::Object& object) {
  const absl::StatusOr<objects::DataUpload> upload = objects::DataUpload::Parse(object);
  if (!upload.ok() || !IsToBeMoved(*upload)) {
    return std::nullopt;
  }
  QueuedTransfer queued = QueuedTransferOf(*upload, objects::DataUpload::kKind.kind);
  queued.kind = TransferKind::kUpload;
  queued.volume = VolumeOf(*upload);
  queued.volume_namespace = upload->source_namespace();
  queued.storage_class = upload->storage_class();
  return queued;
}

void RecordGoodBackup(const objects::DataUpload& upload, TransferScheduler& scheduler) {
  const std::optional<absl::Time> created_at = upload.created_at();
  if (upload.Validate().ok() && upload.is_managed() &&
      upload.known_phase() == DataPhase::kCompleted && created_at.has_value()) {
    scheduler.RecordBackup(VolumeOf(upload), *created_at);
  }
}

absl::Status RemoveUploadExposure(const CallContext& ctx, const MoverEnvironment& env,
                                  const std::string& task_name,
                                  const std::string& velero_namespace) {
  ASSIGN_OR_RETURN(const auto content,
                   objects::Find<objects::VolumeSnapshotContent>(ctx, env.api, "", task_name));
  const bool is_base = content.has_value() && content->Label(objects::kBaseLabel) == "true";
  return csi::RemoveExposure(ctx, env.api,
                             {.name = task_name,
                              .mover_namespace = env.mover_namespace,
                              .labels = LabelsFor(task_name, velero_namespace)},
                             is_base ? csi::SnapshotAction::kKeep : csi::SnapshotAction::kDelete);
}

absl::Status RemoveUploadLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                   const objects::VolumeTask& task) {
  return RemoveTransferLeftovers(
      ctx, env, objects::DataUpload::Type(), task,
      [&](const objects::VolumeTaskSpec& spec, const objects::DataTransfer*) {
        return RemoveUploadExposure(ctx, env, task.name(), spec.subject.namespace_name);
      });
}

}  // namespace csidelta::datamover
