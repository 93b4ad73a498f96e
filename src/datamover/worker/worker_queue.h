#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace csidelta::datamover {

// The names, such as repositories, that have a worker, and those that wait for one. Those that have
// waited the longest are next. Each call takes O(log(names) + names that are returned). Not
// thread-safe.
class WorkerQueue {
 public:
  // The name waits since then, and has no worker.
  void Wait(const std::string& name, absl::Time since);
  // The name has a worker, however many others do.
  void Run(const std::string& name);
  // The name neither waits nor has a worker. Returns whether it did.
  bool Leave(const std::string& name);

  bool Runs(const std::string& name) const { return running_.contains(name); }
  std::size_t running() const { return running_.size(); }
  // The first names that wait since `now` or longer, at most `count_max`.
  std::vector<std::string> First(std::size_t count_max, absl::Time now) const;

 private:
  std::set<std::string> running_;
  std::map<std::string, absl::Time> waiting_;             // since when
  std::set<std::pair<absl::Time, std::string>> by_time_;  // the same
};

}  // namespace csidelta::datamover
