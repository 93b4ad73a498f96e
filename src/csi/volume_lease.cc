#include "csi/volume_lease.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "objects/client.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::Lease;

// A Lease that has not been renewed for this long is rubbish, however the clocks differ.
constexpr absl::Duration kStaleAfter = absl::Minutes(10);
// How far the clocks of two machines may differ, for those that do not wait to see for themselves.
constexpr absl::Duration kClocksDifferMax = absl::Minutes(1);
constexpr int kFreeTriesMax = 3;
// After a renewal that failed.
constexpr absl::Duration kVolumeLeaseRetryAfter = absl::Seconds(2);
constexpr char kVolumeLeaseLabelValue[] = "volume-turn";

void SetHolder(const VolumeLeaseRequest& request, absl::Time now, Lease& lease) {
  lease.Acquire(request.holder, kVolumeLeaseDuration, now);
  const bool is_backups = request.snapshot_name.empty();
  lease.SetAnnotations(
      {{objects::kMemberClaimAnnotation,
        absl::StrCat(request.claim_namespace, "/", request.claim_name)},
       {is_backups ? objects::kLeaseBackupAnnotation : objects::kLeaseSnapshotAnnotation,
        is_backups ? request.backup_name : request.snapshot_name}});
  lease.SetOwners({{.api_version = is_backups ? "velero.io/v1" : "v1",
                    .kind = is_backups ? "Backup" : "PersistentVolumeClaim",
                    .name = is_backups ? request.backup_name : request.claim_name,
                    .uid = is_backups ? request.backup_uid : request.claim_uid}});
}

k8s::ObjectKey KeyOf(const VolumeLeaseRequest& request) {
  return Lease::Key(request.lease_namespace, absl::StrCat("csi-delta-", request.claim_uid));
}

bool IsHeldForRestore(const Lease& lease) {
  return absl::StartsWith(lease.Annotation(objects::kLeaseSnapshotAnnotation),
                          kRestoreHolderPrefix);
}

// "backup nightly", for messages.
std::string HeldFor(const Lease& lease) {
  const std::string snapshot = lease.Annotation(objects::kLeaseSnapshotAnnotation);
  if (IsHeldForRestore(lease)) {
    return "a restore into its volume";
  }
  return snapshot.empty()
             ? absl::StrCat("backup ", lease.Annotation(objects::kLeaseBackupAnnotation))
             : absl::StrCat("the creation of VolumeSnapshot ", snapshot);
}

Lease MakeLease(const VolumeLeaseRequest& request, absl::Time now) {
  Lease lease = Lease::Make(request.lease_namespace, KeyOf(request).name);
  lease.SetLabels({{objects::kCsiDeltaLabel, kVolumeLeaseLabelValue},
                   {objects::kExcludeFromBackupLabel, "true"}});
  SetHolder(request, now, lease);
  return lease;
}

// Blocks until the Lease is gone (OK, `seen` is nothing), is `holder`'s, or was not renewed for
// kVolumeLeaseDuration (OK, `seen` is the Lease). Else an error when `ctx` ends.
absl::Status AwaitEnd(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                      const std::string& holder, std::optional<Lease>& seen) {
  absl::Duration expires_at = ctx.clock->Uptime() + kVolumeLeaseDuration;
  const auto is_over = [&](const Lease* lease) -> absl::StatusOr<bool> {
    if (lease == nullptr) {
      seen.reset();
      return true;
    }
    if (!seen.has_value() || seen->resource_version() != lease->resource_version()) {
      expires_at = ctx.clock->Uptime() + kVolumeLeaseDuration;
      seen = *lease;
    }
    return seen->holder() == holder;
  };
  while (true) {
    CallContext slice = ctx;
    slice.deadline = std::min(ctx.deadline, expires_at);
    const absl::Status status = objects::WaitFor<Lease>(slice, api, key, is_over);
    if (!absl::IsDeadlineExceeded(status)) {
      return status;
    }
    RETURN_IF_ERROR(ctx.Check());
    if (ctx.clock->Uptime() >= expires_at) {
      return absl::OkStatus();
    }
  }
}

absl::Status StillHeld(const absl::Status& status, const VolumeLeaseRequest& request,
                       const std::optional<Lease>& lease) {
  if (!absl::IsDeadlineExceeded(status) || !lease.has_value()) {
    return status;
  }
  const std::string pvc =
      absl::StrCat(request.subject, " ", request.claim_namespace, "/", request.claim_name);
  return absl::DeadlineExceededError(
      IsHeldForRestore(*lease)
          ? absl::StrCat("a restore into ", pvc, " is still under way")
          : absl::StrCat(HeldFor(*lease), " is still taking a snapshot of ", pvc));
}

// True if `request` may take over an existing Lease.
bool IsFreeFor(const VolumeLeaseRequest& request, const Lease& lease, absl::Time now) {
  const std::optional<absl::Time> renewed = lease.renewed_at();
  return lease.holder() == request.holder ||
         (!request.snapshot_name.empty() &&
          lease.Annotation(objects::kLeaseSnapshotAnnotation) == request.snapshot_name) ||
         (renewed.has_value() && *renewed + kVolumeLeaseDuration + kClocksDifferMax < now);
}

}  // namespace

absl::StatusOr<std::optional<VolumeLease>> VolumeLease::TryTake(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeLeaseRequest& request,
    absl::FunctionRef<absl::StatusOr<std::optional<Lease>>()> await_free) {
  // An empty holder would take every free Lease for its own.
  CSIDELTA_CHECK(!request.holder.empty());
  absl::StatusOr<Lease> lease = objects::Create(ctx, api, MakeLease(request, ctx.clock->Now()));
  bool taken_over = false;
  if (absl::IsAlreadyExists(lease.status())) {
    ASSIGN_OR_RETURN(std::optional<Lease> own, await_free());
    if (!own.has_value()) {
      return std::nullopt;
    }
    // Else the answer to an earlier request was lost.
    taken_over = own->holder() != request.holder;
    SetHolder(request, ctx.clock->Now(), *own);
    lease = objects::Update(ctx, api, *own);
    if (absl::IsAborted(lease.status()) || absl::IsNotFound(lease.status())) {
      return std::nullopt;
    }
  }
  RETURN_IF_ERROR(lease.status());
  return VolumeLease(*std::move(lease), taken_over, ctx.clock->Uptime() + kVolumeLeaseRenewAfter);
}

absl::StatusOr<VolumeLease> VolumeLease::Take(const CallContext& ctx, k8s::ApiClient& api,
                                              const VolumeLeaseRequest& request) {
  std::optional<Lease> seen;
  const auto await_free = [&]() -> absl::StatusOr<std::optional<Lease>> {
    RETURN_IF_ERROR(AwaitEnd(ctx, api, KeyOf(request), request.holder, seen));
    return seen;
  };
  while (true) {
    RETURN_IF_ERROR(StillHeld(ctx.Check(), request, seen));
    absl::StatusOr<std::optional<VolumeLease>> lease =
        RetryTransient(ctx, [&] { return TryTake(ctx, api, request, await_free); });
    RETURN_IF_ERROR(StillHeld(lease.status(), request, seen));
    if (lease->has_value()) {
      return **std::move(lease);
    }
  }
}

absl::StatusOr<std::optional<VolumeLease>> VolumeLease::TakeIfFree(
    const CallContext& ctx, k8s::ApiClient& api, const VolumeLeaseRequest& request,
    std::string& held_by) {
  held_by.clear();
  const auto find_free = [&]() -> absl::StatusOr<std::optional<Lease>> {
    ASSIGN_OR_RETURN(auto seen, objects::Find<Lease>(ctx, api, KeyOf(request)));
    if (seen.has_value() && !IsFreeFor(request, *seen, ctx.clock->Now())) {
      held_by = HeldFor(*seen);
      seen.reset();
    }
    return seen;
  };
  // Each further try follows a process that was quicker.
  for (int tries = 0; tries < kFreeTriesMax; ++tries) {
    ASSIGN_OR_RETURN(std::optional<VolumeLease> lease, TryTake(ctx, api, request, find_free));
    if (lease.has_value() || !held_by.empty()) {
      return lease;
    }
  }
  held_by = "another that began at the same moment";
  return std::nullopt;
}

// The Lease has changed since it was read. If the answer to an own renewal was lost, continues with
// its current state. ABORTED if it is another's or gone.
absl::Status VolumeLease::ReadAgain(const CallContext& ctx, k8s::ApiClient& api) {
  auto now = objects::Get<Lease>(ctx, api, lease_.key());
  if (absl::IsNotFound(now.status()) || (now.ok() && now->holder() != lease_.holder())) {
    return absl::AbortedError("the Lease of the volume was lost to another");
  }
  RETURN_IF_ERROR(now.status());
  lease_ = *std::move(now);
  return absl::OkStatus();
}

absl::StatusOr<std::string> VolumeLease::HeldForOther(const CallContext& ctx, k8s::ApiClient& api,
                                                      const VolumeLeaseRequest& request) {
  ASSIGN_OR_RETURN(const auto lease, objects::Find<Lease>(ctx, api, KeyOf(request)));
  if (!lease.has_value() || IsFreeFor(request, *lease, ctx.clock->Now())) {
    return std::string();
  }
  return HeldFor(*lease);
}

absl::Status VolumeLease::Renew(const CallContext& ctx, k8s::ApiClient& api) {
  const absl::Time now = ctx.clock->Now();
  const absl::Duration begun = ctx.clock->Uptime();
  renew_at_ = begun + kVolumeLeaseRetryAfter;
  lease_.Renew(now);
  absl::StatusOr<Lease> stored = objects::Update(ctx, api, lease_);
  if (absl::IsAborted(stored.status()) || absl::IsNotFound(stored.status())) {
    const absl::Status looked = ReadAgain(ctx, api);
    lost_ = lost_ || absl::IsAborted(looked);
    return looked;
  }
  if (!stored.ok()) {
    return Annotate(stored.status(), "renew the Lease of the volume");
  }
  lease_ = *std::move(stored);
  renew_at_ = begun + kVolumeLeaseRenewAfter;
  return absl::OkStatus();
}

absl::Status VolumeLease::Release(const CallContext& ctx, k8s::ApiClient& api) {
  bool lost = false;
  return RetryTransient(ctx, [&] {
    absl::Status status = api.Delete(
        ctx, lease_.key(), {.uid = lease_.uid(), .resource_version = lease_.resource_version()});
    if (absl::IsAborted(status)) {
      const absl::Status looked = ReadAgain(ctx, api);
      lost = absl::IsAborted(looked);
      status = looked.ok() ? status : looked;  // Ours still: once more.
    }
    return lost || absl::IsNotFound(status) ? absl::OkStatus() : status;
  });
}

void VolumeLease::End(const Clock& clock, k8s::ApiClient& api) {
  if (const absl::Status released = Release(CleanUpContext(clock), api); !released.ok()) {
    CSIDELTA_LOG(kInfo, "the Lease of the volume is left to run out", {"lease", lease_.name()},
                 {"status", released.ToString()});
  }
}

absl::Status RemoveStaleVolumeLeases(const CallContext& ctx, k8s::ApiClient& api,
                                     const std::string& lease_namespace) {
  ASSIGN_OR_RETURN(
      const auto leases,
      objects::List<Lease>(
          ctx, api, lease_namespace,
          {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", kVolumeLeaseLabelValue)}));
  absl::Status first;
  for (const Lease& lease : leases) {
    const std::optional<absl::Time> renewed = lease.renewed_at();
    if (renewed.has_value() && ctx.clock->Now() < *renewed + kStaleAfter) {
      continue;
    }
    const absl::Status status =
        api.Delete(ctx, Lease::Key(lease_namespace, lease.name()),
                   {.uid = lease.uid(), .resource_version = lease.resource_version()});
    if (!status.ok() && !absl::IsNotFound(status) && !absl::IsAborted(status)) {
      first.Update(status);
    }
  }
  return first;
}

}  // namespace csidelta::csi
