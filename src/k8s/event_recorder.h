#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

inline constexpr char kPluginComponent[] = "velero-plugin-for-csi-delta";

enum class EventType { kNormal, kWarning };

// Writes an Event about `object` (a whole Kubernetes object), which "kubectl describe" shows.
// `reason` is one CamelCase word; `message` is cut to the server's 1024 bytes. Events about
// cluster-scoped objects land in the namespace "default". `component` is who says so. An Event is a
// courtesy: callers log a failure and go on.
absl::Status EmitEvent(const CallContext& ctx, ApiClient& client, const Json& object,
                       EventType type, absl::string_view reason, absl::string_view message,
                       absl::string_view component = kPluginComponent);

}  // namespace csidelta::k8s
