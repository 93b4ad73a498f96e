#include "csi/mover_restore.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/data_transfer.h"
#include "csi/snapshot_types.h"
#include "csi/volume_copy.h"
#include "k8s/access_review.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "velero/data_reference.h"
#include "velero/data_upload.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolumeClaim;
using velero::DataPhase;

constexpr char kMoverRole[] = "csi-delta-snapshot-admin";
constexpr absl::Duration kMoverLookIntervalMin = absl::Milliseconds(250);
// Of single steps of Velero's own mover, which writes the same; the kind requires it.
constexpr char kOperationTimeout[] = "10m0s";

DataPhase PhaseOf(const Json& transfer) {
  return velero::ParseDataPhase(GetString(transfer, {"status", "phase"}));
}

std::string NamedDownload(const Json& download) {
  return absl::StrCat("DataDownload ", k8s::Namespace(download), "/", k8s::Name(download));
}

std::string NamedTarget(const PersistentVolumeClaim& pvc) {
  return absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name());
}

// The DataUpload, if what it moved can be restored.
absl::StatusOr<Json> ReadUpload(const CallContext& ctx, k8s::ApiClient& api,
                                const MovedSource& source) {
  const std::string text = absl::StrCat("DataUpload ", source.velero_namespace, "/", source.upload);
  ASSIGN_OR_RETURN(std::optional<Json> found,
                   k8s::Find(ctx, api, {DataUploadType(), source.velero_namespace, source.upload}));
  if (!found.has_value()) {
    return absl::NotFoundError(absl::StrCat(text, " was not found; kubectl get datauploads -n ",
                                            source.velero_namespace, " lists them"));
  }
  ASSIGN_OR_RETURN(const velero::DataUpload upload, velero::ParseDataUpload(*found));
  if (upload.data_mover != velero::kDataMoverName) {
    return absl::FailedPreconditionError(
        absl::StrCat(text, " is of the data mover \"", upload.data_mover, "\", not of csi-delta"));
  }
  if (upload.phase != DataPhase::kCompleted) {
    return absl::FailedPreconditionError(absl::StrCat(text, " is ",
                                                      GetString(*found, {"status", "phase"}),
                                                      ": only what is Completed can be "
                                                      "restored"));
  }
  RETURN_IF_ERROR(
      Annotate(velero::ParseDataReference(GetString(*found, {"status", "snapshotID"})).status(),
               absl::StrCat(text, ": status.snapshotID")));
  return *std::move(found);
}

Json DownloadOf(const Json& upload, const PersistentVolumeClaim& pvc) {
  Json spec = {
      {"datamover", velero::kDataMoverName},
      {"snapshotID", GetString(upload, {"status", "snapshotID"})},
      {"operationTimeout", kOperationTimeout},
      {"targetVolume", {{"namespace", pvc.namespace_name()}, {"pvc", pvc.name()}, {"pv", ""}}}};
  for (const char* field : {"backupStorageLocation", "sourceNamespace"}) {
    spec[field] = GetString(upload, {"spec", field});
  }
  const std::string name =
      TransferName(k8s::Name(upload), absl::StrCat("into.", pvc.uid(), ".", k8s::Uid(upload)));
  return {{"apiVersion", absl::StrCat(DataDownloadType().group, "/", DataDownloadType().version)},
          {"kind", DataDownloadType().kind},
          {"metadata",
           {{"name", name},
            {"namespace", k8s::Namespace(upload)},
            {"annotations",
             {{objects::kIntoAnnotation, pvc.uid()},
              {objects::kIntoUploadAnnotation, k8s::Name(upload)}}}}},
          {"spec", std::move(spec)}};
}

// Makes, follows and removes the DataDownload.
class MoverRestore {
 public:
  MoverRestore(const CallContext& ctx, k8s::ApiClient& api, const MoverPlan& plan,
               const CopyRestoreOptions& options, std::vector<std::string>& not_checked)
      : ctx_(ctx),
        api_(api),
        plan_(plan),
        options_(options),
        not_checked_(not_checked),
        key_{DataDownloadType(), k8s::Namespace(plan.download), k8s::Name(plan.download)},
        text_(NamedDownload(plan.download)) {}

  absl::StatusOr<VolumeCopyResult> Run() {
    RETURN_IF_ERROR(Ensure());
    RETURN_IF_ERROR(Follow());
    if (PhaseOf(download_) != DataPhase::kCompleted) {
      const std::string message = GetString(download_, {"status", "message"});
      return absl::FailedPreconditionError(
          absl::StrCat("restore into ", NamedTarget(plan_.pvc), ": ", text_, " is ",
                       velero::ToString(PhaseOf(download_)), ": ",
                       message.empty() ? "the data mover gives no reason" : message,
                       "; where it is partly old now its beginning says so: run this again"));
    }
    const absl::StatusOr<Json> counted =
        ParseJsonObject(k8s::Annotation(download_, objects::kRestoredBytesAnnotation));
    const absl::Status removed =
        k8s::IgnoreGone(api_.Delete(ctx_, key_, {.uid = k8s::Uid(download_)}));
    if (!removed.ok()) {
      not_checked_.push_back(absl::StrCat(text_, " stays: ", removed.message()));
    }
    return counted.ok() ? VolumeCopyResultOf(*counted) : VolumeCopyResult{};
  }

 private:
  void Tell(const std::string& sentence) const {
    if (options_.on_step) {
      options_.on_step(sentence);
    }
  }

  // One that is not over is gone on with; one that is says nothing of the volume as it is now.
  absl::Status Ensure() {
    absl::StatusOr<Json> made = Create();
    if (absl::IsAlreadyExists(made.status())) {
      ASSIGN_OR_RETURN(std::optional<Json> found, k8s::Find(ctx_, api_, key_));
      if (found.has_value() && !velero::IsTerminal(PhaseOf(*found))) {
        return TakeUp(*std::move(found));
      }
      if (found.has_value()) {
        RETURN_IF_ERROR(k8s::IgnoreGone(api_.Delete(ctx_, key_, {.uid = k8s::Uid(*found)})));
      }
      made = Create();
    }
    RETURN_IF_ERROR(Annotate(made.status(), "ask the data mover"));
    download_ = *std::move(made);
    Tell(absl::StrCat(text_, " asks the data mover to restore into ", NamedTarget(plan_.pvc)));
    return absl::OkStatus();
  }

  absl::StatusOr<Json> Create() {
    return api_.Create(ctx_, DataDownloadType(), key_.namespace_name, plan_.download);
  }

  absl::Status TakeUp(Json found) {
    if (k8s::Annotation(found, objects::kIntoAnnotation) != plan_.pvc.uid()) {
      return absl::AlreadyExistsError(
          absl::StrCat(text_, " has the name that this restore would have, and is another one"));
    }
    download_ = std::move(found);
    Tell(absl::StrCat(text_, " of an earlier run restores into ", NamedTarget(plan_.pvc)));
    return absl::OkStatus();
  }

  absl::Status Follow() {
    const absl::Time silent_at = ctx_.clock->Now() + kMoverSilenceNoted;
    absl::Duration interval = kMoverLookIntervalMin;
    bool told_of_silence = false;
    while (!velero::IsTerminal(PhaseOf(download_))) {
      Report();
      if (PhaseOf(download_) == DataPhase::kNew && !told_of_silence &&
          ctx_.clock->Now() >= silent_at) {
        told_of_silence = true;
        Tell(absl::StrCat("no data mover has accepted ", text_,
                          " yet; csi-delta doctor says whether one runs"));
      }
      ctx_.clock->SleepFor(interval, ctx_.stop);
      interval = std::min(2 * interval, kCopyLookInterval);
      RETURN_IF_ERROR(Annotate(
          ctx_.Check(),
          absl::StrCat("the data mover goes on with ", text_, "; run this again to follow it, or ",
                       "stop it: kubectl patch datadownload ", key_.name, " -n ",
                       key_.namespace_name, " --type merge -p '{\"spec\":{\"cancel\":true}}'")));
      RETURN_IF_ERROR(Look());
    }
    return absl::OkStatus();
  }

  absl::Status Look() {
    absl::StatusOr<std::optional<Json>> found = k8s::Find(ctx_, api_, key_);
    if (!found.ok() && IsRetryable(found.status())) {
      return absl::OkStatus();  // The mover goes on while the API server is away.
    }
    RETURN_IF_ERROR(found.status());
    if (!found->has_value() || k8s::Uid(**found) != k8s::Uid(download_)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "another client deleted ", text_, ", which stops the data mover; where ",
          NamedTarget(plan_.pvc), " is partly old now its beginning says so: run this again"));
    }
    download_ = **std::move(found);
    return absl::OkStatus();
  }

  // What it waits for, once each; then how far it is.
  void Report() {
    const std::string message = GetString(download_, {"status", "message"});
    if (!message.empty() && message != told_) {
      Tell(message);
    }
    told_ = message;
    if (PhaseOf(download_) == DataPhase::kInProgress && options_.on_progress) {
      options_.on_progress(
          {.stage = "restore",
           .done_bytes = GetInt(download_, {"status", "progress", "bytesDone"}),
           .total_bytes = GetInt(download_, {"status", "progress", "totalBytes"})});
    }
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const MoverPlan& plan_;
  const CopyRestoreOptions& options_;
  std::vector<std::string>& not_checked_;
  const k8s::ObjectKey key_;
  const std::string text_;
  Json download_;
  std::string told_;
};

}  // namespace

absl::Status CheckMayAskMover(const CallContext& ctx, k8s::ApiClient& api,
                              absl::string_view velero_namespace,
                              absl::string_view namespace_name) {
  struct Needed {
    const char* verb;
    const k8s::ResourceType& type;
    absl::string_view place;
  };
  const Needed needed[] = {
      {"get", DataUploadType(), velero_namespace},
      {"get", DataDownloadType(), velero_namespace},
      {"create", DataDownloadType(), velero_namespace},
      {"delete", DataDownloadType(), velero_namespace},
      {"list", PodType(),
       namespace_name},  // Two that write at the same time would ruin the volume.
  };
  for (const Needed& one : needed) {
    RETURN_IF_ERROR(k8s::RequireAccess(
        ctx, api, {.verb = one.verb, .type = one.type, .namespace_name = std::string(one.place)},
        kMoverRole));
  }
  return absl::OkStatus();
}

absl::StatusOr<MoverPlan> PlanMoverRestore(const CallContext& ctx, k8s::ApiClient& api,
                                           const RestoreSurroundings& around,
                                           const MovedSource& source, absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(const Json upload, ReadUpload(ctx, api, source));
  ASSIGN_OR_RETURN(RestoreFacts facts, ReadPvcFacts(ctx, api, around.namespace_name, pvc_name));
  if (!facts.pvc.has_value()) {
    return absl::NotFoundError(absl::StrCat("PVC ", around.namespace_name, "/", pvc_name,
                                            " does not exist; restore the backup, or name a PVC "
                                            "that does"));
  }
  MoverPlan plan{.pvc = *facts.pvc, .download = DownloadOf(upload, *facts.pvc)};
  ASSIGN_OR_RETURN(
      const std::optional<Json> found,
      k8s::Find(ctx, api,
                {DataDownloadType(), k8s::Namespace(plan.download), k8s::Name(plan.download)}));
  if (found.has_value() && !velero::IsTerminal(PhaseOf(*found))) {
    plan.goes_on = true;
    facts.own_transfer = k8s::Uid(*found);
  }
  PvcVerdict verdict = CheckPvc(around, facts);
  plan.refusals = std::move(verdict.refusals);
  plan.refused_by_copy = std::move(verdict.refused_by_copy);
  plan.not_checked = std::move(facts.not_checked);
  return plan;
}

absl::StatusOr<CopyRestoreResult> RestoreByMover(const CallContext& ctx, k8s::ApiClient& api,
                                                 Random& random, const MoverPlan& plan,
                                                 const CopyRestoreOptions& options,
                                                 std::vector<std::string>& not_checked) {
  std::string safety;
  if (!plan.goes_on && options.takes_safety_snapshot) {
    ASSIGN_OR_RETURN(safety, TakeCopySafetySnapshot(
                                 ctx, api, random,
                                 {.pvc = plan.pvc,
                                  .note = absl::StrCat("before ", NamedDownload(plan.download)),
                                  .timeout = options.safety_timeout,
                                  .on_step = options.on_step},
                                 not_checked));
  }
  RETURN_IF_ERROR(CheckStillUnused(ctx, api, plan.pvc, ""));
  return WithSafety(MoverRestore(ctx, api, plan, options, not_checked).Run(), safety);
}

}  // namespace csidelta::csi
