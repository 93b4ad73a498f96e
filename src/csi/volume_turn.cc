#include "csi/volume_turn.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

// A Lease that has not been renewed for this long is rubbish, however the clocks differ.
constexpr absl::Duration kStaleAfter = absl::Minutes(10);
// How far the clocks of two machines may differ, for those that do not wait to see for themselves.
constexpr absl::Duration kClocksDifferMax = absl::Minutes(1);
constexpr int kFreeTriesMax = 3;
// After a renewal that failed.
constexpr absl::Duration kTurnRetryAfter = absl::Seconds(2);
constexpr char kTurnLabelValue[] = "volume-turn";

void SetHolder(const TurnRequest& request, absl::Time now, Json& lease) {
  const std::string text = FormatRfc3339Micros(now);
  lease["spec"] = {{"holderIdentity", request.holder},
                   {"leaseDurationSeconds", absl::ToInt64Seconds(kTurnDuration)},
                   {"acquireTime", text},
                   {"renewTime", text}};
  const bool is_backups = request.snapshot_name.empty();
  lease["metadata"]["annotations"] = {
      {objects::kMemberClaimAnnotation,
       absl::StrCat(request.claim_namespace, "/", request.claim_name)},
      {is_backups ? objects::kLeaseBackupAnnotation : objects::kLeaseSnapshotAnnotation,
       is_backups ? request.backup_name : request.snapshot_name}};
  lease["metadata"]["ownerReferences"] =
      Json::array({{{"apiVersion", is_backups ? "velero.io/v1" : "v1"},
                    {"kind", is_backups ? "Backup" : "PersistentVolumeClaim"},
                    {"name", is_backups ? request.backup_name : request.claim_name},
                    {"uid", is_backups ? request.backup_uid : request.claim_uid}}});
}

k8s::ObjectKey KeyOf(const TurnRequest& request) {
  return {.type = LeaseType(),
          .namespace_name = request.lease_namespace,
          .name = absl::StrCat("csi-delta-", request.claim_uid)};
}

bool IsHeldForRestore(const Json& lease) {
  return absl::StartsWith(k8s::Annotation(lease, objects::kLeaseSnapshotAnnotation),
                          kRestoreTurnPrefix);
}

// "backup nightly", for messages.
std::string HeldFor(const Json& lease) {
  const std::string snapshot = k8s::Annotation(lease, objects::kLeaseSnapshotAnnotation);
  if (IsHeldForRestore(lease)) {
    return "a restore into its volume";
  }
  return snapshot.empty()
             ? absl::StrCat("backup ", k8s::Annotation(lease, objects::kLeaseBackupAnnotation))
             : absl::StrCat("the creation of VolumeSnapshot ", snapshot);
}

Json MakeLease(const TurnRequest& request, const std::string& name, absl::Time now) {
  Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                {"kind", "Lease"},
                {"metadata",
                 {{"name", name},
                  {"namespace", request.lease_namespace},
                  {"labels",
                   {{objects::kCsiDeltaLabel, kTurnLabelValue},
                    {objects::kExcludeFromBackupLabel, "true"}}}}}};
  SetHolder(request, now, lease);
  return lease;
}

std::string Revision(const Json& object) { return k8s::ResourceVersion(object); }

std::string Holder(const Json& lease) { return GetString(lease, {"spec", "holderIdentity"}); }

// Blocks until the Lease is gone (then OK, `seen` null), or it is `holder`'s, or nobody has renewed
// it for kTurnDuration (then OK, `seen` the Lease as it stands), or ctx ends.
absl::Status AwaitEnd(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                      const std::string& holder, Json& seen) {
  absl::Time expires_at = ctx.clock->Now() + kTurnDuration;
  const auto look = [&](const Json* lease) -> absl::StatusOr<bool> {
    if (lease == nullptr) {
      seen = nullptr;
      return true;
    }
    if (seen.is_null() || Revision(seen) != Revision(*lease)) {
      expires_at = ctx.clock->Now() + kTurnDuration;
      seen = *lease;
    }
    return Holder(seen) == holder;
  };
  while (true) {
    CallContext slice = ctx;
    slice.deadline = std::min(ctx.deadline, expires_at);
    const absl::Status status = k8s::WaitFor(slice, api, key, look);
    if (!absl::IsDeadlineExceeded(status)) {
      return status;
    }
    RETURN_IF_ERROR(ctx.Check());
    if (ctx.clock->Now() >= expires_at) {
      return absl::OkStatus();
    }
  }
}

absl::Status StillHeld(const absl::Status& status, const TurnRequest& request, const Json& lease) {
  if (!absl::IsDeadlineExceeded(status) || lease.is_null()) {
    return status;
  }
  const std::string pvc =
      absl::StrCat(request.subject, " ", request.claim_namespace, "/", request.claim_name);
  return absl::DeadlineExceededError(
      IsHeldForRestore(lease)
          ? absl::StrCat("a restore into ", pvc, " is still under way")
          : absl::StrCat(HeldFor(lease), " is still taking a snapshot of ", pvc));
}

// Whether a Lease that is there is not held against `request`.
bool IsFreeFor(const TurnRequest& request, const Json& lease, absl::Time now) {
  const auto renewed = ParseRfc3339(GetString(lease, {"spec", "renewTime"}));
  return Holder(lease) == request.holder ||
         (!request.snapshot_name.empty() &&
          k8s::Annotation(lease, objects::kLeaseSnapshotAnnotation) == request.snapshot_name) ||
         (renewed.has_value() && *renewed + kTurnDuration + kClocksDifferMax < now);
}

// What one round of taking the turn came to.
struct Attempt {
  std::optional<Json> lease;  // absent: the other one has just ended, or was quicker; go on
  bool taken_over = false;
};

// Creates the Lease, or waits for the one that is there and takes it over when it ran out. `seen`:
// the other one's, as it was seen last; null for none.
absl::StatusOr<Attempt> TryTake(const CallContext& ctx, k8s::ApiClient& api,
                                const k8s::ObjectKey& key, const TurnRequest& request, Json& seen) {
  absl::StatusOr<Json> lease =
      api.Create(ctx, key.type, key.namespace_name, MakeLease(request, key.name, ctx.clock->Now()));
  if (lease.ok()) {
    return Attempt{.lease = *std::move(lease)};
  }
  if (!absl::IsAlreadyExists(lease.status())) {
    return lease.status();
  }
  RETURN_IF_ERROR(AwaitEnd(ctx, api, key, request.holder, seen));
  if (seen.is_null()) {
    return Attempt{};
  }
  // Ours already where the answer to an earlier request was lost.
  const bool taken_over = Holder(seen) != request.holder;
  Json ours = seen;
  SetHolder(request, ctx.clock->Now(), ours);
  lease = api.Update(ctx, key, ours);
  if (absl::IsAborted(lease.status()) || absl::IsNotFound(lease.status())) {
    return Attempt{};
  }
  RETURN_IF_ERROR(lease.status());
  return Attempt{.lease = *std::move(lease), .taken_over = taken_over};
}

}  // namespace

absl::StatusOr<VolumeTurn> VolumeTurn::Take(const CallContext& ctx, k8s::ApiClient& api,
                                            const TurnRequest& request) {
  const k8s::ObjectKey key = KeyOf(request);
  Json seen;
  while (true) {
    RETURN_IF_ERROR(StillHeld(ctx.Check(), request, seen));
    Attempt attempt;
    const absl::Status tried = RetryTransient(ctx, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(attempt, TryTake(ctx, api, key, request, seen));
      return absl::OkStatus();
    });
    RETURN_IF_ERROR(StillHeld(tried, request, seen));
    if (attempt.lease.has_value()) {
      return VolumeTurn(key, *std::move(attempt.lease), attempt.taken_over,
                        ctx.clock->Now() + kTurnRenewAfter);
    }
  }
}

absl::StatusOr<std::optional<VolumeTurn>> VolumeTurn::TakeIfFree(const CallContext& ctx,
                                                                 k8s::ApiClient& api,
                                                                 const TurnRequest& request,
                                                                 std::string& held_by) {
  const k8s::ObjectKey key = KeyOf(request);
  // Each further try follows one who was quicker.
  for (int tries = 0; tries < kFreeTriesMax; ++tries) {
    absl::StatusOr<Json> lease = api.Create(ctx, key.type, key.namespace_name,
                                            MakeLease(request, key.name, ctx.clock->Now()));
    bool taken_over = false;
    if (absl::IsAlreadyExists(lease.status())) {
      absl::StatusOr<Json> seen = api.Get(ctx, key);
      if (absl::IsNotFound(seen.status())) {
        continue;
      }
      RETURN_IF_ERROR(seen.status());
      if (!IsFreeFor(request, *seen, ctx.clock->Now())) {
        held_by = HeldFor(*seen);
        return std::nullopt;
      }
      taken_over = Holder(*seen) != request.holder;
      SetHolder(request, ctx.clock->Now(), *seen);
      lease = api.Update(ctx, key, *seen);
      if (absl::IsAborted(lease.status()) || absl::IsNotFound(lease.status())) {
        continue;
      }
    }
    RETURN_IF_ERROR(lease.status());
    return VolumeTurn(key, *std::move(lease), taken_over, ctx.clock->Now() + kTurnRenewAfter);
  }
  held_by = "another that began at the same moment";
  return std::nullopt;
}

// The Lease has changed since we saw it last. By ourselves, where the answer to a renewal was lost:
// then it goes on from what it is now. ABORTED when it is another's or gone.
absl::Status VolumeTurn::LookAgain(const CallContext& ctx, k8s::ApiClient& api) {
  absl::StatusOr<Json> now = api.Get(ctx, key_);
  if (absl::IsNotFound(now.status()) || (now.ok() && Holder(*now) != Holder(lease_))) {
    return absl::AbortedError("the Lease of the volume was lost to another");
  }
  RETURN_IF_ERROR(now.status());
  lease_ = *std::move(now);
  return absl::OkStatus();
}

absl::StatusOr<std::string> VolumeTurn::HeldForOther(const CallContext& ctx, k8s::ApiClient& api,
                                                     const TurnRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<Json> lease, k8s::Find(ctx, api, KeyOf(request)));
  if (!lease.has_value() || IsFreeFor(request, *lease, ctx.clock->Now())) {
    return std::string();
  }
  return HeldFor(*lease);
}

absl::Status VolumeTurn::Renew(const CallContext& ctx, k8s::ApiClient& api) {
  const absl::Time now = ctx.clock->Now();
  renew_at_ = now + kTurnRetryAfter;
  SetJson(lease_, {"spec", "renewTime"}, FormatRfc3339Micros(now));
  absl::StatusOr<Json> stored = api.Update(ctx, key_, lease_);
  if (absl::IsAborted(stored.status()) || absl::IsNotFound(stored.status())) {
    const absl::Status looked = LookAgain(ctx, api);
    lost_ = lost_ || absl::IsAborted(looked);
    return looked;
  }
  if (!stored.ok()) {
    return Annotate(stored.status(), "renew the volume's turn");
  }
  lease_ = *std::move(stored);
  renew_at_ = now + kTurnRenewAfter;
  return absl::OkStatus();
}

absl::Status VolumeTurn::Release(const CallContext& ctx, k8s::ApiClient& api) {
  bool lost = false;
  return RetryTransient(ctx, [&] {
    absl::Status status =
        api.Delete(ctx, key_, {.uid = k8s::Uid(lease_), .resource_version = Revision(lease_)});
    if (absl::IsAborted(status)) {
      const absl::Status looked = LookAgain(ctx, api);
      lost = absl::IsAborted(looked);
      status = looked.ok() ? status : looked;  // Ours still: once more.
    }
    return lost || absl::IsNotFound(status) ? absl::OkStatus() : status;
  });
}

absl::Status RemoveStaleTurns(const CallContext& ctx, k8s::ApiClient& api,
                              const std::string& lease_namespace) {
  ASSIGN_OR_RETURN(
      const k8s::ObjectList leases,
      api.List(ctx, LeaseType(), lease_namespace,
               {.label_selector = absl::StrCat(objects::kCsiDeltaLabel, "=", kTurnLabelValue),
                .field_selector = ""}));
  absl::Status first;
  for (const Json& lease : leases.items) {
    const auto renewed = ParseRfc3339(GetString(lease, {"spec", "renewTime"}));
    if (renewed.has_value() && ctx.clock->Now() < *renewed + kStaleAfter) {
      continue;
    }
    const k8s::ObjectKey key{
        .type = LeaseType(), .namespace_name = lease_namespace, .name = k8s::Name(lease)};
    const absl::Status status =
        api.Delete(ctx, key, {.uid = k8s::Uid(lease), .resource_version = Revision(lease)});
    if (!status.ok() && !absl::IsNotFound(status) && !absl::IsAborted(status)) {
      first.Update(status);
    }
  }
  return first;
}

}  // namespace csidelta::csi
