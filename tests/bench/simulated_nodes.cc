#include "tests/bench/simulated_nodes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/rfc3339.h"
#include "datamover/worker/task_runner.h"
#include "k8s/object.h"
#include "objects/keys.h"
#include "objects/object.h"
#include "objects/volume_task.h"
#include "tests/support/kind_names.h"

namespace csidelta::bench {
namespace {

using datamover::kReportEvery;

constexpr absl::Duration kLookForNodeAgain = absl::Seconds(1);

// NAMESPACE/NAME behind "--task"; nothing for a Pod that is no worker.
std::optional<k8s::ObjectKey> TaskOf(const Json& pod) {
  const Json* const containers = FindJson(pod, {"spec", "containers"});
  if (containers == nullptr || !containers->is_array() || containers->empty()) {
    return std::nullopt;
  }
  const Json* const arguments = FindJson(containers->front(), {"args"});
  if (arguments == nullptr || !arguments->is_array()) {
    return std::nullopt;
  }
  const auto flag = std::find(arguments->begin(), arguments->end(), "--task");
  if (flag == arguments->end() || flag + 1 == arguments->end() || !(flag + 1)->is_string()) {
    return std::nullopt;
  }
  const std::pair<std::string, std::string> name =
      absl::StrSplit((flag + 1)->get<std::string>(), absl::MaxSplits('/', 1));
  return k8s::ObjectKey{
      .type = objects::VolumeTask::Type(), .namespace_name = name.first, .name = name.second};
}

Json Condition(const char* type) { return {{"type", type}, {"status", "True"}}; }

// How many repository snapshots a worker is to remove.
int64_t DeletionsOf(const std::optional<Json>& task) {
  return task.has_value()
             ? static_cast<int64_t>(JsonArrayAt(*task, {"spec", "job", "forget", "items"}).size())
             : 0;
}

// The result document of a first backup.
objects::Outcome Done(int64_t bytes) {
  return {.code = objects::OutcomeCode::kDone,
          .backup = objects::BackupFigures{.snapshot_id = std::string(64, 'a'),
                                           .mode = "full",
                                           .reason = "no-base",
                                           .logical_bytes = bytes,
                                           .changed_bytes = bytes,
                                           .read_bytes = bytes,
                                           .stored_bytes = bytes / 2,
                                           .repository_bytes = bytes / 2,
                                           .repository_snapshots = 1}};
}

}  // namespace

SimulatedNodes::SimulatedNodes(support::FakeApiClient& api, const ScaledClock& clock, int nodes,
                               WorkerPlan plan, Listener listener)
    : api_(api), clock_(clock), nodes_(nodes), plan_(plan), listener_(std::move(listener)) {
  api_.OnCreate("pods", [this](support::FakeApiClient&, const Json& pod) { OnPod(pod); });
  api_.OnEvent(
      "pods", [this](support::FakeApiClient&, const k8s::WatchEvent& event) { OnPodEvent(event); });
  api_.OnEvent("volumetasks", [this](support::FakeApiClient&, const k8s::WatchEvent& event) {
    OnTaskEvent(event);
  });
  thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

SimulatedNodes::~SimulatedNodes() = default;

int SimulatedNodes::running() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(std::count_if(runs_.begin(), runs_.end(), [](const auto& run) {
    return run.second.stage == Stage::kRunning;
  }));
}

void SimulatedNodes::OnPod(const Json& pod) {
  std::optional<k8s::ObjectKey> task = TaskOf(pod);
  if (!task.has_value()) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  runs_[k8s::Name(pod)] = {.pod = {PodType(), k8s::Namespace(pod), k8s::Name(pod)},
                           .task = *std::move(task),
                           .slot = k8s::Label(pod, objects::kSlotLabel)};
  queue_.emplace(clock_.Now(), k8s::Name(pod));
  changed_.notify_all();
}

void SimulatedNodes::OnPodEvent(const k8s::WatchEvent& event) {
  if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
    Drop(k8s::Name(event.object));
  }
}

void SimulatedNodes::OnTaskEvent(const k8s::WatchEvent& event) {
  if (event.kind != k8s::WatchEvent::Kind::kDeleted && !GetBool(event.object, {"spec", "cancel"})) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  for (auto& [name, run] : runs_) {
    if (run.task.name == k8s::Name(event.object) && !run.is_canceled) {
      run.is_canceled = true;
      queue_.emplace(clock_.Now(), name);
      changed_.notify_all();
    }
  }
}

void SimulatedNodes::Work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (queue_.empty()) {
      changed_.wait(lock, stop, [this] { return !queue_.empty(); });
      continue;
    }
    const Due due = queue_.top();
    const absl::Duration left = due.first - clock_.Now();
    if (left > absl::ZeroDuration()) {
      changed_.wait_for(lock, stop, absl::ToChronoNanoseconds(left / clock_.factor()),
                        [&] { return queue_.top() < due; });
      continue;
    }
    queue_.pop();
    lock.unlock();
    const std::optional<absl::Time> next = Step(due.second);
    lock.lock();
    if (next.has_value() && runs_.contains(due.second)) {
      queue_.emplace(*next, due.second);
    }
  }
}

std::optional<absl::Time> SimulatedNodes::Step(const std::string& name) {
  Run run;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = runs_.find(name);
    if (found == runs_.end()) {
      return std::nullopt;
    }
    run = found->second;
  }
  switch (run.stage) {
    case Stage::kCreated:
      return Schedule(std::move(run));
    case Stage::kScheduled:
      return Begin(std::move(run));
    case Stage::kRunning:
      break;
  }
  return run.is_canceled || clock_.Now() >= run.begun_at + run.time ? End(run) : Report(run);
}

std::string SimulatedNodes::FreeNodeLocked(const std::string& slot) const {
  for (int i = 0; i < nodes_; ++i) {
    const std::string node = absl::StrCat("node-", i);
    const bool is_taken = std::any_of(runs_.begin(), runs_.end(), [&](const auto& run) {
      return run.second.node == node && run.second.slot == slot;
    });
    if (!is_taken) {
      return node;
    }
  }
  return "";
}

std::optional<absl::Time> SimulatedNodes::Schedule(Run run) {
  {
    const std::scoped_lock lock(mutex_);
    run.node = FreeNodeLocked(run.slot);
  }
  if (run.node.empty()) {
    return clock_.Now() + kLookForNodeAgain;
  }
  run.stage = Stage::kScheduled;
  Update(run);
  api_.Mutate(run.pod, [&](Json& pod) {
    pod["spec"]["nodeName"] = run.node;
    pod["status"] = {{"phase", "Pending"},
                     {"conditions", Json::array({Condition("PodScheduled")})}};
  });
  return clock_.Now();
}

std::optional<absl::Time> SimulatedNodes::Begin(Run run) {
  api_.Mutate(run.pod, [&](Json& pod) {
    pod["status"] = {
        {"phase", "Running"},
        {"startTime", FormatRfc3339Seconds(clock_.Now())},
        {"conditions", Json::array({Condition("PodScheduled"), Condition("Ready")})},
        {"containerStatuses",
         Json::array(
             {{{"name", "worker"}, {"ready", true}, {"state", {{"running", Json::object()}}}}})}};
  });
  run.stage = Stage::kRunning;
  run.begun_at = clock_.Now();
  run.time = plan_.time + plan_.time_per_deletion * DeletionsOf(api_.Find(run.task));
  Update(run);
  requests_ += 2;  // It reads its task, and watches it.
  const bool is_there = Write(run, {{"phase", "Running"},
                                    {"stage", "transfer"},
                                    {"doneBytes", 0},
                                    {"totalBytes", plan_.bytes},
                                    {"node", run.node},
                                    {"startTimestamp", FormatRfc3339Seconds(run.begun_at)}});
  return is_there ? std::optional(run.begun_at + std::min(kReportEvery, run.time)) : std::nullopt;
}

std::optional<absl::Time> SimulatedNodes::Report(const Run& run) {
  const absl::Time now = clock_.Now();
  const double part = absl::FDivDuration(now - run.begun_at, run.time);
  const auto done = static_cast<int64_t>(static_cast<double>(plan_.bytes) * part);
  if (const std::optional<Json> task = api_.Find(run.task)) {
    listener_.on_report(*task, done, now);
  }
  if (!Write(run, {{"phase", "Running"}, {"doneBytes", done}})) {
    return std::nullopt;
  }
  return std::min(now + kReportEvery, run.begun_at + run.time);
}

std::optional<absl::Time> SimulatedNodes::End(const Run& run) {
  const absl::Time now = clock_.Now();
  Json status = {{"phase", run.is_canceled ? "Canceled" : "Succeeded"},
                 {"completionTimestamp", FormatRfc3339Seconds(now)}};
  if (!run.is_canceled) {
    status["doneBytes"] = plan_.bytes;
    status["outcome"] = ToJson(Done(plan_.bytes));
  }
  if (const std::optional<Json> task = api_.Find(run.task)) {
    listener_.on_end(*task, now);
  }
  Drop(run.pod.name);
  if (Write(run, std::move(status))) {
    api_.Mutate(run.pod, [](Json& pod) { pod["status"]["phase"] = "Succeeded"; });
  }
  return std::nullopt;
}

bool SimulatedNodes::Write(const Run& run, Json status) {
  ++requests_;
  status["heartbeatTimestamp"] = FormatRfc3339Seconds(clock_.Now());
  const absl::StatusOr<Json> written =
      api_.Patch({}, run.task, k8s::PatchKind::kMerge, {{"status", std::move(status)}}, "status");
  return written.ok();
}

void SimulatedNodes::Update(const Run& run) {
  const std::scoped_lock lock(mutex_);
  const auto found = runs_.find(run.pod.name);
  if (found != runs_.end()) {
    const bool is_canceled = found->second.is_canceled;
    found->second = run;
    found->second.is_canceled = is_canceled;
  }
}

void SimulatedNodes::Drop(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  runs_.erase(name);
}

}  // namespace csidelta::bench
