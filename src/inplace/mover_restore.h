#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/random.h"
#include "inplace/restore_guard.h"
#include "k8s/api_client.h"
#include "objects/data_transfer.h"
#include "objects/outcome.h"
#include "objects/persistent_volume.h"

// The data mover restores the data of a DataUpload into a PVC that exists. The mover has the keys
// and credentials; the caller needs none. The PVC keeps its uid and its PersistentVolume, so its
// next backup is an incremental one.
//
//   DataUpload, Completed; PVC
//       |  PlanMoverRestore: inplace/restore_guard.h; changes nothing
//       v
//   plan without refusals
//       |  safety snapshot of the PVC
//       |  the Pods once more
//       |  DataDownload with the annotations mover.csi-delta.io/into and start-before, and the name
//       |  of the PersistentVolume
//       |  annotation of the PVC with the uid of the DataDownload: the consent, which is worth
//       |  nothing unless that object exists
//       |  the mover looks at all of it again, and writes what differs (inplace/in_place_volume.h)
//       v
//   Completed: PVC with the data of the DataUpload; the DataDownload is deleted
//   Failed, Canceled: it says why, and stays until the next run
//
// The name of the DataDownload derives from the uids of PVC and DataUpload. So a second run finds
// the DataDownload of a killed one, and follows it if the mover has begun to write: the mover goes
// on meanwhile. A DataDownload that has not begun is deleted, also if the caller is cancelled, and
// made again.
namespace csidelta::inplace {

// A DataDownload that no data mover has accepted by then is reported as waiting for a data mover.
inline constexpr absl::Duration kMoverSilenceNoted = absl::Minutes(1);

struct MovedSource {
  std::string velero_namespace;
  std::string upload;         // a DataUpload there; with a location its status.snapshotID
  std::string location = {};  // the BackupStorageLocation, where the cluster has no DataUpload
};

// The DataUpload, if what it moved can be restored: else NOT_FOUND, FAILED_PRECONDITION if it is
// another mover's or not Completed, or INVALID_ARGUMENT if it cannot be understood.
absl::StatusOr<objects::DataUpload> ReadUpload(const CallContext& ctx, k8s::ApiClient& api,
                                               const MovedSource& source);

struct MoverPlan {
  objects::PersistentVolumeClaim pvc;
  objects::DataDownload download;  // to make, or that of an earlier run
  bool goes_on = false;            // with what an earlier run began
  std::vector<Finding> refusals = {};
  std::vector<std::string> not_checked = {};
};

struct MoverRestoreOptions {
  bool takes_safety_snapshot = true;
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = nullptr;
  std::function<void(const std::string& sentence)> on_step = nullptr;  // after each step
};

struct MoverRestoreResult {
  objects::RestoreFigures figures;
  std::string safety_snapshot;  // "" for none
};

// Checks that the caller may create DataDownloads, and read the users of the PVCs of a namespace:
// PERMISSION_DENIED, naming the missing right.
absl::Status CheckMayAskMover(const CallContext& ctx, k8s::ApiClient& api,
                              absl::string_view velero_namespace, absl::string_view namespace_name);

// Errors, beside those of ReadUpload() and the API server: NOT_FOUND if the PVC does not exist.
absl::StatusOr<MoverPlan> PlanMoverRestore(const CallContext& ctx, k8s::ApiClient& api,
                                           const RestoreSurroundings& around,
                                           const MovedSource& source, absl::string_view pvc_name);

// REQUIRES a plan without refusals. Before the DataDownload is made, takes the safety snapshot, or
// guards the PVC if none is wanted. If the plan goes on, an earlier run has done that. Blocks until
// the mover is done. Adds to `not_checked`. Errors, beside those of GuardRestore(), and of
// CreateSnapshot(), which say how to restore without a snapshot:
//   FAILED_PRECONDITION  a Pod uses the PVC meanwhile; the mover failed, or was cancelled: why. The
//                        message names the VolumeSnapshot that holds the data of before
//   PERMISSION_DENIED    Pods may not be listed
//   ABORTED              the one that was gone on with has just ended
//   CANCELLED · DEADLINE_EXCEEDED  the mover goes on, and how to stop it; or it had not accepted the
//                        DataDownload, which is deleted
absl::StatusOr<MoverRestoreResult> RestoreByMover(const CallContext& ctx, k8s::ApiClient& api,
                                                  Random& random, const MoverPlan& plan,
                                                  const MoverRestoreOptions& options,
                                                  std::vector<std::string>& not_checked);

}  // namespace csidelta::inplace
