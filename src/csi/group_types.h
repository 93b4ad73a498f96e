#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"
#include "objects/volume_group_snapshot.h"

// The kinds of groupsnapshot.storage.k8s.io (KEP-3476) in whichever version a cluster serves, and
// how to read their objects. All reading is pure, never throws, and takes a value of the wrong type
// for a missing one.
namespace csidelta::csi {

using objects::kGroupSnapshotGroup;
using objects::kGroupVersions;

k8s::ResourceType VolumeGroupSnapshotType(absl::string_view version);
k8s::ResourceType VolumeGroupSnapshotContentType(absl::string_view version);
k8s::ResourceType VolumeGroupSnapshotClassType(absl::string_view version);

using objects::FindGroupKinds;
using objects::GroupKinds;

// --- VolumeGroupSnapshot
// status.boundVolumeGroupSnapshotContentName; "" while it is not bound.
std::string BoundGroupContentName(const Json& group_snapshot);

// The version that an object of the kinds says it is of; "v1" where it says none.
std::string GroupVersionOf(const Json& object);
k8s::ObjectKey GroupSnapshotKey(const Json& group_snapshot);
k8s::ObjectKey GroupContentKey(absl::string_view version, absl::string_view name);

// --- VolumeGroupSnapshotContent
// status.creationTime: the instant the driver says it cut the group.
std::optional<absl::Time> GroupCutTime(const Json& content);
// The driver's handle of the group: what the status says, else what a pre-provisioned content was
// made for; "" until the driver gave it.
std::string GroupHandleOf(const Json& content);

using objects::GroupMember;

// What the status says: volumeSnapshotInfoList, or v1beta1's volumeSnapshotHandlePairList; else the
// handles that a pre-provisioned content was made for. Those without a snapshot handle are left
// out.
std::vector<GroupMember> GroupMembers(const Json& content);

// --- VolumeSnapshot
// Whether a VolumeSnapshot is owned by the VolumeGroupSnapshot of that uid, in whichever version
// the controller of its day wrote it.
bool IsMemberOf(const Json& snapshot, absl::string_view group_snapshot_uid);
// Name and apiVersion of the VolumeGroupSnapshot that owns it; "" where none does.
std::string GroupOwnerName(const Json& snapshot);
std::string GroupOwnerApiVersion(const Json& snapshot);
// status.volumeGroupSnapshotName: the controller knows it as a member.
std::string StatusGroupName(const Json& snapshot);

}  // namespace csidelta::csi
