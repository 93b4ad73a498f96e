#include "objects/cluster.h"

#include <algorithm>

#include "absl/strings/str_split.h"

namespace csidelta::objects {
namespace {

constexpr KindName kMutating = {"admissionregistration.k8s.io", "v1",
                                "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
                                false};
constexpr KindName kValidating = {"admissionregistration.k8s.io", "v1",
                                  "validatingwebhookconfigurations",
                                  "ValidatingWebhookConfiguration", false};

}  // namespace

bool EndpointSlice::is_ready() const {
  for (const Json& endpoint : ArrayAt({"endpoints"})) {
    const Json* const ready = FindJson(endpoint, {"conditions", "ready"});
    if (ready == nullptr || *ready != Json(false)) {
      return true;
    }
  }
  return false;
}

bool ValidatingAdmissionPolicyBinding::denies() const {
  for (const Json& action : ArrayAt({"spec", "validationActions"})) {
    if (action == Json("Deny")) {
      return true;
    }
  }
  return false;
}

const k8s::ResourceType& WebhookConfiguration::MutatingType() {
  static const k8s::ResourceType& type = *new k8s::ResourceType(kMutating.Type());
  return type;
}

const k8s::ResourceType& WebhookConfiguration::ValidatingType() {
  static const k8s::ResourceType& type = *new k8s::ResourceType(kValidating.Type());
  return type;
}

std::vector<ServiceWebhook> WebhookConfiguration::webhooks() const {
  std::vector<ServiceWebhook> webhooks;
  for (const Json& webhook : ArrayAt({"webhooks"})) {
    webhooks.push_back(
        {.namespace_name = GetString(webhook, {"clientConfig", "service", "namespace"}),
         .service = GetString(webhook, {"clientConfig", "service", "name"}),
         .fails_closed = GetString(webhook, {"failurePolicy"}) != "Ignore"});
  }
  return webhooks;
}

bool CustomResourceDefinition::Declares(absl::string_view version, absl::string_view part,
                                        absl::string_view member) const {
  const Json& versions = ArrayAt({"spec", "versions"});
  return std::any_of(versions.begin(), versions.end(), [&](const Json& one) {
    const Json* schema = FindJson(one, {"schema", "openAPIV3Schema", "properties", part});
    for (const absl::string_view name : absl::StrSplit(member, '.')) {
      schema = schema == nullptr ? nullptr : FindJson(*schema, {"properties", name});
    }
    return GetString(one, {"name"}) == version && schema != nullptr;
  });
}

}  // namespace csidelta::objects
