#include "datamover/worker/lost_pods.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

constexpr int64_t kProgressPart = 1000;

// Of a Pod's status: a kubelet that is short of something, makes room for a critical Pod, or shuts
// its node down, and the controllers that give a node up.
constexpr std::array<absl::string_view, 7> kDisruptions = {
    "Evicted", "Preempting", "Terminated", "Shutdown", "NodeShutdown", "NodeLost", "NodeAffinity"};
// Of a container whose node came back without it.
constexpr std::array<absl::string_view, 2> kContainerLost = {"Unknown", "ContainerStatusUnknown"};

int RankOf(absl::string_view stage) {
  constexpr std::array<absl::string_view, 4> kLater = {"audit", "rescan", "uploads", "commit"};
  const auto found = std::find(kLater.begin(), kLater.end(), stage);
  return found == kLater.end() ? 0 : 1 + static_cast<int>(found - kLater.begin());
}

bool IsFurther(const objects::VolumeTaskStatus& status, const WorkPosition& furthest) {
  const int rank = RankOf(status.stage);
  const int rank_before = RankOf(furthest.stage);
  const int64_t step = std::max<int64_t>(1, status.total_bytes / kProgressPart);
  return rank > rank_before ||
         (rank == rank_before && status.done_bytes >= furthest.done_bytes + step);
}

}  // namespace

bool WasDisrupted(const objects::Pod* pod, objects::TaskPhase phase) {
  if (pod == nullptr || phase == objects::TaskPhase::kInterrupted || pod->is_being_deleted() ||
      absl::c_linear_search(kDisruptions, pod->reason())) {
    return true;
  }
  return absl::c_any_of(pod->conditions(),
                        [](const objects::Condition& condition) {
                          return condition.type == "DisruptionTarget" && condition.status == "True";
                        }) ||
         absl::c_any_of(pod->containers(), [](const objects::ContainerStatus& container) {
           return container.terminated.has_value() &&
                  absl::c_linear_search(kContainerLost, container.terminated->reason);
         });
}

LostPods LostPodsOf(const objects::VolumeTask& task) {
  LostPods lost;
  const std::string counted = task.Annotation(objects::kLostPodsAnnotation);
  if (!absl::SimpleAtoi(counted, &lost.counted) || lost.counted < 0) {
    lost.counted = 0;
  }
  const std::vector<std::string> position =
      absl::StrSplit(task.Annotation(objects::kFurthestAnnotation), ' ');
  if (position.size() == 2 && absl::SimpleAtoi(position[1], &lost.furthest.done_bytes)) {
    lost.furthest.stage = position[0];
  }
  return lost;
}

LostPods AfterLoss(const objects::VolumeTask& task, const objects::Pod* pod) {
  LostPods lost = LostPodsOf(task);
  const objects::VolumeTaskStatus status = task.status();
  // Without a heartbeat since the attempt began, its status is that of a Pod before.
  const bool has_begun = status.phase != objects::TaskPhase::kNone &&
                         status.heartbeat_at.value_or(absl::InfiniteFuture()) >=
                             task.attempt_at().value_or(absl::InfinitePast());
  if (!has_begun && (pod == nullptr || pod->is_being_deleted())) {
    return lost;
  }
  const bool had_progress = IsFurther(status, lost.furthest);
  if (had_progress) {
    lost.furthest = {.stage = status.stage, .done_bytes = status.done_bytes};
  }
  lost.counted = had_progress && WasDisrupted(pod, status.phase) ? 0 : lost.counted + 1;
  return lost;
}

void SetAnnotations(const LostPods& lost, objects::Patch& task) {
  task.SetAnnotation(objects::kLostPodsAnnotation, absl::StrCat(lost.counted));
  task.SetAnnotation(objects::kFurthestAnnotation,
                     absl::StrCat(lost.furthest.stage, " ", lost.furthest.done_bytes));
}

}  // namespace csidelta::datamover
