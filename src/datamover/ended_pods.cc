#include "datamover/ended_pods.h"

#include <algorithm>

#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

// What a kubelet says of a container that it does not find any more.
constexpr char kUnknown[] = "ContainerStatusUnknown";

bool HasSurelyEnded(const objects::Pod& pod) {
  const std::vector<objects::ContainerStatus> containers = pod.containers();
  return !containers.empty() &&
         std::all_of(containers.begin(), containers.end(), [](const auto& container) {
           const auto& terminated = container.terminated;
           return terminated.has_value() && !terminated->container_id.empty() &&
                  terminated->reason != kUnknown;
         });
}

}  // namespace

void EndedPods::Record(const objects::Pod& pod) {
  Entry entry = {.uid = pod.uid(), .repository = pod.Annotation(objects::kRepositoryAnnotation)};
  if (entry.repository.empty() || !HasSurelyEnded(pod) || Has(entry.uid)) {
    return;
  }
  const MutexLock lock(mutex_);
  entries_.push_front(std::move(entry));
  if (entries_.size() > kAllMax) {
    entries_.pop_back();
  }
}

bool EndedPods::Has(absl::string_view uid) const {
  const MutexLock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [uid](const Entry& entry) { return entry.uid == uid; });
}

std::vector<std::string> EndedPods::Of(absl::string_view repository) const {
  std::vector<std::string> uids;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.repository == repository && uids.size() < kOfOneRepositoryMax) {
      uids.push_back(entry.uid);
    }
  }
  return uids;
}

}  // namespace csidelta::datamover
