#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"

// Asks for a right of the caller before it is used: SelfSubjectAccessReview, which every user may
// create. An answer is of the moment: the request itself may still be refused.
namespace csidelta::k8s {

struct AccessRequest {
  std::string verb;  // create, get, list, ...
  ResourceType type;
  std::string namespace_name = {};  // "" for kinds of the cluster, or for all namespaces
  std::string name = {};            // "" for any
};

struct AccessAnswer {
  bool is_allowed = false;
  std::string reason;  // the authorizer's words; often ""
};

absl::StatusOr<AccessAnswer> ReviewAccess(const CallContext& ctx, ApiClient& api,
                                          const AccessRequest& request);

// OK when it is allowed. PERMISSION_DENIED with `role`, a ClusterRole that allows it: "you may not
// create volumesnapshotcontents; ask for the ClusterRole csi-delta-snapshot-admin".
absl::Status RequireAccess(const CallContext& ctx, ApiClient& api, const AccessRequest& request,
                           absl::string_view role);

// One of several, and a ClusterRole that allows it.
struct NeededRight {
  AccessRequest request;
  const char* role;
};
// OK when all are allowed; PERMISSION_DENIED as above for the first that is not.
absl::Status RequireAccess(const CallContext& ctx, ApiClient& api,
                           const std::vector<NeededRight>& rights);

}  // namespace csidelta::k8s
