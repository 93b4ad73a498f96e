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
#include "objects/object.h"
#include "objects/volume_snapshot.h"

// The objects of groupsnapshot.storage.k8s.io (KEP-3476), in whichever version a cluster serves.
namespace csidelta::objects {

inline constexpr char kGroupSnapshotGroup[] = "groupsnapshot.storage.k8s.io";
// The versions that we speak, newest first.
inline constexpr const char* kGroupVersions[] = {"v1", "v1beta2", "v1beta1"};

// Whether that owner is a VolumeGroupSnapshot, of whichever version.
bool IsGroupSnapshot(const OwnerReference& owner);

// What those kinds have in common.
template <typename Kind>
class GroupObject : public SnapshotObject<Kind> {
 public:
  // The version that the object says it is of; "v1" where it says none.
  std::string version() const;
  k8s::ObjectKey key() const {
    return {.type = Kind::kKind.TypeOf(version()),
            .namespace_name = this->namespace_name(),
            .name = this->name()};
  }

 protected:
  using SnapshotObject<Kind>::SnapshotObject;
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
  // Whether its selector takes a PVC with these labels. A requirement that is not understood counts
  // as met. False for one of an existing content.
  bool Selects(const std::map<std::string, std::string>& labels) const;

 private:
  using GroupObject::GroupObject;
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
  // What the status says: volumeSnapshotInfoList, or v1beta1's volumeSnapshotHandlePairList; else
  // the handles that a pre-provisioned content was made for. Those without a snapshot handle are
  // left out.
  std::vector<GroupMember> members() const;

 private:
  using GroupObject::GroupObject;
};

class VolumeGroupSnapshotClass : public ObjectOf<VolumeGroupSnapshotClass> {
 public:
  static constexpr KindName kKind = {kGroupSnapshotGroup, "v1", "volumegroupsnapshotclasses",
                                     "VolumeGroupSnapshotClass", false};

  std::string driver() const { return Text({"driver"}); }
  std::string deletion_policy() const { return Text({"deletionPolicy"}); }

 private:
  using ObjectOf::ObjectOf;
};

// What a cluster serves of the kinds.
struct GroupKinds {
  std::string version;  // "v1", "v1beta2" or "v1beta1": the newest that is served
  std::vector<VolumeGroupSnapshotClass> classes;
};

// One to three requests. NOT_FOUND when the cluster serves none of the three versions; else what
// the API server says.
absl::StatusOr<GroupKinds> FindGroupKinds(const CallContext& ctx, k8s::ApiClient& api);

}  // namespace csidelta::objects
