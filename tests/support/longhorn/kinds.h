#pragma once

#include <string>

#include "k8s/api_client.h"

// The kinds of longhorn.io/v1beta2 that the stand-in keeps, and Longhorn's names on them
// (longhorn-manager: types/types.go). All are namespaced.
namespace csidelta::longhorn_stand_in {

inline constexpr char kGroup[] = "longhorn.io";
inline constexpr char kVersion[] = "v1beta2";
inline constexpr char kApiVersion[] = "longhorn.io/v1beta2";
inline constexpr char kFinalizer[] = "longhorn.io";
inline constexpr char kVolumeLabel[] = "longhornvolume";
// On a Volume: the snapshot that it is a linked clone of, which may not be deleted.
inline constexpr char kLinkedCloneLabel[] = "longhorn.io/linked-clone-source-snapshot";
inline constexpr char kLegacyLinkedCloneLabel[] = "longhorn.io/legacy-linked-clone";

inline k8s::ResourceType Kind(const char* plural, const char* kind) {
  return {kGroup, kVersion, plural, kind, /*namespaced=*/true};
}
inline k8s::ResourceType SnapshotType() { return Kind("snapshots", "Snapshot"); }
inline k8s::ResourceType VolumeType() { return Kind("volumes", "Volume"); }
inline k8s::ResourceType EngineType() { return Kind("engines", "Engine"); }
inline k8s::ResourceType AttachmentType() { return Kind("volumeattachments", "VolumeAttachment"); }

// The only engine of a volume.
inline std::string EngineName(const std::string& volume) { return volume + "-e-0"; }
// The attachment ticket of a snapshot.
inline std::string TicketOf(const std::string& snapshot) {
  return "snapshot-controller-" + snapshot;
}

}  // namespace csidelta::longhorn_stand_in
