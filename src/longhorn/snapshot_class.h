#pragma once

#include "absl/status/status.h"
#include "objects/volume_snapshot.h"

namespace csidelta::longhorn {

// Is a VolumeSnapshot of this class a snapshot in Longhorn, which a data mover can read and upload?
// That takes the class's parameter `type: snap`. With "bak", and without the parameter, Longhorn
// uploads the data to its own backup target; with "bi" it makes a backing image of it
// (csi/controller_server.go of longhorn-manager 1.12). FAILED_PRECONDITION for these, saying what
// would happen and what to do; OK for classes of other drivers. Pure.
absl::Status CheckClassOfMove(const objects::VolumeSnapshotClass& snapshot_class);

}  // namespace csidelta::longhorn
