#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace csidelta::datamover {

// Which repositories, or other names, have a worker, and which of those that wait for one are next:
// those that have waited the longest. Each call takes O(log(names) + names that are returned). Not
// thread-safe.
class WorkerQueue {
 public:
  // It waits since then, and has no worker.
  void Wait(const std::string& name, absl::Time since);
  // It has a worker, however many others do.
  void Run(const std::string& name);
  // It does neither. Returns whether it did.
  bool Leave(const std::string& name);

  bool Runs(const std::string& name) const { return running_.contains(name); }
  std::size_t running() const { return running_.size(); }
  // The first ones that wait since `now` or longer, `count_max` at most.
  std::vector<std::string> First(std::size_t count_max, absl::Time now) const;

 private:
  std::set<std::string> running_;
  std::map<std::string, absl::Time> waiting_;             // since when
  std::set<std::pair<absl::Time, std::string>> by_time_;  // the same
};

}  // namespace csidelta::datamover
