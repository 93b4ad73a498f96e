#pragma once

#include <memory>

#include "csi/environment.h"
#include "velero/item_action.h"

// The restore of volumes from volume snapshots, whichever program took them: Velero's own CSI
// actions, its former CSI plugin, or ours. Each action computes the object that has to be created
// and changes only what Velero's own actions, which run first where there are any, have not done.
// docs/restore-and-delete.md tells the whole road.
namespace csidelta::restoreitemactions {

// Claims: data source, size, and an operation that ends when the claim is bound or cannot be.
std::unique_ptr<velero::RestoreItemAction> MakePvcAction(const csi::Environment& env);

// PersistentVolumes: left out if their PVC is restored from a snapshot that the plugin took.
std::unique_ptr<velero::RestoreItemAction> MakePersistentVolumeAction(const csi::Environment& env);

// VolumeSnapshots: bound to the content that is restored for them, never to a claim.
std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotAction(const csi::Environment& env);

// Contents: made for the driver's existing snapshot, in any cluster.
std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env);

// Classes: with the Secrets that they name.
std::unique_ptr<velero::RestoreItemAction> MakeVolumeSnapshotClassAction(
    const csi::Environment& env);

// VolumeGroupSnapshots: of the driver's existing group. Those that we took are left out, unless the
// settings say otherwise: their members come back as single volume snapshots.
std::unique_ptr<velero::RestoreItemAction> MakeVolumeGroupSnapshotAction(
    const csi::Environment& env);

// Their contents.
std::unique_ptr<velero::RestoreItemAction> MakeVolumeGroupSnapshotContentAction(
    const csi::Environment& env);

// Their classes: with the Secrets that they name.
std::unique_ptr<velero::RestoreItemAction> MakeVolumeGroupSnapshotClassAction(
    const csi::Environment& env);

// PVCs of which the backup has a native snapshot of Longhorn: filled from it, or an error. Also
// without EnableCSI.
std::unique_ptr<velero::RestoreItemAction> MakeLonghornRestoreAction(const csi::Environment& env);

// Longhorn's objects: leaves out those that would do harm (longhorn/kinds_guard.h). Also without
// EnableCSI. Asks the API server for the settings, once per restore, and for nothing else.
std::unique_ptr<velero::RestoreItemAction> MakeLonghornGuardAction(const csi::Environment& env);

}  // namespace csidelta::restoreitemactions
