#include "datamover/ended_pods.h"

#include <algorithm>

#include "base/mutex.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::datamover {
namespace {

// What a kubelet says of a container that it does not find any more.
constexpr char kUnknown[] = "ContainerStatusUnknown";

bool IsTerminated(const Json& container) {
  const Json* terminated = FindJson(container, {"state", "terminated"});
  return terminated != nullptr && !GetString(*terminated, {"containerID"}).empty() &&
         GetString(*terminated, {"reason"}) != kUnknown;
}

bool HasSurelyEnded(const Json& pod) {
  const Json* containers = FindJson(pod, {"status", "containerStatuses"});
  return containers != nullptr && containers->is_array() && !containers->empty() &&
         std::all_of(containers->begin(), containers->end(), IsTerminated);
}

}  // namespace

void EndedPods::Note(const Json& pod) {
  Entry entry = {.uid = k8s::Uid(pod),
                 .repository = k8s::Annotation(pod, objects::kRepositoryAnnotation)};
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
