#pragma once

#include <string>
#include <vector>

#include "objects/volume_group_snapshot.h"
#include "objects/volume_snapshot.h"
#include "velero/item_action.h"

namespace csidelta::csi {

// The Secrets without which a driver cannot list or delete the snapshot. A VolumeSnapshotContent
// names them by annotation, a VolumeSnapshotClass by annotation or parameter. Parameters that are
// templates ("${volumesnapshot.name}") are omitted, because they name no Secret by themselves.
// Without repetition, in a fixed order. Pure.
std::vector<velero::ResourceIdentifier> SecretsOf(const objects::VolumeSnapshotContent& content);
std::vector<velero::ResourceIdentifier> SecretsOf(
    const objects::VolumeSnapshotClass& snapshot_class);
// The same for the group kinds: annotations of a VolumeGroupSnapshotContent, and parameters of a
// VolumeGroupSnapshotClass for making groups and for reading them.
std::vector<velero::ResourceIdentifier> SecretsOf(
    const objects::VolumeGroupSnapshotContent& content);
std::vector<velero::ResourceIdentifier> SecretsOf(
    const objects::VolumeGroupSnapshotClass& group_class);

// The Secret that a driver needs when it is asked about snapshots, as the VolumeSnapshotClass names
// it: with templates. Both fields are "" if it names none. Pure.
struct SecretName {
  std::string namespace_name;
  std::string name;
};
SecretName SnapshotterSecretOf(const objects::VolumeSnapshotClass& snapshot_class);
// The same for listing snapshots.
SecretName ListingSecretOf(const objects::VolumeSnapshotClass& snapshot_class);

}  // namespace csidelta::csi
