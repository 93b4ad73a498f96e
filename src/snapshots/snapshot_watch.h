#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"
#include "snapshots/snapshot_inventory.h"

// VolumeSnapshots as they change, each with the state that it and its content have.
namespace csidelta::snapshots {

// What a reading of a VolumeSnapshot tells of when it was read. The values of resourceVersion have
// no order that a client may use.
struct SnapshotMark {
  std::string resource_version;
  std::optional<absl::Time> written_at;  // the latest time of metadata.managedFields
  bool is_being_deleted = false;
  bool is_ready = false;
  bool is_taken = false;
  bool has_error = false;
  bool is_bound = false;
};

SnapshotMark MarkOf(const objects::VolumeSnapshot& snapshot);

// Whether `reading` is of before `shown`, which has the same uid: late events and lists that are
// not the newest bring back what was. The first row that holds decides; times are those of
// written_at, "further" is the first of being deleted, ready, taken, an error, bound that only one
// of the two has. Pure.
//
//   times            further       resourceVersion           older
//   ---------------  ------------  ------------------------  -----
//   any              any           that of `shown`           yes
//   reading earlier  any           any                       yes
//   reading later    any           any                       no
//   same or unknown  shown         any                       yes
//   same or unknown  reading       any                       no
//   same or unknown  neither       one of `seen` before      yes
//   same or unknown  neither       new                       no
bool IsOlder(const SnapshotMark& reading, const SnapshotMark& shown,
             const std::vector<std::string>& seen);

struct SnapshotChange {
  SnapshotEntry entry;   // without used_by and kept_for; of one that is gone, as it was
  bool is_gone = false;  // deleted
};

struct SnapshotWatchRequest {
  std::string namespace_name;  // "" for all
  std::string label_selector;
  std::vector<SnapshotEntry> known;  // as ReadInventory() gave them: what differs is told
};

// Shows `sink` each change of what an entry says, until it returns false, which is OK, or `ctx`
// ends, which is its error. A content is read when its VolumeSnapshot has changed, and when it has
// changed itself: the contents of the cluster are followed, and none is held but for the names of
// those that belong to the VolumeSnapshots. Where contents may not be read or followed, `note` is
// told once, and the state comes from what may be. PERMISSION_DENIED when VolumeSnapshots may not
// be watched; outages are waited for. `sink` and `note` are called by one thread at a time.
absl::Status WatchSnapshots(const CallContext& ctx, k8s::ApiClient& api,
                            const SnapshotWatchRequest& request,
                            const std::function<bool(const SnapshotChange& change)>& sink,
                            const std::function<void(const std::string& sentence)>& note);

}  // namespace csidelta::snapshots
