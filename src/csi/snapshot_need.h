#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/finding.h"
#include "csi/environment.h"
#include "csi/population.h"
#include "csi/snapshot_protection.h"
#include "k8s/api_client.h"
#include "objects/object.h"
#include "objects/volume_snapshot.h"

// The checks of a component before it deletes a VolumeSnapshot of its own. They read from the
// cluster what csi/snapshot_protection.h decides by. Person and prune use
// snapshots/snapshot_inventory.h, for many at once.
namespace csidelta::csi {

// The PVCs that are made of a VolumeSnapshot of their namespace.
struct PvcsOfSnapshot {
  std::vector<std::string> pending = {};  // those that are being filled and not bound: their names
  std::vector<PopulatedVolume> bound = {};
};
using PvcsBySource = std::map<std::string, PvcsOfSnapshot>;  // by the VolumeSnapshot

// Adds one that is made of the VolumeSnapshot, if it is filled or bound. Pure.
void AddPvc(const objects::PersistentVolumeClaim& pvc, PvcsOfSnapshot& pvcs);

// One LIST.
absl::StatusOr<PvcsBySource> ListPvcsBySource(const CallContext& ctx, k8s::ApiClient& api,
                                              const std::string& namespace_name);

// The VolumeSnapshot that the content is bound to, or that waits to be bound to it. One GET.
absl::StatusOr<std::optional<objects::VolumeSnapshot>> FindSnapshotOf(
    const CallContext& ctx, k8s::ApiClient& api, const objects::VolumeSnapshotContent& content);

// Why `snapshot` must stay; empty: it may be deleted. `content`: null if it was not read. `pvcs`:
// of its namespace. `populations` is not asked for kBaseCleanUp: the mover itself checks what it
// makes of its own VolumeSnapshots, before it removes them. PERMISSION_DENIED if that is not known.
absl::StatusOr<std::vector<Finding>> NeedsOf(const objects::VolumeSnapshot& snapshot,
                                             const objects::VolumeSnapshotContent* content,
                                             const PvcsBySource& pvcs,
                                             PopulationReader& populations, Requester requester);

// A VolumeSnapshotContent that a backup left in the cluster or that a restore of it made.
struct BackupContent {
  objects::VolumeSnapshotContent content;
  std::optional<objects::VolumeSnapshot> snapshot;  // bound to it, or waits to be
  bool needed = false;  // it is protected from the deletion of its backup
};

// True if a restore made the object: Velero labels everything that it restores. Pure.
bool IsRestored(const objects::Object& object);

// Reads what is bound to each of `contents`: up to one request for each, and one for each of their
// namespaces.
absl::StatusOr<std::vector<BackupContent>> ReadBackupContents(
    const CallContext& ctx, const Environment& env,
    const std::vector<objects::VolumeSnapshotContent>& contents);

// True if the deletion of the backup that made the VolumeSnapshot must wait: a PVC is being filled
// from it, or may be (csi/snapshot_protection.h).
absl::StatusOr<bool> IsStillNeeded(const CallContext& ctx, const Environment& env,
                                   const objects::VolumeSnapshot& snapshot);

}  // namespace csidelta::csi
