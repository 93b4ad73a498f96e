#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace csidelta::k8s {

// The objects that are due, or will be, fair between their namespaces: of those namespaces that
// have an object that is due, the one that was served longest ago is next, and of it the object
// that has been due for the longest. One that makes many objects delays its own alone. Times are
// those of Clock::Uptime(). Not thread-safe.
class WorkQueue {
 public:
  using Key = std::pair<std::string, std::string>;  // namespace, name

  // `sequence` orders those that are due at the same time; Remove() takes the same three.
  void Add(const Key& key, absl::Duration due, uint64_t sequence);
  void Remove(const Key& key, absl::Duration due, uint64_t sequence);

  bool HasDue(absl::Duration now) const;
  // The next one, which stays, and whose namespace counts as served. Nothing when none is due.
  std::optional<Key> Next(absl::Duration now);
  // Calls `note` with since when it is due, for each that is.
  void ForEachDue(absl::Duration now, absl::FunctionRef<void(absl::Duration due)> note) const;

 private:
  struct Waiting {
    std::set<std::tuple<absl::Duration, uint64_t, std::string>> objects;  // Never empty.
    uint64_t round = 0;  // Of rounds_, when it was served last, or began to wait.
  };

  std::map<std::string, Waiting> namespaces_;  // Those that have an object.
  uint64_t rounds_ = 0;
};

}  // namespace csidelta::k8s
