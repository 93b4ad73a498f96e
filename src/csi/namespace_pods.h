#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/json.h"
#include "csi/once_map.h"
#include "k8s/api_client.h"

namespace csidelta::csi {

// The pods that use claims, listed once for each backup and namespace. Of each pod only metadata,
// spec.volumes and status.phase are kept. Thread-safe.
class NamespacePods {
 public:
  explicit NamespacePods(k8s::ApiClient& api) : api_(api) {}

  absl::StatusOr<std::shared_ptr<const std::vector<Json>>> Get(const CallContext& ctx,
                                                               const std::string& backup_uid,
                                                               const std::string& namespace_name);

 private:
  k8s::ApiClient& api_;
  OnceMap<std::vector<Json>> pods_{32};
};

// Whether a volume of `pod` is the claim. Pure.
bool UsesClaim(const Json& pod, const std::string& claim_name);

}  // namespace csidelta::csi
