#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "csi/environment.h"
#include "k8s/api_client.h"
#include "objects/object.h"
#include "objects/volume_snapshot.h"

// What deleting a backup does to the VolumeSnapshotContents that it left in the cluster or that
// restores of it made.
namespace csidelta::csi {

// Such a content, and who stands at its other end.
struct BackupContent {
  objects::VolumeSnapshotContent content;
  std::optional<objects::VolumeSnapshot> snapshot;  // that is bound to it, or waits to be
  bool needed = false;  // it is protected from the deletion of its backup
};

// Whether a restore made the object: Velero labels everything that it restores. Pure.
bool IsRestored(const objects::Object& object);

// Looks at each of `contents`: up to one request for each, and one for each of their namespaces.
absl::StatusOr<std::vector<BackupContent>> LookAtContents(
    const CallContext& ctx, const Environment& env,
    const std::vector<objects::VolumeSnapshotContent>& contents);

// Has the status of an object that was made for what the driver has, a content of a VolumeSnapshot
// or of a group, name the driver's handle, where the sidecar reads what it is to delete. Waits for
// the sidecar's first word about the object, for `grace period` and five seconds at most, and
// writes the handle where that did not: an error of that first look replaces the whole status
// (external-snapshotter 8.6), and a handle that was there would be lost, and the deletion with it.
// Where no sidecar is up, the handle waits for one. One that is being deleted is left as it is.
// Without the right to write a status, waits half a minute for the sidecar to do it. OK when the
// object is gone.
absl::Status WriteHandle(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key,
                         const std::string& handle, absl::Duration grace_period);

// Waits until there is no such object; false when it still stands after `wait`.
absl::StatusOr<bool> AwaitGone(const CallContext& ctx, const Environment& env,
                               const k8s::ObjectKey& key, absl::Duration wait);

// What the driver's sidecar last said about an object, for a log line; "" when it is not known.
std::string LastError(const CallContext& ctx, const Environment& env, const k8s::ObjectKey& key);

// Whether the deletion of the backup that made the VolumeSnapshot must wait
// (csi/snapshot_protection.h): a PVC is still being filled from it, or may be.
absl::StatusOr<bool> IsStillNeeded(const CallContext& ctx, const Environment& env,
                                   const objects::VolumeSnapshot& snapshot);

}  // namespace csidelta::csi
