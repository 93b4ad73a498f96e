#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::csi {

// On what is made in the mover's namespace for a claim elsewhere: which one. A storage class can
// name Secrets by them, as it does by the namespace of a claim of its own.
inline constexpr char kClaimNamespaceAnnotation[] = "mover.csi-delta.io/claim-namespace";
inline constexpr char kClaimAnnotation[] = "mover.csi-delta.io/claim";

// The newest message of a ProvisioningFailed event for this very claim; "" when there is none.
absl::StatusOr<std::string> LastProvisioningError(const CallContext& ctx, k8s::ApiClient& api,
                                                  const Json& claim);

// Whether `message`, of a provisioner's ProvisioningFailed event, is an answer that repeating the
// request will not change: the snapshot is not there, or the request can never be met. Pure.
bool IsDefiniteRefusal(absl::string_view message);

// Whether a StorageClass leaves its volumes unmade until a pod uses them. False for one that does
// not exist, and for "".
absl::StatusOr<bool> WaitsForFirstConsumer(const CallContext& ctx, k8s::ApiClient& api,
                                           absl::string_view storage_class);

}  // namespace csidelta::csi
