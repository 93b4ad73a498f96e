#include "doctor/cluster_facts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "csi/snapshot_types.h"
#include "k8s/object.h"

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

const k8s::ResourceType& NamespaceType() {
  static const k8s::ResourceType& type = TypeOf("", "namespaces", "Namespace", false);
  return type;
}

const k8s::ResourceType& ServiceAccountType() {
  static const k8s::ResourceType& type = TypeOf("", "serviceaccounts", "ServiceAccount", true);
  return type;
}

const k8s::ResourceType& ResourceQuotaType() {
  static const k8s::ResourceType& type = TypeOf("", "resourcequotas", "ResourceQuota", true);
  return type;
}

const k8s::ResourceType& DeploymentType() {
  static const k8s::ResourceType& type = TypeOf("apps", "deployments", "Deployment", true);
  return type;
}

const k8s::ResourceType& StorageClassType() {
  static const k8s::ResourceType& type =
      TypeOf("storage.k8s.io", "storageclasses", "StorageClass", false);
  return type;
}

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

const k8s::ResourceType& EndpointSliceType() {
  static const k8s::ResourceType& type =
      TypeOf("discovery.k8s.io", "endpointslices", "EndpointSlice", true);
  return type;
}

const k8s::ResourceType& MutatingWebhookConfigurationType() {
  static const k8s::ResourceType& type =
      TypeOf("admissionregistration.k8s.io", "mutatingwebhookconfigurations",
             "MutatingWebhookConfiguration", false);
  return type;
}

const k8s::ResourceType& ValidatingWebhookConfigurationType() {
  static const k8s::ResourceType& type =
      TypeOf("admissionregistration.k8s.io", "validatingwebhookconfigurations",
             "ValidatingWebhookConfiguration", false);
  return type;
}

const absl::StatusOr<std::vector<Json>>& ClusterFacts::List(const k8s::ResourceType& type,
                                                            absl::string_view namespace_name) {
  const Key key = {k8s::ToString(type), std::string(namespace_name)};
  auto found = lists_.find(key);
  if (found == lists_.end()) {
    absl::StatusOr<k8s::ObjectList> list =
        api_.List(ctx_.WithTimeout(kListTimeMax), type, namespace_name,
                  {.label_selector = "", .field_selector = "", .may_be_old = true});
    absl::StatusOr<std::vector<Json>> items = std::vector<Json>();
    if (list.ok()) {
      items = std::move(list->items);
    } else {
      items = list.status();
    }
    found = lists_.emplace(key, std::move(items)).first;
  }
  return found->second;
}

absl::StatusOr<Json> ClusterFacts::Find(const k8s::ResourceType& type,
                                        absl::string_view namespace_name, absl::string_view name) {
  const absl::StatusOr<std::vector<Json>>& list = List(type, namespace_name);
  if (!list.ok()) {
    return list.status();
  }
  for (const Json& object : *list) {
    if (k8s::Name(object) == name) {
      return object;
    }
  }
  return absl::NotFoundError(absl::StrCat("there is no ", type.kind, " ", name));
}

}  // namespace csidelta::doctor
