#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::doctor {

// Kinds that only a look over the whole cluster needs. Built on first use; live for ever.
const k8s::ResourceType& NamespaceType();
const k8s::ResourceType& ServiceAccountType();
const k8s::ResourceType& ResourceQuotaType();
const k8s::ResourceType& DeploymentType();
const k8s::ResourceType& StorageClassType();
const k8s::ResourceType& CsiDriverType();
const k8s::ResourceType& PriorityClassType();
const k8s::ResourceType& ScheduleType();
const k8s::ResourceType& EndpointSliceType();
const k8s::ResourceType& MutatingWebhookConfigurationType();
const k8s::ResourceType& ValidatingWebhookConfigurationType();

// What the API server holds, read once for all checks. Borrows `api`. Not thread-safe.
class ClusterFacts {
 public:
  ClusterFacts(const CallContext& ctx, k8s::ApiClient& api) : ctx_(ctx), api_(api) {}

  // All objects of a kind, in a namespace or in all (""). NOT_FOUND: the kind is not served.
  // Valid as long as this object.
  const absl::StatusOr<std::vector<Json>>& List(const k8s::ResourceType& type,
                                                absl::string_view namespace_name = "");

  // The one of this name; NOT_FOUND when the list has none.
  absl::StatusOr<Json> Find(const k8s::ResourceType& type, absl::string_view namespace_name,
                            absl::string_view name);

  const CallContext& ctx() const { return ctx_; }
  k8s::ApiClient& api() { return api_; }

 private:
  using Key = std::pair<std::string, std::string>;  // kind, namespace

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  std::map<Key, absl::StatusOr<std::vector<Json>>> lists_;
};

}  // namespace csidelta::doctor
