#include "cli/restore_into.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "datamover/settings.h"
#include "inplace/mover_restore.h"
#include "inplace/restore_guard.h"
#include "k8s/access_review.h"
#include "objects/core.h"
#include "objects/outcome.h"
#include "snapshots/snapshot_import.h"

namespace csidelta::cli {
namespace {

class RestoreIntoRun {
 public:
  RestoreIntoRun(const CallContext& ctx, Session& session, const RestoreIntoFlags& flags)
      : ctx_(ctx),
        session_(session),
        console_(session.console()),
        flags_(flags),
        api_(flags.source.cluster.MakeClient()) {}
  absl::StatusOr<ExitCode> Run();

 private:
  absl::StatusOr<inplace::MoverPlan> Plan();

  // If the setting is off, the data mover refuses, but only after the safety snapshot was taken.
  absl::Status CheckSwitchedOn();

  bool takes_safety_snapshot() const { return flags_.safety == "yes"; }

  void PrintPlan(const inplace::MoverPlan& plan);
  absl::StatusOr<inplace::MoverRestoreResult> Restore(const inplace::MoverPlan& plan);
  void PrintResult(const inplace::MoverRestoreResult& result);

  const CallContext& ctx_;
  Session& session_;
  Console& console_;
  const RestoreIntoFlags& flags_;
  const std::unique_ptr<k8s::ApiClient> api_;
  std::string namespace_name_;
  std::string pvc_name_;
};

absl::StatusOr<ExitCode> RestoreIntoRun::Run() {
  const std::vector<std::string> parts = absl::StrSplit(flags_.pvc, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--into ", flags_.pvc, " is not NAMESPACE/PVC"));
  }
  namespace_name_ = parts[0];
  pvc_name_ = parts[1];
  ASSIGN_OR_RETURN(const inplace::MoverPlan plan, Plan());
  console_.InfoAll(plan.not_checked);
  RETURN_IF_ERROR(inplace::RefusalStatus(namespace_name_, pvc_name_, plan.refusals));
  if (flags_.is_dry_run) {
    PrintPlan(plan);
    return ExitCode::kOk;
  }
  if (!flags_.yes) {
    const std::string question = absl::StrCat("Replace the data of PVC ", flags_.pvc, "?");
    RETURN_IF_ERROR(session_.Ask(ctx_, question));
  }
  ASSIGN_OR_RETURN(const inplace::MoverRestoreResult result, Restore(plan));
  PrintResult(result);
  return ExitCode::kOk;
}

absl::StatusOr<inplace::MoverPlan> RestoreIntoRun::Plan() {
  RETURN_IF_ERROR(
      inplace::CheckMayAskMover(ctx_, *api_, flags_.source.velero_namespace, namespace_name_));
  ASSIGN_OR_RETURN(const inplace::RestoreSurroundings around,
                   inplace::ReadRestoreSurroundings(ctx_, *api_, namespace_name_));
  console_.InfoAll(around.not_checked);
  absl::StatusOr<inplace::MoverPlan> plan =
      inplace::PlanMoverRestore(ctx_, *api_, around, flags_.source.source(), pvc_name_);
  if (absl::IsNotFound(plan.status())) {
    return OrUnserved(ctx_, *api_, flags_.source.upload_key(), plan.status());
  }
  if (plan.ok() && !plan->goes_on) {
    RETURN_IF_ERROR(CheckSwitchedOn());
  }
  return plan;
}

absl::Status RestoreIntoRun::CheckSwitchedOn() {
  const std::string location =
      absl::StrCat("ConfigMap ", flags_.source.mover_namespace, "/", datamover::kSettingsConfigMap);
  const absl::Status allowed = k8s::RequireAccess(ctx_, *api_,
                                                  {.verb = "get",
                                                   .type = objects::ConfigMap::Type(),
                                                   .namespace_name = flags_.source.mover_namespace,
                                                   .name = datamover::kSettingsConfigMap},
                                                  snapshots::kSnapshotAdminRole);
  const absl::StatusOr<std::optional<datamover::MoverSettings>> settings =
      allowed.ok() ? datamover::FindMoverSettings(ctx_, *api_, flags_.source.mover_namespace)
                   : allowed;
  if (settings.ok() && settings->has_value()) {
    return Annotate(datamover::CheckWritesIntoExisting(**settings), location);
  }
  console_.Info(absl::StrCat(
      "setting restore.intoExistingVolumes of the data mover not checked: ",
      settings.ok()
          ? absl::StrCat(location, " was not found; --mover-namespace names its namespace")
          : std::string(settings.status().message())));
  return absl::OkStatus();
}

void RestoreIntoRun::PrintPlan(const inplace::MoverPlan& plan) {
  console_.PrintResult(
      {{"message_type", "result"},
       {"dry_run", true},
       {"pvc", pvc_name_},
       {"namespace", namespace_name_},
       {"goes_on", plan.goes_on},
       {"safety_snapshot", takes_safety_snapshot() && !plan.goes_on}},
      absl::StrCat("would restore DataUpload ", Printable(flags_.source.velero_namespace), "/",
                   Printable(flags_.source.upload), " into PVC ", flags_.pvc,
                   plan.goes_on ? ", which an earlier run began" : "", "\n"));
}

void RestoreIntoRun::PrintResult(const inplace::MoverRestoreResult& result) {
  const objects::RestoreFigures& figures = result.figures;
  console_.PrintResult(
      {{"message_type", "result"},
       {"pvc", pvc_name_},
       {"namespace", namespace_name_},
       {"safety_snapshot", result.safety_snapshot},
       {"logical_bytes", figures.logical_bytes},
       {"compared_bytes", figures.compared_bytes},
       {"written_bytes", figures.written_bytes},
       {"zero_bytes", figures.zero_bytes},
       {"kept_bytes", figures.kept_bytes}},
      absl::StrCat("restored into PVC ", flags_.pvc, ": ", FormatBytes(figures.compared_bytes),
                   " compared, ", FormatBytes(figures.written_bytes), " written, ",
                   FormatBytes(figures.zero_bytes), " made zero\n"));
}

absl::StatusOr<inplace::MoverRestoreResult> RestoreIntoRun::Restore(
    const inplace::MoverPlan& plan) {
  std::vector<std::string> not_checked;
  absl::StatusOr<inplace::MoverRestoreResult> result;
  {
    ProgressMeter meter(console_, *ctx_.clock);
    const inplace::MoverRestoreOptions options = {
        .takes_safety_snapshot = takes_safety_snapshot(),
        .on_progress =
            [&meter](int64_t done_bytes, int64_t total_bytes) {
              meter.ReportBytes("restore", done_bytes, total_bytes);
            },
        .on_step = [this](const std::string& sentence) { console_.Info(Printable(sentence)); }};
    result = inplace::RestoreByMover(ctx_, *api_, *session_.environment().random, plan, options,
                                     not_checked);
  }
  console_.InfoAll(not_checked);
  return result;
}

}  // namespace

void RestoreIntoFlags::Declare(ArgumentTable& table) {
  table.Add(
      "--into", "NS/PVC",
      "with --upload, instead of --target: a PVC that no Pod uses; the data mover restores what "
      "differs",
      pvc);
  table.AddChoice("--safety", {"yes", "no"}, "with --into: take a VolumeSnapshot of the PVC first",
                  safety);
}

absl::Status RestoreIntoFlags::Check(const std::string& id) const {
  return source.upload.empty() || !source.pvc.empty() || !id.empty()
             ? absl::InvalidArgumentError(
                   "--into takes what the data mover moved: give --upload, and neither ID nor "
                   "--pvc")
             : absl::OkStatus();
}

absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags) {
  return RestoreIntoRun(ctx, session, flags).Run();
}

}  // namespace csidelta::cli
