#include "cli/restore_into.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "csi/in_place_copy.h"
#include "csi/restore_guard.h"

namespace csidelta::cli {
namespace {

constexpr absl::Duration kIntoSafetyTimeout = absl::Minutes(10);

absl::Status RefusedInto(const csi::RepositoryPlan& plan) {
  std::vector<std::string> messages = plan.refused_by_copy;
  for (const csi::RestoreRefusal& refusal : plan.refusals) {
    messages.push_back(refusal.message);
  }
  if (plan.refused_by_copy.empty()) {
    return csi::RefusalStatus(plan.pvc.namespace_name(), plan.pvc.name(), plan.refusals);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("PVC ", plan.pvc.namespace_name(), "/", plan.pvc.name(),
                   " is not restored: ", absl::StrJoin(messages, "; and ")));
}

absl::Status ConfirmInto(const CallContext& ctx, Session& session, const RestoreIntoFlags& flags,
                         const RestoreIntoWish& wish) {
  if (wish.yes) {
    return absl::OkStatus();
  }
  const auto& confirm = session.environment().confirm;
  if (confirm == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the data of PVC ", flags.pvc,
                     " would be replaced, and no terminal is there to ask: add "
                     "--yes, and --dry-run to see first what it does"));
  }
  ASSIGN_OR_RETURN(const bool confirmed,
                   confirm(ctx, absl::StrCat("Replace the data of PVC ", flags.pvc, "?")));
  return confirmed ? absl::OkStatus()
                   : absl::FailedPreconditionError("nothing was written; --yes does not ask");
}

absl::StatusOr<csi::CopyRestoreResult> RestoreInto(const CallContext& ctx, Session& session,
                                                   k8s::ApiClient& api,
                                                   const csi::RepositoryPlan& plan,
                                                   const RestoreIntoFlags& flags) {
  Console& console = session.console();
  csi::CopyRestoreOptions options;
  options.takes_safety_snapshot = flags.safety == "yes";
  options.safety_timeout = kIntoSafetyTimeout;
  ASSIGN_OR_RETURN(options.pod, flags.pod.Settings());
  std::vector<std::string> not_checked;
  absl::StatusOr<csi::CopyRestoreResult> result;
  {
    ProgressMeter meter(console, *ctx.clock);
    options.on_progress = [&meter](const csi::VolumeCopyProgress& progress) {
      meter.ReportBytes(progress.stage, progress.done_bytes, progress.total_bytes);
    };
    options.on_step = [&console](const std::string& sentence) {
      console.Note(Printable(sentence));
    };
    result = csi::RestoreFromRepository(ctx, api, *session.environment().random, plan, options,
                                        not_checked);
  }
  for (const std::string& sentence : not_checked) {
    console.Note(Printable(sentence));
  }
  return result;
}

}  // namespace

void RestoreIntoFlags::Declare(ArgumentTable& table) {
  table.Add("--into", "NS/PVC",
            "instead of --target: a PVC in mode Block that no Pod uses; a Pod there restores what "
            "differs",
            pvc);
  table.Add("--repository-secret", "SECRET",
            "with --into: a Secret of that namespace whose keys are the variables that say where "
            "the repository is and how it opens: RESTIC_REPOSITORY, RESTIC_PASSWORD, ...",
            secret);
  table.AddChoice("--safety", {"yes", "no"},
                  "with --into: whether a VolumeSnapshot of the PVC is taken first; yes", safety);
  pod.Declare(table);
  cluster.Declare(table);
}

absl::StatusOr<ExitCode> RunRestoreInto(const CallContext& ctx, Session& session,
                                        const RestoreIntoFlags& flags,
                                        const RestoreIntoWish& wish) {
  const std::vector<std::string> parts = absl::StrSplit(flags.pvc, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--into ", flags.pvc, " is not NAMESPACE/PVC"));
  }
  if (flags.secret.empty()) {
    return absl::InvalidArgumentError(
        "--into needs --repository-secret: the Pod must know where the repository is");
  }
  RETURN_IF_ERROR(flags.pod.Settings().status());
  const std::unique_ptr<k8s::ApiClient> api = flags.cluster.MakeClient();
  RETURN_IF_ERROR(csi::CheckMayCopy(ctx, *api, parts[0]));
  ASSIGN_OR_RETURN(const csi::RestoreSurroundings around,
                   csi::ReadRestoreSurroundings(ctx, *api, parts[0]));
  ASSIGN_OR_RETURN(const csi::RepositoryPlan plan,
                   csi::PlanRepositoryRestore(
                       ctx, *api, around, {.secret = flags.secret, .words = wish.words}, parts[1]));
  Console& console = session.console();
  for (const std::string& sentence : around.not_checked) {
    console.Note(Printable(sentence));
  }
  RETURN_IF_ERROR(RefusedInto(plan));
  if (wish.is_dry_run) {
    console.PrintResult(
        {{"message_type", "result"},
         {"dry_run", true},
         {"pvc", parts[1]},
         {"namespace", parts[0]},
         {"goes_on", plan.goes_on},
         {"safety_snapshot", flags.safety == "yes" && !plan.goes_on}},
        absl::StrCat("would restore ", absl::StrJoin(wish.words, " "), " into PVC ", flags.pvc,
                     plan.goes_on ? ", which the Pod of an earlier run does" : "", "\n"));
    return ExitCode::kOk;
  }
  RETURN_IF_ERROR(ConfirmInto(ctx, session, flags, wish));
  absl::StatusOr<csi::CopyRestoreResult> result = RestoreInto(ctx, session, *api, plan, flags);
  if (absl::IsOutOfRange(result.status())) {
    return AsTargetTooSmall(result.status());
  }
  RETURN_IF_ERROR(result.status());
  Json json = {{"message_type", "result"},
               {"pvc", parts[1]},
               {"namespace", parts[0]},
               {"safety_snapshot", result->safety_snapshot}};
  json.update(CopyResultJson(result->copy));
  console.PrintResult(json, absl::StrCat("restored into PVC ", flags.pvc, ": ",
                                         CopyResultText(result->copy), "\n"));
  return ExitCode::kOk;
}

}  // namespace csidelta::cli
