#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "k8s/api_client.h"
#include "k8s/heartbeat.h"
#include "k8s/reconcile_loop.h"

namespace csidelta::datamover {

// The flags of the data mover, as they are given on the command line.
struct ServiceSettings {
  std::string mover_namespace;
  std::string velero_namespaces;  // joined by commas
  std::string image;
  std::string worker_service_account;
  std::string listen;
  int64_t concurrent_reconciles = k8s::kConcurrentReconciles;  // of one kind, at least 1
  absl::Duration loop_age_max = k8s::kLoopAgeMax;  // older ones stand still, says /healthz
};

// The namespaces of a list joined by commas. INVALID_ARGUMENT if it is empty, names one twice, or
// has an invalid name.
absl::StatusOr<std::vector<std::string>> ParseVeleroNamespaces(absl::string_view text);

// Moves the volumes of DataUploads and DataDownloads until `ctx` is stopped: watches the objects,
// works while it leads, and serves health and metrics. It gives the lease up last. Borrows `api`.
absl::Status RunService(const CallContext& ctx, k8s::ApiClient& api,
                        const ServiceSettings& settings);

}  // namespace csidelta::datamover
