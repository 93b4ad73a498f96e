#include "objects/group_plan.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "objects/keys.h"

namespace csidelta::objects {

std::string FormatGroupPlan(const std::vector<PlannedGroupMember>& members) {
  Json plan = Json::array();
  for (const PlannedGroupMember& member : members) {
    plan.push_back({{"volumeHandle", member.volume_handle}});
    if (!member.pvc.empty() || !member.pvc_uid.empty()) {
      plan.back()["claim"] = member.pvc;
      plan.back()["claimUid"] = member.pvc_uid;
    }
    if (!member.snapshot_handle.empty()) {
      plan.back()["snapshotHandle"] = member.snapshot_handle;
    }
  }
  return DumpJson(plan);
}

std::vector<PlannedGroupMember> ParseGroupPlan(absl::string_view text) {
  std::vector<PlannedGroupMember> members;
  const absl::StatusOr<Json> plan = ParseJson(text);
  if (!plan.ok() || !plan->is_array()) {
    return members;
  }
  for (const Json& member : *plan) {
    members.push_back({.pvc = GetString(member, {"claim"}),
                       .pvc_uid = GetString(member, {"claimUid"}),
                       .volume_handle = GetString(member, {"volumeHandle"}),
                       .snapshot_handle = GetString(member, {"snapshotHandle"})});
  }
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
