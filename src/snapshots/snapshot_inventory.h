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

// The VolumeSnapshots of a namespace, or of all, with their contents and PVCs. Costs at most one
// LIST per kind, none per VolumeSnapshot, and holds no page longer than reading it takes. A cluster
// may have very many other contents. The contents of a few named VolumeSnapshots are read by name.
// A list reads contents from the API server's cache, and again those that are missing or not bound
// there. An object that decides over a deletion is read as it is now.
namespace csidelta::snapshots {

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
  std::string workload;
  std::string note;
  bool is_made_by_verbs = false;
  bool has_velero_labels = false;
  std::string backup;                    // that made it, by its label
  bool is_selected = true;               // has the requested labels
  std::vector<std::string> used_by;      // PVCs that were made of it and exist
  std::vector<Finding> kept_for;         // what keeps it from a prune
  std::vector<Finding> kept_for_person;  // what keeps it from a person who names it
};

// The entry that the VolumeSnapshot and its content alone give; without `used_by` and `kept_for`.
// Pure.
SnapshotEntry EntryOf(const objects::VolumeSnapshot& snapshot, const csi::ContentReading& reading);

struct InventoryRequest {
  std::string namespace_name;  // "" for all
  std::string label_selector;  // With one, the last Ready one of a PVC is not known,
  // unless the others are read, too: one LIST more. All are returned then, and `is_selected` tells
  // which have the labels.
  bool reads_others = false;
  // The requested VolumeSnapshots, of one namespace; none: all. Named ones are complete even if a
  // kind can be read by name but not be listed.
  std::vector<std::string> names = {};
  bool only_names = false;    // reads no other VolumeSnapshot
  bool requires_all = false;  // an object that cannot be read is an error
  std::string mover_namespace;
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

// Chooses the entries that must stay so that no PVC loses its last Ready VolumeSnapshot. If all
// Ready ones of a PVC are to go, the newest of them stays. Returns positions in `entries`. REQUIRES
// that `entries` has all VolumeSnapshots of these PVCs, and `goes` an element for each. Deletions
// of several are decided together: neither of two Ready ones is the last by itself. Pure.
std::vector<std::size_t> LastReadyOf(const std::vector<SnapshotEntry>& entries,
                                     const std::vector<bool>& goes);

// True if two entries agree in the fields that are listed, and in `used_by` and `kept_for`. Uids
// and resourceVersions do not count. Pure.
bool ReadsAlike(const SnapshotEntry& left, const SnapshotEntry& right);

}  // namespace csidelta::snapshots
