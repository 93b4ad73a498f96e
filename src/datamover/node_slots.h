#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "objects/workload.h"

// How many workers a node runs at once is up to the scheduler, which counts nothing. So each worker
// has one of as many slots as a node may run workers, and keeps away from nodes that run one of its
// own slot. Functions are pure.
namespace csidelta::datamover {

// Gives slots to Pods that are about to be made, several of which may be at once: what was given
// counts before the API server lists the Pod. Thread-safe.
class SlotChooser {
 public:
  // A slot is held for so long if no Pod was made with it.
  static constexpr absl::Duration kHeldFor = absl::Minutes(1);

  // The slot that the fewest of `pods` have that are tied to the same nodes as `pod`, which gets
  // it; of equals, and where it may run anywhere, the one that the fewest of all have. Of those
  // that have ended none counts. REQUIRES slots > 0.
  int Choose(const objects::Pod& pod, const std::vector<objects::Pod>& pods, int slots,
             absl::Time now);

 private:
  struct Given {
    int slot = 0;
    std::string nodes;  // that the Pod is tied to
    absl::Time at;
  };

  Mutex mutex_;
  std::map<std::string, Given> given_ ABSL_GUARDED_BY(mutex_);  // To Pods that are not listed yet.
};

// Gives `pod` its slot.
void SetSlot(objects::Pod& pod, int slot);

// Whether a Pod that cannot be scheduled only has to wait until one of the others of its slot has
// ended: the scheduler says of some node that only its Pods are in the way.
bool WaitsForSlot(const objects::Pod& pod, const std::vector<objects::Pod>& pods);

// Whether the scheduler says that no node takes a Pod.
bool IsUnschedulable(const objects::Pod& pod);

}  // namespace csidelta::datamover
