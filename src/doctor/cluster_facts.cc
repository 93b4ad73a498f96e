#include "doctor/cluster_facts.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::doctor {
namespace {

// One list that hangs must not take the time of all checks.
constexpr absl::Duration kListTimeMax = absl::Seconds(10);

const k8s::ResourceType& TypeOf(const char* group, const char* plural, const char* kind,
                                bool namespaced) {
  return *new k8s::ResourceType{
      .group = group, .version = "v1", .plural = plural, .kind = kind, .namespaced = namespaced};
}

}  // namespace

const k8s::ResourceType& CsiDriverType() {
  static const k8s::ResourceType& type = TypeOf("storage.k8s.io", "csidrivers", "CSIDriver", false);
  return type;
}

const k8s::ResourceType& PriorityClassType() {
  static const k8s::ResourceType& type =
      TypeOf("scheduling.k8s.io", "priorityclasses", "PriorityClass", false);
  return type;
}

const k8s::ResourceType& ScheduleType() {
  static const k8s::ResourceType& type = TypeOf("velero.io", "schedules", "Schedule", true);
  return type;
}

const absl::StatusOr<std::vector<objects::Object>>& ClusterFacts::List(
    const k8s::ResourceType& type, absl::string_view namespace_name) {
  const Key key = {k8s::ToString(type), std::string(namespace_name)};
  auto found = lists_.find(key);
  if (found == lists_.end()) {
    found = lists_
                .emplace(key, objects::List<objects::Object>(
                                  ctx_.WithTimeout(kListTimeMax), api_, type, namespace_name,
                                  {.label_selector = "", .field_selector = "", .may_be_old = true}))
                .first;
  }
  return found->second;
}

absl::StatusOr<objects::Object> ClusterFacts::Find(const k8s::ResourceType& type,
                                                   absl::string_view namespace_name,
                                                   absl::string_view name) {
  const absl::StatusOr<std::vector<objects::Object>>& list = List(type, namespace_name);
  if (!list.ok()) {
    return list.status();
  }
  for (const objects::Object& object : *list) {
    if (object.name() == name) {
      return object;
    }
  }
  return absl::NotFoundError(absl::StrCat("there is no ", type.kind, " ", name));
}

}  // namespace csidelta::doctor
