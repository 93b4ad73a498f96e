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

// Properties of a VolumeSnapshot that date a reading of it: clients must not rely on an order of
// resourceVersions.
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

// True if `reading` is older than `shown`, which has the same uid: late events and cached lists
// return former states. The first row that holds decides; times are those of written_at, "further"
// is the first of being deleted, ready, taken, an error, bound that only one of the two has. Pure.
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
  SnapshotEntry entry;   // without used_by and kept_for; if gone, as it was
  bool is_gone = false;  // deleted
};

struct SnapshotWatchRequest {
  std::string namespace_name;  // "" for all
  std::string label_selector;
  std::vector<SnapshotEntry> known;  // from ReadInventory(): differences are reported
};

// Passes each change of an entry to `sink` until it returns false, which is OK, or `ctx` ends,
// which is its error. A content is read when its VolumeSnapshot or the content itself has changed.
// All contents of the cluster are watched, but only the names of those that belong to the
// VolumeSnapshots are held. If contents cannot be read or watched, `note` is called once, and the
// state comes from the other objects. PERMISSION_DENIED if VolumeSnapshots cannot be watched;
// outages are waited for. `sink` and `note` are called by one thread at a time.
absl::Status WatchSnapshots(const CallContext& ctx, k8s::ApiClient& api,
                            const SnapshotWatchRequest& request,
                            const std::function<bool(const SnapshotChange& change)>& sink,
                            const std::function<void(const std::string& sentence)>& note);

}  // namespace csidelta::snapshots
