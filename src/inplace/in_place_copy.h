#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "inplace/restore_guard.h"
#include "inplace/volume_copy.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume_claim.h"
#include "objects/volume_snapshot.h"
#include "snapshots/snapshot_creation.h"
#include "snapshots/volume_guard.h"

// In-place restore by copying what differs: the PVC keeps its uid and its PersistentVolume.
//
//   VolumeSnapshot, PVC
//       |  PlanCopy: inplace/restore_guard.h, and what this method needs; changes nothing
//       v
//   plan without refusals
//       |  safety snapshot of the PVC
//       |  the Pods once more
//       |  inplace/volume_copy.h: a Pod compares and writes
//       v
//   PVC with the data of the VolumeSnapshot; back: the same with the safety snapshot
//
// A Pod of an earlier run that still copies is gone on with; then no second safety snapshot is
// taken, which would hold half of either.
namespace csidelta::inplace {

// The plan of a restore into a volume in place, wherever the data is.
struct InPlacePlan {
  objects::PersistentVolumeClaim pvc;
  bool goes_on = false;  // with what an earlier run began, which restores the same
  std::vector<RestoreRefusal> refusals = {};
  std::vector<std::string> refused_by_copy = {};  // what stands in the way of this method alone
  std::vector<std::string> not_checked = {};
};

struct CopyPlan : InPlacePlan {
  objects::VolumeSnapshot snapshot;
};

// NOT_FOUND when the PVC does not exist; PERMISSION_DENIED when it may not be read.
absl::StatusOr<CopyPlan> PlanCopy(const CallContext& ctx, k8s::ApiClient& api,
                                  RestoreSurroundings around,
                                  const objects::VolumeSnapshot& snapshot,
                                  absl::string_view pvc_name);

struct CopyRestoreOptions {
  bool takes_safety_snapshot = true;
  absl::Duration safety_timeout = absl::Minutes(10);
  CopyPodSettings pod;
  std::function<void(const VolumeCopyProgress&)> on_progress = nullptr;
  std::function<void(const std::string& sentence)> on_step = nullptr;  // after each step
};

struct CopyRestoreResult {
  VolumeCopyResult copy;
  std::string safety_snapshot;  // "" for none
};

// REQUIRES a plan that nothing is against. Blocks until the copy is done; errors of
// CreateSnapshot() and CopyIntoVolume(), and FAILED_PRECONDITION when a Pod uses the PVC meanwhile.
// Adds to `not_checked`.
absl::StatusOr<CopyRestoreResult> RestoreByCopy(const CallContext& ctx, k8s::ApiClient& api,
                                                Random& random, const CopyPlan& plan,
                                                const CopyRestoreOptions& options,
                                                std::vector<std::string>& not_checked);

// --- What restores into a volume in place have in common, wherever the data is

// What inplace/restore_guard.h asks about, of no VolumeSnapshot. Errors of ReadRestoreInfo().
absl::StatusOr<RestoreInfo> ReadPvcInfo(const CallContext& ctx, k8s::ApiClient& api,
                                        absl::string_view namespace_name,
                                        absl::string_view pvc_name);

// Of the checks of inplace/restore_guard.h those of the PVC, and one of its mode. REQUIRES a PVC.
// Pure.
InPlacePlan PlanInto(const RestoreSurroundings& around, const RestoreInfo& info);

// OK where nothing is against it; else RefusalStatus(), or FAILED_PRECONDITION with all of both.
// Pure.
absl::Status CopyRefusalStatus(const objects::PersistentVolumeClaim& pvc,
                               const std::vector<RestoreRefusal>& refusals,
                               const std::vector<std::string>& refused_by_copy);

struct SafetyWish {
  std::string note;  // of the safety snapshot
  snapshots::AwaitedState awaited = snapshots::AwaitedState::kTaken;
  std::string restore;        // what GuardRestore() calls this restore
  std::string copy_pod = {};  // the name of the Pod that copies for it; "": none
};
struct SecuredVolume {
  std::string safety_snapshot;                    // "" for none
  std::unique_ptr<snapshots::VolumeGuard> guard;  // where none is taken; null for one that goes on
};
// Before the first write: takes the safety snapshot, or guards the PVC where none is wanted. One
// that goes on has been secured before. Adds to `not_checked`. Errors of CreateSnapshot(), which
// say how to do without, and of GuardRestore(); FAILED_PRECONDITION where a Pod uses the PVC that
// has started since the plan was made; PERMISSION_DENIED where Pods may not be listed, which
// CheckMayCopy() and CheckMayAskMover() ask about before.
absl::StatusOr<SecuredVolume> SecureVolume(const CallContext& ctx, k8s::ApiClient& api,
                                           Random& random, const InPlacePlan& plan,
                                           const CopyRestoreOptions& options,
                                           const SafetyWish& wish,
                                           std::vector<std::string>& not_checked);

// The result, or the error with the VolumeSnapshot that holds the data of before.
absl::StatusOr<CopyRestoreResult> WithSafety(absl::StatusOr<VolumeCopyResult> copied,
                                             const std::string& safety_snapshot);

// --- From a repository

struct RepositoryPlan : InPlacePlan {
  RepositorySource source;
};

// What of inplace/restore_guard.h is about the PVC: there is no VolumeSnapshot. Whether the volume
// is large enough shows before anything is written. Errors as PlanCopy().
absl::StatusOr<RepositoryPlan> PlanRepositoryRestore(const CallContext& ctx, k8s::ApiClient& api,
                                                     RestoreSurroundings around,
                                                     RepositorySource source,
                                                     absl::string_view pvc_name);

// As RestoreByCopy(): the Pod restores the source of the plan.
absl::StatusOr<CopyRestoreResult> RestoreFromRepository(const CallContext& ctx, k8s::ApiClient& api,
                                                        Random& random, const RepositoryPlan& plan,
                                                        const CopyRestoreOptions& options,
                                                        std::vector<std::string>& not_checked);

}  // namespace csidelta::inplace
