#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume.h"
#include "objects/swap_record.h"

// The progress of an in-place restore by swap of volumes, and its next step: one read of the
// objects, and three pure functions. No other state exists, so any run resumes a killed one.
// inplace/volume_swap.h takes the steps.
//
// "original" is the volume that the PVC had, "restored" the one made of the VolumeSnapshot; the
// goal (of the original's record) says which of them is the target, and the other one is "the
// other". The first row that holds is the step.
//
//   NextOfRestore                                              step
//   ---------------------------------------------------------  -----------------------
//   the original has its record                                as NextOfUndo's exchange
//   a temporary PVC is being deleted                           AwaitTemporaryGone
//   no safety snapshot yet, and one is wanted                  TakeSafetySnapshot
//   no temporary PVC, no restored volume with a record         MakeTemporary
//   the temporary PVC is not bound                             AwaitTemporary
//   its volume has no record, or is not Retain                 RecordRestored
//   else                                                       RecordOriginal
//
//   NextOfUndo                                                 step
//   ---------------------------------------------------------  -----------------------
//   the original has its record, goal restored                 TurnBack: goal original
//   the original has its record, goal original                 the exchange:
//     a volume that the PVC is not bound to, other than the
//       original before its PVC went, is not Retain            Retain
//     a temporary PVC is being deleted                         AwaitTemporaryGone
//     there is a temporary PVC                                 RemoveTemporary
//     the PVC has the other volume, and is being deleted       AwaitPvcGone
//     the PVC has the other volume                             RemovePvc
//     no PVC, the target not reserved for its name             Reserve
//     no PVC                                                   MakePvc
//     the PVC has the target, and is not bound                 AwaitPvc
//     the PVC has the target, and no mark of the restore       MarkPvc
//     the target has not its former policy                     ReturnPolicy
//     else                                                     Done
//   a volume of the temporary PVC, or with a record, which
//     is not Delete or still has the record                    Abandon
//   a temporary PVC is being deleted                           AwaitTemporaryGone
//   there is a temporary PVC                                   RemoveTemporary
//   else                                                       Done
//
//   NextOfFinish, where the PVC is bound to the target         step
//   ---------------------------------------------------------  -----------------------
//   the target has not its former policy                       ReturnPolicy
//   there is the other volume, and it is not Delete            Release
//   there is the other volume                                  AwaitVolumeGone
//   the PVC has the mark of a restore                          CleanPvc
//   the target has a record                                    CleanVolume
//   else                                                       Done
//
// MarkPvc changes the resourceVersion of a PVC that was never exchanged, before its volume may be
// deleted again: another run that has read the PVC to delete it cannot do so any more.
//
// FAILED_PRECONDITION, and nothing is changed, if the objects match no row: another PVC has the
// name, another restore is unfinished, a needed volume is gone or is being deleted.
namespace csidelta::inplace {

struct SwapVolume {
  objects::PersistentVolume volume;
  objects::SwapRecord record;
};

struct SwapState {
  std::string namespace_name;
  std::string pvc_name;
  std::optional<objects::PersistentVolumeClaim> pvc = {};
  std::optional<SwapVolume> original = {};  // these two: with a record
  std::optional<SwapVolume> restored = {};
  std::optional<objects::PersistentVolumeClaim> temporary = {};
  // The volume of the temporary PVC once they are bound to each other, with or without a record.
  std::optional<objects::PersistentVolume> temporary_volume = {};

  const std::optional<SwapVolume>& Volume(objects::SwapSide side) const {
    return side == objects::SwapSide::kOriginal ? original : restored;
  }
  // The goal of an original with a record; else restored.
  objects::SwapSide goal() const {
    return original.has_value() ? original->record.goal : objects::SwapSide::kRestored;
  }
  // The PVC has the restored volume.
  bool has_restored() const {
    return pvc.has_value() && restored.has_value() && pvc->volume_name() == restored->volume.name();
  }
  bool is_begun() const {
    return original.has_value() || restored.has_value() || temporary.has_value();
  }
};

enum class SwapStep {
  kTakeSafetySnapshot,
  kMakeTemporary,
  kAwaitTemporary,
  kRecordRestored,
  kRecordOriginal,
  kTurnBack,
  kRetain,
  kRemoveTemporary,
  kAwaitTemporaryGone,
  kRemovePvc,
  kAwaitPvcGone,
  kReserve,
  kMakePvc,
  kAwaitPvc,
  kMarkPvc,
  kReturnPolicy,
  kAbandon,
  kRelease,
  kAwaitVolumeGone,
  kCleanPvc,
  kCleanVolume,
  kDone,
};

// The VolumeSnapshot to restore. `snapshot_uid` "": it does not exist any more, which matters only
// until the original has its record.
struct SwapRequest {
  std::string snapshot;
  std::string snapshot_uid;
  bool needs_safety_snapshot = false;  // wanted, and not taken yet
};

// The tables above. Pure.
absl::StatusOr<SwapStep> NextOfRestore(const SwapState& state, const SwapRequest& request);
absl::StatusOr<SwapStep> NextOfUndo(const SwapState& state);
absl::StatusOr<SwapStep> NextOfFinish(const SwapState& state);

// One GET of the PVC and up to two of volumes; one LIST of the volumes and one of the PVCs with the
// label of this PVC. FAILED_PRECONDITION if a record cannot be read, or is of another PVC.
absl::StatusOr<SwapState> ReadSwapState(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name);

// The name of the temporary PVC: the same in each run. Pure.
std::string TemporaryPvcName(absl::string_view pvc_name, absl::string_view pvc_uid,
                             absl::string_view snapshot_uid);

// A volume that an in-place restore keeps beside the one in use, until --finish.
struct KeptVolume {
  std::string volume;
  std::string namespace_name;
  std::string pvc_name;
  std::string snapshot;  // that was restored
  std::optional<int64_t> size_bytes = {};
  std::optional<absl::Time> since = {};
};

// The kept volumes among `volumes`, the oldest first. Records that cannot be read are omitted.
// Pure.
std::vector<KeptVolume> KeptVolumesAmong(std::vector<objects::PersistentVolume> volumes);
// "PersistentVolume pv-1 (1Gi) of PVC shop/data is kept for 3 days, since VolumeSnapshot monday was
// restored", and what deletes it. Pure.
std::string KeptVolumeText(const KeptVolume& kept, absl::Time now);

// The command that ends the restore of a KeptVolume, a SwapState or a SwapTarget. Pure.
template <typename Swap>
std::string SwapCommand(const Swap& swap, absl::string_view flag) {
  return absl::StrCat("csi-delta snapshot restore --into ", swap.pvc_name, " -n ",
                      swap.namespace_name, " ", flag);
}

// The kept volumes of a namespace, of all for "": one LIST by label, from the API server's cache.
absl::StatusOr<std::vector<KeptVolume>> ListKeptVolumes(const CallContext& ctx, k8s::ApiClient& api,
                                                        absl::string_view namespace_name);

}  // namespace csidelta::inplace
