#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "csi/snapshot_protection.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// The VolumeSnapshots of a namespace, or of all, with their contents and PVCs. Costs at most one
// LIST per kind, none per VolumeSnapshot, and holds no page longer than reading it takes. A cluster
// may have very many other contents. The contents of a few named VolumeSnapshots are read by name.
// A list reads contents from the API server's cache, and again those that are missing or not bound
// there. An object that decides over a deletion is read as it is now.
namespace csidelta::snapshots {

// The VolumeGroupSnapshot that a VolumeSnapshot is a member of. The snapshot controller deletes no
// member alone.
struct GroupOfEntry {
  std::string name;  // "": a member of none
  // The rest only if the group was read, with all of its members: they can be deleted together.
  std::string uid;
  std::string resource_version;
  std::string version;  // of its kind: "v1"
  std::string content;  // the VolumeGroupSnapshotContent that it is bound to; ""
  csi::ContentReading::Kind content_kind = csi::ContentReading::Kind::kUnknown;
  std::string deletion_policy;  // of a content that is present
  bool is_being_deleted = false;
};

// One VolumeSnapshot as people and scripts see it. Strings are raw: the printer escapes them.
struct SnapshotEntry {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string pvc;  // the source; "" for one of an existing content
  csi::SnapshotStatus status;
  std::optional<absl::Time> asked_at;  // by these verbs, else when the object was made
  std::optional<absl::Time> ready_at;
  std::optional<int64_t> restore_size_bytes;
  std::string class_name;
  std::string content;
  csi::ContentReading::Kind content_kind = csi::ContentReading::Kind::kUnknown;
  // This and the next seven: only of a content that is present.
  std::string content_uid;
  std::string content_resource_version;
  std::string content_names;         // the VolumeSnapshot that the content names: "ns/name"
  bool is_named_by_content = false;  // bound both ways
  std::string driver;
  std::string volume_handle;  // of the source volume; "" for an imported snapshot
  std::string handle;
  std::string deletion_policy;
  std::string set;
  GroupOfEntry group;
  std::string workload;
  std::string note;
  bool is_made_by_verbs = false;
  bool has_velero_labels = false;
  std::string backup;                // that made it, by its label
  bool is_selected = true;           // has the requested labels
  std::vector<std::string> used_by;  // PVCs that were made of it and exist
  // What keeps it from a prune; of a group that was read, apart from the other members.
  std::vector<Finding> kept_for;
  std::vector<Finding> kept_for_person;  // what keeps it from a person who names it
};

// The entry that the VolumeSnapshot and its content alone give; without `used_by` and `kept_for`.
// Pure.
SnapshotEntry EntryOf(const objects::VolumeSnapshot& snapshot, const csi::ContentReading& reading);

struct InventoryRequest {
  std::string namespace_name;       // "" for all
  std::string label_selector = {};  // With one, the last Ready one of a PVC is not known,
  // unless the others are read, too: one LIST more. All are returned then, and `is_selected` tells
  // which have the labels.
  bool reads_others = false;
  // The requested VolumeSnapshots, of one namespace; none: all. Named ones are complete even if a
  // kind can be read by name but not be listed.
  std::vector<std::string> names = {};
  bool only_names = false;    // reads no other VolumeSnapshot
  bool requires_all = false;  // an object that cannot be read is an error
  // For a deletion: reads VolumeGroupSnapshots if there are members, and each one's content. If
  // they cannot be listed, their members stay members of a group that was not read. With
  // `only_names`, REQUIRES the names of all members.
  bool reads_groups = false;
  bool with_data = false;  // it deletes the data, too, whatever a policy says
  std::string mover_namespace = {};
  absl::Time now;
};

struct Inventory {
  std::vector<SnapshotEntry> entries;  // by namespace, PVC, and the newest first
  // Objects that the caller cannot read, and what is therefore unknown: "binding not checked: ...".
  std::vector<std::string> not_checked;
  bool is_last_ready_known = true;  // all VolumeSnapshots of each PVC were read
};

// PERMISSION_DENIED if VolumeSnapshots cannot be listed, and none are named. Contents and PVCs that
// cannot be read are reported in `not_checked`. Other errors of the API server are returned.
absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request);

// The time when it was taken; if unknown, when it was requested. Pure.
std::optional<absl::Time> DateOf(const SnapshotEntry& entry);

// How people see one: its name; a member of a group, whose name is a hash, as "week/data-db-0" by
// its set, or its group, and its PVC. Pure.
std::string ShownName(const SnapshotEntry& entry);

// True if nothing more needs to be requested: a member waits for its group, if that was read. Pure.
bool IsBeingDeleted(const SnapshotEntry& entry);

// What is deleted at once: members of a group that was read, else one VolumeSnapshot.
using Unit = std::vector<SnapshotEntry>;

// "VolumeGroupSnapshot week of PVC data-db-0, data-db-1"; of one its ShownName(). Pure.
std::string ShownName(const Unit& unit);

// Joins the items that go and have members of one group, in the place of the first.
template <typename Item>
std::vector<Item> JoinGroups(std::vector<Item> items, bool (*goes)(const Item&)) {
  std::vector<Item> joined;
  std::map<std::string, std::size_t> groups;  // by uid, where in `joined`
  for (Item& item : items) {
    const std::string uid = item.unit.front().group.uid;
    if (!uid.empty() && goes(item) && !groups.emplace(uid, joined.size()).second) {
      Unit& unit = joined[groups[uid]].unit;
      std::move(item.unit.begin(), item.unit.end(), std::back_inserter(unit));
    } else {
      joined.push_back(std::move(item));
    }
  }
  return joined;
}

// Chooses the entries that must stay so that no PVC loses its last Ready VolumeSnapshot. If all
// Ready ones of a PVC are to go, the newest of them stays. Returns positions in `entries`. REQUIRES
// that `entries` has all VolumeSnapshots of these PVCs, and `goes` an element for each. Deletions
// of several are decided together: neither of two Ready ones is the last by itself. Pure.
std::vector<std::size_t> LastReadyOf(const std::vector<SnapshotEntry>& entries,
                                     const std::vector<bool>& goes);

// Entries that must stay for the sake of others, and why: those of LastReadyOf() if
// `spares_last_ready`, and members of a group of which another member stays. One that is being
// deleted does not stay: it only waits for its group. REQUIRES as LastReadyOf(). Pure.
struct SparedEntry {
  std::size_t entry = 0;
  Finding why;
};
std::vector<SparedEntry> SparedOf(const std::vector<SnapshotEntry>& entries, std::vector<bool> goes,
                                  bool spares_last_ready);

// True if two entries agree in the fields that are listed, and in `used_by` and `kept_for`. Uids
// and resourceVersions do not count. Pure.
bool ReadsAlike(const SnapshotEntry& left, const SnapshotEntry& right);

}  // namespace csidelta::snapshots
