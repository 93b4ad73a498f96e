#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "k8s/api_client.h"
#include "objects/event_handler.h"
#include "objects/volume_group_snapshot.h"

namespace csidelta::datamover {

struct VolumeGroup {
  std::string velero_namespace, namespace_name;
  std::string group;  // the value of the group label on its claims
  auto operator<=>(const VolumeGroup&) const = default;
};

// The freeze windows (csi::FreezeWindow) of volume groups that were taken.
struct GroupFigures {
  int64_t groups = 0;                             // since the process began, while it led
  absl::Duration windows = absl::ZeroDuration();  // of those, together
  std::map<VolumeGroup, absl::Duration> last;     // of each group that was seen
  // Groups of any maker that report an error, or have no content, by uid. Each counts from then on.
  std::map<std::string, absl::Time> failing;
};

// Counts the VolumeGroupSnapshots that the plugin makes, each once: they exist from the request to
// the end of their backup. Also counts those of any maker that fail. Thread-safe.
class GroupWindows : public objects::EventHandler<objects::VolumeGroupSnapshot> {
 public:
  // Counts groups of these Veleros that the driver answered from `since` on, so that a restarted
  // process counts no group again. `leads`: only the leading replica counts.
  GroupWindows(std::set<std::string> velero_namespaces, absl::Time since,
               std::function<bool()> leads);

  GroupFigures figures() const;

 private:
  void OnChanged(const objects::VolumeGroupSnapshot& group) override;
  void OnDeleted(const k8s::ObjectId& id, const objects::VolumeGroupSnapshot* last) override;
  void Record(const objects::VolumeGroupSnapshot& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordFailure(const objects::VolumeGroupSnapshot& group)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::set<std::string> velero_namespaces_;
  const absl::Time since_;
  const std::function<bool()> leads_;
  mutable Mutex mutex_;
  GroupFigures figures_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> seen_ ABSL_GUARDED_BY(mutex_);  // Uids of answered groups that are there.
};

// Reports all VolumeGroupSnapshots until `ctx` ends, and returns why it ended. A cluster
// may serve the kind in any version or not at all, and change that: the version is read again now
// and then.
absl::Status WatchGroups(const CallContext& ctx, k8s::ApiClient& api,
                         k8s::ObjectEventHandler& handler);

}  // namespace csidelta::datamover
