#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "tests/bench/scaled_clock.h"
#include "tests/support/fake_api_client.h"

namespace csidelta::bench {

// What every worker does.
struct WorkerPlan {
  absl::Duration time = absl::Seconds(20);                  // from its first word to its last
  absl::Duration time_per_deletion = absl::ZeroDuration();  // besides, of a repository snapshot
  int64_t bytes = int64_t{1} << 30;                         // of its volume
};

// Plays scheduler, kubelet and workers: a Pod gets a node at once, runs at once, and what runs in
// it writes into its VolumeTask what a worker writes, as often as one does, until its time is over
// or spec.cancel is set. Knows Pods by "--task NAMESPACE/NAME" among their arguments, and asks the
// API server directly, so that a server before it counts the requests of others alone.
class SimulatedNodes {
 public:
  // What is told, each when it is about to be written, in a thread of its own: of each task that
  // ended, and of each progress of one.
  struct Listener {
    std::function<void(const Json& task, absl::Time at)> on_end;
    std::function<void(const Json& task, int64_t done_bytes, absl::Time at)> on_report;
  };

  // So many nodes; a Pod is not placed beside one with the same value of `slot_label`. Borrows all.
  SimulatedNodes(support::FakeApiClient& api, const ScaledClock& clock, int nodes, WorkerPlan plan,
                 Listener listener);
  ~SimulatedNodes();
  SimulatedNodes(const SimulatedNodes&) = delete;
  SimulatedNodes& operator=(const SimulatedNodes&) = delete;

  // Workers that have written their first word and not their last.
  int running() const;
  // What workers asked of the API server so far: each reads its task, watches it, and writes.
  int64_t requests() const { return requests_; }

 private:
  enum class Stage { kCreated, kScheduled, kRunning };
  struct Run {
    k8s::ObjectKey pod;
    k8s::ObjectKey task;
    std::string slot;
    std::string node = {};
    Stage stage = Stage::kCreated;
    absl::Time begun_at = {};
    absl::Duration time = {};  // from then to its end
    bool is_canceled = false;
  };
  using Due = std::pair<absl::Time, std::string>;  // of the Pod of this name

  void OnPod(const Json& pod);
  void OnPodEvent(const k8s::WatchEvent& event);
  void OnTaskEvent(const k8s::WatchEvent& event);
  void Work(const std::stop_token& stop);
  // One step of a Pod; when the next one is due, nothing after the last.
  std::optional<absl::Time> Step(const std::string& name);
  std::optional<absl::Time> Schedule(Run run);
  std::optional<absl::Time> Begin(Run run);
  std::optional<absl::Time> Report(const Run& run);
  std::optional<absl::Time> End(const Run& run);
  // False when the task is gone.
  bool Write(const Run& run, Json status);
  std::string FreeNodeLocked(const std::string& slot) const;
  void Update(const Run& run);
  void Drop(const std::string& name);

  support::FakeApiClient& api_;
  const ScaledClock& clock_;
  const int nodes_;
  const WorkerPlan plan_;
  const Listener listener_;
  std::atomic<int64_t> requests_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Run> runs_;                                   // Guarded by mutex_; by Pod.
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue_;  // Guarded by mutex_.
  std::jthread thread_;
};

}  // namespace csidelta::bench
