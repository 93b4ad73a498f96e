#include "csi/expose/claim_release.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;

// A volume without any event is looked for after the age of the deletion once more, between
// these.
constexpr absl::Duration kLateVolumeRetryFirst = absl::Seconds(10);
constexpr absl::Duration kLateVolumeRetryMax = absl::Hours(1);

absl::StatusOr<std::optional<PersistentVolume>> FindVolumeOf(const CallContext& ctx,
                                                             k8s::ApiClient& api,
                                                             const PersistentVolumeClaim& claim) {
  const std::string name =
      claim.volume_name().empty() ? absl::StrCat("pvc-", claim.uid()) : claim.volume_name();
  return objects::Find<PersistentVolume>(ctx, api, "", name);
}

// It was made for `claim`, and its data is nothing but what the mover wrote there.
bool IsMadeFor(const PersistentVolume& volume, const PersistentVolumeClaim& claim) {
  return volume.is_csi() && volume.pvc_uid() == claim.uid() && !objects::IsAlias(volume) &&
         volume.Annotation(objects::kVolumeOfAnnotation).empty() &&
         (volume.is_provisioned() || absl::StrContains(volume.name(), claim.uid()));
}

bool WasProvisioningAsked(const PersistentVolumeClaim& claim) {
  return !claim.Annotation(objects::kStorageProvisionerAnnotation).empty() ||
         !claim.Annotation(objects::kBetaStorageProvisionerAnnotation).empty();
}

// The driver's answer was an error after which it works at nothing; the others it may yet finish.
bool IsFinalError(absl::string_view message) {
  constexpr std::array<absl::string_view, 5> kOngoing = {
      "code = Canceled", "code = DeadlineExceeded", "code = Unavailable",
      "code = ResourceExhausted", "code = Aborted"};
  return absl::StrContains(message, "code = ") &&
         std::none_of(kOngoing.begin(), kOngoing.end(), [message](absl::string_view code) {
           return absl::StrContains(message, code);
         });
}

absl::StatusOr<bool> MayGetVolume(const CallContext& ctx, k8s::ApiClient& api,
                                  const PersistentVolumeClaim& claim) {
  if (!claim.volume_name().empty() || !WasProvisioningAsked(claim)) {
    return false;
  }
  ASSIGN_OR_RETURN(const std::string refusal, LastProvisioningError(ctx, api, claim));
  return !IsFinalError(refusal);
}

absl::Status SetFinalizers(const CallContext& ctx, k8s::ApiClient& api,
                           const PersistentVolumeClaim& claim) {
  return k8s::IgnoreNotFound(objects::Apply(
      ctx, api, claim.key(),
      objects::Patch().SetFinalizers(claim.finalizers()).IfVersion(claim.resource_version())));
}

std::string LeftText(const PersistentVolumeClaim& claim) {
  const std::string volume = absl::StrCat("pvc-", claim.uid());
  return absl::StrCat("the volume of PVC ", claim.namespace_name(), "/", claim.name(),
                      " may still be made though the PVC is gone, and StorageClass ",
                      claim.storage_class().value_or(""),
                      " retains it; look for it with kubectl get pv ", volume,
                      ", and have it dropped with kubectl patch pv ", volume,
                      " -p '{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Delete\"}}'");
}

}  // namespace

absl::Status HoldForItsVolume(const CallContext& ctx, k8s::ApiClient& api,
                              const PersistentVolumeClaim& claim) {
  if (claim.is_being_deleted() || claim.HasFinalizer(objects::kVolumeFinalizer)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const objects::StorageClass storage_class,
                   ReadStorageClass(ctx, api, claim.storage_class().value_or("")));
  if (!storage_class.retains_volumes()) {
    return absl::OkStatus();
  }
  PersistentVolumeClaim held = claim;
  std::vector<std::string> finalizers = claim.finalizers();
  finalizers.emplace_back(objects::kVolumeFinalizer);
  held.SetFinalizers(finalizers);
  return SetFinalizers(ctx, api, held);
}

absl::StatusOr<bool> DeleteVolumeWithPvc(const CallContext& ctx, k8s::ApiClient& api,
                                         const PersistentVolumeClaim& claim) {
  ASSIGN_OR_RETURN(const auto volume, FindVolumeOf(ctx, api, claim));
  if (!volume.has_value()) {
    return false;
  }
  if (IsMadeFor(*volume, claim) && volume->reclaim_policy() != "Delete") {
    RETURN_IF_ERROR(k8s::IgnoreNotFound(objects::Apply(
        ctx, api, volume->key(),
        objects::Patch().SetReclaimPolicy("Delete").IfVersion(volume->resource_version()))));
  }
  return true;
}

absl::Status ExcludeVolumeFromBackups(const CallContext& ctx, k8s::ApiClient& api,
                                      const PersistentVolumeClaim& claim) {
  ASSIGN_OR_RETURN(const auto volume, FindVolumeOf(ctx, api, claim));
  if (!volume.has_value() || !IsMadeFor(*volume, claim) ||
      volume->HasLabel(objects::kExcludeFromBackupLabel)) {
    return absl::OkStatus();
  }
  return k8s::IgnoreNotFound(objects::Apply(ctx, api, volume->key(),
                                            objects::Patch()
                                                .SetLabel(objects::kExcludeFromBackupLabel, "true")
                                                .IfVersion(volume->resource_version())));
}

absl::StatusOr<ClaimDeletion> FinishClaimDeletion(const CallContext& ctx, k8s::ApiClient& api,
                                                  const PersistentVolumeClaim& claim,
                                                  absl::Duration late_volume_time_max) {
  PersistentVolumeClaim released = claim;
  if (!claim.is_being_deleted() || !released.RemoveFinalizer(objects::kVolumeFinalizer)) {
    return ClaimDeletion{.is_done = true};
  }
  ClaimDeletion release = {.is_done = true};
  ASSIGN_OR_RETURN(const bool has_volume, DeleteVolumeWithPvc(ctx, api, claim));
  if (!has_volume) {
    ASSIGN_OR_RETURN(const bool may_get_volume, MayGetVolume(ctx, api, claim));
    const absl::Time now = ctx.clock->Now();
    const absl::Time deleted_at = claim.deleted_at().value_or(now);
    if (may_get_volume && now < deleted_at + late_volume_time_max) {
      const absl::Duration wait =
          std::clamp(now - deleted_at, kLateVolumeRetryFirst, kLateVolumeRetryMax);
      return ClaimDeletion{.is_done = false,
                           .requeue_at = std::min(now + wait, deleted_at + late_volume_time_max)};
    }
    release.left = may_get_volume ? LeftText(claim) : "";
  }
  RETURN_IF_ERROR(SetFinalizers(ctx, api, released));
  return release;
}

}  // namespace csidelta::csi
