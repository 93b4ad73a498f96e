#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "objects/object.h"

// Kinds that belong to a cluster as a whole, and are only read.
namespace csidelta::objects {

class Namespace : public ObjectOf<Namespace> {
 public:
  static constexpr KindName kKind = {"", "v1", "namespaces", "Namespace", false};
};

class EndpointSlice : public ObjectOf<EndpointSlice> {
 public:
  static constexpr KindName kKind = {"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"};

  std::string service() const { return Label("kubernetes.io/service-name"); }
  // Whether an endpoint is ready; an endpoint without conditions counts as ready.
  bool is_ready() const;
};

// A webhook that is a service of the cluster.
struct ServiceWebhook {
  std::string namespace_name;
  std::string service;
  bool fails_closed = false;  // without an answer, what it is asked about is refused
};

// MutatingWebhookConfiguration and ValidatingWebhookConfiguration.
class WebhookConfiguration : public Object {
 public:
  static const k8s::ResourceType& MutatingType();
  static const k8s::ResourceType& ValidatingType();

  explicit WebhookConfiguration(const Object& object) : Object(object) {}

  std::vector<ServiceWebhook> webhooks() const;
};

// A rule of the API server about requests, from Kubernetes 1.30 on.
class ValidatingAdmissionPolicy : public ObjectOf<ValidatingAdmissionPolicy> {
 public:
  static constexpr KindName kKind = {"admissionregistration.k8s.io", "v1",
                                     "validatingadmissionpolicies", "ValidatingAdmissionPolicy",
                                     false};

  // A request that it cannot evaluate is refused.
  bool fails_closed() const { return Text({"spec", "failurePolicy"}) != "Ignore"; }
};

class ValidatingAdmissionPolicyBinding : public ObjectOf<ValidatingAdmissionPolicyBinding> {
 public:
  static constexpr KindName kKind = {"admissionregistration.k8s.io", "v1",
                                     "validatingadmissionpolicybindings",
                                     "ValidatingAdmissionPolicyBinding", false};

  std::string policy() const { return Text({"spec", "policyName"}); }
  // Whether a request against the policy is refused, and not only recorded.
  bool denies() const;
};

class CustomResourceDefinition : public ObjectOf<CustomResourceDefinition> {
 public:
  static constexpr KindName kKind = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};

  std::string group() const { return Text({"spec", "group"}); }
  std::string defined_kind() const { return Text({"spec", "names", "kind"}); }
  // Whether the schema of that version declares a member of "spec" or "status", such as "job" or
  // "job.upload". The API server drops other members.
  bool Declares(absl::string_view version, absl::string_view part, absl::string_view member) const;
};

}  // namespace csidelta::objects
