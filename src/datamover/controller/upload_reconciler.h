#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "datamover/controller/transfer_step.h"
#include "datamover/mover_environment.h"
#include "datamover/records/upload_report.h"
#include "datamover/records/volume_records.h"
#include "datamover/transfer_scheduler.h"
#include "objects/data_transfer.h"
#include "objects/object.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// How an upload ended.
struct UploadEnd {
  objects::DataPhase phase;
  objects::BackupFigures figures;  // of one that is Completed
  bool audit_mismatch = false;     // the audit of its list of changed blocks found one that lied
  bool key_confirmed = true;
  int pods_lost = 0;
};

// Moves DataUploads, each look a TransferStep: the worker reads the volume snapshot, which is
// exposed to it, into the repository. Once it is done its snapshot is kept as the base of the next
// upload of the volume, or goes; a base that was kept before goes with it. What was not completed
// takes its snapshot along, and the older base stays.
class UploadReconciler : public TransferReconciler {
 public:
  // Borrows all. `on_end` is told of each that ended, once or, after a crash, never. `records`:
  // what checks found; null: it is read from the API server.
  UploadReconciler(const MoverEnvironment& env, TransferScheduler& scheduler,
                   std::function<void(const UploadEnd&)> on_end,
                   const VolumeRecords* records = nullptr);

 private:
  absl::StatusOr<std::unique_ptr<TransferStep>> StepFor(
      const CallContext& ctx, const objects::DataTransfer& object) override;

  TransferScheduler& scheduler_;
  const std::function<void(const UploadEnd&)> on_end_;
  const VolumeRecords* const records_;
};

// What a DataUpload says to the scheduler; nothing for one that is over, or not managed.
std::optional<QueuedTransfer> QueuedUpload(const objects::Object& object);

// That a volume has a good backup; nothing unless the object is a completed, managed DataUpload.
struct GoodBackup {
  std::string volume;  // as QueuedTransfer has it
  absl::Time taken_at;
};
std::optional<GoodBackup> GoodBackupOf(const objects::Object& object);

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
