#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "objects/workload.h"

namespace csidelta::datamover {

// Worker Pods whose processes are known to be dead, so that nothing waits for their locks. Only the
// kubelet's report of terminated containers counts: a Pod that is gone from the API server may
// still run on an unreachable node. The newest of each repository are kept while this process
// lives. Thread-safe.
class EndedPods {
 public:
  static constexpr std::size_t kOfOneRepositoryMax = 16;
  static constexpr std::size_t kAllMax = 4096;

  // Records a Pod as it was seen, or as it was when it was deleted.
  void Record(const objects::Pod& pod);

  bool Has(absl::string_view uid) const;
  // Uids, the newest first.
  std::vector<std::string> Of(absl::string_view repository) const;

 private:
  struct Entry {
    std::string uid;
    std::string repository;
  };

  mutable Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // The newest first.
};

}  // namespace csidelta::datamover
