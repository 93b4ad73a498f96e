#include "csi/in_place_copy.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "csi/creation_failure.h"
#include "csi/snapshot_creation.h"
#include "csi/snapshot_source.h"
#include "csi/volume_guard.h"
#include "objects/client.h"

namespace csidelta::csi {
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

void TellGoesOn(const CopyRestoreOptions& options, const PersistentVolumeClaim& pvc) {
  TellStep(options, absl::StrCat("the Pod of an earlier run copies into ", CopiedPvc(pvc)));
}

// Why the PVC itself is not copied into; "": nothing is against it.
std::string RefusedMode(const PersistentVolumeClaim& pvc) {
  return pvc.mode() == objects::VolumeMode::kBlock
             ? ""
             : absl::StrCat(CopiedPvc(pvc),
                            " is in mode Filesystem, and only blocks are compared and copied");
}

bool IsAboutThePvc(RestoreRefusalReason reason) {
  switch (reason) {
    case RestoreRefusalReason::kNotReady:
    case RestoreRefusalReason::kUnusable:
    case RestoreRefusalReason::kNotMutual:
    case RestoreRefusalReason::kOtherDriver:
    case RestoreRefusalReason::kTooSmall:
    case RestoreRefusalReason::kOtherMode:
      return false;
    default:
      return true;
  }
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
  CopyPlan plan{.snapshot = snapshot, .pvc = *info.pvc};
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
  std::string safety;
  std::unique_ptr<VolumeGuard> guard;
  const std::string copy_name = CopyName(plan.pvc, plan.snapshot);
  if (plan.goes_on) {
    TellGoesOn(options, plan.pvc);
  } else if (!options.takes_safety_snapshot) {
    ASSIGN_OR_RETURN(guard, GuardRestore(ctx, api, random, plan.pvc, copy_name, not_checked));
  } else {
    // The driver lists what differs from one that is ready only.
    const AwaitedState awaited =
        options.pod.service_account.empty() ? AwaitedState::kTaken : AwaitedState::kReady;
    ASSIGN_OR_RETURN(safety, TakeCopySafetySnapshot(ctx, api, random,
                                                    {.pvc = plan.pvc,
                                                     .note = absl::StrCat("before the restore of ",
                                                                          plan.snapshot.name()),
                                                     .awaited = awaited,
                                                     .timeout = options.safety_timeout,
                                                     .on_step = options.on_step},
                                                    not_checked));
  }
  RETURN_IF_ERROR(CheckStillUnused(ctx, api, plan.pvc, copy_name));
  return WithSafety(CopyIntoVolume(ctx, api,
                                   {.target = plan.pvc,
                                    .snapshot = plan.snapshot,
                                    .safety_snapshot = safety,
                                    .pod = options.pod,
                                    .on_progress = options.on_progress},
                                   not_checked),
                    safety);
}

absl::Status CheckStillUnused(const CallContext& ctx, k8s::ApiClient& api,
                              const PersistentVolumeClaim& pvc, absl::string_view copy_name) {
  ASSIGN_OR_RETURN(std::vector<Pod> pods, objects::List<Pod>(ctx, api, pvc.namespace_name()));
  DropOwnPod(pods, pvc, copy_name);
  const std::vector<const Pod*> users = UsersOf(pods, pvc.name());
  return users.empty() ? absl::OkStatus()
                       : absl::FailedPreconditionError(
                             absl::StrCat(CopiedPvc(pvc), " is not restored: ", UseText(users)));
}

absl::StatusOr<RestoreInfo> ReadPvcInfo(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name) {
  // Of a VolumeSnapshot that exists nowhere: what is said of it is not asked for.
  return ReadRestoreInfo(ctx, api, VolumeSnapshot::Make(namespace_name, ""), pvc_name);
}

PvcVerdict CheckPvc(const RestoreSurroundings& around, const RestoreInfo& info) {
  PvcVerdict verdict;
  for (RestoreRefusal& refusal : CheckRestore(around, info).refusals) {
    if (IsAboutThePvc(refusal.reason)) {
      verdict.refusals.push_back(std::move(refusal));
    }
  }
  if (info.pvc.has_value()) {
    if (std::string refused = RefusedMode(*info.pvc); !refused.empty()) {
      verdict.refused_by_copy.push_back(std::move(refused));
    }
  }
  return verdict;
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

absl::StatusOr<std::string> TakeCopySafetySnapshot(const CallContext& ctx, k8s::ApiClient& api,
                                                   Random& random, const SafetyWish& wish,
                                                   std::vector<std::string>& not_checked) {
  ASSIGN_OR_RETURN(SnapshotSources sources, PrepareSources(ctx, api, {wish.pvc}, ""));
  std::move(sources.not_checked.begin(), sources.not_checked.end(),
            std::back_inserter(not_checked));
  const std::string name =
      NameForSnapshot(absl::StrCat(wish.pvc.name(), "-before-restore"), ctx.clock->Now());
  absl::StatusOr<Creation> creation = CreateSnapshot(ctx, api, random,
                                                     {.source = std::move(sources.sources.front()),
                                                      .name = name,
                                                      .note = wish.note,
                                                      .awaited = wish.awaited,
                                                      .timeout = wish.timeout});
  if (!creation.ok()) {
    return WithText(creation.status(),
                    absl::StrCat(creation.status().message(),
                                 "; nothing is changed; --safety no --yes restores without a "
                                 "snapshot"));
  }
  std::move(creation->not_checked.begin(), creation->not_checked.end(),
            std::back_inserter(not_checked));
  if (wish.on_step) {
    wish.on_step(absl::StrCat("VolumeSnapshot ", wish.pvc.namespace_name(), "/", name, " of ",
                              CopiedPvc(wish.pvc), " is taken, for safety"));
  }
  return name;
}

absl::StatusOr<CopyRestoreResult> WithSafety(absl::StatusOr<VolumeCopyResult> copied,
                                             const std::string& safety_snapshot) {
  if (copied.ok()) {
    return CopyRestoreResult{.copy = *std::move(copied), .safety_snapshot = safety_snapshot};
  }
  return safety_snapshot.empty()
             ? copied.status()
             : WithText(copied.status(), absl::StrCat(copied.status().message(),
                                                      "; what it held before is in VolumeSnapshot ",
                                                      safety_snapshot));
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
  RepositoryPlan plan{.pvc = *info.pvc, .source = std::move(source)};
  if (around.pods.has_value()) {
    plan.goes_on = DropOwnPod(*around.pods, plan.pvc, CopyName(plan.pvc, plan.source));
  }
  PvcVerdict verdict = CheckPvc(around, info);
  plan.refusals = std::move(verdict.refusals);
  plan.refused_by_copy = std::move(verdict.refused_by_copy);
  plan.not_checked = info.not_checked;
  return plan;
}

absl::StatusOr<CopyRestoreResult> RestoreFromRepository(const CallContext& ctx, k8s::ApiClient& api,
                                                        Random& random, const RepositoryPlan& plan,
                                                        const CopyRestoreOptions& options,
                                                        std::vector<std::string>& not_checked) {
  std::string safety;
  std::unique_ptr<VolumeGuard> guard;
  const std::string copy_name = CopyName(plan.pvc, plan.source);
  if (plan.goes_on) {
    TellGoesOn(options, plan.pvc);
  } else if (!options.takes_safety_snapshot) {
    ASSIGN_OR_RETURN(guard, GuardRestore(ctx, api, random, plan.pvc, copy_name, not_checked));
  } else {
    ASSIGN_OR_RETURN(safety, TakeCopySafetySnapshot(ctx, api, random,
                                                    {.pvc = plan.pvc,
                                                     .note = "before a restore from a repository",
                                                     .timeout = options.safety_timeout,
                                                     .on_step = options.on_step},
                                                    not_checked));
  }
  RETURN_IF_ERROR(CheckStillUnused(ctx, api, plan.pvc, copy_name));
  return WithSafety(RestoreIntoVolume(ctx, api,
                                      {.target = plan.pvc,
                                       .source = plan.source,
                                       .pod = options.pod,
                                       .on_progress = options.on_progress},
                                      not_checked),
                    safety);
}

}  // namespace csidelta::csi
