#include "inplace/swap_state.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/crypto.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/expose/claim_provisioning.h"
#include "inplace/restore_guard.h"
#include "objects/client.h"
#include "objects/keys.h"
#include "snapshots/snapshot_creation.h"

namespace csidelta::inplace {
namespace {

using objects::PersistentVolume;
using objects::PersistentVolumeClaim;
using objects::SwapRecord;
using objects::SwapSide;

constexpr std::size_t kTemporaryHashBytes = 8;

absl::Status Refused(const SwapState& state, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(csi::PvcText(state.namespace_name, state.pvc_name), " ", why));
}

SwapSide OtherSide(SwapSide side) {
  return side == SwapSide::kOriginal ? SwapSide::kRestored : SwapSide::kOriginal;
}

// Whether the PVC that is there has the volume of `side` by this restore: it is the very one that
// was there before, or the one that was made again.
bool HasVolume(const SwapState& state, SwapSide side) {
  const std::optional<SwapVolume>& volume = state.Volume(side);
  if (!state.pvc.has_value() || !volume.has_value() ||
      state.pvc->volume_name() != volume->volume.name()) {
    return false;
  }
  return !state.pvc->Annotation(objects::kInPlaceRecordAnnotation).empty() ||
         (side == SwapSide::kOriginal && state.pvc->uid() == volume->record.pvc_uid);
}

// Bound to it both ways, whatever made the PVC.
bool IsBoundTo(const SwapState& state, SwapSide side) {
  const std::optional<SwapVolume>& volume = state.Volume(side);
  return state.pvc.has_value() && volume.has_value() && state.pvc->is_bound() &&
         state.pvc->volume_name() == volume->volume.name() &&
         volume->volume.pvc_uid() == state.pvc->uid();
}

absl::Status Foreign(const SwapState& state) {
  return Refused(
      state,
      absl::StrCat("(uid ", state.pvc->uid(),
                   ") was made by another program while it was being restored; nothing is deleted, "
                   "and both volumes are kept: ",
                   state.original->volume.name(), " (the original)",
                   state.restored.has_value()
                       ? absl::StrCat(" and ", state.restored->volume.name(), " (restored)")
                       : "",
                   "; stop what makes it, delete that PVC (kubectl delete pvc ", state.pvc_name,
                   " -n ", state.namespace_name, "), and run the same command again"));
}

absl::Status Unfinished(const SwapState& state, absl::string_view snapshot,
                        absl::string_view what) {
  return Refused(state, absl::StrCat("has a restore of VolumeSnapshot ", snapshot, " that ", what,
                                     "; ", SwapCommand(state, "--undo"), " takes it back"));
}

// A volume that is to be the PVC's must still be whole.
absl::Status CheckTarget(const SwapState& state, SwapSide side) {
  const std::optional<SwapVolume>& target = state.Volume(side);
  if (!target.has_value()) {
    return Refused(state,
                   absl::StrCat("cannot get its ", ToString(side),
                                " volume: that PersistentVolume does not exist any more; ",
                                SwapCommand(state, side == SwapSide::kOriginal
                                                       ? "--finish ends the restore"
                                                       : "--undo brings the original back")));
  }
  const bool is_kept = target->volume.is_retained() || IsBoundTo(state, side);
  if (target->volume.is_being_deleted() || !is_kept) {
    return Refused(state, absl::StrCat("cannot get PersistentVolume ", target->volume.name(),
                                       ", which is being deleted; ", SwapCommand(state, "--finish"),
                                       " ends the restore"));
  }
  return absl::OkStatus();
}

SwapStep StepForTemporary(const PersistentVolumeClaim& temporary) {
  return temporary.is_being_deleted() ? SwapStep::kAwaitTemporaryGone : SwapStep::kRemoveTemporary;
}

bool HasFormerPolicy(const SwapVolume& one) {
  return one.volume.reclaim_policy() == one.record.policy;
}

bool IsReserved(const SwapState& state, const PersistentVolume& volume) {
  return volume.pvc_uid().empty() && volume.pvc_namespace() == state.namespace_name &&
         volume.pvc_name() == state.pvc_name;
}

// REQUIRES an original with a record.
absl::StatusOr<SwapStep> NextOfExchange(const SwapState& state) {
  CSIDELTA_CHECK(state.original.has_value());
  const SwapSide side = state.goal();
  const std::optional<SwapVolume>& other = state.Volume(OtherSide(side));
  RETURN_IF_ERROR(CheckTarget(state, side));
  const SwapVolume& target = *state.Volume(side);
  const bool has_target = HasVolume(state, side);
  if (state.pvc.has_value() && !has_target && !HasVolume(state, OtherSide(side))) {
    return Foreign(state);
  }
  // Whatever goes from here on, no volume goes with it.
  if (other.has_value() && !other->volume.is_retained() && !other->volume.is_being_deleted()) {
    return SwapStep::kRetain;
  }
  if (state.temporary.has_value()) {
    return StepForTemporary(*state.temporary);
  }
  if (state.pvc.has_value() && (!has_target || state.pvc->is_being_deleted())) {
    return state.pvc->is_being_deleted() ? SwapStep::kAwaitPvcGone : SwapStep::kRemovePvc;
  }
  if (!state.pvc.has_value()) {
    return IsReserved(state, target.volume) ? SwapStep::kMakePvc : SwapStep::kReserve;
  }
  if (!IsBoundTo(state, side)) {
    return SwapStep::kAwaitPvc;
  }
  if (state.pvc->Annotation(objects::kInPlaceRecordAnnotation).empty()) {
    return SwapStep::kMarkPvc;
  }
  return HasFormerPolicy(target) ? SwapStep::kDone : SwapStep::kReturnPolicy;
}

absl::Status CheckTemporary(const SwapState& state, const SwapRequest& request) {
  if (!state.temporary.has_value()) {
    return absl::OkStatus();
  }
  const objects::TemporaryRecord record = ParseTemporaryRecord(*state.temporary);
  if (record.snapshot_uid != request.snapshot_uid) {
    return Unfinished(state, record.snapshot, "was begun");
  }
  if (record.pvc_uid != state.pvc->uid()) {
    return Unfinished(state, record.snapshot, "was begun with another PVC of that name");
  }
  return absl::OkStatus();
}

// Of a volume with a record, before the original has one.
absl::Status CheckRestored(const SwapState& state, const SwapRequest& request) {
  if (!state.restored.has_value()) {
    return absl::OkStatus();
  }
  if (state.has_restored()) {
    return Refused(state, absl::StrCat("was restored, and that is not finished; ",
                                       SwapCommand(state, "--finish"), " finishes it"));
  }
  return state.restored->record.snapshot_uid == request.snapshot_uid
             ? absl::OkStatus()
             : Unfinished(state, state.restored->record.snapshot, "was begun");
}

// Before the original has a record: what was made is taken back.
absl::StatusOr<SwapStep> NextOfAbandoning(const SwapState& state) {
  if (state.has_restored()) {
    return Refused(state, absl::StrCat("cannot get its original volume back, which was deleted; ",
                                       SwapCommand(state, "--finish"), " ends the restore"));
  }
  const PersistentVolume* const volume = state.restored.has_value() ? &state.restored->volume
                                         : state.temporary_volume.has_value()
                                             ? &*state.temporary_volume
                                             : nullptr;
  if (volume != nullptr && !volume->is_being_deleted() &&
      (volume->reclaim_policy() != "Delete" || HasSwapRecord(*volume))) {
    return SwapStep::kAbandon;
  }
  return state.temporary.has_value() ? StepForTemporary(*state.temporary) : SwapStep::kDone;
}

// Which volume the PVC is to keep; FAILED_PRECONDITION where it is not bound to it.
absl::StatusOr<SwapSide> SideInUse(const SwapState& state) {
  const SwapSide side = state.original.has_value() && !state.restored.has_value()
                            ? SwapSide::kOriginal
                            : state.goal();
  if (!IsBoundTo(state, side) || state.pvc->is_being_deleted() || state.temporary.has_value()) {
    return Refused(
        state, absl::StrCat("is not bound to its ", ToString(side),
                            " volume, so that no volume is deleted; end the restore first, or the "
                            "undo, by running the same command again"));
  }
  return side;
}

// No PVC has it, and none but those of this restore ever will.
bool IsFree(const SwapState& state, const PersistentVolume& volume) {
  const std::string name = volume.pvc_name();
  const bool is_of_temporary =
      state.original.has_value() &&
      name == TemporaryPvcName(state.pvc_name, state.original->record.pvc_uid,
                               state.original->record.snapshot_uid);
  return volume.phase() != "Bound" && volume.pvc_namespace() == state.namespace_name &&
         (name == state.pvc_name || is_of_temporary);
}

// --- Reading

std::string SelectorOf(const SwapState& state) {
  return absl::StrCat(objects::kInPlaceLabel, "=",
                      RestoreLabelValue(state.namespace_name, state.pvc_name));
}

class StateReader {
 public:
  StateReader(const CallContext& ctx, k8s::ApiClient& api, SwapState state)
      : ctx_(ctx), api_(api), state_(std::move(state)) {}

  absl::StatusOr<SwapState> Read() {
    ASSIGN_OR_RETURN(state_.pvc, objects::Find<PersistentVolumeClaim>(
                                     ctx_, api_, state_.namespace_name, state_.pvc_name));
    RETURN_IF_ERROR(ReadVolumes());
    RETURN_IF_ERROR(ReadTemporary());
    return std::move(state_);
  }

 private:
  absl::Status ReadVolumes() {
    ASSIGN_OR_RETURN(auto volumes, objects::List<PersistentVolume>(
                                       ctx_, api_, "", {.label_selector = SelectorOf(state_)}));
    for (PersistentVolume& volume : volumes) {
      ASSIGN_OR_RETURN(SwapRecord record, ParseSwapRecord(volume));
      if (record.namespace_name != state_.namespace_name || record.pvc != state_.pvc_name) {
        return Refused(
            state_, absl::StrCat("is not that of the record on PersistentVolume ", volume.name()));
      }
      std::optional<SwapVolume>& slot =
          record.side == SwapSide::kOriginal ? state_.original : state_.restored;
      if (slot.has_value()) {
        return Refused(
            state_, absl::StrCat("has two volumes with the record of ", ToString(record.side), ": ",
                                 slot->volume.name(), " and ", volume.name(), "; look at them"));
      }
      slot = SwapVolume{.volume = std::move(volume), .record = std::move(record)};
    }
    return absl::OkStatus();
  }

  absl::Status ReadTemporary() {
    ASSIGN_OR_RETURN(auto pvcs,
                     objects::List<PersistentVolumeClaim>(ctx_, api_, state_.namespace_name,
                                                          {.label_selector = SelectorOf(state_)}));
    for (PersistentVolumeClaim& pvc : pvcs) {
      if (state_.temporary.has_value()) {
        return Refused(state_, absl::StrCat("has two temporary PVCs: ", state_.temporary->name(),
                                            " and ", pvc.name(), "; delete one of them"));
      }
      state_.temporary = std::move(pvc);
    }
    if (!state_.temporary.has_value() || !state_.temporary->is_bound()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(auto volume, objects::Find<PersistentVolume>(ctx_, api_, "",
                                                                  state_.temporary->volume_name()));
    // Else it is another's, and not to be touched.
    if (volume.has_value() && volume->pvc_uid() == state_.temporary->uid()) {
      state_.temporary_volume = std::move(volume);
    }
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  SwapState state_;
};

}  // namespace

absl::StatusOr<SwapStep> NextOfRestore(const SwapState& state, const SwapRequest& request) {
  if (state.original.has_value()) {
    const SwapRecord& record = state.original->record;
    if (record.goal != SwapSide::kRestored) {
      return Refused(state, absl::StrCat("had a restore of VolumeSnapshot ", record.snapshot,
                                         " that was undone; ", SwapCommand(state, "--finish"),
                                         " deletes what is left of that"));
    }
    const bool is_same = request.snapshot_uid.empty() ? record.snapshot == request.snapshot
                                                      : record.snapshot_uid == request.snapshot_uid;
    if (!is_same) {
      return Unfinished(
          state, record.snapshot,
          absl::StrCat("is not finished, which ", SwapCommand(state, "--finish"), " does"));
    }
    return NextOfExchange(state);
  }
  if (!state.pvc.has_value() || state.pvc->is_being_deleted() || !state.pvc->is_bound()) {
    return Refused(state, "was deleted, or is not bound: it has no volume to be replaced");
  }
  if (request.snapshot_uid.empty()) {
    return Refused(state, absl::StrCat("cannot be restored: VolumeSnapshot ", request.snapshot,
                                       " does not exist"));
  }
  RETURN_IF_ERROR(CheckTemporary(state, request));
  RETURN_IF_ERROR(CheckRestored(state, request));
  if (state.temporary.has_value() && state.temporary->is_being_deleted()) {
    return SwapStep::kAwaitTemporaryGone;
  }
  if (request.needs_safety_snapshot) {
    return SwapStep::kTakeSafetySnapshot;
  }
  if (!state.temporary.has_value() && !state.restored.has_value()) {
    return SwapStep::kMakeTemporary;
  }
  if (state.temporary.has_value() && !state.temporary->is_bound()) {
    return SwapStep::kAwaitTemporary;
  }
  const bool is_recorded = state.restored.has_value() && state.restored->volume.is_retained();
  return is_recorded ? SwapStep::kRecordOriginal : SwapStep::kRecordRestored;
}

absl::StatusOr<SwapStep> NextOfUndo(const SwapState& state) {
  if (!state.original.has_value()) {
    return NextOfAbandoning(state);
  }
  if (state.original->record.goal == SwapSide::kOriginal) {
    return NextOfExchange(state);
  }
  RETURN_IF_ERROR(CheckTarget(state, SwapSide::kOriginal));
  return SwapStep::kTurnBack;
}

absl::StatusOr<SwapStep> NextOfFinish(const SwapState& state) {
  if (!state.is_begun()) {
    const bool is_marked =
        state.pvc.has_value() && !state.pvc->Annotation(objects::kInPlaceRecordAnnotation).empty();
    return is_marked ? SwapStep::kCleanPvc : SwapStep::kDone;
  }
  ASSIGN_OR_RETURN(const SwapSide side, SideInUse(state));
  const SwapVolume& in_use = *state.Volume(side);
  const std::optional<SwapVolume>& other = state.Volume(OtherSide(side));
  if (!HasFormerPolicy(in_use)) {
    return SwapStep::kReturnPolicy;
  }
  if (other.has_value()) {
    if (!IsFree(state, other->volume)) {
      return Refused(state, absl::StrCat("is restored, but its other volume ", other->volume.name(),
                                         " is used by PVC ", other->volume.pvc_namespace(), "/",
                                         other->volume.pvc_name(), " now: it is not deleted"));
    }
    const bool goes =
        other->volume.is_being_deleted() || other->volume.reclaim_policy() == "Delete";
    return goes ? SwapStep::kAwaitVolumeGone : SwapStep::kRelease;
  }
  return state.pvc->Annotation(objects::kInPlaceRecordAnnotation).empty() ? SwapStep::kCleanVolume
                                                                          : SwapStep::kCleanPvc;
}

absl::StatusOr<SwapState> ReadSwapState(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name) {
  return StateReader(
             ctx, api,
             {.namespace_name = std::string(namespace_name), .pvc_name = std::string(pvc_name)})
      .Read();
}

std::string TemporaryPvcName(absl::string_view pvc_name, absl::string_view pvc_uid,
                             absl::string_view snapshot_uid) {
  const std::string hash = Sha256Hex(absl::StrCat(pvc_uid, "\n", snapshot_uid));
  return snapshots::FitName(pvc_name,
                            absl::StrCat("-restore-", hash.substr(0, kTemporaryHashBytes)));
}

std::vector<KeptVolume> KeptVolumesAmong(std::vector<PersistentVolume> volumes) {
  std::map<std::string, SwapVolume> by_name;
  for (PersistentVolume& volume : volumes) {
    if (absl::StatusOr<SwapRecord> record = ParseSwapRecord(volume); record.ok()) {
      const std::string name = volume.name();
      by_name.emplace(name, SwapVolume{.volume = std::move(volume), .record = *std::move(record)});
    }
  }
  std::vector<KeptVolume> kept;
  for (const auto& [name, one] : by_name) {
    const auto peer = by_name.find(one.record.peer);
    if (peer == by_name.end()) {
      continue;
    }
    const SwapRecord& original =
        one.record.side == SwapSide::kOriginal ? one.record : peer->second.record;
    if (original.side == SwapSide::kOriginal && original.goal != one.record.side) {
      kept.push_back({.volume = name,
                      .namespace_name = one.record.namespace_name,
                      .pvc_name = one.record.pvc,
                      .snapshot = one.record.snapshot,
                      .size_bytes = one.volume.capacity_bytes(),
                      .since = original.at});
    }
  }
  std::stable_sort(kept.begin(), kept.end(), [](const KeptVolume& left, const KeptVolume& right) {
    return left.since.value_or(absl::InfinitePast()) < right.since.value_or(absl::InfinitePast());
  });
  return kept;
}

std::string KeptVolumeText(const KeptVolume& kept, absl::Time now) {
  const int64_t hours =
      kept.since.has_value() ? std::max<int64_t>(0, (now - *kept.since) / absl::Hours(1)) : 0;
  const std::string age =
      hours >= 48 ? absl::StrCat(hours / 24, " days") : absl::StrCat(hours, " h");
  return absl::StrCat("PersistentVolume ", kept.volume,
                      kept.size_bytes.has_value()
                          ? absl::StrCat(" (", FormatBinaryQuantity(*kept.size_bytes), ")")
                          : "",
                      " of PVC ", kept.namespace_name, "/", kept.pvc_name, " is kept",
                      kept.since.has_value() ? absl::StrCat(" for ", age, ", since") : " because",
                      " VolumeSnapshot ", kept.snapshot, " was restored");
}

absl::StatusOr<std::vector<KeptVolume>> ListKeptVolumes(const CallContext& ctx, k8s::ApiClient& api,
                                                        absl::string_view namespace_name) {
  ASSIGN_OR_RETURN(auto volumes, objects::List<PersistentVolume>(
                                     ctx, api, "",
                                     {.label_selector = std::string(objects::kInPlaceLabel),
                                      .may_be_old = true}));
  std::vector<KeptVolume> kept = KeptVolumesAmong(std::move(volumes));
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [&](const KeptVolume& one) {
                              return !namespace_name.empty() &&
                                     one.namespace_name != namespace_name;
                            }),
             kept.end());
  return kept;
}

}  // namespace csidelta::inplace
