#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json.h"
#include "csi/group_types.h"
#include "objects/keys.h"

// VolumeGroupSnapshotContents for groups that a driver holds already.
// All of it is pure.
//
// Protocol facts: external-snapshotter 8.6.0. A pre-provisioned content lists the handles of the
// group and of its members; all of these are immutable. The sidecar asks the driver about the group
// and fills in the status, but nobody makes VolumeSnapshots for the members: these, too, are made
// by whoever made the content, and belong to the group by the group handle that the driver reports
// for each.
namespace csidelta::csi {

struct StaticGroup {
  std::string version;  // of the kinds, as the cluster serves them
  std::string name;
  std::string driver;
  std::string handle;
  std::vector<std::string> member_handles;  // of the snapshots
  std::string group_namespace;              // of the VolumeGroupSnapshot that may bind to it
  std::string group_name;
  std::string deletion_policy;  // Retain or Delete
  std::string class_name;       // "" for none
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::vector<std::string> finalizers;
};

// The VolumeGroupSnapshotContent to create.
Json MakeStaticGroup(const StaticGroup& group);

// What the archive knows of a group: from its content's status or source, else from our annotations
// on it.
std::string ArchivedGroupHandle(const Json& archived_content);
std::vector<GroupMember> ArchivedMembers(const Json& archived_content);

// What a member's VolumeSnapshotContent notes of `content`, the VolumeGroupSnapshotContent of its
// group, so that each of them is enough to delete the group: the value of
// objects::kGroupContentOfMemberAnnotation. `members` are those of the group.
std::string NoteForMembers(const Json& content, const std::vector<GroupMember>& members);
// The VolumeGroupSnapshotContent that `archived_member`, a VolumeSnapshotContent, notes, as
// ArchivedGroupHandle() and ArchivedMembers() read it; null where it notes none.
Json NotedGroupContent(const Json& archived_member);

// The class that gives a pre-provisioned content of `driver` its Secrets: `preferred` when it is
// among `classes` and the driver's, else the first of the driver's in the order of the list; null
// when there is none. Borrowed from `classes`.
const Json* GroupClassOf(const std::vector<Json>& classes, absl::string_view driver,
                         absl::string_view preferred);

// The annotations that name the Secret for deleting the group of `archived_content`: of
// `group_class` (may be null) where that names one, because Secrets change after a backup, else as
// they are in the archive. In a class's templates stand the archived names. Empty when there is
// none.
std::map<std::string, std::string> GroupDeletionSecret(const Json& archived_content,
                                                       const Json* group_class);

}  // namespace csidelta::csi
