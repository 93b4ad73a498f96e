#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "datamover/mover_environment.h"
#include "datamover/repository_access.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/node.h"
#include "objects/patch.h"
#include "objects/volume_task.h"
#include "objects/workload.h"

namespace csidelta::datamover {

// The number of lost Pods in a row that count (datamover/worker/lost_pods.h) until the task fails,
// and the pauses between Pods.
inline constexpr int kLostPodsMax = 5;
inline constexpr absl::Duration kWorkerAgainFirst = absl::Seconds(2);
inline constexpr absl::Duration kWorkerAgainMax = absl::Minutes(1);
// A worker without a heartbeat for this long is dead, even if its Pod seems to run. So is a Pod
// that should have been gone this long ago.
inline constexpr absl::Duration kWorkerSilenceMax = absl::Minutes(15);
inline constexpr absl::Duration kPodGoneAfter = absl::Minutes(1);
// After this time the work of a stopped worker does not count any more.
inline constexpr absl::Duration kWorkerStopTimeMax = absl::Seconds(9);

// The state of a task's Pod, as it was seen last.
struct WorkerView {
  enum class State {
    kStarting,  // none exists yet, or it does not run yet: `message` says why
    kRunning,   // its container runs
    kEnded,     // the task has its last phase; or too many Pods were lost: the status is Failed
  };
  State state = State::kStarting;
  objects::VolumeTaskStatus status;
  std::string message;
  std::string node;
  int attempts = 0;          // Pods so far
  int pods_lost = 0;         // of these
  absl::Time attempt_since;  // of the one that there is, or is to be
  bool has_pod = false;      // it is there, as far as it was seen
  // Each node that the Pod fits on runs as many workers as it is allowed to.
  bool waits_for_node = false;
  // Why the Pod, or what it needs, could not be made: `message` has it, too. Not OK only while
  // starting.
  absl::Status refusal = absl::OkStatus();
  // A quota refuses the Pod, and other workers use that quota.
  bool waits_for_quota = false;
  // `message` names a step on the way, which usually takes seconds.
  bool is_usual = false;
  bool is_unschedulable = false;  // there is no such node
  int unschedulable_pods = 0;     // that there are, of all tasks
  absl::Time requeue_time = absl::InfiniteFuture();
};

// The work of a task's worker, and what its Pod needs.
struct WorkerJob {
  objects::VolumeWork work;
  std::optional<absl::Duration> lock_wait = {};  // as in VolumeJob
  RepositoryAccess access;
  bool has_volume = true;  // the claim that is called as the task
  std::string storage_class = {};
  objects::NodeSelector node_affinity = {};  // required, beside what the settings say
};

// One task, and the Pods that work on it one after the other:
//
//   no Pod --made--> Pod --runs, then ends with a last phase of the task--> ended
//     ^               |
//     |               |  gone, evicted, killed, interrupted
//     +-- a pause ----+  at most kLostPodsMax times in a row that count, then ended: Failed
//
// A Pod whose node is lost seems to run forever: only the worker's silence reveals it. If its end
// was not observed, the pause of a restore is kFencedAfter: until the lost worker has stopped
// writing by itself (datamover/write_fence.h).
//
// Pods are counted in annotations of the task; nothing else is kept. No node runs more Pods of all
// tasks than the settings allow. Borrows `env`.
class WorkerRun {
 public:
  // `task_name` names the task, and everything that is made for it.
  WorkerRun(const MoverEnvironment& env, std::string task_name);

  // The task, created if there is none; possibly stale.
  absl::StatusOr<objects::VolumeTask> EnsureTask(const CallContext& ctx,
                                                 const objects::VolumeTaskSpec& spec,
                                                 const std::map<std::string, std::string>& labels);
  // Nothing if there is none.
  absl::StatusOr<std::optional<objects::VolumeTask>> FindTask(const CallContext& ctx) const;
  // The same, possibly stale.
  absl::StatusOr<std::optional<objects::VolumeTask>> CachedTask(const CallContext& ctx) const;
  // False if the informer of VolumeTasks has delivered none of this name; possibly stale.
  bool MayHaveTask() const;

  // The Pod to make once all that it needs is there; else what is waited for.
  struct NextPod {
    objects::Pod pod;
    std::string waiting_for;  // "": `pod` is to be made
    bool has_slot = true;     // one of those of its node is taken: it has a volume
    bool is_idle = false;     // what is waited for is no work of the mover, nor made for it
    bool is_usual = false;    // what is waited for usually takes seconds
  };
  using PodMaker = std::function<absl::StatusOr<NextPod>(const objects::VolumeTask& task)>;

  // The Pod of `task` for `job`. First makes the Secret that it mounts, and writes the job into the
  // task.
  absl::StatusOr<NextPod> PodFor(const CallContext& ctx, const objects::VolumeTask& task,
                                 const WorkerJob& job);

  // Reads the Pod and takes the next step. NOT_FOUND if there is no task. If the API server refuses
  // to make something, by a quota, a policy or a webhook, the view has its message: a person may
  // correct the cause meanwhile.
  absl::StatusOr<WorkerView> Step(const CallContext& ctx, const PodMaker& make_pod);

  // Stops the worker, by the task and by the deletion of the Pod. True if no Pod of the task runs
  // any more.
  absl::StatusOr<bool> Stop(const CallContext& ctx);

  // Whether the processes of all Pods of `task` are known to be dead.
  absl::StatusOr<bool> HasSurelyEnded(const CallContext& ctx,
                                      const objects::VolumeTask& task) const;

  // Deletes the Pod and its Secret, whatever their state.
  absl::Status Remove(const CallContext& ctx);
  // The same for a Pod whose task has its last phase. A Pod that stays long after its deletion,
  // because its node died, is deleted by force: its result counts.
  absl::Status RemoveEnded(const CallContext& ctx);
  // Deletes the task, after all else.
  absl::Status RemoveTask(const CallContext& ctx);
  // Removes all of a worker without a volume: as Remove(), then the task.
  absl::Status RemoveWithTask(const CallContext& ctx);

 private:
  k8s::ObjectKey TaskKey() const;
  k8s::ObjectKey PodKey() const;
  absl::StatusOr<std::optional<objects::Pod>> FindPod(const CallContext& ctx) const;
  // The Pod and its task.
  struct Seen {
    std::optional<objects::Pod> pod;
    objects::VolumeTask task;
  };
  absl::StatusOr<Seen> Read(const CallContext& ctx) const;
  absl::StatusOr<objects::VolumeTask> RecordTask(const CallContext& ctx,
                                                 const objects::Patch& changes);
  objects::VolumeJob Describe(const objects::VolumeTask& task, const WorkerJob& job) const;
  absl::Status PutJob(const CallContext& ctx, const objects::VolumeTask& task,
                      const objects::VolumeJob& job);
  absl::StatusOr<WorkerView> InspectPod(const CallContext& ctx, const objects::Pod& pod,
                                        const objects::VolumeTask& task);
  // The Pods of all tasks.
  absl::StatusOr<std::vector<objects::Pod>> AllPods(const CallContext& ctx) const;
  absl::Status RemoveDead(const CallContext& ctx, const objects::Pod& pod,
                          const objects::VolumeTaskStatus& status);
  // `pod` is null if it is gone.
  absl::StatusOr<WorkerView> NextAttempt(const CallContext& ctx, const objects::Pod* pod,
                                         const objects::VolumeTask& task);
  absl::StatusOr<WorkerView> Make(const CallContext& ctx, const objects::VolumeTask& task,
                                  const PodMaker& make_pod);
  absl::StatusOr<WorkerView> Refused(const CallContext& ctx, WorkerView view,
                                     const absl::Status& why) const;
  absl::StatusOr<objects::Pod> CreatePod(const CallContext& ctx, objects::Pod pod);

  const MoverEnvironment& env_;
  const std::string task_name_;
};

// Why a Pod does not run, or how it ended, as scheduler, kubelet and container report it; "" if it
// runs. Pure.
std::string PodMessage(const objects::Pod& pod);

}  // namespace csidelta::datamover
