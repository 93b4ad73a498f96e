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
// there, and what is waited for, a node that died or a queue of the storage that detaches, may take
// hours; Velero ends a restore when its own time is over. Meanwhile it holds no admission.
inline constexpr absl::Duration kBindingTimeMax = absl::Hours(24);

// In place: how long the PVC may take to consent to a DataDownload that is admitted.
inline constexpr absl::Duration kConsentTimeMax = absl::Minutes(1);

// Moves DataDownloads, each look a TransferStep: the worker fills a volume of its own, which is
// then given to the target:
//
//   the target is there, and where its class wants that, a Pod was scheduled that uses it; a claim
//   of its own, Secret, Pod ---> InProgress --- task Succeeded: volume, handing-over-at; the volume
//   is given to the target until the two are bound, without an admission ---> Completed
//
// What is cancelled when it is half given is sooner finished than taken back: a volume that the
// target names already stays the target's.
//
// With the annotation mover.csi-delta.io/into the target has a volume, which stays: the worker
// writes what differs into that (inplace/in_place_volume.h), and nothing is given.
class DownloadReconciler : public TransferReconciler {
 public:
  DownloadReconciler(const MoverEnvironment& env, TransferScheduler& scheduler,
                     OnTransferEnd on_end)
      : TransferReconciler(env, scheduler, objects::DataDownload::Type(), std::move(on_end)) {}

 private:
  absl::StatusOr<std::unique_ptr<TransferStep>> StepFor(
      const CallContext& ctx, const objects::DataTransfer& object) override;
};

// What a DataDownload says to the scheduler; nothing for one that is over, or not managed.
std::optional<QueuedTransfer> QueuedDownload(const objects::Object& object);

// Removes what is left of a DataDownload's task when the DataDownload has its last phase, or is
// gone: nothing else does. A volume that its target has stays.
absl::Status RemoveDownloadLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                     const objects::VolumeTask& task);

}  // namespace csidelta::datamover
