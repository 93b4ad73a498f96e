#pragma once

#include <memory>

#include "csi/environment.h"
#include "velero/item_action.h"

// The backup actions of the CSI kinds, one per kind. Each looks at the item as the actions before
// it left it and does only what is missing; docs/actions.md says what that is. The objects keep a
// copy of `env`.
namespace csidelta::backupitemactions {

// Takes the volume snapshot where csi-delta saves the volume.
std::unique_ptr<velero::BackupItemAction> MakePvcAction(const csi::Environment& env);

// Warns of volumes that a policy gives to us where the server runs without EnableCSI. Velero (1.13
// and newer) then calls no action whose name begins with csi-, so the name of this one does not.
std::unique_ptr<velero::BackupItemAction> MakeUnclaimedVolumeAction(const csi::Environment& env);

// Notes on a VolumeSnapshot what a restore elsewhere needs, watches it until it is ready, and lets
// it outlive its namespace.
std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotAction(const csi::Environment& env);

// Notes on a DataUpload of csi-delta that it is in the archive, when it gets there.
std::unique_ptr<velero::BackupItemAction> MakeDataUploadAction(const csi::Environment& env);

// Brings the Secrets of a content along.
std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env);

// Brings the Secrets of a class along.
std::unique_ptr<velero::BackupItemAction> MakeVolumeSnapshotClassAction(
    const csi::Environment& env);

// The same three for volume groups: a VolumeGroupSnapshot is watched until all its members are
// ready and outlives its namespace; a content is archived with the members of its group; a class
// brings its Secrets.
std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotAction(
    const csi::Environment& env);
std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotContentAction(
    const csi::Environment& env);
std::unique_ptr<velero::BackupItemAction> MakeVolumeGroupSnapshotClassAction(
    const csi::Environment& env);

// Has Longhorn take a native snapshot where a policy says so. Also without EnableCSI.
std::unique_ptr<velero::BackupItemAction> MakeLonghornVolumeAction(const csi::Environment& env);

// Marks Longhorn's own snapshot objects, but not this backup's native snapshots, so that Velero
// 1.18.1 and newer omits them from the backup. Also without EnableCSI. Asks the API server for the
// settings, once per backup, and for nothing else.
std::unique_ptr<velero::BackupItemAction> MakeLonghornSnapshotAction(const csi::Environment& env);

}  // namespace csidelta::backupitemactions
