#include "inplace/mover_restore.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "csi/expose/data_transfer.h"
#include "csi/retry.h"
#include "inplace/in_place_volume.h"
#include "k8s/access_review.h"
#include "objects/client.h"
#include "objects/copy_record.h"
#include "objects/keys.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_import.h"
#include "velero/data_reference.h"

namespace csidelta::inplace {
namespace {

using objects::DataDownload;
using objects::DataPhase;
using objects::DataUpload;
using objects::PersistentVolumeClaim;

constexpr absl::Duration kMoverLookIntervalMin = absl::Milliseconds(250);
constexpr absl::Duration kMoverLookIntervalMax = absl::Seconds(2);
// For what was made to be removed again.
constexpr absl::Duration kMoverRemovalTimeMax = absl::Seconds(60);
constexpr absl::Duration kSafetyTimeMax = absl::Minutes(10);
// Of single steps of Velero's own mover, which writes the same; the kind requires it.
constexpr char kOperationTimeout[] = "10m0s";

// As a new cluster would have it, from the reference that its archive has.
absl::StatusOr<DataUpload> UploadOfReference(const MovedSource& source) {
  ASSIGN_OR_RETURN(const velero::DataReference reference,
                   velero::ParseDataReference(source.upload));
  DataUpload upload = DataUpload::Make(
      source.velero_namespace, absl::StrCat("snapshot-", reference.snapshot_id.substr(0, 16)));
  upload.SetStorageLocation(source.location);
  upload.SetSource(reference.namespace_name, "", "");
  upload.SetSnapshotId(source.upload);
  return upload;
}

}  // namespace

absl::StatusOr<DataUpload> ReadUpload(const CallContext& ctx, k8s::ApiClient& api,
                                      const MovedSource& source) {
  if (!source.location.empty()) {
    return UploadOfReference(source);
  }
  const std::string text = absl::StrCat("DataUpload ", source.velero_namespace, "/", source.upload);
  ASSIGN_OR_RETURN(auto found,
                   objects::Find<DataUpload>(ctx, api, source.velero_namespace, source.upload));
  if (!found.has_value()) {
    return absl::NotFoundError(absl::StrCat(text, " was not found; kubectl get datauploads -n ",
                                            source.velero_namespace, " lists them"));
  }
  RETURN_IF_ERROR(found->Validate());
  if (!found->is_managed()) {
    return absl::FailedPreconditionError(absl::StrCat(text, " is of the data mover \"",
                                                      found->data_mover(), "\", not of csi-delta"));
  }
  if (found->known_phase() != DataPhase::kCompleted) {
    return absl::FailedPreconditionError(absl::StrCat(text, " is ", found->phase(),
                                                      ": only what is Completed can be "
                                                      "restored"));
  }
  RETURN_IF_ERROR(Annotate(velero::ParseDataReference(found->snapshot_id()).status(),
                           absl::StrCat(text, ": status.snapshotID")));
  return *std::move(found);
}

namespace {

DataDownload DownloadOf(const DataUpload& upload, const PersistentVolumeClaim& pvc) {
  DataDownload download = DataDownload::Make(
      upload.namespace_name(),
      csi::TransferName(upload.name(), absl::StrCat("into.", pvc.uid(), ".", upload.uid())));
  // One that a restore of Velero brought back would write again.
  download.SetLabel(objects::kExcludeFromBackupLabel, "true");
  download.SetAnnotation(objects::kIntoAnnotation, pvc.uid());
  download.SetAnnotation(objects::kIntoUploadAnnotation, upload.name());
  download.SetDataMover(objects::kDataMoverName);
  download.SetMovedSnapshot(upload.snapshot_id());
  download.SetOperationTimeout(kOperationTimeout);
  // A data mover that does not know of `into` refuses what names a volume.
  download.SetTarget(pvc.namespace_name(), pvc.name(), pvc.volume_name());
  download.SetStorageLocation(upload.storage_location());
  download.SetSourceNamespace(upload.source_namespace());
  return download;
}

// Makes, follows and removes the DataDownload.
class MoverRestore {
 public:
  MoverRestore(const CallContext& ctx, k8s::ApiClient& api, const MoverPlan& plan,
               const MoverRestoreOptions& options, std::vector<std::string>& not_checked);
  absl::StatusOr<objects::RestoreFigures> Run();

 private:
  void ReportStep(const std::string& sentence) const;

  // Makes the DataDownload, or resumes one that has begun; RemoveEarlier() has removed any other.
  absl::Status Ensure();

  // A patch of the PVC of the plan, and of no other of its name.
  objects::Patch PatchOfPvc() const { return objects::Patch().IfUid(plan_.pvc.uid()); }

  // Annotates the PVC: the mover requires a consent that needs the right to change the PVC.
  absl::Status Consent();

  // Deletes the DataDownload and the consent, which may exist although the answer was lost.
  void GiveUp();

  // Removes the consent, which the mover removes only with a record. Reports a consent that stays.
  void EndConsent();

  // Deletes a DataDownload that no mover has accepted, as it must not begin once the caller has
  // gone. OK if it was deleted.
  absl::Status Withdraw();

  // The error once the caller was cancelled.
  absl::Status Stopped(const absl::Status& why);
  absl::Status TakeUp(DataDownload found);
  absl::Status Follow();
  absl::Status ReadDownload();

  // What it waits for, once each; then how far it is.
  void Report();

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const MoverPlan& plan_;
  const MoverRestoreOptions& options_;
  std::vector<std::string>& not_checked_;
  const k8s::ObjectKey key_;
  const std::string text_;
  DataDownload download_;
  std::string last_message_;
};

MoverRestore::MoverRestore(const CallContext& ctx, k8s::ApiClient& api, const MoverPlan& plan,
                           const MoverRestoreOptions& options,
                           std::vector<std::string>& not_checked)
    : ctx_(ctx),
      api_(api),
      plan_(plan),
      options_(options),
      not_checked_(not_checked),
      key_(plan.download.key()),
      text_(NameText(plan.download.key())) {}

absl::StatusOr<objects::RestoreFigures> MoverRestore::Run() {
  RETURN_IF_ERROR(Ensure());
  RETURN_IF_ERROR(Follow());
  if (download_.known_phase() != DataPhase::kCompleted) {
    const std::string message = download_.message();
    EndConsent();
    return absl::FailedPreconditionError(
        absl::StrCat("restore into ", csi::PvcText(plan_.pvc), ": ", text_, " is ",
                     objects::ToString(download_.known_phase()), ": ",
                     message.empty() ? "the data mover gives no reason" : message,
                     "; where it is partly old now its beginning says so: run this again"));
  }
  const std::string counted = download_.Annotation(objects::kRestoredBytesAnnotation);
  const absl::Status removed = k8s::IgnoreGone(api_.Delete(ctx_, key_, {.uid = download_.uid()}));
  if (!removed.ok()) {
    not_checked_.push_back(absl::StrCat(text_, " stays: ", removed.message()));
  }
  return objects::ParseRestoredBytes(counted);
}

void MoverRestore::ReportStep(const std::string& sentence) const {
  if (options_.on_step) {
    options_.on_step(sentence);
  }
}

absl::Status MoverRestore::Ensure() {
  if (plan_.goes_on) {
    ASSIGN_OR_RETURN(auto found, objects::Find<DataDownload>(ctx_, api_, key_));
    return found.has_value() ? TakeUp(*std::move(found))
                             : absl::AbortedError(absl::StrCat(text_,
                                                               " has just ended; run this "
                                                               "again"));
  }
  DataDownload download = plan_.download;
  download.SetAnnotation(objects::kStartBeforeAnnotation,
                         FormatRfc3339(ctx_.clock->Now() + kMoverStartTimeMax));
  absl::StatusOr<DataDownload> made = objects::Create(ctx_, api_, download);
  RETURN_IF_ERROR(Annotate(made.status(), "ask the data mover"));
  download_ = *std::move(made);
  if (const absl::Status consented = Consent(); !consented.ok()) {
    GiveUp();
    return consented;
  }
  ReportStep(absl::StrCat(text_, " asks the data mover to restore into ", csi::PvcText(plan_.pvc)));
  return absl::OkStatus();
}

absl::Status MoverRestore::Consent() {
  const objects::Patch patch =
      PatchOfPvc().SetAnnotation(objects::kMayWriteAnnotation, download_.uid());
  const absl::Status consented =
      csi::RetryTransient(ctx_, [&] { return objects::Apply(ctx_, api_, plan_.pvc.key(), patch); });
  return Annotate(consented, absl::StrCat("annotation ", objects::kMayWriteAnnotation, " of ",
                                          csi::PvcText(plan_.pvc)));
}

void MoverRestore::GiveUp() {
  const CallContext ctx = csi::CleanUpContext(*ctx_.clock, kMoverRemovalTimeMax);
  const absl::Status removed = csi::RetryToTheEnd(
      ctx, [&] { return k8s::IgnoreGone(api_.Delete(ctx, key_, {.uid = download_.uid()})); });
  if (!removed.ok()) {
    not_checked_.push_back(absl::StrCat(text_, " stays: ", removed.message()));
  }
  EndConsent();
}

void MoverRestore::EndConsent() {
  const CallContext ctx = csi::CleanUpContext(*ctx_.clock, kMoverRemovalTimeMax);
  const absl::Status ended = csi::RetryToTheEnd(ctx, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto found,
                     objects::Find<PersistentVolumeClaim>(ctx, api_, plan_.pvc.key()));
    const bool is_there =
        found.has_value() && found->Annotation(objects::kMayWriteAnnotation) == download_.uid();
    return is_there ? k8s::IgnoreGone(objects::Apply(
                          ctx, api_, plan_.pvc.key(),
                          PatchOfPvc().RemoveAnnotation(objects::kMayWriteAnnotation)))
                    : absl::OkStatus();
  });
  if (!ended.ok()) {
    not_checked_.push_back(absl::StrCat("the annotation ", objects::kMayWriteAnnotation, " of ",
                                        csi::PvcText(plan_.pvc), " stays: ", ended.message()));
  }
}

absl::Status MoverRestore::Withdraw() {
  if (download_.known_phase() != DataPhase::kNew) {
    return absl::FailedPreconditionError("it has begun");
  }
  RETURN_IF_ERROR(
      api_.Delete(csi::CleanUpContext(*ctx_.clock, kMoverRemovalTimeMax), key_,
                  {.uid = download_.uid(), .resource_version = download_.resource_version()}));
  EndConsent();
  return absl::OkStatus();
}

absl::Status MoverRestore::Stopped(const absl::Status& why) {
  return Withdraw().ok()
             ? Annotate(why, absl::StrCat(text_, " is deleted; nothing was written"))
             : Annotate(why, absl::StrCat("the data mover goes on with ", text_,
                                          "; run this again to follow it, or stop it: kubectl "
                                          "patch datadownload ",
                                          key_.name, " -n ", key_.namespace_name,
                                          " --type merge -p '{\"spec\":{\"cancel\":true}}'"));
}

absl::Status MoverRestore::TakeUp(DataDownload found) {
  if (found.Annotation(objects::kIntoAnnotation) != plan_.pvc.uid() ||
      found.moved_snapshot() != plan_.download.moved_snapshot() ||
      found.target_volume() != plan_.pvc.volume_name()) {
    return absl::AlreadyExistsError(
        absl::StrCat(text_, " has the name that this restore would have, and is another one"));
  }
  download_ = std::move(found);
  ReportStep(absl::StrCat(text_, " of an earlier run restores into ", csi::PvcText(plan_.pvc)));
  return absl::OkStatus();
}

absl::Status MoverRestore::Follow() {
  const absl::Time silent_at = ctx_.clock->Now() + kMoverSilenceNoted;
  absl::Duration interval = kMoverLookIntervalMin;
  bool has_reported_silence = false;
  while (!download_.is_over()) {
    Report();
    if (download_.known_phase() == DataPhase::kNew && !has_reported_silence &&
        ctx_.clock->Now() >= silent_at) {
      has_reported_silence = true;
      ReportStep(absl::StrCat("no data mover has accepted ", text_,
                              " yet; csi-delta doctor says whether one runs"));
    }
    ctx_.clock->SleepFor(interval, ctx_.stop);
    interval = std::min(2 * interval, kMoverLookIntervalMax);
    if (const absl::Status over = ctx_.Check(); !over.ok()) {
      return Stopped(over);
    }
    RETURN_IF_ERROR(ReadDownload());
  }
  return absl::OkStatus();
}

absl::Status MoverRestore::ReadDownload() {
  auto found = objects::Find<DataDownload>(ctx_, api_, key_);
  if (!found.ok() && IsRetryable(found.status())) {
    return absl::OkStatus();  // The mover goes on while the API server is away.
  }
  RETURN_IF_ERROR(found.status());
  if (!found->has_value() || (*found)->uid() != download_.uid()) {
    EndConsent();
    return absl::FailedPreconditionError(absl::StrCat(
        "another client deleted ", text_, ", which stops the data mover; where ",
        csi::PvcText(plan_.pvc), " is partly old now its beginning says so: run this again"));
  }
  download_ = **std::move(found);
  return absl::OkStatus();
}

void MoverRestore::Report() {
  const std::string message = download_.message();
  if (!message.empty() && message != last_message_) {
    ReportStep(message);
  }
  last_message_ = message;
  if (download_.known_phase() == DataPhase::kInProgress && options_.on_progress) {
    options_.on_progress(download_.done_bytes(), download_.total_bytes());
  }
}

// A DataDownload of an earlier run that has not begun to write, or is over: gone before a safety
// snapshot is taken, so that it does not write meanwhile.
absl::Status RemoveEarlier(const CallContext& ctx, k8s::ApiClient& api,
                           const DataDownload& download) {
  const k8s::ObjectKey key = download.key();
  const CallContext until = ctx.WithTimeout(kMoverRemovalTimeMax);
  ASSIGN_OR_RETURN(auto found, objects::Find<DataDownload>(ctx, api, key));
  if (!found.has_value()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(k8s::IgnoreGone(api.Delete(ctx, key, {.uid = found->uid()})));
  while (true) {
    ASSIGN_OR_RETURN(found, objects::Find<DataDownload>(ctx, api, key));
    if (!found.has_value()) {
      return absl::OkStatus();
    }
    ctx.clock->SleepFor(kMoverLookIntervalMin, ctx.stop);
    RETURN_IF_ERROR(Annotate(until.Check(), absl::StrCat(NameText(download.key()),
                                                         " of an earlier run is being deleted, and "
                                                         "not gone yet; run this again")));
  }
}

// What of an earlier run is gone on with. One that does not write yet is not: it could begin while
// the safety snapshot is taken.
bool HasBegun(const PersistentVolumeClaim& pvc, const DataDownload& download) {
  const std::optional<objects::CopyRecord> record = ParseCopyRecord(pvc);
  return record.has_value() && record->id == download.uid() && record->has_written &&
         !record->has_ended;
}

}  // namespace

absl::Status CheckMayAskMover(const CallContext& ctx, k8s::ApiClient& api,
                              absl::string_view velero_namespace,
                              absl::string_view namespace_name) {
  const std::string veleros(velero_namespace);
  const std::string here(namespace_name);
  return k8s::RequireAccess(
      ctx, api,
      {{{"get", DataUpload::Type(), veleros}, snapshots::kSnapshotAdminRole},
       {{"get", DataDownload::Type(), veleros}, snapshots::kSnapshotAdminRole},
       {{"create", DataDownload::Type(), veleros}, snapshots::kSnapshotAdminRole},
       {{"delete", DataDownload::Type(), veleros}, snapshots::kSnapshotAdminRole},
       // Which is the consent.
       {{"patch", PersistentVolumeClaim::Type(), here}, snapshots::kSnapshotAdminRole},
       // Two that write at the same time would ruin the volume.
       {{"list", objects::Pod::Type(), here}, snapshots::kSnapshotAdminRole}});
}

absl::StatusOr<MoverPlan> PlanMoverRestore(const CallContext& ctx, k8s::ApiClient& api,
                                           const RestoreSurroundings& around,
                                           const MovedSource& source, absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(const DataUpload upload, ReadUpload(ctx, api, source));
  ASSIGN_OR_RETURN(RestoreInfo info, ReadPvcInfo(ctx, api, around.namespace_name, pvc_name));
  if (!info.pvc.has_value()) {
    return absl::NotFoundError(absl::StrCat("PVC ", around.namespace_name, "/", pvc_name,
                                            " does not exist; restore the backup, or name a PVC "
                                            "that does"));
  }
  DataDownload download = DownloadOf(upload, *info.pvc);
  ASSIGN_OR_RETURN(const auto found, objects::Find<DataDownload>(ctx, api, download.key()));
  const bool is_under_way = found.has_value() && !found->is_over();
  info.own_transfer = is_under_way ? found->uid() : "";
  return MoverPlan{.pvc = *info.pvc,
                   .download = std::move(download),
                   .goes_on = is_under_way && HasBegun(*info.pvc, *found),
                   .refusals = CheckRestore(around, info).refusals,
                   .not_checked = std::move(info.not_checked)};
}

absl::StatusOr<MoverRestoreResult> RestoreByMover(const CallContext& ctx, k8s::ApiClient& api,
                                                  Random& random, const MoverPlan& plan,
                                                  const MoverRestoreOptions& options,
                                                  std::vector<std::string>& not_checked) {
  CSIDELTA_CHECK(plan.refusals.empty());
  MoverRestoreResult result;
  std::unique_ptr<csi::VolumeLock> guard;
  if (!plan.goes_on) {
    RETURN_IF_ERROR(RemoveEarlier(ctx, api, plan.download));
    if (options.takes_safety_snapshot) {
      result.safety_snapshot = snapshots::NameForSnapshot(
          absl::StrCat(plan.pvc.name(), "-before-restore"), ctx.clock->Now());
      RETURN_IF_ERROR(snapshots::TakeBeforeRestore(
          ctx, api, random,
          {.source = {.pvc = plan.pvc},
           .name = result.safety_snapshot,
           .note = absl::StrCat("before ", NameText(plan.download.key())),
           .timeout = kSafetyTimeMax},
          not_checked));
      if (options.on_step) {
        options.on_step(absl::StrCat("VolumeSnapshot ", plan.pvc.namespace_name(), "/",
                                     result.safety_snapshot, " of ", csi::PvcText(plan.pvc),
                                     " is taken, for safety"));
      }
    } else {
      ASSIGN_OR_RETURN(guard, snapshots::GuardRestore(ctx, api, random, plan.pvc,
                                                      plan.download.name(), not_checked));
    }
  }
  ASSIGN_OR_RETURN(const std::string use,
                   ReadUse(ctx, api, plan.pvc.namespace_name(), plan.pvc.name()));
  if (!use.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(csi::PvcText(plan.pvc), " is not restored: ", use));
  }
  absl::StatusOr<objects::RestoreFigures> figures =
      MoverRestore(ctx, api, plan, options, not_checked).Run();
  if (!figures.ok()) {
    return result.safety_snapshot.empty()
               ? figures.status()
               : csi::WithMore(figures.status(),
                               absl::StrCat("; what it held before is in VolumeSnapshot ",
                                            result.safety_snapshot));
  }
  result.figures = *std::move(figures);
  return result;
}

}  // namespace csidelta::inplace
