#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "objects/workload.h"

// The scheduler, which counts nothing, decides how many workers a node runs. So each worker has one
// of as many slots as a node may run workers. It keeps away from nodes that run a worker of the
// same slot. Functions are pure.
namespace csidelta::datamover {

// Chooses slots for Pods that are about to be made, several of them at once. A chosen slot counts
// before the API server lists the Pod. Thread-safe.
class SlotChooser {
 public:
  // A slot is held for so long if no Pod was made with it.
  static constexpr absl::Duration kHeldFor = absl::Minutes(1);
  // A slot counts for so long after its Pod was first listed: `pods` of another caller may be
  // older.
  static constexpr absl::Duration kHeldOnceListed = absl::Seconds(5);

  // Chooses the slot that the fewest of `pods` have that are tied to the same nodes as `pod`. Ties,
  // and Pods that may run anywhere, get the slot that the fewest of all have. Pods that have ended
  // do not count. REQUIRES slots > 0.
  int Choose(const objects::Pod& pod, const std::vector<objects::Pod>& pods, int slots,
             absl::Time now);

 private:
  struct Given {
    int slot = 0;
    std::string nodes;  // that the Pod is tied to
    absl::Time until;   // it counts until then
  };

  Mutex mutex_;
  std::map<std::string, Given> given_
      ABSL_GUARDED_BY(mutex_);  // To Pods that a caller may not have listed.
};

// Sets the slot of `pod`.
void SetSlot(objects::Pod& pod, int slot);

// Whether an unschedulable Pod only has to wait until another Pod of its slot has ended: the
// scheduler reports that on some node only its Pods are in the way.
bool WaitsForSlot(const objects::Pod& pod, const std::vector<objects::Pod>& pods);

// Whether the scheduler reports that no node takes a Pod.
bool IsUnschedulable(const objects::Pod& pod);

}  // namespace csidelta::datamover
