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

// Reconciles DataUploads: the worker reads the volume snapshot, which is exposed to it, into the
// repository. Afterwards its snapshot is kept as the base of the volume's next upload, or is
// deleted. The base before it is deleted, too. An upload that does not complete deletes its
// snapshot and keeps the older base.
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

// What the scheduler needs of a DataUpload; nothing if it is over or not managed.
std::optional<QueuedTransfer> QueuedUpload(const objects::Object& object);

// Records that a volume has a good backup, if `upload` is completed, managed and valid.
void RecordGoodBackup(const objects::DataUpload& upload, TransferScheduler& scheduler);

// Removes what is left of a DataUpload's task, if the DataUpload is over or gone; else does
// nothing. A base stays.
absl::Status RemoveUploadLeftovers(const CallContext& ctx, const MoverEnvironment& env,
                                   const objects::VolumeTask& task);

// Removes the objects that exposed a volume snapshot for the DataUpload of `task_name`, and the
// driver's snapshot unless it is a base.
absl::Status RemoveUploadExposure(const CallContext& ctx, const MoverEnvironment& env,
                                  const std::string& task_name,
                                  const std::string& velero_namespace);

}  // namespace csidelta::datamover
