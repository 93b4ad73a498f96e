#pragma once

#include <string>
#include <vector>

#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "velero/item_action.h"

namespace csidelta::csi {

// The Secrets without which a driver cannot list or delete the snapshot: those that the annotations
// of a VolumeSnapshotContent name, and those of a VolumeSnapshotClass by annotation or by
// parameter. A parameter that is a template ("${volumesnapshot.name}") names no Secret by itself
// and is left out. Without repetition, in a fixed order. Pure.
std::vector<velero::ResourceIdentifier> SecretsOfContent(
    const objects::VolumeSnapshotContent& content);
std::vector<velero::ResourceIdentifier> SecretsOfClass(
    const objects::VolumeSnapshotClass& snapshot_class);
// The same for the group kinds: by the annotations of a VolumeGroupSnapshotContent, and by the
// parameters of a VolumeGroupSnapshotClass for making and for looking up groups.
std::vector<velero::ResourceIdentifier> SecretsOfGroupContent(
    const objects::VolumeGroupSnapshotContent& content);
std::vector<velero::ResourceIdentifier> SecretsOfGroupClass(
    const objects::VolumeGroupSnapshotClass& group_class);

// The Secret that a VolumeSnapshotClass wants the driver to be shown when it is asked about volume
// snapshots, as it is written there: with templates. Both "" when it names none. Pure.
struct SecretName {
  std::string namespace_name;
  std::string name;
};
SecretName SnapshotterSecretOf(const objects::VolumeSnapshotClass& snapshot_class);
// The same for when it is to list volume snapshots.
SecretName ListingSecretOf(const objects::VolumeSnapshotClass& snapshot_class);

}  // namespace csidelta::csi
