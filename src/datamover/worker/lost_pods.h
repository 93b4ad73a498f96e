#pragma once

#include <cstdint>
#include <string>

#include "objects/patch.h"
#include "objects/volume_task.h"
#include "objects/workload.h"

// The worker Pods of a task that were lost, and which of them count. A first backup that takes a
// week on spot nodes loses dozens, and ends well; what crashes at the same position again and again
// ends after a few.
namespace csidelta::datamover {

// Whether others ended the Pod, and not the worker: it was evicted, preempted or drained, or its
// node was shut down or lost. `pod` is null where it is gone. Pure.
bool WasDisrupted(const objects::Pod* pod, objects::TaskPhase phase);

// A position in the work of a task: stages follow each other, and each goes through the volume.
struct WorkPosition {
  std::string stage;
  int64_t done_bytes = 0;

  friend bool operator==(const WorkPosition&, const WorkPosition&) = default;
};

struct LostPods {
  // In a row, up to the last one: those that count. A Pod that was disrupted and had come further
  // than all before it does not, and ends the row.
  int counted = 0;
  // The one that counted as progress last. Less than a thousandth of the volume is none, so a task
  // makes progress a few thousand times at most.
  WorkPosition furthest;
};

// As the annotations of `task` say; none counts before the first loss. Pure.
LostPods LostPodsOf(const objects::VolumeTask& task);

// The same when its last Pod is lost, too; `pod` as above. Pure.
LostPods AfterLoss(const objects::VolumeTask& task, const objects::Pod* pod);

// The annotations.
void SetAnnotations(const LostPods& lost, objects::Patch& task);

}  // namespace csidelta::datamover
