#include "cli/restore_by_copy.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/cluster_verb.h"
#include "cli/progress.h"
#include "cli/snapshot_text.h"
#include "cli/text.h"
#include "inplace/in_place_copy.h"
#include "objects/client.h"
#include "objects/persistent_volume_claim.h"

namespace csidelta::cli {
namespace {

using inplace::CopyPlan;
using inplace::CopyRestoreResult;

std::string CopiedPvcName(const CopyPlan& plan) {
  return absl::StrCat(plan.pvc.namespace_name(), "/", plan.pvc.name());
}

Json CopyPlanJson(const CopyPlan& plan, const CopyMethod& method) {
  return {{"message_type", "plan"},
          {"pvc", plan.pvc.name()},
          {"namespace", plan.pvc.namespace_name()},
          {"snapshot", plan.snapshot.name()},
          {"method", "copy"},
          {"goes_on", plan.goes_on},
          {"safety_snapshot", method.takes_safety_snapshot && !plan.goes_on}};
}

std::string CopyPlanText(const CopyPlan& plan, const CopyMethod& method) {
  std::string text =
      absl::StrCat("PVC ", CopiedPvcName(plan), " gets the data of VolumeSnapshot ",
                   plan.snapshot.name(), plan.goes_on ? ", which an earlier run began:\n" : ":\n");
  if (!plan.goes_on) {
    absl::StrAppend(&text, method.takes_safety_snapshot
                               ? "  a VolumeSnapshot of it is taken first, for safety\n"
                               : "  no VolumeSnapshot of it is taken first\n");
  }
  absl::StrAppend(&text, "  Pod ", inplace::CopyName(plan.pvc, plan.snapshot), " of image ",
                  Printable(method.flags.pod.image),
                  " compares the two and writes what differs; PVC, uid and volume stay\n");
  return text;
}

absl::Status RefusedCopy(const CopyPlan& plan) {
  absl::Status refused = inplace::CopyRefusalStatus(plan.pvc, plan.refusals, plan.refused_by_copy);
  return plan.refused_by_copy.empty() && inplace::IsTooSmallAlone(plan.refusals)
             ? AsTargetTooSmall(std::move(refused))
             : refused;
}

void TellCopyResult(Session& session, const CopyPlan& plan, const CopyRestoreResult& result) {
  Json json = {{"message_type", "result"},
               {"pvc", plan.pvc.name()},
               {"namespace", plan.pvc.namespace_name()},
               {"snapshot", plan.snapshot.name()},
               {"method", "copy"},
               {"state", "restored"},
               {"safety_snapshot", result.safety_snapshot}};
  json.update(CopyResultJson(result.copy));
  const std::string back =
      result.safety_snapshot.empty()
          ? ""
          : absl::StrCat("  back:   csi-delta snapshot restore ", result.safety_snapshot,
                         " --into ", plan.pvc.name(), " -n ", plan.pvc.namespace_name(), "\n");
  PrintClusterEvent(
      session, json,
      absl::StrCat("PVC ", CopiedPvcName(plan), " has the data of VolumeSnapshot ",
                   plan.snapshot.name(), ": ", CopyResultText(result.copy), "\n", back),
      absl::StrCat("persistentvolumeclaim/", plan.pvc.name()));
}

}  // namespace

void CopyMethodFlags::Declare(ArgumentTable& table) {
  pod.Declare(table);
  table.Add("--service-account", "NAME",
            "for that Pod: whose token it has, to ask the driver what differs; without one "
            "everything is compared",
            service_account);
}

bool PrefersCopy(const CallContext& ctx, k8s::ApiClient& api, const CopyMethodFlags& flags,
                 const std::string& namespace_name, const std::string& pvc_name) {
  if (!flags.pod.has_image()) {
    return false;
  }
  const auto pvc = objects::Get<objects::PersistentVolumeClaim>(
      ctx, api, objects::PersistentVolumeClaim::Key(namespace_name, pvc_name));
  return pvc.ok() && pvc->mode() == objects::VolumeMode::kBlock &&
         inplace::CheckMayCopy(ctx, api, namespace_name).ok();
}

absl::StatusOr<ExitCode> RunCopyMethod(const CallContext& ctx, k8s::ApiClient& api,
                                       Session& session, const inplace::RestoreSurroundings& around,
                                       const CopyMethod& method) {
  inplace::CopyRestoreOptions options;
  options.takes_safety_snapshot = method.takes_safety_snapshot;
  options.safety_timeout = method.timeout;
  ASSIGN_OR_RETURN(options.pod, method.flags.pod.Settings());
  options.pod.service_account = method.flags.service_account;
  RETURN_IF_ERROR(inplace::CheckMayCopy(ctx, api, around.namespace_name));
  ASSIGN_OR_RETURN(const CopyPlan plan,
                   inplace::PlanCopy(ctx, api, around, method.snapshot, method.pvc_name));
  Console& console = session.console();
  for (const std::string& sentence : plan.not_checked) {
    console.Note(Printable(sentence));
  }
  RETURN_IF_ERROR(RefusedCopy(plan));
  PrintClusterEvent(session, CopyPlanJson(plan, method), CopyPlanText(plan, method));
  if (method.is_dry_run) {
    return ExitCode::kOk;
  }
  RETURN_IF_ERROR(method.confirm());
  absl::StatusOr<CopyRestoreResult> result;
  std::vector<std::string> not_checked;
  {
    ProgressMeter meter(console, *ctx.clock);
    options.on_progress = [&meter](const objects::VolumeCopyProgress& progress) {
      meter.ReportBytes(progress.stage, progress.done_bytes, progress.total_bytes);
    };
    options.on_step = [&](const std::string& sentence) {
      PrintClusterEvent(
          session, {{"message_type", "step"}, {"pvc", CopiedPvcName(plan)}, {"message", sentence}},
          absl::StrCat(Printable(sentence), "\n"));
    };
    result =
        inplace::RestoreByCopy(ctx, api, *session.environment().random, plan, options, not_checked);
  }
  for (const std::string& sentence : not_checked) {
    console.Note(Printable(sentence));
  }
  if (absl::IsOutOfRange(result.status())) {
    return AsTargetTooSmall(result.status());
  }
  RETURN_IF_ERROR(result.status());
  NoteHowCompared(console, result->copy);
  TellCopyResult(session, plan, *result);
  return ExitCode::kOk;
}

}  // namespace csidelta::cli
