#include "csi/group_types.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::csi {
namespace {

constexpr char kGroupSnapshotKind[] = "VolumeGroupSnapshot";

// The array at `path`; nothing where there is none.
const Json& ArrayAt(const Json& object, const JsonPath& path) {
  static const Json empty = Json::array();
  const Json* const found = FindJson(object, path);
  return found != nullptr && found->is_array() ? *found : empty;
}

}  // namespace

k8s::ResourceType VolumeGroupSnapshotType(absl::string_view version) {
  return {kGroupSnapshotGroup, std::string(version), "volumegroupsnapshots", kGroupSnapshotKind,
          true};
}

k8s::ResourceType VolumeGroupSnapshotContentType(absl::string_view version) {
  return {kGroupSnapshotGroup, std::string(version), "volumegroupsnapshotcontents",
          "VolumeGroupSnapshotContent", false};
}

k8s::ResourceType VolumeGroupSnapshotClassType(absl::string_view version) {
  return {kGroupSnapshotGroup, std::string(version), "volumegroupsnapshotclasses",
          "VolumeGroupSnapshotClass", false};
}

absl::StatusOr<GroupKinds> FindGroupKinds(const CallContext& ctx, k8s::ApiClient& api) {
  for (const char* const version : {"v1", "v1beta2", "v1beta1"}) {
    absl::StatusOr<k8s::ObjectList> classes =
        api.List(ctx, VolumeGroupSnapshotClassType(version), "", {});
    if (absl::IsNotFound(classes.status())) {
      continue;
    }
    RETURN_IF_ERROR(classes.status());
    return GroupKinds{.version = version, .classes = std::move(classes->items)};
  }
  return absl::NotFoundError(
      absl::StrCat("the cluster serves no VolumeGroupSnapshots (", kGroupSnapshotGroup,
                   "): install external-snapshotter's group kinds and enable its feature gate "
                   "CSIVolumeGroupSnapshot"));
}

std::string BoundGroupContentName(const Json& group_snapshot) {
  return GetString(group_snapshot, {"status", "boundVolumeGroupSnapshotContentName"});
}

std::string GroupHandleOf(const Json& content) {
  const std::string handle = GetString(content, {"status", "volumeGroupSnapshotHandle"});
  return handle.empty() ? GetString(content, {"spec", "source", "groupSnapshotHandles",
                                              "volumeGroupSnapshotHandle"})
                        : handle;
}

std::vector<GroupMember> GroupMembers(const Json& content) {
  std::vector<GroupMember> members;
  for (const char* const list : {"volumeSnapshotInfoList", "volumeSnapshotHandlePairList"}) {
    for (const Json& entry : ArrayAt(content, {"status", list})) {
      GroupMember member{.volume_handle = GetString(entry, {"volumeHandle"}),
                         .snapshot_handle = GetString(entry, {"snapshotHandle"})};
      if (!member.snapshot_handle.empty()) {
        members.push_back(std::move(member));
      }
    }
    if (!members.empty()) {
      return members;
    }
  }
  for (const Json& handle :
       ArrayAt(content, {"spec", "source", "groupSnapshotHandles", "volumeSnapshotHandles"})) {
    if (handle.is_string() && !handle.get_ref<const std::string&>().empty()) {
      members.push_back({.volume_handle = "", .snapshot_handle = handle.get<std::string>()});
    }
  }
  return members;
}

bool IsMemberOf(const Json& snapshot, absl::string_view group_snapshot_uid) {
  for (const Json& owner : ArrayAt(snapshot, {"metadata", "ownerReferences"})) {
    if (GetString(owner, {"kind"}) == kGroupSnapshotKind &&
        absl::StartsWith(GetString(owner, {"apiVersion"}),
                         absl::StrCat(kGroupSnapshotGroup, "/")) &&
        GetString(owner, {"uid"}) == group_snapshot_uid) {
      return true;
    }
  }
  return false;
}

}  // namespace csidelta::csi
