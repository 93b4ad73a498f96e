#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "csi/restore_guard.h"
#include "csi/volume_copy.h"
#include "k8s/api_client.h"
#include "objects/persistent_volume_claim.h"
#include "objects/volume_snapshot.h"

// In-place restore by copying what differs: the PVC keeps its uid and its PersistentVolume.
//
//   VolumeSnapshot, PVC
//       |  PlanCopy: csi/restore_guard.h, and what this method needs; changes nothing
//       v
//   plan without refusals
//       |  safety snapshot of the PVC
//       |  the Pods once more
//       |  csi/volume_copy.h: a Pod compares and writes
//       v
//   PVC with the data of the VolumeSnapshot; back: the same with the safety snapshot
//
// A Pod of an earlier run that still copies is gone on with; then no second safety snapshot is
// taken, which would hold half of either.
namespace csidelta::csi {

struct CopyPlan {
  objects::VolumeSnapshot snapshot;
  objects::PersistentVolumeClaim pvc;
  bool goes_on = false;  // with the Pod of an earlier run
  std::vector<RestoreRefusal> refusals = {};
  std::vector<std::string> refused_by_copy = {};  // what stands in the way of this method alone
  std::vector<std::string> not_checked = {};
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

// --- From a repository

struct RepositoryPlan {
  objects::PersistentVolumeClaim pvc;
  RepositorySource source;
  bool goes_on = false;  // with the Pod of an earlier run, which restores the same
  std::vector<RestoreRefusal> refusals = {};
  std::vector<std::string> refused_by_copy = {};
  std::vector<std::string> not_checked = {};
};

// What of csi/restore_guard.h is about the PVC: there is no VolumeSnapshot. Whether the volume is
// large enough shows before anything is written. Errors as PlanCopy().
absl::StatusOr<RepositoryPlan> PlanRepositoryRestore(const CallContext& ctx, k8s::ApiClient& api,
                                                     RestoreSurroundings around,
                                                     RepositorySource source,
                                                     absl::string_view pvc_name);

// As RestoreByCopy(): the Pod restores the source of the plan.
absl::StatusOr<CopyRestoreResult> RestoreFromRepository(const CallContext& ctx, k8s::ApiClient& api,
                                                        Random& random, const RepositoryPlan& plan,
                                                        const CopyRestoreOptions& options,
                                                        std::vector<std::string>& not_checked);

}  // namespace csidelta::csi
