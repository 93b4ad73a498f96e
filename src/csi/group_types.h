#pragma once

#include "absl/strings/string_view.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"

// The kinds of groupsnapshot.storage.k8s.io (KEP-3476) in whichever version a cluster serves.
namespace csidelta::csi {

using objects::FindGroupKinds;
using objects::GroupKinds;
using objects::GroupMember;
using objects::kGroupSnapshotGroup;
using objects::kGroupVersions;

k8s::ResourceType VolumeGroupSnapshotType(absl::string_view version);
k8s::ResourceType VolumeGroupSnapshotContentType(absl::string_view version);
k8s::ResourceType VolumeGroupSnapshotClassType(absl::string_view version);
k8s::ObjectKey GroupContentKey(absl::string_view version, absl::string_view name);

}  // namespace csidelta::csi
