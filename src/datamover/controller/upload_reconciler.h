#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "datamover/controller/transfer_step.h"
#include "datamover/mover_environment.h"
#include "datamover/records/volume_records.h"
#include "datamover/transfer_scheduler.h"
#include "objects/data_transfer.h"
#include "objects/object.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// Moves DataUploads, each look a TransferStep: the worker reads the volume snapshot, which is
// exposed to it, into the repository. Once it is done its snapshot is kept as the base of the next
// upload of the volume, or goes; a base that was kept before goes with it. What was not completed
// takes its snapshot along, and the older base stays.
class UploadReconciler : public TransferReconciler {
 public:
  // `records`: what checks found; null: it is read from the API server. Borrowed.
  UploadReconciler(const MoverEnvironment& env, TransferScheduler& scheduler, OnTransferEnd on_end,
                   const VolumeRecords* records = nullptr)
      : TransferReconciler(env, scheduler, objects::DataUpload::Type(), std::move(on_end)),
        records_(records) {}

 private:
  absl::StatusOr<std::unique_ptr<TransferStep>> StepFor(
      const CallContext& ctx, const objects::DataTransfer& object) override;

  const VolumeRecords* const records_;
};

// What a DataUpload says to the scheduler; nothing for one that is over, or not managed.
std::optional<QueuedTransfer> QueuedUpload(const objects::Object& object);

// Records that a volume has a good backup, if `upload` is completed, managed and valid.
void RecordGoodBackup(const objects::DataUpload& upload, TransferScheduler& scheduler);

// Removes what is left of a DataUpload's task when the DataUpload has its last phase, or is gone:
// nothing else does. A base stays.
absl::Status RemoveUploadLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                   const objects::VolumeTask& task);

// Removes what a volume snapshot was exposed through for the DataUpload of `stem`, and the driver's
// snapshot unless it is a base.
absl::Status RemoveUploadExposure(const CallContext& ctx, const MoverEnvironment& env,
                                  const std::string& task_name,
                                  const std::string& velero_namespace);

}  // namespace csidelta::datamover
