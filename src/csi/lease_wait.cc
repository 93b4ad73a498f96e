#include "csi/lease_wait.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "csi/retry.h"
#include "csi/snapshot_state.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

using objects::VolumeSnapshot;

bool IsOneBeingTaken(const VolumeSnapshot& snapshot, const OtherSnapshots& others, absl::Time now) {
  return others.concerns(snapshot) && IsBeingTaken(snapshot, now);
}

}  // namespace

absl::Status LeaseWaiter::WaitInSlices(
    absl::FunctionRef<absl::Status(const CallContext& slice, Evaluated& evaluated)> once) {
  absl::Duration refused_since = absl::InfiniteDuration();
  while (true) {
    const CallContext slice = ctx_.WithTimeout(RenewAt() - ctx_.clock->Uptime());
    Evaluated evaluated;
    const absl::Status status = once(slice, evaluated);
    if (status.ok() || !evaluated.status.ok()) {
      return status;
    }
    if (evaluated.was_asked) {
      refused_since = absl::InfiniteDuration();
    }
    if (absl::IsDeadlineExceeded(status)) {
      RETURN_IF_ERROR(ctx_.Check());
      Renew();
      continue;
    }
    refused_since = std::min(refused_since, ctx_.clock->Uptime());
    if (!MayBeStarting(status) || ctx_.clock->Uptime() >= refused_since + kRefusalGracePeriod) {
      return status;
    }
    ctx_.clock->SleepFor(kRefusalPause, ctx_.stop);
  }
}

absl::Duration LeaseWaiter::RenewAt() const {
  absl::Duration first = ctx_.clock->Uptime() + kVolumeLeaseRenewAfter;
  for (const VolumeLease* const lease : leases_) {
    first = lease->lost() ? first : std::min(first, lease->renew_at());
  }
  return first;
}

void LeaseWaiter::Renew() {
  for (VolumeLease* const lease : leases_) {
    if (lease->lost() || ctx_.clock->Uptime() < lease->renew_at()) {
      continue;
    }
    if (const absl::Status renewed = lease->Renew(ctx_, api_); !renewed.ok()) {
      CSIDELTA_LOG(kDebug, "turn not renewed", {"status", renewed.ToString()});
    }
  }
}

namespace {

// ABORTED when the Lease was lost meanwhile.
absl::Status AwaitOthers(const CallContext& ctx, const Environment& env,
                         const OtherSnapshots& others, VolumeLease& lease) {
  const k8s::ListOptions options{
      .label_selector = others.managed_too || lease.taken_over()
                            ? ""
                            : absl::StrCat("!", objects::kCsiDeltaLabel),
      .may_be_old = true};  // Another one may come a moment later just as well.
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> all,
                   objects::List<VolumeSnapshot>(ctx, env.api, others.namespace_name, options));
  for (const VolumeSnapshot& other : all) {
    if (!IsOneBeingTaken(other, others, ctx.clock->Now())) {
      continue;
    }
    const absl::Time too_old = *other.created_at() + kOthersAgeMax;
    const CallContext slice = ctx.WithTimeout(too_old - ctx.clock->Now());
    const absl::Status status =
        LeaseWaiter(slice, env, lease)
            .WaitFor<VolumeSnapshot>(
                other.key(), [&](const VolumeSnapshot* now) -> absl::StatusOr<bool> {
                  return now == nullptr || !IsOneBeingTaken(*now, others, ctx.clock->Now());
                });
    if (absl::IsDeadlineExceeded(status) && !ctx.Check().ok()) {
      return absl::DeadlineExceededError(
          absl::StrCat("VolumeSnapshot ", other.name(), " of ", others.of, " is still being made"));
    }
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
      return Annotate(status, absl::StrCat("wait for VolumeSnapshot ", other.name()));
    }
  }
  return lease.lost() ? absl::AbortedError("the turn was lost") : absl::OkStatus();
}

}  // namespace

absl::Status RunUnderLease(const CallContext& ctx, const Environment& env,
                           const VolumeLeaseRequest& request, const OtherSnapshots& others,
                           absl::Duration wait_max,
                           absl::FunctionRef<absl::Status(VolumeLease& lease)> make) {
  // Long enough to see a dead holder's turn run out.
  const CallContext waiting = ctx.WithTimeout(std::max(wait_max, 2 * kVolumeLeaseDuration));
  while (true) {
    ASSIGN_OR_RETURN(VolumeLease lease, VolumeLease::Take(waiting, env.api, request));
    const absl::Status alone = AwaitOthers(waiting, env, others, lease);
    const absl::Status made = alone.ok() ? make(lease) : alone;
    lease.End(*ctx.clock, env.api);
    if (!lease.lost() || !absl::IsAborted(alone)) {
      return made;
    }
  }
}

}  // namespace csidelta::csi
