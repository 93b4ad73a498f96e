#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "csi/snapshot_protection.h"
#include "csi/snapshot_state.h"
#include "k8s/api_client.h"
#include "objects/volume_snapshot.h"

// The VolumeSnapshots of a namespace, or of all, with what belongs to them. Costs at most one paged
// LIST per kind, none per VolumeSnapshot, and holds no page longer than it takes to read it.
namespace csidelta::csi {

// One VolumeSnapshot as people and scripts see it. Texts are as objects have them: printing makes
// them printable.
struct SnapshotEntry {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string pvc;  // that it was taken of; "" for one of an existing content
  SnapshotStatus status;
  std::optional<absl::Time> asked_at;  // by these verbs, else when the object was made
  std::optional<absl::Time> ready_at;
  std::optional<int64_t> restore_size_bytes;
  std::string class_name;
  std::string content;
  std::string driver;  // this and the next two: "" where the content may not be read
  std::string handle;
  std::string deletion_policy;
  std::string set;
  std::string workload;
  std::string note;
  bool is_made_by_verbs = false;
  std::vector<std::string> used_by;  // PVCs that were made of it and exist
  std::vector<Protection> kept_for;  // what keeps it from a prune
};

// What the VolumeSnapshot and its content say by themselves; without `used_by` and `kept_for`.
// Pure.
SnapshotEntry EntryOf(const objects::VolumeSnapshot& snapshot, const ContentReading& reading);

struct InventoryRequest {
  std::string namespace_name;  // "" for all
  std::string label_selector;  // With one, the last Ready one of a PVC is not known.
  std::string mover_namespace;
  absl::Time now;
};

struct Inventory {
  std::vector<SnapshotEntry> entries;  // by namespace, PVC, and the newest first
  // What the caller may not read, and what is not known for it: "binding not checked: ...".
  std::vector<std::string> not_checked;
};

// PERMISSION_DENIED when VolumeSnapshots may not be listed; contents and PVCs that may not be are
// named in `not_checked`. Other errors of the API server end it.
absl::StatusOr<Inventory> ReadInventory(const CallContext& ctx, k8s::ApiClient& api,
                                        const InventoryRequest& request);

// One object per VolumeSnapshot: name, namespace, pvc, state, conditions, asked_at, taken_at,
// ready_at, size_bytes, driver, handle, content, class, policy, set, workload, used_by, kept_for.
// Pure.
Json ToJson(const SnapshotEntry& entry);

}  // namespace csidelta::csi
