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

// How long no node may take a Pod until its admission goes to others. The Pod stays, and runs as
// soon as a node takes it.
inline constexpr absl::Duration kUnschedulableTimeMax = absl::Minutes(2);
// No more Pods wait so: where no node takes any, the cluster is full, and others would wait as
// well.
inline constexpr int kUnschedulablePodsMax = 100;

// No more transfers give their admissions back because the API server refuses what they need: where
// it refuses that of so many, it would refuse that of the next one as well.
inline constexpr int kRefusedTransfersMax = 20;

// How long a step on the way to a running Pod takes until the message says what is waited for.
inline constexpr absl::Duration kWaitShownAfter = absl::Seconds(3);

// While something is waited for that no watch reports.
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

// One look at one DataUpload or DataDownload, which moves it to where it should be:
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
//   InProgress ---- progress is copied, as the watches tell it (running_workers.h); a Pod that is
//       |           lost has a successor
//       |---------- task Succeeded: Conclude() says what is left to do -------> Completed
//   Accepted, Prepared, InProgress
//       |---------- something failed, for good or for too long: failure,
//       |           stopping-at; worker ended, all to be deleted -------------> Failed
//       +---------- spec.cancel, or the object itself is being deleted -------> Canceling
//   New ----------- the same: all to be deleted ------------------------------> Canceled
//   Canceling ----- worker ended, all to be deleted --------------------------> Canceled
//       +---------- it was done all the same ---------------------------------> Completed
//
// What is decided is written into the object, in one conditional PUT, before anything is done about
// it; what is done may be done again. Nothing is kept between two looks but the admissions, which
// the next process reads from the objects. The finalizer goes with the last phase; then the task,
// which is the last of what was made.
//
// What is particular to a kind is in the methods below. FAILED_PRECONDITION and INVALID_ARGUMENT of
// their own say what will never do: the transfer fails with these words. Other errors are those of
// the moment. While no Pod runs they are shown in status.message; those that the API server does
// not mean for a moment, such as a quota's, fail the transfer when its time to prepare is over.
class TransferStep {
 public:
  virtual ~TransferStep() = default;
  TransferStep(const TransferStep&) = delete;
  TransferStep& operator=(const TransferStep&) = delete;

  // When to look again.
  absl::StatusOr<absl::Time> Run();

 protected:
  // What a kind calls things.
  struct Words {
    objects::TaskKind task;
    const k8s::ResourceType& type;
    std::string volume;                                    // "namespace/claim"
    const char* (*moving)(const objects::Object& object);  // "uploading"
    std::optional<QueuedTransfer> (*queued)(const objects::Object& object);
  };

  // Borrows `env` and `scheduler`.
  TransferStep(const CallContext& ctx, const MoverEnvironment& env, TransferScheduler& scheduler,
               Words words, objects::DataTransfer object);

  // --- What a kind says

  virtual absl::StatusOr<objects::TaskVolume> Volume() = 0;
  // What the worker is to do, once all that it needs is there. Without an admission nothing is
  // provisioned.
  virtual absl::StatusOr<WorkerRun::NextPod> PrepareWorker(const objects::VolumeTask& task) = 0;
  // Whether the claim of a Pod that waits can still come.
  virtual absl::Status InspectClaim(const objects::VolumeTask& task) = 0;
  // Fixes what stays as it is from its acceptance on. FAILED_PRECONDITION, which it fails with:
  // it may not be accepted.
  virtual absl::Status PrepareAccept() { return absl::OkStatus(); }
  // The worker was seen to begin.
  virtual void RecordBegin() {}
  // The worker was seen to run for the first time: FAILED_PRECONDITION where it works on what it
  // must not work on.
  virtual absl::Status CheckBegun(const objects::VolumeTask& /*task*/) { return absl::OkStatus(); }
  // While the worker runs, at each look: FAILED_PRECONDITION if it must not continue; else until
  // when nothing but its Pod and its task needs another look.
  virtual absl::StatusOr<absl::Time> CheckRunning() { return absl::InfiniteFuture(); }
  // What the worker said of its failure, and what it cannot know.
  virtual std::string FailureMessage(const objects::VolumeTaskStatus& failed) {
    return MessageOf(failed);
  }
  // What a worker that was done leads to.
  virtual absl::StatusOr<absl::Time> Conclude(const objects::VolumeTaskStatus& task) = 0;
  // One that is cancelled, and whose worker was told so, may be done all the same: then it is
  // completed. It may also need a moment, not later than `latest`. Nothing: it is given up.
  virtual absl::StatusOr<std::optional<absl::Time>> CompleteIfDone(absl::Time latest) = 0;
  // All that was made, whatever became of it. Returns what the last phase waits for, because a
  // worker may still write there; "", once IsFenced(): nothing.
  virtual absl::StatusOr<std::string> RemoveAll() = 0;
  // Whether a worker that was told to end, however it is cut off, writes no more.
  bool IsFenced() const;
  // It has its last phase: Events, figures.
  virtual void Tell(objects::DataPhase phase, const std::string& message) = 0;

  // --- What a kind may use

  // Of one that is admitted, up to Conclude(). A kind for which that is not the end adds to it.
  virtual absl::StatusOr<absl::Time> WorkOn();
  absl::StatusOr<absl::Time> BeginFailure(absl::string_view why);
  absl::StatusOr<absl::Time> End(objects::DataPhase phase, const std::string& message);
  void Emit(k8s::EventType type, absl::string_view reason, absl::string_view message);
  absl::Status Write() { return object_.Write(ctx_, env_.api); }
  absl::Time Now() const { return ctx_.clock->Now(); }
  bool IsAdmitted() const { return object_.TimeOf(objects::kAdmittedAtAnnotation).has_value(); }
  // To be written. REQUIRES that it is admitted.
  void GiveBackAdmission();
  // Since when it has been prepared: since it was admitted, or since it was first, and awaits
  // something now, or was refused since.
  std::optional<absl::Time> PreparedSince() const;
  // Now, as Kubernetes writes times: in whole seconds.
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
  const Words words_;
  const objects::DataTransfer transfer_;  // as it was read
};

// Moves all objects of one kind, each look with the step that the kind makes; of those whose worker
// runs, and of which nothing else changed, it only copies the progress. Borrows `env` and
// `scheduler`. `on_end` is told of each that ended, once or, after a crash, never.
class TransferReconciler : public objects::Reconciler<objects::DataTransfer> {
 public:
  TransferReconciler(const MoverEnvironment& env, TransferScheduler& scheduler,
                     const k8s::ResourceType& type, OnTransferEnd on_end)
      : env_(env), scheduler_(scheduler), on_end_(std::move(on_end)), type_(type) {}

 protected:
  // For an object as it was just read. An error: the object cannot be understood, and has failed.
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

// What the object of a transfer says to the scheduler, but for what a kind knows: kind, volume and
// storage class.
QueuedTransfer QueuedTransferOf(const objects::DataTransfer& transfer, absl::string_view kind);

// Removes what is left of a task when its transfer has its last phase, or is gone: Pod and Secret,
// then what `remove_rest` knows of, then the task. `transfer` is nullptr where it is gone.
absl::Status RemoveTransferLeftovers(
    const CallContext& ctx, const MoverEnvironment& env, const k8s::ResourceType& type,
    const objects::VolumeTask& task,
    absl::FunctionRef<absl::Status(const objects::VolumeTaskSpec& spec,
                                   const objects::DataTransfer* transfer)>
        remove_rest);

}  // namespace csidelta::datamover
