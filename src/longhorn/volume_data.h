#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "longhorn/types.h"
#include "objects/volume_snapshot.h"

// Whether a Volume of Longhorn has its data yet. Longhorn answers CreateVolume before it copies
// (csi/controller_server.go of longhorn-manager: "We won't wait for clone/restore to complete"), so
// a PVC is Bound minutes or hours before.
//
//   spec.dataSource, cloneStatus.state                  state
//   --------------------------------------------------  --------
//   no source, and no backup of Longhorn                kThere
//   completed                                           kThere
//   copy-completed-awaiting-healthy (1)                 kThere
//   failed (2)                                          kFailed
//   "", initiated, and what later releases add          kComing
//   from a backup of Longhorn, until that is restored   kComing
//
// (1) The data is copied, and Longhorn attaches the volume: what is missing are further replicas,
//     which it may wait for as long as a node is missing.
// (2) Longhorn tries again, up to ten times. None can succeed without the source.
namespace csidelta::longhorn {

enum class DataState { kThere, kComing, kFailed };

// Pure, as all here.
DataState DataStateOf(const Volume& volume);

// What Longhorn shows of it: "Longhorn's clone of snap://a/b: initiated, attempt 2".
std::string DataText(const Volume& volume);

// Whether its data is copied from this snapshot, "snap://VOLUME/SNAPSHOT": as its source names it,
// or as that which Longhorn took of the volume that it clones.
bool IsCopiedFromSnapshot(const Volume& volume, absl::string_view handle);
// Whether it is copied from this Volume, or a snapshot of it.
bool IsCopiedFromVolume(const Volume& volume, absl::string_view source_volume);

// Whether a VolumeSnapshot of this class is a snapshot in Longhorn, which a data mover can read and
// upload. That takes the class's parameter `type: snap`. With "bak", and without the parameter,
// Longhorn uploads the data to its own backup target; with "bi" it makes a backing image of it
// (csi/controller_server.go of longhorn-manager 1.12). FAILED_PRECONDITION for these, saying what
// would happen and what to do; OK for classes of other drivers. Pure.
absl::Status CheckClassOfMove(const objects::VolumeSnapshotClass& snapshot_class);

}  // namespace csidelta::longhorn
