#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "datamover/write_fence.h"
#include "engine/rate_window.h"
#include "engine/session.h"
#include "incremental/mover/backup_result.h"
#include "k8s/api_client.h"
#include "objects/outcome.h"
#include "objects/volume_task.h"

namespace csidelta::datamover {

// How often the status is written, as a heartbeat even if it is unchanged. Each write costs a
// second one, of the transfer that the controller copies it into.
inline constexpr absl::Duration kReportEvery = absl::Seconds(10);
// How long writing the final status is retried while the API server is away.
inline constexpr absl::Duration kFinalStatusTimeMax = absl::Minutes(10);

// The Pod that a worker runs in. All may be omitted: then the task is never taken away.
struct WorkerPodRef {
  std::string uid = {};
  WriteFence* fence = nullptr;  // renewed when the task is reached, closed when it is another's
  // Called before the work begins and whenever the task changes, by one thread at a time.
  std::function<void(const objects::JobRates& rates)> set_rates = {};
};

// Keeps a VolumeTask's status in step with the work. Thread-safe, but for Step() and Finish(),
// which have one caller at a time.
//
// Each write names the version that it is based on. So a write that was given up, and that the API
// server carries out later, is refused. So is a write of a Pod that the controller has replaced.
class TaskReport {
 public:
  TaskReport(k8s::ApiClient& api, k8s::ObjectKey task, objects::VolumeTaskStatus status,
             const std::optional<objects::VolumeTask>& as_read = {}, WorkerPodRef pod = {})
      : api_(api), task_(std::move(task)), pod_(std::move(pod)), status_(std::move(status)) {
    if (as_read.has_value()) {
      ReadTask(*as_read).IgnoreError();
    }
  }

  void Progress(const incremental::TransferProgress& now);

  // Has the work keep to the rates of the task, and says so in the status. A job that cannot be
  // read changes nothing. One caller at a time.
  void FollowRates(const objects::VolumeTask& task);

  // Writes the status, with the rate of the last seconds, if it was not written for kReportEvery,
  // or if another stage began, the rates changed, the size became known or the first byte was done.
  // To be called each second. FAILED_PRECONDITION if the task is another Pod's now.
  absl::Status Step(const CallContext& ctx);

  // Writes `status`, with retries until it is written, the task is gone or another Pod's, or
  // kFinalStatusTimeMax has passed. Figures that the API server rejects are omitted.
  absl::Status Finish(const CallContext& ctx, objects::VolumeTaskStatus status);

  objects::VolumeTaskStatus status() const;
  // Whether the task was this Pod's when it was seen last. Not concurrently with Step().
  bool is_managed() const { return lost_.ok(); }

 private:
  bool IsDue(absl::Duration now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const CallContext& ctx, const objects::VolumeTaskStatus& status);
  // Reads which Pod the task names. FAILED_PRECONDITION, NOT_FOUND: it is no longer this Pod's.
  absl::Status ReadTask(const objects::VolumeTask& task);

  k8s::ApiClient& api_;
  const k8s::ObjectKey task_;
  const WorkerPodRef pod_;
  std::string uid_;               // of the task
  std::string resource_version_;  // as it was seen last
  bool was_counted_ = false;      // the task named this Pod
  absl::Status lost_;             // why the task was lost, for good
  mutable Mutex mutex_;
  objects::VolumeTaskStatus status_ ABSL_GUARDED_BY(mutex_);
  objects::VolumeTaskStatus written_ ABSL_GUARDED_BY(mutex_);
  absl::Duration written_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  engine::RateWindow window_ ABSL_GUARDED_BY(mutex_);
  int64_t resumed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // among those that are done
};

using TaskProgress = engine::ByteProgress;
// Does the work of a task until it ends or `ctx` is stopped. `progress` may be called by several
// threads.
using RunWork = std::function<objects::Outcome(
    const CallContext& ctx, const objects::VolumeJob& job, const TaskProgress& progress)>;

// Does the work of a VolumeTask by `run`, and writes its progress into the status. A task whose job
// cannot be read fails. The work is stopped when spec.cancel becomes true or the task is deleted
// (Canceled), and when `ctx` is stopped (Interrupted). It continues while the API server is away.
//
// A task that has its last phase is not run again. Returns the last phase once it is written, or
// kNone if the task is gone or another Pod's by then. NOT_FOUND if it never existed; UNAVAILABLE or
// DEADLINE_EXCEEDED if the API server does not come back.
absl::StatusOr<objects::TaskPhase> RunTask(const CallContext& ctx, k8s::ApiClient& api,
                                           const k8s::ObjectKey& task, absl::string_view node,
                                           const RunWork& run, const WorkerPodRef& pod = {});

// Code, cause and locks of work that failed with `status`, and its message. A worker that was told
// to stop has CANCELLED. REQUIRES an error.
objects::Outcome OutcomeOf(const absl::Status& status);

}  // namespace csidelta::datamover
