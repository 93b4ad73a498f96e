#pragma once

#include <cstdint>
#include <string>

#include "objects/patch.h"
#include "objects/volume_task.h"
#include "objects/workload.h"

// The worker Pods of a task that were lost, and which of them count. A first backup that takes a
// week on spot nodes loses dozens, and ends well. A worker that crashes at the same position again
// and again ends after a few.
namespace csidelta::datamover {

// Whether the Pod was ended from outside, and not by the worker: it was evicted, preempted or
// drained, or its node was shut down or lost. `pod` is null if it is gone. Pure.
bool WasDisrupted(const objects::Pod* pod, objects::TaskPhase phase);

// A position in the work of a task: stages follow each other, and each goes through the volume.
struct WorkPosition {
  std::string stage;
  int64_t done_bytes = 0;

  friend bool operator==(const WorkPosition&, const WorkPosition&) = default;
};

struct LostPods {
  // The lost Pods in a row, up to the last one, that count. A Pod that was disrupted and had come
  // further than all before it does not count, and ends the row. One that was deleted before its
  // worker reported, such as an evicted Pending one, is no part of the row.
  int counted = 0;
  // The last position that counted as progress. Less than a thousandth of the volume does not
  // count, so a task makes progress a few thousand times at most.
  WorkPosition furthest;
};

// As the annotations of `task` have them; no Pod counts before the first loss. Pure.
LostPods LostPodsOf(const objects::VolumeTask& task);

// The same after the loss of its last Pod; `pod` as above. Pure.
LostPods AfterLoss(const objects::VolumeTask& task, const objects::Pod* pod);

// Sets the annotations.
void SetAnnotations(const LostPods& lost, objects::Patch& task);

}  // namespace csidelta::datamover
