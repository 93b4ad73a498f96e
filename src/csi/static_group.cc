#include "csi/static_group.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "csi/static_content.h"
#include "k8s/object.h"
#include "objects/keys.h"

namespace csidelta::csi {
namespace {

std::map<std::string, std::string> DeletionAnnotations(const std::string& namespace_name,
                                                       const std::string& name) {
  if (namespace_name.empty() || name.empty()) {
    return {};
  }
  return {{objects::kGroupDeletionSecretNameAnnotation, name},
          {objects::kGroupDeletionSecretNamespaceAnnotation, namespace_name}};
}

// A class parameter with the archived names in place of its templates.
std::string Fill(const std::string& parameter, const Json& archived_content) {
  return absl::StrReplaceAll(
      parameter, {{"${volumegroupsnapshotcontent.name}", k8s::Name(archived_content)},
                  {"${volumegroupsnapshot.name}",
                   GetString(archived_content, {"spec", "volumeGroupSnapshotRef", "name"})},
                  {"${volumegroupsnapshot.namespace}",
                   GetString(archived_content, {"spec", "volumeGroupSnapshotRef", "namespace"})}});
}

}  // namespace

Json MakeStaticGroup(const StaticGroup& group) {
  const k8s::ResourceType type = VolumeGroupSnapshotContentType(group.version);
  const std::string api_version = absl::StrCat(type.group, "/", type.version);
  Json object = {{"apiVersion", api_version},
                 {"kind", type.kind},
                 {"metadata", {{"name", group.name}}},
                 {"spec",
                  {{"deletionPolicy", group.deletion_policy},
                   {"driver", group.driver},
                   {"source",
                    {{"groupSnapshotHandles",
                      {{"volumeGroupSnapshotHandle", group.handle},
                       {"volumeSnapshotHandles", group.member_handles}}}}},
                   {"volumeGroupSnapshotRef",
                    {{"apiVersion", api_version},
                     {"kind", VolumeGroupSnapshotType(group.version).kind},
                     {"namespace", group.group_namespace},
                     {"name", group.group_name}}}}}};
  if (!group.labels.empty()) {
    SetJson(object, {"metadata", "labels"}, group.labels);
  }
  if (!group.annotations.empty()) {
    SetJson(object, {"metadata", "annotations"}, group.annotations);
  }
  if (!group.finalizers.empty()) {
    SetJson(object, {"metadata", "finalizers"}, group.finalizers);
  }
  if (!group.class_name.empty()) {
    SetJson(object, {"spec", "volumeGroupSnapshotClassName"}, group.class_name);
  }
  return object;
}

std::string ArchivedGroupHandle(const Json& archived_content) {
  const std::string handle = GroupHandleOf(archived_content);
  return handle.empty() ? k8s::Annotation(archived_content, objects::kGroupSnapshotHandleAnnotation)
                        : handle;
}

std::vector<GroupMember> ArchivedMembers(const Json& archived_content) {
  std::vector<GroupMember> members = GroupMembers(archived_content);
  if (!members.empty()) {
    return members;
  }
  const absl::StatusOr<Json> listed =
      ParseJson(k8s::Annotation(archived_content, objects::kGroupMembersAnnotation));
  if (!listed.ok() || !listed->is_array()) {
    return members;
  }
  for (const Json& entry : *listed) {
    GroupMember member{.volume_handle = GetString(entry, {"volumeHandle"}),
                       .snapshot_handle = GetString(entry, {"snapshotHandle"})};
    if (!member.snapshot_handle.empty()) {
      members.push_back(std::move(member));
    }
  }
  return members;
}

std::string NoteForMembers(const Json& content, const std::vector<GroupMember>& members) {
  Json handles = Json::array();
  for (const GroupMember& member : members) {
    handles.push_back({{"snapshotHandle", member.snapshot_handle}});
  }
  const Json ref = {
      {"namespace", GetString(content, {"spec", "volumeGroupSnapshotRef", "namespace"})},
      {"name", GetString(content, {"spec", "volumeGroupSnapshotRef", "name"})}};
  const Json annotations = DeletionAnnotations(
      k8s::Annotation(content, objects::kGroupDeletionSecretNamespaceAnnotation),
      k8s::Annotation(content, objects::kGroupDeletionSecretNameAnnotation));
  return DumpJson({{"metadata", {{"name", k8s::Name(content)}, {"annotations", annotations}}},
                   {"spec",
                    {{"volumeGroupSnapshotClassName",
                      GetString(content, {"spec", "volumeGroupSnapshotClassName"})},
                     {"volumeGroupSnapshotRef", ref}}},
                   {"status",
                    {{"volumeGroupSnapshotHandle", GroupHandleOf(content)},
                     {"volumeSnapshotInfoList", handles}}}});
}

Json NotedGroupContent(const Json& archived_member) {
  const absl::StatusOr<Json> noted =
      ParseJson(k8s::Annotation(archived_member, objects::kGroupContentOfMemberAnnotation));
  if (!noted.ok() || !noted->is_object()) {
    return Json();
  }
  Json content = *noted;
  SetJson(content, {"spec", "driver"}, GetString(archived_member, {"spec", "driver"}));
  Json labels = Json::object();
  // Older archives have the backup by Velero's own label.
  const std::string backup = k8s::Label(archived_member, objects::kMemberOfBackupLabel);
  labels[objects::kBackupNameLabel] =
      backup.empty() ? k8s::Label(archived_member, objects::kBackupNameLabel) : backup;
  labels[objects::kGroupNameLabel] = k8s::Label(archived_member, objects::kGroupNameLabel);
  SetJson(content, {"metadata", "labels"}, labels);
  return content;
}

const Json* GroupClassOf(const std::vector<Json>& classes, absl::string_view driver,
                         absl::string_view preferred) {
  const std::string name = ClassOfDriver(classes, driver, preferred);
  const auto found = std::find_if(classes.begin(), classes.end(), [&name](const Json& group_class) {
    return !name.empty() && k8s::Name(group_class) == name;
  });
  return found == classes.end() ? nullptr : &*found;
}

std::map<std::string, std::string> GroupDeletionSecret(const Json& archived_content,
                                                       const Json* group_class) {
  std::map<std::string, std::string> of_class;
  if (group_class != nullptr) {
    of_class = DeletionAnnotations(
        Fill(GetString(*group_class, {"parameters", objects::kGroupSnapshotterSecretNamespace}),
             archived_content),
        Fill(GetString(*group_class, {"parameters", objects::kGroupSnapshotterSecretName}),
             archived_content));
  }
  return of_class.empty()
             ? DeletionAnnotations(
                   k8s::Annotation(archived_content,
                                   objects::kGroupDeletionSecretNamespaceAnnotation),
                   k8s::Annotation(archived_content, objects::kGroupDeletionSecretNameAnnotation))
             : of_class;
}

}  // namespace csidelta::csi
