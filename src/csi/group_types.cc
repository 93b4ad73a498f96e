#include "csi/group_types.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

constexpr char kGroupSnapshotKind[] = "VolumeGroupSnapshot";

// The array at `path`; nothing where there is none.
const Json& ArrayAt(const Json& object, const JsonPath& path) {
  static const Json empty = Json::array();
  const Json* const found = FindJson(object, path);
  return found != nullptr && found->is_array() ? *found : empty;
}

// Whether `object`, or what it refers to, is a VolumeGroupSnapshot in whichever version.
bool IsGroupSnapshot(const Json& object) {
  return GetString(object, {"kind"}) == kGroupSnapshotKind &&
         absl::StartsWith(GetString(object, {"apiVersion"}),
                          absl::StrCat(kGroupSnapshotGroup, "/"));
}

// The first reference to a VolumeGroupSnapshot; null where there is none.
Json GroupOwner(const Json& snapshot) {
  for (const Json& owner : ArrayAt(snapshot, {"metadata", "ownerReferences"})) {
    if (IsGroupSnapshot(owner)) {
      return owner;
    }
  }
  return nullptr;
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

std::string BoundGroupContentName(const Json& group_snapshot) {
  return GetString(group_snapshot, {"status", "boundVolumeGroupSnapshotContentName"});
}

std::string GroupVersionOf(const Json& object) {
  const std::string version = GetString(object, {"apiVersion"});
  const std::string prefix = absl::StrCat(kGroupSnapshotGroup, "/");
  return absl::StartsWith(version, prefix) ? version.substr(prefix.size()) : "v1";
}

k8s::ObjectKey GroupSnapshotKey(const Json& group_snapshot) {
  return {.type = VolumeGroupSnapshotType(GroupVersionOf(group_snapshot)),
          .namespace_name = k8s::Namespace(group_snapshot),
          .name = k8s::Name(group_snapshot)};
}

k8s::ObjectKey GroupContentKey(absl::string_view version, absl::string_view name) {
  return {.type = VolumeGroupSnapshotContentType(version),
          .namespace_name = "",
          .name = std::string(name)};
}

std::optional<absl::Time> GroupCutTime(const Json& content) {
  return ParseRfc3339(GetString(content, {"status", "creationTime"}));
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
    if (IsGroupSnapshot(owner) && GetString(owner, {"uid"}) == group_snapshot_uid) {
      return true;
    }
  }
  return false;
}

std::string GroupOwnerName(const Json& snapshot) {
  return GetString(GroupOwner(snapshot), {"name"});
}

std::string GroupOwnerApiVersion(const Json& snapshot) {
  return GetString(GroupOwner(snapshot), {"apiVersion"});
}

std::string StatusGroupName(const Json& snapshot) {
  return GetString(snapshot, {"status", "volumeGroupSnapshotName"});
}

}  // namespace csidelta::csi
