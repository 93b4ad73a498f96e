#pragma once

#include <string>
#include <vector>

#include "base/json.h"

// How many workers a node runs at once is up to the scheduler, which counts nothing. So each worker
// has one of as many slots as a node may run workers, and keeps away from nodes that run one of its
// own slot. All pure.
namespace csidelta::datamover {

// Whether all containers of a Pod have, so that it takes no room on its node.
bool HasEnded(const Json& pod);

// The slot that the fewest of `pods` have; of those that have ended none counts. REQUIRES slots >
// 0.
int FreestSlot(const std::vector<Json>& pods, int slots);

// Gives `pod` its slot.
void SetSlot(Json& pod, int slot);

// Whether a Pod that cannot be scheduled may only have to wait until one of the others of its slot
// has ended.
bool WaitsForSlot(const Json& pod, const std::vector<Json>& pods);

}  // namespace csidelta::datamover
