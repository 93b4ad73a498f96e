#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "csi/snapshot_protection.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// The VolumeSnapshots of a namespace, or of all, with what belongs to them. Costs at most one LIST
// per kind, none per VolumeSnapshot, and holds no page longer than it takes to read it. A cluster
// may have very many other contents: of a few that are named they are read by name, and for a list
// as the API server remembers them, but for those that are missing or not bound there, which are
// looked at again. What decides over deletions is read as it is now.
namespace csidelta::snapshots {

// One VolumeSnapshot as people and scripts see it. Texts are as objects have them: printing makes
// them printable.
struct SnapshotEntry {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string pvc;  // that it was taken of; "" for one of an existing content
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
  std::string volume_handle;  // of the volume that it was taken of; "" for one that was imported
  std::string handle;
  std::string deletion_policy;
  std::string set;
  std::string workload;
  std::string note;
  bool is_made_by_verbs = false;
  bool has_velero_labels = false;
  std::string backup;                    // that made it, as its label says it
  bool is_selected = true;               // has the labels that were asked for
  std::vector<std::string> used_by;      // PVCs that were made of it and exist
  std::vector<Finding> kept_for;         // what keeps it from a prune
  std::vector<Finding> kept_for_person;  // what keeps it from a person who names it
};

// What the VolumeSnapshot and its content say by themselves; without `used_by` and `kept_for`.
// Pure.
SnapshotEntry EntryOf(const objects::VolumeSnapshot& snapshot, const csi::ContentReading& reading);

struct InventoryRequest {
  std::string namespace_name;  // "" for all
  std::string label_selector;  // With one, the last Ready one of a PVC is not known,
  // unless the others are read, too: one LIST more. All are returned then, and `is_selected` tells
  // which have the labels.
  bool reads_others = false;
  // Those that are meant, of one namespace; none: all. Of these everything is known that may be
  // read, also where a kind may be read by name and not be listed.
  std::vector<std::string> names = {};
  bool only_names = false;    // reads no other VolumeSnapshot
  bool requires_all = false;  // What may not be read is an error, and not only named.
  std::string mover_namespace;
  absl::Time now;
};

struct Inventory {
  std::vector<SnapshotEntry> entries;  // by namespace, PVC, and the newest first
  // What the caller may not read, and what is not known for it: "binding not checked: ...".
  std::vector<std::string> not_checked;
  bool is_last_ready_known = true;  // all VolumeSnapshots of each PVC were read
};

// PERMISSION_DENIED when VolumeSnapshots may not be listed, and none are named; contents and PVCs
// that may not be are named in `not_checked`. Other errors of the API server end it.
absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request);

// When it was taken; where that is not known, when it was requested. Pure.
std::optional<absl::Time> DateOf(const SnapshotEntry& entry);

// Of the entries that are to go, those that must stay so that no PVC loses its last Ready one: of
// each PVC that would have none left, the newest that is Ready. As positions in `entries`, which
// holds all VolumeSnapshots of these PVCs; `goes` has an element for each. Two that are to go
// together are not the only one each, and yet nothing would stay: so this is asked for what is
// decided about several. Pure.
std::vector<std::size_t> LastReadyOf(const std::vector<SnapshotEntry>& entries,
                                     const std::vector<bool>& goes);

// Whether two entries say the same of what is listed of a VolumeSnapshot: all but uids and
// resourceVersions, and what decides over its removal. Pure.
bool ReadsAlike(const SnapshotEntry& left, const SnapshotEntry& right);

}  // namespace csidelta::snapshots
