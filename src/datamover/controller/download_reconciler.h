#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/controller/transfer_step.h"
#include "datamover/mover_environment.h"
#include "datamover/transfer_scheduler.h"
#include "objects/data_transfer.h"
#include "objects/object.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// How long a target may take to be bound to the volume that was filled for it. All of its data is
// there. A dead node, or the detach queue of the storage, may delay it for hours. Velero ends a
// restore by its own timeout. Meanwhile the download holds no admission.
inline constexpr absl::Duration kBindingTimeMax = absl::Hours(24);

// In place: how long an admitted DataDownload waits for the PVC's consent.
inline constexpr absl::Duration kConsentTimeMax = absl::Minutes(1);

// Reconciles DataDownloads: the worker fills a volume of its own, which is then rebound to the
// target:
//
//   the target is there, and where its class wants that, a Pod was scheduled that uses it; a claim
//   of its own, Secret, Pod ---> InProgress --- task Succeeded: volume, handing-over-at; the volume
//   is given to the target until the two are bound, without an admission ---> Completed
//
// A download that is cancelled while its volume is being rebound is finished rather than undone: a
// volume that the target names stays the target's.
//
// With the annotation mover.csi-delta.io/into the target has a volume, which stays. The worker
// writes the blocks that differ into it (inplace/in_place_volume.h), and nothing is rebound.
class DownloadReconciler : public TransferReconciler {
 public:
  DownloadReconciler(const MoverEnvironment& env, TransferScheduler& scheduler,
                     OnTransferEnd on_end)
      : TransferReconciler(env, scheduler, objects::DataDownload::Type(), std::move(on_end)) {}

 private:
  absl::StatusOr<std::unique_ptr<TransferStep>> StepFor(
      const CallContext& ctx, const objects::DataTransfer& object) override;
};

// What the scheduler needs of a DataDownload; nothing if it is over or not managed.
std::optional<QueuedTransfer> QueuedDownload(const objects::Object& object);

// Removes what is left of a DataDownload's task, if the DataDownload is over or gone; else does
// nothing. A volume that its target has stays.
absl::Status RemoveDownloadLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                     const objects::VolumeTask& task);

}  // namespace csidelta::datamover
