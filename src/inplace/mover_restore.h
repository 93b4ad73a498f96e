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

// What the data mover moved comes back into a PVC that exists, by the data mover: it has the keys
// and the credentials, which the caller needs not. The PVC keeps its uid and its PersistentVolume,
// so its next backup is an incremental one.
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
// The name of the DataDownload derives from the uids of PVC and DataUpload. So a second run after
// one that was killed finds it, and follows it where it has begun to write: the mover goes on
// meanwhile. One that has not is deleted, also when the caller is told to end, and made again.
namespace csidelta::inplace {

// A DataDownload that no data mover has accepted after so long is said to be waiting for a data
// mover.
inline constexpr absl::Duration kMoverSilenceNoted = absl::Minutes(1);

struct MovedSource {
  std::string velero_namespace;
  std::string upload;  // a DataUpload there
};

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

// Whether the caller may ask the mover, and know what uses the PVCs of a namespace:
// PERMISSION_DENIED, naming what is missing.
absl::Status CheckMayAskMover(const CallContext& ctx, k8s::ApiClient& api,
                              absl::string_view velero_namespace, absl::string_view namespace_name);

// Errors, beside those of the API server:
//   NOT_FOUND            the DataUpload, or the PVC, does not exist
//   FAILED_PRECONDITION  the DataUpload is another mover's, or not Completed
//   INVALID_ARGUMENT     it cannot be understood
absl::StatusOr<MoverPlan> PlanMoverRestore(const CallContext& ctx, k8s::ApiClient& api,
                                           const RestoreSurroundings& around,
                                           const MovedSource& source, absl::string_view pvc_name);

// REQUIRES a plan without refusals. Before the mover is asked, takes the safety snapshot, or guards
// the PVC where none is wanted; for a run that goes on that was done before. Blocks until the mover
// is done. Adds to `not_checked`. Errors, beside those of CreateSnapshot(), which say how to do
// without, and of GuardRestore():
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
