#include "objects/volume_group_snapshot.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::objects {
namespace {

std::map<std::string, std::string> SecretAnnotations(const std::string& namespace_name,
                                                     const std::string& name) {
  if (namespace_name.empty() || name.empty()) {
    return {};
  }
  return {{kGroupDeletionSecretNameAnnotation, name},
          {kGroupDeletionSecretNamespaceAnnotation, namespace_name}};
}

constexpr auto kPlannedMemberFields = [](auto& fields, auto& member) {
  fields("volumeHandle", member.volume_handle);
  fields.IfSet("claim", member.pvc);
  fields.IfSet("claimUid", member.pvc_uid);
  fields.IfSet("snapshotHandle", member.snapshot_handle);
};

using Labels = std::map<std::string, std::string>;

bool Meets(const Labels& labels, const Json& requirement) {
  const auto label = labels.find(GetString(requirement, {"key"}));
  return MeetsRequirement(requirement,
                          label == labels.end() ? std::nullopt : std::optional(label->second))
      .value_or(true);
}

}  // namespace

bool IsGroupSnapshot(const OwnerReference& owner) {
  return owner.kind == VolumeGroupSnapshot::kKind.kind &&
         absl::StartsWith(owner.api_version, absl::StrCat(kGroupSnapshotGroup, "/"));
}

template <typename Kind>
std::string GroupObject<Kind>::version() const {
  const std::string text = this->api_version();
  absl::string_view version = text;
  return absl::ConsumePrefix(&version, absl::StrCat(kGroupSnapshotGroup, "/"))
             ? std::string(version)
             : "v1";
}

template <typename Kind>
Kind GroupObject<Kind>::Make(absl::string_view version, absl::string_view namespace_name,
                             absl::string_view name) {
  Kind made = ObjectOf<Kind>::Make(namespace_name, name);
  made.SetVersion(version);
  return made;
}

template class GroupObject<VolumeGroupSnapshot>;
template class GroupObject<VolumeGroupSnapshotContent>;

VolumeGroupSnapshot VolumeGroupSnapshot::Essence() const {
  VolumeGroupSnapshot essence;
  for (const char* const field : {"apiVersion", "kind"}) {
    if (const Json* const found = Find({field}); found != nullptr) {
      essence.Set({field}, *found);
    }
  }
  essence.Set({"metadata"}, PickAt("metadata", {"name", "namespace", "uid"}));
  essence.Set({"status"}, PickAt("status", {"boundVolumeGroupSnapshotContentName"}));
  return essence;
}

std::string VolumeGroupSnapshotContent::handle_or_source() const {
  const std::string known = handle();
  return known.empty()
             ? Text({"spec", "source", "groupSnapshotHandles", "volumeGroupSnapshotHandle"})
             : known;
}

std::optional<std::vector<std::string>> VolumeGroupSnapshotContent::source_volumes() const {
  const Json* const handles = Find({"spec", "source", "volumeHandles"});
  return handles == nullptr || !handles->is_array()
             ? std::nullopt
             : std::optional(Texts({"spec", "source", "volumeHandles"}));
}

std::vector<GroupMember> VolumeGroupSnapshotContent::members() const {
  std::vector<GroupMember> members;
  for (const char* const list : {"volumeSnapshotInfoList", "volumeSnapshotHandlePairList"}) {
    for (const Json& entry : ArrayAt({"status", list})) {
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
  for (std::string& handle :
       Texts({"spec", "source", "groupSnapshotHandles", "volumeSnapshotHandles"})) {
    if (!handle.empty()) {
      members.push_back({.volume_handle = "", .snapshot_handle = std::move(handle)});
    }
  }
  return members;
}

bool VolumeGroupSnapshot::Selects(const Labels& labels) const {
  const Json* const selector = Find({"spec", "source", "selector"});
  if (selector == nullptr || !selector->is_object()) {
    return false;
  }
  const Labels wanted = GetStringMap(*selector, {"matchLabels"});
  const bool has_labels = std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const auto found = labels.find(one.first);
    return found != labels.end() && found->second == one.second;
  });
  const Json* const requirements = FindJson(*selector, {"matchExpressions"});
  return has_labels && (requirements == nullptr || !requirements->is_array() ||
                        std::all_of(requirements->begin(), requirements->end(),
                                    [&](const Json& one) { return Meets(labels, one); }));
}

void VolumeGroupSnapshotContent::SetSource(absl::string_view handle,
                                           const std::vector<std::string>& member_handles) {
  Set({"spec", "source", "groupSnapshotHandles"},
      {{"volumeGroupSnapshotHandle", handle}, {"volumeSnapshotHandles", member_handles}});
}

void VolumeGroupSnapshotContent::SetSnapshot(absl::string_view namespace_name,
                                             absl::string_view name) {
  Set({"spec", "volumeGroupSnapshotRef"}, {{"apiVersion", api_version()},
                                           {"kind", VolumeGroupSnapshot::kKind.kind},
                                           {"namespace", namespace_name},
                                           {"name", name}});
}

std::string VolumeGroupSnapshotContent::RecordForMembers(
    const std::vector<GroupMember>& members) const {
  Json handles = Json::array();
  for (const GroupMember& member : members) {
    handles.push_back({{"snapshotHandle", member.snapshot_handle}});
  }
  const Json ref = {{"namespace", snapshot_namespace()}, {"name", snapshot_name()}};
  const Json annotations = SecretAnnotations(Annotation(kGroupDeletionSecretNamespaceAnnotation),
                                             Annotation(kGroupDeletionSecretNameAnnotation));
  return DumpJson(
      {{"metadata", {{"name", name()}, {"annotations", annotations}}},
       {"spec", {{"volumeGroupSnapshotClassName", class_name()}, {"volumeGroupSnapshotRef", ref}}},
       {"status",
        {{"volumeGroupSnapshotHandle", handle_or_source()}, {"volumeSnapshotInfoList", handles}}}});
}

std::optional<VolumeGroupSnapshotContent> VolumeGroupSnapshotContent::RecordedIn(
    const VolumeSnapshotContent& member) {
  const absl::StatusOr<Json> noted =
      ParseJsonObject(member.Annotation(kGroupContentOfMemberAnnotation));
  absl::StatusOr<VolumeGroupSnapshotContent> content =
      noted.ok() ? Of(*noted) : absl::StatusOr<VolumeGroupSnapshotContent>(noted.status());
  if (!content.ok()) {
    return std::nullopt;
  }
  content->SetDriver(member.driver());
  // Older archives have the backup by Velero's own label.
  const std::string backup = member.Label(kMemberOfBackupLabel);
  content->SetLabels({{kBackupNameLabel, backup.empty() ? member.Label(kBackupNameLabel) : backup},
                      {kGroupNameLabel, member.Label(kGroupNameLabel)}});
  return *std::move(content);
}

std::string VolumeGroupSnapshotContent::archived_handle() const {
  const std::string handle = handle_or_source();
  return handle.empty() ? Annotation(kGroupSnapshotHandleAnnotation) : handle;
}

std::vector<GroupMember> VolumeGroupSnapshotContent::archived_members() const {
  std::vector<GroupMember> known = members();
  if (!known.empty()) {
    return known;
  }
  for (PlannedGroupMember& planned : ParseGroupPlan(Annotation(kGroupMembersAnnotation))) {
    if (!planned.snapshot_handle.empty()) {
      known.push_back({.volume_handle = std::move(planned.volume_handle),
                       .snapshot_handle = std::move(planned.snapshot_handle)});
    }
  }
  return known;
}

std::map<std::string, std::string> VolumeGroupSnapshotContent::DeletionSecret(
    const VolumeGroupSnapshotClass* group_class) const {
  std::map<std::string, std::string> of_class;
  if (group_class != nullptr) {
    const auto fill = [&](const char* parameter) {
      return absl::StrReplaceAll(group_class->Parameter(parameter),
                                 {{"${volumegroupsnapshotcontent.name}", name()},
                                  {"${volumegroupsnapshot.name}", snapshot_name()},
                                  {"${volumegroupsnapshot.namespace}", snapshot_namespace()}});
    };
    of_class = SecretAnnotations(fill(kGroupSnapshotterSecretNamespace),
                                 fill(kGroupSnapshotterSecretName));
  }
  return of_class.empty() ? SecretAnnotations(Annotation(kGroupDeletionSecretNamespaceAnnotation),
                                              Annotation(kGroupDeletionSecretNameAnnotation))
                          : of_class;
}

bool IsGroupKind(const k8s::ResourceType& type) { return type.group == kGroupSnapshotGroup; }

std::string HandleOf(const k8s::ResourceType& type, const Object& content) {
  return GetString(content.json(),
                   {"status", IsGroupKind(type) ? "volumeGroupSnapshotHandle" : "snapshotHandle"});
}

std::string HandleOrSource(const k8s::ResourceType& type, const Object& content) {
  if (IsGroupKind(type)) {
    const auto of_group = VolumeGroupSnapshotContent::From(content);
    return of_group.ok() ? of_group->handle_or_source() : "";
  }
  const auto of_snapshot = VolumeSnapshotContent::From(content);
  return of_snapshot.ok() ? of_snapshot->handle_or_source() : "";
}

std::string ErrorInStatus(const Object& content) {
  const std::optional<SnapshotError> error = ErrorOf(content.json());
  return error.has_value() ? error->message : "";
}

std::string DriverOf(const Object& content) {
  return GetString(content.json(), {"spec", "driver"});
}

std::string DeletionPolicyOf(const Object& content) {
  return GetString(content.json(), {"spec", "deletionPolicy"});
}

std::string SnapshotUidOf(const k8s::ResourceType& type, const Object& content) {
  return GetString(
      content.json(),
      {"spec", IsGroupKind(type) ? "volumeGroupSnapshotRef" : "volumeSnapshotRef", "uid"});
}

bool IsStatusCleared(const Object& content) {
  const Json* const status = FindJson(content.json(), {"status"});
  return status != nullptr && status->is_object() && !status->contains("readyToUse");
}

bool IsInGroup(const k8s::ResourceType& type, const Object& content) {
  return !IsGroupKind(type) &&
         !GetString(content.json(), {"status", "volumeGroupSnapshotHandle"}).empty();
}

absl::StatusOr<GroupKinds> FindGroupKinds(const CallContext& ctx, k8s::ApiClient& api) {
  for (const char* const version : kGroupVersions) {
    absl::StatusOr<std::vector<VolumeGroupSnapshotClass>> classes = List<VolumeGroupSnapshotClass>(
        ctx, api, VolumeGroupSnapshotClass::kKind.TypeOf(version), "");
    if (absl::IsNotFound(classes.status())) {
      continue;
    }
    RETURN_IF_ERROR(classes.status());
    return GroupKinds{.version = version, .classes = *std::move(classes)};
  }
  return absl::NotFoundError(
      absl::StrCat("the cluster serves no VolumeGroupSnapshots (", kGroupSnapshotGroup,
                   "): install external-snapshotter's group kinds and enable its feature gate "
                   "CSIVolumeGroupSnapshot"));
}

std::string FormatGroupPlan(const std::vector<PlannedGroupMember>& members) {
  return DumpJson(JsonFieldWriter::Write(members, kPlannedMemberFields));
}

std::vector<PlannedGroupMember> ParseGroupPlan(absl::string_view text) {
  std::vector<PlannedGroupMember> members;
  JsonFieldReader::Read(ParseJson(text).value_or(Json()), members,
                        CountMax{std::numeric_limits<std::size_t>::max()}, kPlannedMemberFields);
  return members;
}

std::string FormatMovedGroupPlan(const MovedGroupPlan& plan) {
  Json members = Json::object();
  for (const auto& [pvc_uid, member] : plan.members) {
    members[pvc_uid] = {{"claim", member.pvc}, {"content", member.content.json()}};
  }
  return DumpJson({{"namespace", plan.namespace_name},
                   {"labelKey", plan.label_key},
                   {"labelValue", plan.label_value},
                   {"creationTime", GetString(plan.content.json(), {"status", "creationTime"})},
                   {"group", plan.group.json()},
                   {"members", members}});
}

std::optional<MovedGroupPlan> ParseMovedGroupPlan(const VolumeGroupSnapshotContent& record) {
  const absl::StatusOr<Json> told = ParseJsonObject(record.Annotation(kGroupPlanAnnotation));
  const Json* const members = told.ok() ? FindJson(*told, {"members"}) : nullptr;
  const Json* const group = told.ok() ? FindJson(*told, {"group"}) : nullptr;
  if (members == nullptr || !members->is_object() || group == nullptr) {
    return std::nullopt;
  }
  absl::StatusOr<VolumeGroupSnapshot> group_read = VolumeGroupSnapshot::Of(*group);
  absl::StatusOr<VolumeGroupSnapshotContent> content =
      VolumeGroupSnapshotContent::Of({{"spec", {{"driver", record.driver()}}},
                                      {"status",
                                       {{"volumeGroupSnapshotHandle", record.handle_or_source()},
                                        {"creationTime", GetString(*told, {"creationTime"})}}}});
  if (!group_read.ok() || !content.ok()) {
    return std::nullopt;
  }
  MovedGroupPlan plan{.namespace_name = GetString(*told, {"namespace"}),
                      .label_key = GetString(*told, {"labelKey"}),
                      .label_value = GetString(*told, {"labelValue"}),
                      .group = *std::move(group_read),
                      .content = *std::move(content),
                      .members = {}};
  const std::vector<GroupMember> known = record.members();
  for (const auto& [pvc_uid, member] : members->items()) {
    const Json* const json = FindJson(member, {"content"});
    absl::StatusOr<VolumeSnapshotContent> of_member =
        VolumeSnapshotContent::Of(json == nullptr ? Json() : *json);
    if (!of_member.ok() || std::none_of(known.begin(), known.end(), [&](const GroupMember& one) {
          return one.snapshot_handle == of_member->handle();
        })) {
      return std::nullopt;
    }
    plan.members[pvc_uid] = {.pvc = GetString(member, {"claim"}), .content = *std::move(of_member)};
  }
  return plan;
}

}  // namespace csidelta::objects
