#pragma once

#include <memory>

#include "csi/environment.h"
#include "velero/item_action.h"

// What happens to volume snapshots and moved data when their backup is deleted or expires. Velero
// calls these for every item of the archive, in no particular order, alongside its own delete
// action. Before 1.19 it only logs what they return: whatever they start must end by itself.
// From 1.19 on an error keeps the backup until another try succeeds: see
// deleteitemactions/undeleted.h.
namespace csidelta::deleteitemactions {

// VolumeSnapshots: one that the backup left in the cluster goes, with the driver's snapshot.
std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotAction(const csi::Environment& env);

// What the actions of one process for both kinds of contents know of each other's groups.
class GroupDeletions;
std::shared_ptr<GroupDeletions> MakeGroupDeletions(const csi::Environment& env);

// Contents: afterwards the driver holds no snapshot of the backup. Members of a group that we took
// go with their group, which is deleted here where that was not done before.
std::unique_ptr<velero::DeleteItemAction> MakeVolumeSnapshotContentAction(
    const csi::Environment& env, std::shared_ptr<GroupDeletions> groups);

// Contents of groups: afterwards the driver holds no group of the backup, and none of its members.
std::unique_ptr<velero::DeleteItemAction> MakeVolumeGroupSnapshotContentAction(
    std::shared_ptr<GroupDeletions> groups);

// DataUploads of our data mover: it is asked to delete what they brought into the bucket.
std::unique_ptr<velero::DeleteItemAction> MakeDataUploadAction(const csi::Environment& env);

// Native snapshots of Longhorn: Longhorn is asked to delete them, and not waited for. Also without
// EnableCSI.
std::unique_ptr<velero::DeleteItemAction> MakeLonghornSnapshotAction(const csi::Environment& env);

}  // namespace csidelta::deleteitemactions
