#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/repository_access.h"
#include "datamover/transfer_object.h"
#include "datamover/transfer_scheduler.h"
#include "datamover/worker/worker_run.h"
#include "k8s/api_client.h"
#include "k8s/event_recorder.h"
#include "objects/data_transfer.h"
#include "objects/event_handler.h"
#include "objects/keys.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// After this time without a node a Pod's admission goes to others. The Pod stays, and runs as soon
// as a node takes it.
inline constexpr absl::Duration kUnschedulableTimeMax = absl::Minutes(2);
// If more Pods than this are unschedulable, admissions are kept: the cluster is full, and other
// Pods would wait as well.
inline constexpr int kUnschedulablePodsMax = 100;

// If more transfers than this are refused by the API server, admissions are kept: it would refuse
// what the next transfer needs as well.
inline constexpr int kRefusedTransfersMax = 20;

// After this time without a running Pod the message names what is waited for.
inline constexpr absl::Duration kWaitShownAfter = absl::Seconds(3);

// The pause between reconciles while waiting for something that no watch reports.
inline constexpr absl::Duration kTransferRequeueAfter = absl::Milliseconds(500);

// How a transfer ended.
struct TransferEnd {
  objects::DataPhase phase;
  objects::BackupFigures figures = {};  // of a Completed upload
  bool audit_mismatch = false;  // the audit of its list of changed blocks found one that lied
  int pods_lost = 0;            // of an upload
  int64_t restored_bytes = 0;
};
using OnTransferEnd = std::function<void(const TransferEnd& end)>;

// One reconcile of one DataUpload or DataDownload:
//
//   New ----------- finalizer ------------------------------------------------> Accepted
//       +---------- the kind does not take it --------------------------------> Failed
//   Accepted ------ not admitted: the message says what it waits for
//       |---------- admitted: turn-at ---------------------------------------+
//       |             a consumer, readiness or a node is waited for, or the   |
//       |             API server refuses: the admission is given back,        |
//       |             awaiting-at; asked for again once the Pod can be made,  |
//       |             or after a pause, or taken when it runs                 |
//       v                                                                     |
//   VolumeTask, what its worker needs, Secret, Pod; the Pod runs -------------> Prepared
//   Prepared ------ the worker says that it runs -----------------------------> InProgress
//   InProgress ---- progress is copied as the watches deliver it (running_workers.h); a Pod that is
//       |           lost has a successor
//       |---------- task Succeeded: Conclude() does what is left to do --------> Completed
//   Accepted, Prepared, InProgress
//       |---------- something failed, permanently or for too long: failure,
//       |           stopping-at; worker ended, all to be deleted -------------> Failed
//       +---------- spec.cancel, or the object itself is being deleted -------> Canceling
//   New ----------- the same: all to be deleted ------------------------------> Canceled
//   Canceling ----- worker ended, all to be deleted --------------------------> Canceled
//       +---------- its worker had finished -----------------------------------> Completed
//
// Each decision is written into the object, in one conditional PUT, before it is acted on. Each
// action may be repeated. Only admissions are kept between two reconciles, and the next process
// reads them from the objects. The last phase removes the finalizer; the task is deleted after all
// else that was made.
//
// The virtual methods below are particular to a kind. FAILED_PRECONDITION and INVALID_ARGUMENT from
// them are permanent: the transfer fails with their message. Other errors are transient. While no
// Pod runs they are shown in status.message. If the API server refuses what the Pod needs, by a
// quota for example, the transfer fails when its time to prepare is over.
class TransferStep {
 public:
  virtual ~TransferStep() = default;
  TransferStep(const TransferStep&) = delete;
  TransferStep& operator=(const TransferStep&) = delete;

  // Returns when to reconcile again.
  absl::StatusOr<absl::Time> Run();

 protected:
  // Constants of a kind.
  struct KindTraits {
    objects::TaskKind task;
    const k8s::ResourceType& type;
    std::string volume;                                    // "namespace/claim"
    const char* (*moving)(const objects::Object& object);  // "uploading"
    std::optional<QueuedTransfer> (*queued)(const objects::Object& object);
  };

  // Borrows `env` and `scheduler`.
  TransferStep(const CallContext& ctx, const MoverEnvironment& env, TransferScheduler& scheduler,
               KindTraits kind, objects::DataTransfer object);

  // --- Implemented by a kind

  virtual absl::StatusOr<objects::TaskVolume> Volume() = 0;
  // The Pod of the worker, once all that it needs is there. Provisions nothing without an
  // admission.
  virtual absl::StatusOr<WorkerRun::NextPod> PrepareWorker(const objects::VolumeTask& task) = 0;
  // What the PVC of a Pod that waits has been refused so far; "": nothing. FAILED_PRECONDITION if
  // that PVC cannot be bound any more.
  virtual absl::StatusOr<std::string> InspectClaim(const objects::VolumeTask& task) = 0;
  // Sets what must not change after the acceptance. FAILED_PRECONDITION if the transfer must not be
  // accepted: it fails with that message.
  virtual absl::Status PrepareAccept() { return absl::OkStatus(); }
  // Called when the worker was seen to begin.
  virtual void RecordBegin() {}
  // Called when the worker was first seen to run. FAILED_PRECONDITION if it works on what it must
  // not work on.
  virtual absl::Status CheckBegun(const objects::VolumeTask& /*task*/) { return absl::OkStatus(); }
  // Called at each reconcile while the worker runs. FAILED_PRECONDITION if it must not continue;
  // else until when only changes of its Pod and its task matter.
  virtual absl::StatusOr<absl::Time> CheckRunning() { return absl::InfiniteFuture(); }
  // The worker's message about its failure, with what the worker cannot know.
  virtual std::string FailureMessage(const objects::VolumeTaskStatus& failed) {
    return MessageOf(failed);
  }
  // Does what is left to do after a worker that succeeded.
  virtual absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& task) = 0;
  // Completes a cancelled transfer whose worker had finished. Returns when to reconcile again, not
  // later than `latest`; nothing if the transfer is given up.
  virtual absl::StatusOr<std::optional<absl::Time>> CompleteIfDone(absl::Time latest) = 0;
  // Removes all that was made. Returns what the last phase waits for, because a worker may still
  // write there; "" for nothing, as always once IsFenced().
  virtual absl::StatusOr<std::string> RemoveAll() = 0;
  // Whether a worker that was told to end can write no more, however it is cut off.
  bool IsFenced() const;
  // Called after the last phase was written, for Events and figures.
  virtual void ReportEnd(objects::DataPhase phase, const std::string& message) = 0;

  // --- For the kinds

  // The steps of an admitted transfer up to Conclude(). A kind with further steps overrides this.
  virtual absl::StatusOr<absl::Time> WorkOn();
  absl::StatusOr<absl::Time> BeginFailure(absl::string_view why);
  absl::StatusOr<absl::Time> End(objects::DataPhase phase, const std::string& message);
  void Emit(k8s::EventType type, absl::string_view reason, absl::string_view message);
  absl::Status Write() { return object_.Write(ctx_, env_.api); }
  absl::Time Now() const { return ctx_.clock->Now(); }
  bool IsAdmitted() const { return object_.TimeOf(objects::kAdmittedAtAnnotation).has_value(); }
  // Takes effect with Write(). REQUIRES IsAdmitted().
  void GiveBackAdmission();
  // When its preparation began: at its admission. If it gave that back, or was refused, at the
  // first one.
  std::optional<absl::Time> PreparedSince() const;
  // Now in whole seconds, as Kubernetes writes times.
  absl::Time Stamp() const;

  CallContext ctx_;
  const MoverEnvironment& env_;
  TransferObject object_;
  const std::string task_name_;
  const std::map<std::string, std::string> labels_;
  WorkerRun run_;
  int pods_ = 0;  // of the task, so far

 private:
  absl::StatusOr<absl::Time> Accept();
  absl::StatusOr<absl::Time> Advance();
  QueuedTransfer EndAwaiting();
  TransferScheduler::Answer AskForAdmission();
  absl::StatusOr<WorkerRun::NextPod> NextPod(const objects::VolumeTask& task);
  absl::StatusOr<WorkerView> StepWorker();
  absl::StatusOr<WorkerView> StepTask();
  absl::StatusOr<absl::Time> AwaitDespite(const absl::Status& error);
  absl::StatusOr<absl::Time> Follow(const WorkerView& view);
  absl::StatusOr<objects::VolumeTask> CachedTask() const;
  absl::StatusOr<absl::Time> WatchRunning(const WorkerView& view);
  absl::StatusOr<absl::Time> Await(const WorkerView& view);
  bool IsBrief(const WorkerView& view) const;
  absl::Time DeadlineOf(const WorkerView& view) const;
  void RecordNoRoom();
  void RecordRefused(const WorkerView& view);
  absl::StatusOr<absl::Time> BeginCancel();
  absl::StatusOr<absl::Time> WindUp();

  TransferScheduler& scheduler_;
  const KindTraits kind_;
  const objects::DataTransfer transfer_;  // as it was read
};

// Reconciles all transfers of one kind, each by the TransferStep that the kind makes. If a worker
// runs and nothing else has changed, it only copies the progress. Borrows `env`.
class TransferReconciler : public objects::Reconciler<objects::DataTransfer> {
 public:
  TransferReconciler(const MoverEnvironment& env, TransferScheduler& scheduler,
                     const k8s::ResourceType& type, OnTransferEnd on_end)
      : env_(env), scheduler_(scheduler), on_end_(std::move(on_end)), type_(type) {}

 protected:
  // The step for an object as it was just read. An error: the object is not valid, and fails.
  virtual absl::StatusOr<std::unique_ptr<TransferStep>> StepFor(
      const CallContext& ctx, const objects::DataTransfer& object) = 0;

  const MoverEnvironment& env_;
  TransferScheduler& scheduler_;
  const OnTransferEnd on_end_;

 private:
  absl::StatusOr<absl::Time> ReconcileOne(const CallContext& ctx,
                                          const objects::DataTransfer& object) final;
  bool IsConcerned(const objects::DataTransfer& object) const final;
  absl::StatusOr<absl::Time> ReconcileAll(const CallContext& ctx,
                                          const objects::DataTransfer& object,
                                          const std::string& task);
  absl::StatusOr<std::optional<absl::Time>> CopyProgress(const CallContext& ctx,
                                                         const objects::DataTransfer& object,
                                                         const std::string& task) const;
  absl::Time KeepAccess(const CallContext& ctx, const objects::DataTransfer& object,
                        const std::string& task);
  absl::StatusOr<absl::Time> Refuse(const CallContext& ctx, objects::DataTransfer object,
                                    const absl::Status& why);

  const k8s::ResourceType& type_;
};

// Whether a transfer is for this data mover, and not over.
bool IsToBeMoved(const objects::DataTransfer& transfer);

// What the scheduler needs of a transfer. The caller adds what depends on the kind: kind, volume
// and storage class.
QueuedTransfer QueuedTransferOf(const objects::DataTransfer& transfer, absl::string_view kind);

// Removes what is left of a task whose transfer is over or gone: Pod and Secret, then the rest by
// `remove_rest`, then the task. `transfer` is null if it is gone.
absl::Status RemoveTransferLeftovers(
    const CallContext& ctx, const MoverEnvironment& env, const k8s::ResourceType& type,
    const objects::VolumeTask& task,
    absl::FunctionRef<absl::Status(const objects::VolumeTaskSpec& spec,
                                   const objects::DataTransfer* transfer)>
        remove_rest);

}  // namespace csidelta::datamover
