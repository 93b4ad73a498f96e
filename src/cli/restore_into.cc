#include "cli/restore_into.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "datamover/settings.h"
#include "inplace/in_place_copy.h"
#include "inplace/mover_restore.h"
#include "inplace/restore_guard.h"
#include "k8s/access_review.h"
#include "objects/core.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::cli {
namespace {

constexpr absl::Duration kIntoSafetyTimeout = absl::Minutes(10);

// What is done, whichever process writes the volume.
struct IntoPlan {
  const objects::PersistentVolumeClaim& pvc;
  const std::vector<inplace::RestoreRefusal>& refusals;
  const std::vector<std::string>& refused_by_copy;
  const std::vector<std::string>& not_checked;
  bool goes_on = false;
  std::string source;  // "latest --path /orders", "DataUpload velero/nightly"
  std::function<absl::StatusOr<inplace::CopyRestoreResult>(
      const inplace::CopyRestoreOptions& options, std::vector<std::string>& not_checked)>
      restore;
};

class RestoreIntoRun {
 public:
  RestoreIntoRun(const CallContext& ctx, Session& session, const RestoreIntoFlags& flags,
                 const RestoreIntoWish& wish);
  absl::StatusOr<ExitCode> Run();

 private:
  absl::StatusOr<ExitCode> FromRepository();
  absl::StatusOr<ExitCode> FromMover();

  // Where it is off the data mover refuses, but only after a VolumeSnapshot was taken for safety.
  absl::Status CheckSwitchedOn();
  absl::StatusOr<std::optional<datamover::MoverSettings>> ReadMoverSettings();
  absl::StatusOr<inplace::RestoreSurroundings> ReadSurroundings();
  void Note(const std::vector<std::string>& sentences);

  // From a plan to the end.
  absl::StatusOr<ExitCode> Carry(const IntoPlan& plan);

  bool takes_safety_snapshot() const { return flags_.safety == "yes"; }

  void TellPlan(const IntoPlan& plan);
  absl::Status Confirm();
  absl::StatusOr<inplace::CopyRestoreResult> Restore(const IntoPlan& plan);

  const CallContext& ctx_;
  Session& session_;
  Console& console_;
  const RestoreIntoFlags& flags_;
  const RestoreIntoWish& wish_;
  const std::unique_ptr<k8s::ApiClient> api_;
  std::string namespace_name_;
  std::string pvc_name_;
  inplace::CopyRestoreOptions options_;
};

RestoreIntoRun::RestoreIntoRun(const CallContext& ctx, Session& session,
                               const RestoreIntoFlags& flags, const RestoreIntoWish& wish)
    : ctx_(ctx),
      session_(session),
      console_(session.console()),
      flags_(flags),
      wish_(wish),
      api_(flags.cluster.MakeClient()) {}

absl::StatusOr<ExitCode> RestoreIntoRun::Run() {
  const std::vector<std::string> parts = absl::StrSplit(flags_.pvc, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--into ", flags_.pvc, " is not NAMESPACE/PVC"));
  }
  namespace_name_ = parts[0];
  pvc_name_ = parts[1];
  return flags_.upload.empty() ? FromRepository() : FromMover();
}

absl::StatusOr<ExitCode> RestoreIntoRun::FromRepository() {
  ASSIGN_OR_RETURN(options_.pod, flags_.pod.Settings());
  RETURN_IF_ERROR(inplace::CheckMayCopy(ctx_, *api_, namespace_name_));
  ASSIGN_OR_RETURN(const inplace::RestoreSurroundings around, ReadSurroundings());
  ASSIGN_OR_RETURN(
      const inplace::RepositoryPlan plan,
      inplace::PlanRepositoryRestore(ctx_, *api_, around,
                                     {.secret = flags_.secret, .words = wish_.words}, pvc_name_));
  return Carry({.pvc = plan.pvc,
                .refusals = plan.refusals,
                .refused_by_copy = plan.refused_by_copy,
                .not_checked = plan.not_checked,
                .goes_on = plan.goes_on,
                .source = absl::StrJoin(wish_.words, " "),
                .restore = [&](const inplace::CopyRestoreOptions& options,
                               std::vector<std::string>& not_checked) {
                  return inplace::RestoreFromRepository(ctx_, *api_, *session_.environment().random,
                                                        plan, options, not_checked);
                }});
}

absl::StatusOr<ExitCode> RestoreIntoRun::FromMover() {
  RETURN_IF_ERROR(inplace::CheckMayAskMover(ctx_, *api_, flags_.velero_namespace, namespace_name_));
  ASSIGN_OR_RETURN(const inplace::RestoreSurroundings around, ReadSurroundings());
  ASSIGN_OR_RETURN(
      const inplace::MoverPlan plan,
      inplace::PlanMoverRestore(
          ctx_, *api_, around,
          {.velero_namespace = flags_.velero_namespace, .upload = flags_.upload}, pvc_name_));
  if (!plan.goes_on) {
    RETURN_IF_ERROR(CheckSwitchedOn());
  }
  return Carry({.pvc = plan.pvc,
                .refusals = plan.refusals,
                .refused_by_copy = plan.refused_by_copy,
                .not_checked = plan.not_checked,
                .goes_on = plan.goes_on,
                .source = absl::StrCat("DataUpload ", flags_.velero_namespace, "/", flags_.upload),
                .restore = [&](const inplace::CopyRestoreOptions& options,
                               std::vector<std::string>& not_checked) {
                  return inplace::RestoreByMover(ctx_, *api_, *session_.environment().random, plan,
                                                 options, not_checked);
                }});
}

absl::Status RestoreIntoRun::CheckSwitchedOn() {
  const std::string place =
      absl::StrCat("ConfigMap ", flags_.mover_namespace, "/", datamover::kSettingsConfigMap);
  const absl::StatusOr<std::optional<datamover::MoverSettings>> settings = ReadMoverSettings();
  if (settings.ok() && settings->has_value()) {
    return Annotate(datamover::CheckWritesIntoExisting(**settings), place);
  }
  Note({absl::StrCat(
      "setting restore.intoExistingVolumes of the data mover not checked: ",
      settings.ok() ? absl::StrCat(place, " was not found; --mover-namespace names its namespace")
                    : std::string(settings.status().message()))});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<datamover::MoverSettings>> RestoreIntoRun::ReadMoverSettings() {
  RETURN_IF_ERROR(k8s::RequireAccess(ctx_, *api_,
                                     {.verb = "get",
                                      .type = objects::ConfigMap::Type(),
                                      .namespace_name = flags_.mover_namespace,
                                      .name = datamover::kSettingsConfigMap},
                                     snapshots::kSnapshotAdminRole));
  return datamover::FindMoverSettings(ctx_, *api_, flags_.mover_namespace);
}

absl::StatusOr<inplace::RestoreSurroundings> RestoreIntoRun::ReadSurroundings() {
  ASSIGN_OR_RETURN(inplace::RestoreSurroundings around,
                   inplace::ReadRestoreSurroundings(ctx_, *api_, namespace_name_));
  Note(around.not_checked);
  return around;
}

void RestoreIntoRun::Note(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    console_.Note(Printable(sentence));
  }
}

absl::StatusOr<ExitCode> RestoreIntoRun::Carry(const IntoPlan& plan) {
  Note(plan.not_checked);
  RETURN_IF_ERROR(inplace::CopyRefusalStatus(plan.pvc, plan.refusals, plan.refused_by_copy));
  if (wish_.is_dry_run) {
    TellPlan(plan);
    return ExitCode::kOk;
  }
  RETURN_IF_ERROR(Confirm());
  absl::StatusOr<inplace::CopyRestoreResult> result = Restore(plan);
  if (absl::IsOutOfRange(result.status())) {
    return AsTargetTooSmall(result.status());
  }
  RETURN_IF_ERROR(result.status());
  Json json = {{"message_type", "result"},
               {"pvc", pvc_name_},
               {"namespace", namespace_name_},
               {"safety_snapshot", result->safety_snapshot}};
  json.update(CopyResultJson(result->copy));
  console_.PrintResult(json, absl::StrCat("restored into PVC ", flags_.pvc, ": ",
                                          CopyResultText(result->copy), "\n"));
  if (result->copy.may_be_older) {
    console_.Warn(
        absl::StrCat("a snapshot does not read that may be newer than the one which was "
                     "restored into PVC ",
                     flags_.pvc));
    return ExitCode::kIncomplete;
  }
  return ExitCode::kOk;
}

void RestoreIntoRun::TellPlan(const IntoPlan& plan) {
  console_.PrintResult(
      {{"message_type", "result"},
       {"dry_run", true},
       {"pvc", pvc_name_},
       {"namespace", namespace_name_},
       {"goes_on", plan.goes_on},
       {"safety_snapshot", takes_safety_snapshot() && !plan.goes_on}},
      absl::StrCat("would restore ", Printable(plan.source), " into PVC ", flags_.pvc,
                   plan.goes_on ? ", which an earlier run began" : "", "\n"));
}

absl::Status RestoreIntoRun::Confirm() {
  if (wish_.yes) {
    return absl::OkStatus();
  }
  const auto& confirm = session_.environment().confirm;
  if (confirm == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data of PVC ", flags_.pvc,
                     " would be replaced, and no terminal is there to ask: add "
                     "--yes, and --dry-run to see first what it does"));
  }
  ASSIGN_OR_RETURN(const bool confirmed,
                   confirm(ctx_, absl::StrCat("Replace the data of PVC ", flags_.pvc, "?")));
  return confirmed ? absl::OkStatus()
                   : absl::FailedPreconditionError("nothing was written; --yes does not ask");
}

absl::StatusOr<inplace::CopyRestoreResult> RestoreIntoRun::Restore(const IntoPlan& plan) {
  options_.takes_safety_snapshot = takes_safety_snapshot();
  options_.safety_timeout = kIntoSafetyTimeout;
  std::vector<std::string> not_checked;
  absl::StatusOr<inplace::CopyRestoreResult> result;
  {
    ProgressMeter meter(console_, *ctx_.clock);
    options_.on_progress = [&meter](const objects::VolumeCopyProgress& progress) {
      meter.ReportBytes(progress.stage, progress.done_bytes, progress.total_bytes);
    };
    options_.on_step = [this](const std::string& sentence) { console_.Note(Printable(sentence)); };
    result = plan.restore(options_, not_checked);
  }
  Note(not_checked);
  return result;
}

}  // namespace

void RestoreIntoFlags::Declare(ArgumentTable& table) {
  table.Add("--into", "NS/PVC",
            "instead of --target: a PVC in mode Block that no Pod uses; a Pod there, or the data "
            "mover, restores what differs",
            pvc);
  table.Add("--upload", "DATAUPLOAD",
            "with --into, instead of ID: what the data mover moved for this DataUpload of Velero, "
            "which it restores itself; needs no repository and no image",
            upload);
  table.Add("--velero-namespace", "NS", "with --upload: the namespace of the DataUpload; velero",
            velero_namespace);
  table.Add("--mover-namespace", "NS",
            "with --upload: the mover's namespace, whose setting restore.intoExistingVolumes is "
            "looked at first; csi-delta",
            mover_namespace);
  table.Add("--repository-secret", "SECRET",
            "with --into: a Secret of that namespace whose keys are the variables that say where "
            "the repository is and how it opens: RESTIC_REPOSITORY, RESTIC_PASSWORD, ...",
            secret);
  table.AddChoice("--safety", {"yes", "no"},
                  "with --into: whether a VolumeSnapshot of the PVC is taken first; yes", safety);
  pod.Declare(table);
  cluster.Declare(table);
}

absl::Status RestoreIntoFlags::Check(const std::string& id) const {
  if (!upload.empty() && !is_asked_for()) {
    return absl::InvalidArgumentError("--upload needs --into: the PVC that gets the data");
  }
  if (!upload.empty() && (!id.empty() || !secret.empty() || pod.has_image())) {
    return absl::InvalidArgumentError(
        "with --upload the data mover restores: leave out ID, --repository-secret and --image");
  }
  if (upload.empty() && id.empty()) {
    return absl::InvalidArgumentError(
        "name the snapshot: ID is the beginning of its id, or \"latest\"");
  }
  if (is_asked_for() && upload.empty() && secret.empty()) {
    return absl::InvalidArgumentError(
        "--into needs --repository-secret: the Pod must know where the repository is; or --upload, "
        "for what the data mover moved");
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags,
                                        const RestoreIntoWish& wish) {
  return RestoreIntoRun(ctx, session, flags, wish).Run();
}

}  // namespace csidelta::cli
