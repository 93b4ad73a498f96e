#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "base/random.h"
#include "inplace/restore_guard.h"
#include "inplace/swap_state.h"
#include "k8s/api_client.h"
#include "objects/node.h"
#include "objects/patch.h"
#include "objects/persistent_volume.h"
#include "objects/volume_snapshot.h"

// In-place restore by swap of volumes: the PVC gets a volume made of a VolumeSnapshot, and keeps
// its name, labels, annotations, owners and spec. We copy no byte, so any driver is suitable.
//
//   PVC -- original volume             VolumeSnapshot
//       |  safety snapshot of the PVC
//       |  temporary PVC of the VolumeSnapshot: its volume is "restored"
//       |  restored: Retain, record.  original: Retain, record with the PVC as it is
//       v  (up to here --undo removes what was made)
//       |  temporary PVC deleted, restored stays
//       |  no Pod uses the PVC: PVC deleted, original stays
//       |  restored reserved for the name, PVC made again with it, bound; its reclaim policy again
//       v
//   PVC -- restored volume             original: kept (Retain)
//       |  Undo: the same exchange, back        |  Finish: the volume not in use is deleted
//       v                                       v
//   PVC -- original volume             PVC -- volume in use, without records
//
// A finalizer that another program put on the PVC is respected: the exchange waits until that
// program has removed it. The new PVC has it again.
//
// Each step follows from one read of the objects (inplace/swap_state.h). No state is kept
// elsewhere: any run of the same verb resumes a killed one, and concurrent runs exclude each other
// by preconditions. The PVC does not exist between its deletion and its creation; a Pod that starts
// meanwhile waits.
namespace csidelta::inplace {

struct SwapTarget {
  std::string namespace_name;
  std::string pvc_name;
  std::string snapshot_name = {};  // "" to undo and to finish
  // Nothing: it does not exist, which matters only until the exchange has begun.
  std::optional<objects::VolumeSnapshot> snapshot = {};
  bool takes_safety_snapshot = true;
};

// The effects of a restore, or the refusals.
struct SwapPlan {
  SwapTarget target;
  SwapState state;
  bool was_begun = false;            // by an earlier run
  bool was_exchanging = false;       // it got so far that only the check of Pods is left
  std::string original_volume = {};  // "" if it cannot be known
  std::string temporary_pvc = {};
  std::string storage_class = {};
  std::string driver = {};  // of the volume; "" when not known
  int64_t size_bytes = 0;   // of the restored volume
  // Finalizers of other programs on the PVC: its deletion waits for them, and the new PVC has them.
  std::vector<std::string> finalizers = {};
  std::string node = {};  // for a class that waits for a consumer; "": any node
  std::vector<Finding> refusals = {};
  std::vector<std::string> refused_by_swap = {};  // obstacles to this method alone
  std::vector<std::string> not_checked = {};
};

// The checks of inplace/restore_guard.h, and those of this method: the StorageClass of the PVC must
// still make volumes of its driver. If it waits for the first consumer, a node must be known.
// Changes nothing. FAILED_PRECONDITION if another restore is unfinished.
absl::StatusOr<SwapPlan> PlanSwap(const CallContext& ctx, k8s::ApiClient& api,
                                  const RestoreSurroundings& around, const SwapTarget& target);

// PERMISSION_DENIED, naming the ClusterRole, unless the caller may do all that a swap needs.
absl::Status CheckSwapRights(const CallContext& ctx, k8s::ApiClient& api,
                             absl::string_view namespace_name);

// FAILED_PRECONDITION while the volume that --finish deletes is the last that surely has the data:
// the restored one is not shown to be filled (csi/population.h), or a copy is still read from it.
absl::Status CheckMayDeleteUnused(const CallContext& ctx, k8s::ApiClient& api,
                                  const SwapState& state);

// The VolumeSnapshots whose data --finish deletes with the volume, in a sentence; "" for none.
absl::StatusOr<std::string> LossByFinish(const CallContext& ctx, k8s::ApiClient& api,
                                         const SwapState& state);

// Reported after each step, in order.
struct SwapProgress {
  SwapStep step;
  std::string pvc;   // namespace/name
  std::string text;  // "PVC shop/data is deleted; its volume pv-1 is kept"
};
using SwapSink = std::function<void(const SwapProgress& progress)>;

struct SwapResult {
  std::string original_volume;
  std::string restored_volume;
  std::string safety_snapshot;  // "" for none
  objects::SwapSide in_use = objects::SwapSide::kOriginal;
  std::optional<absl::Time> at = {};      // when the restore took place
  bool did_anything = false;              // false: there was nothing to do
  std::vector<std::string> kept_handles;  // of Finish: kept by the storage despite the deletion
  std::vector<std::string> not_checked;
};

// One restore, undo or finish of one PVC. Borrows all but the target. Not thread-safe. Errors,
// beside those of the API server:
//   FAILED_PRECONDITION  a Pod uses the PVC, another PVC has its name, the provisioner refuses, a
//                        volume that is needed is gone: the message says what to do, and running
//                        it again goes on
//   DEADLINE_EXCEEDED    with what was waited for
//   IsVolumeBusy()       a snapshot of the PVC is being taken: the safety snapshot was not
class VolumeSwap {
 public:
  VolumeSwap(const CallContext& ctx, k8s::ApiClient& api, Random& random, SwapTarget target,
             SwapSink sink);

  // All steps up to the record on the original: they can be undone without a trace. REQUIRES a plan
  // without refusals.
  absl::Status Prepare(const SwapPlan& plan);
  // The other steps. REQUIRES Prepare().
  absl::StatusOr<SwapResult> Exchange();

  absl::StatusOr<SwapResult> Undo();
  absl::StatusOr<SwapResult> Finish();

  // "TakeSafetySnapshot", ...
  static absl::string_view NameOf(SwapStep step);

 private:
  struct StepRow;
  static const StepRow kSteps[];
  using Next = std::function<absl::StatusOr<SwapStep>(const SwapState& state)>;

  absl::Status Run(const Next& next);
  SwapRequest Request() const;
  SwapResult Result() const;

  struct SafetySnapshot {
    std::string name;
    bool is_taken = false;  // by an earlier run
  };
  absl::StatusOr<SafetySnapshot> FindSafetySnapshot();

  // Each step returns what it did, for the sink; "" for nothing to report.
  absl::StatusOr<std::string> Take(SwapStep step);
  absl::StatusOr<std::string> TakeSafetySnapshot();
  absl::StatusOr<std::string> MakeTemporary();
  absl::StatusOr<std::string> AwaitTemporary();
  absl::StatusOr<std::string> RecordRestored();
  absl::StatusOr<std::string> RecordOriginal();
  absl::StatusOr<std::string> TurnBack();
  absl::StatusOr<std::string> Retain();
  absl::StatusOr<std::string> RemoveTemporary();
  absl::StatusOr<std::string> AwaitTemporaryGone();
  absl::StatusOr<std::string> RemovePvc();
  absl::StatusOr<std::string> AwaitPvcGone();
  absl::StatusOr<std::string> Reserve();
  absl::StatusOr<std::string> MakePvc();
  absl::StatusOr<std::string> AwaitPvc();
  absl::StatusOr<std::string> MarkPvc();
  absl::StatusOr<std::string> ReturnPolicy();
  absl::StatusOr<std::string> Abandon();
  absl::StatusOr<std::string> Release();
  absl::StatusOr<std::string> AwaitVolumeGone();
  absl::StatusOr<std::string> CleanPvc();
  absl::StatusOr<std::string> CleanVolume();

  absl::Status CheckNoPodUses(absl::string_view pvc_name, absl::string_view consequence);
  std::string mark() const;  // of the PVC: the name of the volume that it does not have
  absl::Status PatchPvc(objects::Patch patch);
  absl::StatusOr<std::string> AwaitGone(const objects::PersistentVolumeClaim& pvc);
  absl::Status PatchVolume(const objects::PersistentVolume& volume, objects::Patch patch);
  absl::Status WriteRecord(const objects::PersistentVolume& volume,
                           const objects::SwapRecord& record, absl::string_view policy);
  const SwapVolume& target_volume() const { return *state_.Volume(state_.goal()); }
  const SwapVolume* other_volume() const;
  const SwapVolume& in_use() const;  // of Finish
  std::string PvcText() const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  Random& random_;
  const SwapTarget target_;
  const SwapSink sink_;
  std::optional<SwapPlan> plan_;  // while preparing
  SwapState state_;               // as it was read last
  SwapResult result_;
};

// Chooses the node for a volume that must be usable on the nodes of `volume`, and that no Pod uses.
// A StorageClass that waits for the first consumer makes it on the node that an annotation of its
// PVC names. The choice is the first node by name that the affinity of `volume` selects and that
// has its driver. Nodes that are not cordoned come first. "" for none. Pure.
std::string ChooseNode(const objects::PersistentVolume& volume,
                       const std::vector<objects::Node>& nodes,
                       const std::vector<objects::CsiNode>& csi_nodes);

}  // namespace csidelta::inplace
