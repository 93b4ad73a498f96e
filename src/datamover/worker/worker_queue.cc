#include "datamover/worker/worker_queue.h"

namespace csidelta::datamover {

void WorkerQueue::Wait(const std::string& name, absl::Time since) {
  Leave(name);
  waiting_.emplace(name, since);
  by_time_.emplace(since, name);
}

void WorkerQueue::Run(const std::string& name) {
  Leave(name);
  running_.insert(name);
}

bool WorkerQueue::Leave(const std::string& name) {
  if (const auto waiting = waiting_.find(name); waiting != waiting_.end()) {
    by_time_.erase({waiting->second, name});
    waiting_.erase(waiting);
    return true;
  }
  return running_.erase(name) > 0;
}

std::vector<std::string> WorkerQueue::First(std::size_t count_max, absl::Time now) const {
  std::vector<std::string> first;
  for (const auto& [since, name] : by_time_) {
    if (since > now || first.size() >= count_max) {
      break;
    }
    first.push_back(name);
  }
  return first;
}

}  // namespace csidelta::datamover
