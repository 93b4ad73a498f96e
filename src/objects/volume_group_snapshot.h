#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/client.h"
#include "objects/object.h"
#include "objects/volume_snapshot.h"

// The objects of groupsnapshot.storage.k8s.io (KEP-3476), in the version that a cluster serves.
namespace csidelta::objects {

inline constexpr char kGroupSnapshotGroup[] = "groupsnapshot.storage.k8s.io";
// The versions that we speak, newest first.
inline constexpr const char* kGroupVersions[] = {"v1", "v1beta2", "v1beta1"};

// All of one of these kinds, in the newest version that the cluster serves; none where it serves
// none. `namespace_name` "" lists all namespaces.
template <typename Kind>
absl::StatusOr<std::vector<Kind>> ListGroupKind(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view namespace_name,
                                                const k8s::ListOptions& options = {}) {
  for (const char* const version : kGroupVersions) {
    auto all = List<Kind>(ctx, api, Kind::kKind.TypeOf(version), namespace_name, options);
    if (!absl::IsNotFound(all.status())) {
      return all;
    }
  }
  return std::vector<Kind>();
}

// Whether that owner is a VolumeGroupSnapshot of any version.
bool IsGroupSnapshot(const OwnerReference& owner);

// The common base of those kinds.
template <typename Kind>
class GroupObject : public SnapshotObject<Kind> {
 public:
  // The version that the object says it is of; "v1" where it says none.
  std::string version() const;
  // `namespace_name` "" for contents.
  static k8s::ObjectKey Key(absl::string_view version, absl::string_view namespace_name,
                            absl::string_view name) {
    return {.type = Kind::kKind.TypeOf(version),
            .namespace_name = std::string(namespace_name),
            .name = std::string(name)};
  }
  k8s::ObjectKey key() const { return Key(version(), this->namespace_name(), this->name()); }
  // A new one.
  static Kind Make(absl::string_view version, absl::string_view namespace_name,
                   absl::string_view name);
};

class VolumeGroupSnapshot : public GroupObject<VolumeGroupSnapshot> {
 public:
  static constexpr KindName kKind = {kGroupSnapshotGroup, "v1", "volumegroupsnapshots",
                                     "VolumeGroupSnapshot"};

  std::string class_name() const { return Text({"spec", "volumeGroupSnapshotClassName"}); }
  // "" while it is not bound.
  std::string bound_content() const {
    return Text({"status", "boundVolumeGroupSnapshotContentName"});
  }
  // For a group that exists already; "".
  std::string source_content() const {
    return Text({"spec", "source", "volumeGroupSnapshotContentName"});
  }
  std::optional<absl::Time> taken_at() const { return TimeAt({"status", "creationTime"}); }
  void SetClassName(absl::string_view name) { Set({"spec", "volumeGroupSnapshotClassName"}, name); }
  // For a group that exists already.
  void SetSourceContent(absl::string_view content) {
    Set({"spec", "source"}, {{"volumeGroupSnapshotContentName", content}});
  }
  // It takes the PVCs of its namespace that have the label.
  void SetSelector(absl::string_view label, absl::string_view value) {
    Set({"spec", "source", "selector", "matchLabels", label}, value);
  }
  // Its name, uid, kind and binding, without anything else.
  VolumeGroupSnapshot Essence() const;
  // Whether its selector takes a PVC with these labels. A requirement that is not understood counts
  // as met. False for one of an existing content.
  bool Selects(const std::map<std::string, std::string>& labels) const;
};

class VolumeGroupSnapshotClass : public ObjectOf<VolumeGroupSnapshotClass> {
 public:
  static constexpr KindName kKind = {kGroupSnapshotGroup, "v1", "volumegroupsnapshotclasses",
                                     "VolumeGroupSnapshotClass", false};

  std::string driver() const { return Text({"driver"}); }
  std::string deletion_policy() const { return Text({"deletionPolicy"}); }
  std::string Parameter(absl::string_view key) const { return Text({"parameters", key}); }
};

// A volume of a group and its snapshot, as the driver calls them.
struct GroupMember {
  std::string volume_handle;  // "" where only the snapshot is known
  std::string snapshot_handle;

  bool operator==(const GroupMember&) const = default;
};

class VolumeGroupSnapshotContent : public GroupObject<VolumeGroupSnapshotContent> {
 public:
  static constexpr KindName kKind = {kGroupSnapshotGroup, "v1", "volumegroupsnapshotcontents",
                                     "VolumeGroupSnapshotContent", false};

  std::string driver() const { return Text({"spec", "driver"}); }
  std::string deletion_policy() const { return Text({"spec", "deletionPolicy"}); }
  std::string class_name() const { return Text({"spec", "volumeGroupSnapshotClassName"}); }
  // Of spec.volumeGroupSnapshotRef.
  std::string snapshot_namespace() const {
    return Text({"spec", "volumeGroupSnapshotRef", "namespace"});
  }
  std::string snapshot_name() const { return Text({"spec", "volumeGroupSnapshotRef", "name"}); }
  std::string snapshot_uid() const { return Text({"spec", "volumeGroupSnapshotRef", "uid"}); }
  // The instant that the driver says.
  std::optional<absl::Time> taken_at() const { return TimeAt({"status", "creationTime"}); }
  // "" until the driver gave it.
  std::string handle() const { return Text({"status", "volumeGroupSnapshotHandle"}); }
  // The same, else what a pre-provisioned content was made for; "".
  std::string handle_or_source() const;
  void SetDriver(absl::string_view driver) { Set({"spec", "driver"}, driver); }
  void SetDeletionPolicy(absl::string_view policy) { Set({"spec", "deletionPolicy"}, policy); }
  void SetClassName(absl::string_view name) { Set({"spec", "volumeGroupSnapshotClassName"}, name); }
  // For a group that the driver holds already, and its members' snapshots.
  void SetSource(absl::string_view handle, const std::vector<std::string>& member_handles);
  // The VolumeGroupSnapshot that may bind to it.
  void SetSnapshot(absl::string_view namespace_name, absl::string_view name);

  // The value of kGroupContentOfMemberAnnotation: each member records enough of the group to delete
  // it. `members`: those of the group.
  std::string RecordForMembers(const std::vector<GroupMember>& members) const;
  // Reads that record from an archived VolumeSnapshotContent; nothing if it has none.
  static std::optional<VolumeGroupSnapshotContent> RecordedIn(const VolumeSnapshotContent& member);

  // The group as an archive has it: from status or source, else from our annotations.
  std::string archived_handle() const;
  std::vector<GroupMember> archived_members() const;

  // The annotations that name the Secret for deleting the group. `group_class` (may be null) comes
  // first, because Secrets change after a backup; else they are as here. In a class's templates
  // stand the names of this object. Empty if no Secret is named.
  std::map<std::string, std::string> DeletionSecret(
      const VolumeGroupSnapshotClass* group_class) const;

  // The volumes that the snapshot controller found by the selector; nothing where it does not say.
  std::optional<std::vector<std::string>> source_volumes() const;
  // From the status: volumeSnapshotInfoList, or v1beta1's volumeSnapshotHandlePairList. Else the
  // handles that a pre-provisioned content was made for. Those without a snapshot handle are left
  // out.
  std::vector<GroupMember> members() const;
};

// --- A VolumeSnapshotContent or a VolumeGroupSnapshotContent, whichever `type` is

bool IsGroupKind(const k8s::ResourceType& type);
// handle() and handle_or_source() of it.
std::string HandleOf(const k8s::ResourceType& type, const Object& content);
std::string HandleOrSource(const k8s::ResourceType& type, const Object& content);
// Of status.error; "" when none exists.
std::string ErrorInStatus(const Object& content);
// Whether the sidecar has cleared the status, as it does once the driver deleted the snapshot.
bool IsStatusCleared(const Object& content);
// The driver reported the snapshot as one of a group.
bool IsInGroup(const k8s::ResourceType& type, const Object& content);
std::string DriverOf(const Object& content);
std::string DeletionPolicyOf(const Object& content);
// Of the VolumeSnapshot, or group, that it is bound to; "".
std::string SnapshotUidOf(const k8s::ResourceType& type, const Object& content);

// What a cluster serves of the kinds.
struct GroupKinds {
  std::string version;  // "v1", "v1beta2" or "v1beta1": the newest that is served
  std::vector<VolumeGroupSnapshotClass> classes;
};

// One to three requests. NOT_FOUND when the cluster serves none of the three versions; else what
// the API server says.
absl::StatusOr<GroupKinds> FindGroupKinds(const CallContext& ctx, k8s::ApiClient& api);

// A member of a volume group that was asked for: an entry of kGroupMembersAnnotation.
struct PlannedGroupMember {
  std::string pvc = {};  // "" with its uid: not known, of a group that an archive has
  std::string pvc_uid = {};
  std::string volume_handle = {};
  std::string snapshot_handle = {};  // "" where the content alone tells it, and until it is taken

  bool operator==(const PlannedGroupMember&) const = default;
};

// The annotation's text: a JSON array. Unknown names of PVCs and handles of snapshots are omitted.
std::string FormatGroupPlan(const std::vector<PlannedGroupMember>& members);
// Of any other text: nothing. A field that is missing is "".
std::vector<PlannedGroupMember> ParseGroupPlan(absl::string_view text);

// A member of a group that is moved; of its content no more than Essence() and the names of
// Secrets.
struct MovedGroupMember {
  std::string pvc;
  VolumeSnapshotContent content;
};

// The plan in a moved group's record (kGroupPlanAnnotation): the move resumes from it even if the
// group's own objects are gone.
struct MovedGroupPlan {
  std::string namespace_name;
  std::string label_key;  // of the PVCs that are of the group
  std::string label_value;
  VolumeGroupSnapshot group;  // Essence() of it
  VolumeGroupSnapshotContent content;
  std::map<std::string, MovedGroupMember> members;  // by the PVC's uid
};

// The annotation's text. Only the time of `content` is written; `members` are written whole.
std::string FormatMovedGroupPlan(const MovedGroupPlan& plan);
// Reads a record, whose driver and handle are the group's. Nothing if it has no plan, or if the
// plan names a snapshot that the record does not.
std::optional<MovedGroupPlan> ParseMovedGroupPlan(const VolumeGroupSnapshotContent& record);

}  // namespace csidelta::objects
