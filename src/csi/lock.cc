#include "csi/lock.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "csi/retry.h"
#include "csi/snapshot_state.h"
#include "objects/keys.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::csi {
namespace {

using objects::VolumeGroupSnapshot;
using objects::VolumeSnapshot;

constexpr StatusMark kVolumeBusy("csi-delta/volume-busy");

std::string AgeOf(const VolumeSnapshot& snapshot, absl::Time now) {
  return absl::FormatDuration(
      absl::Trunc(now - snapshot.created_at().value_or(now), absl::Seconds(1)));
}

// True if a group is about to call the driver for the PVCs that it selects.
bool IsBeginning(const VolumeGroupSnapshot& group, absl::Time now) {
  const auto created = group.created_at();
  return group.bound_content().empty() && !group.error().has_value() && !group.is_being_deleted() &&
         created.has_value() && now < *created + kOthersAgeMax;
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
      CSIDELTA_LOG(kDebug, "Lease not renewed", {"status", renewed.ToString()});
    }
  }
}

bool IsVolumeBusy(const absl::Status& status) { return kVolumeBusy.IsOn(status); }

absl::Status AsVolumeBusy(absl::Status status) { return kVolumeBusy.On(std::move(status)); }

absl::Status VolumeBusyError(absl::string_view what, absl::string_view by) {
  return AsVolumeBusy(absl::FailedPreconditionError(
      absl::StrCat("a snapshot of ", what, " is being taken already: ", by)));
}

std::string VolumeLock::PvcText(absl::string_view pvc) const {
  return absl::StrCat(request_.subject, " ", request_.namespace_name, "/", pvc);
}

absl::Status VolumeLock::RecordMissingRight(absl::string_view what, const absl::Status& denied) {
  if (!request_.may_lack_rights || !absl::IsPermissionDenied(denied)) {
    return denied;
  }
  std::string note = absl::StrCat(what, ": ", denied.message());
  if (std::find(not_checked_.begin(), not_checked_.end(), note) == not_checked_.end()) {
    not_checked_.push_back(std::move(note));
  }
  return absl::OkStatus();
}

absl::Status VolumeLock::Enter() {
  const CallContext waiting = waits_for_others() ? ctx_.WithTimeout(request_.wait_max) : ctx_;
  while (true) {
    absl::Status entered = EnterOnce(waiting);
    if (entered.ok()) {
      return entered;
    }
    if (IsVolumeBusy(entered) && waits_for_others()) {
      entered = AwaitOther(waiting);
    }
    if (!entered.ok()) {
      Leave();
      return entered;
    }
  }
}

absl::Status VolumeLock::EnterOnce(const CallContext& waiting) {
  busy_with_ = VolumeSnapshot::Key(request_.namespace_name, request_.name);
  busy_until_ = absl::InfiniteFuture();
  if (std::any_of(leases_.begin(), leases_.end(), [](const auto& one) { return one.lost(); })) {
    Leave();  // Another process may be doing the same.
  }
  if (leases_.empty() && may_hold_leases_) {
    for (const VolumeLeaseRequest& lease : request_.leases) {
      RETURN_IF_ERROR(TakeLease(waiting, lease));
    }
  }
  CSIDELTA_CHECK(HoldsAllLeases());
  RETURN_IF_ERROR(CheckSnapshots(""));
  return request_.is_thorough ? CheckGroups() : absl::OkStatus();
}

absl::Status VolumeLock::TakeLease(const CallContext& waiting, const VolumeLeaseRequest& request) {
  std::string held_by;
  absl::StatusOr<std::optional<VolumeLease>> lease;
  if (waits_for_others()) {
    lease = VolumeLease::Take(waiting, api_, request);
  } else {
    lease = VolumeLease::TakeIfFree(ctx_, api_, request, held_by);
  }
  if (!lease.ok()) {
    RETURN_IF_ERROR(RecordMissingRight("Lease not taken", lease.status()));
    may_hold_leases_ = false;
    return absl::OkStatus();
  }
  if (!lease->has_value()) {
    return AsVolumeBusy(absl::FailedPreconditionError(absl::StrCat(
        "another operation on ", PvcText(request.claim_name), " is under way: ", held_by)));
  }
  leases_.push_back(**std::move(lease));
  return absl::OkStatus();
}

// Otherwise a part of a group's volumes would not be locked.
bool VolumeLock::HoldsAllLeases() const {
  return leases_.size() == request_.leases.size() || !may_hold_leases_;
}

absl::Status VolumeLock::CheckAtPost(const std::string& revision) {
  CSIDELTA_CHECK(HoldsAllLeases());  // The POST was made between Enter() and Leave().
  return request_.is_thorough ? CheckSnapshots(revision) : absl::OkStatus();
}

absl::Status VolumeLock::CheckSnapshots(const std::string& revision) {
  const bool has_taken_over = std::any_of(leases_.begin(), leases_.end(),
                                          [](const VolumeLease& one) { return one.taken_over(); });
  const k8s::ListOptions options{.label_selector = request_.counts_backups || has_taken_over
                                                       ? ""
                                                       : absl::StrCat("!", objects::kCsiDeltaLabel),
                                 // Another one may come a moment later just as well.
                                 .may_be_old = revision.empty() && waits_for_others(),
                                 .exactly_at = revision};
  ASSIGN_OR_RETURN(const auto snapshots,
                   objects::List<VolumeSnapshot>(ctx_, api_, request_.namespace_name, options));
  const absl::Time now = ctx_.clock->Now();
  for (const VolumeSnapshot& other : snapshots) {
    if (IsOther(other) && IsBeingTaken(other, now)) {
      busy_with_ = other.key();
      busy_until_ = *other.created_at() + kOthersAgeMax;
      return VolumeBusyError(
          PvcText(other.source_pvc()),
          absl::StrCat("VolumeSnapshot ", other.name(), ", asked for ", AgeOf(other, now), " ago"));
    }
  }
  return absl::OkStatus();
}

bool VolumeLock::IsOther(const VolumeSnapshot& snapshot) const {
  const auto owner = snapshot.group_owner();
  return request_.pvcs.contains(snapshot.source_pvc()) && snapshot.name() != request_.name &&
         (!owner.has_value() || owner->name != request_.name);
}

absl::Status VolumeLock::CheckGroups() {
  const auto list =
      objects::ListGroupKind<VolumeGroupSnapshot>(ctx_, api_, request_.namespace_name);
  if (!list.ok()) {
    return RecordMissingRight("group snapshots not checked", list.status());
  }
  for (const VolumeGroupSnapshot& group : *list) {
    if (group.name() == request_.name || !IsBeginning(group, ctx_.clock->Now())) {
      continue;
    }
    for (const auto& [pvc, labels] : request_.pvcs) {
      if (group.Selects(labels)) {
        busy_with_ = group.key();
        busy_until_ = *group.created_at() + kOthersAgeMax;
        return VolumeBusyError(PvcText(pvc),
                               absl::StrCat("VolumeGroupSnapshot ", group.name(), " selects it"));
      }
    }
  }
  return absl::OkStatus();
}

void VolumeLock::Leave() {
  for (VolumeLease& lease : leases_) {
    lease.End(*ctx_.clock, api_);
  }
  leases_.clear();
}

absl::Status VolumeLock::AwaitOther(const CallContext& waiting) {
  const CallContext slice = waiting.WithTimeout(busy_until_ - ctx_.clock->Now());
  const absl::Status status = Waiter(slice).Wait<objects::Object>(
      [&](const objects::Object* now) -> absl::StatusOr<bool> {
        if (now == nullptr) {
          return true;
        }
        const auto snapshot = VolumeSnapshot::From(*now);
        const auto group = VolumeGroupSnapshot::From(*now);
        return !(snapshot.ok() && IsBeingTaken(*snapshot, ctx_.clock->Now())) &&
               !(group.ok() && IsBeginning(*group, ctx_.clock->Now()));
      },
      [&](const CallContext& piece, objects::Predicate<objects::Object> done) {
        return objects::WaitFor<objects::Object>(piece, api_, busy_with_, done);
      });
  if (!absl::IsDeadlineExceeded(status)) {
    return Annotate(status, absl::StrCat("wait for ", busy_with_.name));
  }
  return waiting.Check().ok()
             ? absl::OkStatus()
             : absl::DeadlineExceededError(absl::StrCat(busy_with_.type.kind, " ", busy_with_.name,
                                                        " is still being taken"));
}

LeaseWaiter VolumeLock::Waiter(const CallContext& ctx) {
  std::vector<VolumeLease*> leases;
  leases.reserve(leases_.size());
  for (VolumeLease& lease : leases_) {
    leases.push_back(&lease);
  }
  return LeaseWaiter(ctx, api_, std::move(leases));
}

}  // namespace csidelta::csi
