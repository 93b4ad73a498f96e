#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "objects/event.h"

namespace csidelta::csi {

// The Events of the object with this uid, the oldest first. Kubernetes keeps them for an hour,
// where nothing else is configured, and may show them a few seconds late. PERMISSION_DENIED where
// they may not be listed.
absl::StatusOr<std::vector<objects::Event>> ReadEvents(const CallContext& ctx, k8s::ApiClient& api,
                                                       absl::string_view namespace_name,
                                                       absl::string_view uid);

}  // namespace csidelta::csi
