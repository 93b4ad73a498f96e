#include "inplace/in_place_copy.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "snapshots/creation_failure.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/snapshot_source.h"

namespace csidelta::inplace {
namespace {

using objects::PersistentVolumeClaim;
using objects::Pod;
using objects::VolumeSnapshot;

std::string CopiedPvc(const PersistentVolumeClaim& pvc) {
  return absl::StrCat("PVC ", pvc.namespace_name(), "/", pvc.name());
}

// Takes the Pod that copies for this very restore out of `pods`; whether there was one.
bool DropOwnPod(std::vector<Pod>& pods, const PersistentVolumeClaim& pvc,
                absl::string_view copy_name) {
  return std::erase_if(pods, [&](const Pod& pod) {
           return pod.is_active() && IsCopyPod(pod, pvc, copy_name);
         }) > 0;
}

void TellStep(const CopyRestoreOptions& options, const std::string& sentence) {
  if (options.on_step) {
    options.on_step(sentence);
  }
}

void TellGoesOn(const CopyRestoreOptions& options, const InPlacePlan& plan) {
  if (plan.goes_on) {
    TellStep(options, absl::StrCat("the Pod of an earlier run copies into ", CopiedPvc(plan.pvc)));
  }
}

// Why the PVC itself is not copied into; "": nothing is against it.
std::string RefusedMode(const PersistentVolumeClaim& pvc) {
  return pvc.mode() == objects::VolumeMode::kBlock
             ? ""
             : absl::StrCat(CopiedPvc(pvc),
                            " is in mode Filesystem, and only blocks are compared and copied");
}

// FAILED_PRECONDITION where a Pod uses the PVC, other than that of this restore.
absl::Status CheckStillUnused(const CallContext& ctx, k8s::ApiClient& api,
                              const PersistentVolumeClaim& pvc, absl::string_view copy_name) {
  ASSIGN_OR_RETURN(std::vector<Pod> pods, objects::List<Pod>(ctx, api, pvc.namespace_name()));
  DropOwnPod(pods, pvc, copy_name);
  const std::vector<const Pod*> users = UsersOf(pods, pvc.name());
  return users.empty() ? absl::OkStatus()
                       : absl::FailedPreconditionError(
                             absl::StrCat(CopiedPvc(pvc), " is not restored: ", UseText(users)));
}

// Its name.
absl::StatusOr<std::string> TakeCopySafetySnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                   Random& random, const PersistentVolumeClaim& pvc,
                                                   const CopyRestoreOptions& options,
                                                   const SafetyWish& wish,
                                                   std::vector<std::string>& not_checked) {
  ASSIGN_OR_RETURN(snapshots::SnapshotSources sources,
                   snapshots::PrepareSources(ctx, api, {pvc}, ""));
  std::move(sources.not_checked.begin(), sources.not_checked.end(),
            std::back_inserter(not_checked));
  const std::string name =
      snapshots::NameForSnapshot(absl::StrCat(pvc.name(), "-before-restore"), ctx.clock->Now());
  absl::StatusOr<snapshots::Creation> creation =
      snapshots::CreateSnapshot(ctx, api, random,
                                {.source = std::move(sources.sources.front()),
                                 .name = name,
                                 .note = wish.note,
                                 .awaited = wish.awaited,
                                 .timeout = options.safety_timeout});
  if (!creation.ok()) {
    return snapshots::WithMore(
        creation.status(), "; nothing is changed; --safety no --yes restores without a snapshot");
  }
  std::move(creation->not_checked.begin(), creation->not_checked.end(),
            std::back_inserter(not_checked));
  TellStep(options, absl::StrCat("VolumeSnapshot ", pvc.namespace_name(), "/", name, " of ",
                                 CopiedPvc(pvc), " is taken, for safety"));
  return name;
}

}  // namespace

absl::StatusOr<CopyPlan> PlanCopy(const CallContext& ctx, k8s::ApiClient& api,
                                  RestoreSurroundings around, const VolumeSnapshot& snapshot,
                                  absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(RestoreInfo info, ReadRestoreInfo(ctx, api, snapshot, pvc_name));
  if (!info.pvc.has_value()) {
    return absl::NotFoundError(absl::StrCat("PVC ", around.namespace_name, "/", pvc_name,
                                            " does not exist; csi-delta snapshot promote ",
                                            snapshot.name(), " makes one"));
  }
  CopyPlan plan{{.pvc = *info.pvc}, snapshot};
  if (around.pods.has_value()) {
    plan.goes_on = DropOwnPod(*around.pods, plan.pvc, CopyName(plan.pvc, snapshot));
  }
  RestoreVerdict verdict = CheckRestore(around, info);
  plan.refusals = std::move(verdict.refusals);
  plan.not_checked = std::move(info.not_checked);
  std::move(verdict.not_checked.begin(), verdict.not_checked.end(),
            std::back_inserter(plan.not_checked));
  if (const std::string refused = RefusedMode(plan.pvc); !refused.empty()) {
    plan.refused_by_copy.push_back(absl::StrCat(refused, "; leave out --method copy"));
  }
  return plan;
}

absl::StatusOr<CopyRestoreResult> RestoreByCopy(const CallContext& ctx, k8s::ApiClient& api,
                                                Random& random, const CopyPlan& plan,
                                                const CopyRestoreOptions& options,
                                                std::vector<std::string>& not_checked) {
  const std::string copy_name = CopyName(plan.pvc, plan.snapshot);
  TellGoesOn(options, plan);
  // The driver lists what differs from one that is ready only.
  const snapshots::AwaitedState awaited = options.pod.service_account.empty()
                                              ? snapshots::AwaitedState::kTaken
                                              : snapshots::AwaitedState::kReady;
  ASSIGN_OR_RETURN(
      const SecuredVolume secured,
      SecureVolume(ctx, api, random, plan, options,
                   {.note = absl::StrCat("before the restore of ", plan.snapshot.name()),
                    .awaited = awaited,
                    .restore = copy_name,
                    .copy_pod = copy_name},
                   not_checked));
  return WithSafety(CopyIntoVolume(ctx, api,
                                   {.target = plan.pvc,
                                    .snapshot = plan.snapshot,
                                    .safety_snapshot = secured.safety_snapshot,
                                    .pod = options.pod,
                                    .on_progress = options.on_progress},
                                   not_checked),
                    secured.safety_snapshot);
}

absl::StatusOr<RestoreInfo> ReadPvcInfo(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(RestoreInfo info,
                   ReadRestoreInfo(ctx, api, VolumeSnapshot::Make(namespace_name, ""), pvc_name));
  info.is_written_into = true;
  return info;
}

InPlacePlan PlanInto(const RestoreSurroundings& around, const RestoreInfo& info) {
  return {.pvc = *info.pvc,
          .refusals = CheckRestore(around, info).refusals,
          .not_checked = info.not_checked};
}

absl::Status CopyRefusalStatus(const PersistentVolumeClaim& pvc,
                               const std::vector<RestoreRefusal>& refusals,
                               const std::vector<std::string>& refused_by_copy) {
  if (refused_by_copy.empty()) {
    return RefusalStatus(pvc.namespace_name(), pvc.name(), refusals);
  }
  std::vector<std::string> messages = refused_by_copy;
  for (const RestoreRefusal& refusal : refusals) {
    messages.push_back(refusal.message);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(CopiedPvc(pvc), " is not restored: ", absl::StrJoin(messages, "; and ")));
}

absl::StatusOr<SecuredVolume> SecureVolume(const CallContext& ctx, k8s::ApiClient& api,
                                           Random& random, const InPlacePlan& plan,
                                           const CopyRestoreOptions& options,
                                           const SafetyWish& wish,
                                           std::vector<std::string>& not_checked) {
  SecuredVolume secured;
  if (!plan.goes_on && options.takes_safety_snapshot) {
    ASSIGN_OR_RETURN(secured.safety_snapshot, TakeCopySafetySnapshot(ctx, api, random, plan.pvc,
                                                                     options, wish, not_checked));
  } else if (!plan.goes_on) {
    ASSIGN_OR_RETURN(secured.guard, snapshots::GuardRestore(ctx, api, random, plan.pvc,
                                                            wish.restore, not_checked));
  }
  RETURN_IF_ERROR(CheckStillUnused(ctx, api, plan.pvc, wish.copy_pod));
  return secured;
}

absl::StatusOr<CopyRestoreResult> WithSafety(absl::StatusOr<VolumeCopyResult> copied,
                                             const std::string& safety_snapshot) {
  if (copied.ok()) {
    return CopyRestoreResult{.copy = *std::move(copied), .safety_snapshot = safety_snapshot};
  }
  return safety_snapshot.empty()
             ? copied.status()
             : snapshots::WithMore(
                   copied.status(),
                   absl::StrCat("; what it held before is in VolumeSnapshot ", safety_snapshot));
}

absl::StatusOr<RepositoryPlan> PlanRepositoryRestore(const CallContext& ctx, k8s::ApiClient& api,
                                                     RestoreSurroundings around,
                                                     RepositorySource source,
                                                     absl::string_view pvc_name) {
  ASSIGN_OR_RETURN(const RestoreInfo info, ReadPvcInfo(ctx, api, around.namespace_name, pvc_name));
  if (!info.pvc.has_value()) {
    return absl::NotFoundError(absl::StrCat("PVC ", around.namespace_name, "/", pvc_name,
                                            " does not exist; name one that does, or restore to a "
                                            "device with --target"));
  }
  const bool goes_on =
      around.pods.has_value() && DropOwnPod(*around.pods, *info.pvc, CopyName(*info.pvc, source));
  RepositoryPlan plan{PlanInto(around, info), std::move(source)};
  plan.goes_on = goes_on;
  if (std::string refused = RefusedMode(plan.pvc); !refused.empty()) {
    plan.refused_by_copy.push_back(std::move(refused));
  }
  return plan;
}

absl::StatusOr<CopyRestoreResult> RestoreFromRepository(const CallContext& ctx, k8s::ApiClient& api,
                                                        Random& random, const RepositoryPlan& plan,
                                                        const CopyRestoreOptions& options,
                                                        std::vector<std::string>& not_checked) {
  const std::string copy_name = CopyName(plan.pvc, plan.source);
  TellGoesOn(options, plan);
  ASSIGN_OR_RETURN(const SecuredVolume secured,
                   SecureVolume(ctx, api, random, plan, options,
                                {.note = "before a restore from a repository",
                                 .restore = copy_name,
                                 .copy_pod = copy_name},
                                not_checked));
  return WithSafety(RestoreIntoVolume(ctx, api,
                                      {.target = plan.pvc,
                                       .source = plan.source,
                                       .pod = options.pod,
                                       .on_progress = options.on_progress},
                                      not_checked),
                    secured.safety_snapshot);
}

}  // namespace csidelta::inplace
