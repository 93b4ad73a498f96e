#include "snapshots/volume_guard.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/snapshot_state.h"
#include "objects/client.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::snapshots {
namespace {

using objects::PersistentVolumeClaim;
using objects::VolumeGroupSnapshot;
using objects::VolumeSnapshot;

constexpr StatusMark kVolumeBusy("csi-delta/volume-busy");
constexpr absl::Duration kGroupPause = absl::Seconds(1);

// Said once, however often it was found out.
void NoteOnce(std::vector<std::string>& notes, std::string note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
    notes.push_back(std::move(note));
  }
}

std::string AgeOf(const VolumeSnapshot& snapshot, absl::Time now) {
  return absl::FormatDuration(
      absl::Trunc(now - snapshot.created_at().value_or(now), absl::Seconds(1)));
}

// Whether a group is about to ask the driver for what it selects.
bool IsBeginning(const objects::VolumeGroupSnapshot& group, absl::Time now) {
  const auto created = group.created_at();
  return group.bound_content().empty() && !group.error().has_value() && !group.is_being_deleted() &&
         created.has_value() && now < *created + csi::kOthersAgeMax;
}

}  // namespace

bool IsVolumeBusy(const absl::Status& status) { return kVolumeBusy.IsOn(status); }

absl::Status AsVolumeBusy(absl::Status status) { return kVolumeBusy.On(std::move(status)); }

absl::Status VolumeBusyError(absl::string_view pvc, absl::string_view by) {
  return AsVolumeBusy(absl::FailedPreconditionError(
      absl::StrCat("a snapshot of PVC ", pvc, " is being taken already: ", by)));
}

VolumeGuard::VolumeGuard(const CallContext& ctx, k8s::ApiClient& api, Random& random,
                         GuardRequest request)
    : ctx_(ctx),
      api_(api),
      request_(std::move(request)),
      namespace_name_(request_.pvcs.front().namespace_name()),
      holder_(absl::StrCat(request_.name, "_", absl::Hex(random.Below(UINT64_MAX)))) {}

std::string VolumeGuard::Of(const PersistentVolumeClaim& pvc) const {
  return absl::StrCat(namespace_name_, "/", pvc.name());
}

absl::Status VolumeGuard::Enter() {
  while (true) {
    const absl::Status entered = EnterOnce();
    if (entered.ok()) {
      return entered;
    }
    Leave();
    if (!IsVolumeBusy(entered) || !request_.waits_for_others) {
      return entered;
    }
    RETURN_IF_ERROR(AwaitOther());
  }
}

absl::Status VolumeGuard::EnterOnce() {
  busy_with_.clear();
  // In the order of their names: two that want several wait for each other in one direction only.
  for (const PersistentVolumeClaim& pvc : request_.pvcs) {
    RETURN_IF_ERROR(TakeLease(pvc));
  }
  RETURN_IF_ERROR(LookAgain(""));
  return CheckGroups();
}

absl::Status VolumeGuard::TakeLease(const PersistentVolumeClaim& pvc) {
  if (!may_hold_leases_) {
    return absl::OkStatus();
  }
  const csi::VolumeLeaseRequest request = {.lease_namespace = namespace_name_,
                                           .claim_namespace = namespace_name_,
                                           .claim_name = pvc.name(),
                                           .claim_uid = pvc.uid(),
                                           .backup_name = "",
                                           .backup_uid = "",
                                           .holder = holder_,
                                           .subject = "PVC",
                                           .snapshot_name = request_.name};
  std::string held_by;
  absl::StatusOr<std::optional<csi::VolumeLease>> lease;
  if (request_.waits_for_others) {
    lease = csi::VolumeLease::Take(ctx_, api_, request);
  } else {
    lease = csi::VolumeLease::TakeIfFree(ctx_, api_, request, held_by);
  }
  if (absl::IsPermissionDenied(lease.status())) {
    may_hold_leases_ = false;
    NoteOnce(not_checked_, absl::StrCat("Lease not taken: ", lease.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(lease.status());
  if (!lease->has_value()) {
    return AsVolumeBusy(absl::FailedPreconditionError(
        absl::StrCat("another operation on PVC ", Of(pvc), " is under way: ", held_by)));
  }
  leases_.push_back(**std::move(lease));
  return absl::OkStatus();
}

absl::Status VolumeGuard::LookAgain(const std::string& revision) {
  ASSIGN_OR_RETURN(const std::vector<VolumeSnapshot> snapshots,
                   objects::List<VolumeSnapshot>(ctx_, api_, namespace_name_,
                                                 {.may_be_old = false, .exactly_at = revision}));
  const absl::Time now = ctx_.clock->Now();
  for (const VolumeSnapshot& other : snapshots) {
    const auto pvc = std::find_if(request_.pvcs.begin(), request_.pvcs.end(), [&](const auto& one) {
      return one.name() == other.source_pvc();
    });
    if (pvc != request_.pvcs.end() && other.name() != request_.name &&
        csi::IsBeingTaken(other, now)) {
      busy_with_ = other.name();
      return VolumeBusyError(Of(*pvc), absl::StrCat("VolumeSnapshot ", other.name(), ", asked for ",
                                                    AgeOf(other, now), " ago"));
    }
  }
  return absl::OkStatus();
}

absl::Status VolumeGuard::CheckGroups() {
  const absl::StatusOr<std::vector<VolumeGroupSnapshot>> list =
      objects::ListGroupKind<VolumeGroupSnapshot>(ctx_, api_, namespace_name_);
  if (absl::IsPermissionDenied(list.status())) {
    NoteOnce(not_checked_, absl::StrCat("group snapshots not checked: ", list.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(list.status());
  for (const VolumeGroupSnapshot& group : *list) {
    if (group.name() == request_.name || !IsBeginning(group, ctx_.clock->Now())) {
      continue;
    }
    for (const PersistentVolumeClaim& pvc : request_.pvcs) {
      if (group.Selects(pvc.labels())) {
        return VolumeBusyError(Of(pvc),
                               absl::StrCat("VolumeGroupSnapshot ", group.name(), " selects it"));
      }
    }
  }
  return absl::OkStatus();
}

void VolumeGuard::Leave() {
  for (csi::VolumeLease& lease : leases_) {
    lease.End(*ctx_.clock, api_);
  }
  leases_.clear();
}

absl::Status VolumeGuard::AwaitOther() {
  if (busy_with_.empty()) {  // A group: it is bound in a moment, and has no object of a PVC yet.
    ctx_.clock->SleepFor(kGroupPause, ctx_.stop);
    return ctx_.Check();
  }
  return objects::WaitFor<VolumeSnapshot>(
      ctx_, api_, VolumeSnapshot::Key(namespace_name_, busy_with_),
      [&](const VolumeSnapshot* now) -> absl::StatusOr<bool> {
        return now == nullptr || !csi::IsBeingTaken(*now, ctx_.clock->Now());
      });
}

csi::LeaseWaiter VolumeGuard::Waiter(const CallContext& ctx) {
  std::vector<csi::VolumeLease*> leases;
  leases.reserve(leases_.size());
  for (csi::VolumeLease& lease : leases_) {
    leases.push_back(&lease);
  }
  return csi::LeaseWaiter(ctx, api_, std::move(leases));
}

absl::StatusOr<std::unique_ptr<VolumeGuard>> GuardRestore(const CallContext& ctx,
                                                          k8s::ApiClient& api, Random& random,
                                                          const PersistentVolumeClaim& pvc,
                                                          absl::string_view restore,
                                                          std::vector<std::string>& not_checked) {
  auto guard = std::make_unique<VolumeGuard>(
      ctx, api, random,
      GuardRequest{.pvcs = {pvc}, .name = absl::StrCat(csi::kRestoreHolderPrefix, restore)});
  RETURN_IF_ERROR(guard->Enter());
  for (const std::string& note : guard->not_checked()) {
    NoteOnce(not_checked, note);
  }
  return guard;
}

}  // namespace csidelta::snapshots
