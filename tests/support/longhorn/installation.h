#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/json.h"
#include "k8s/api_client.h"

// What Longhorn puts into a cluster, as objects: its CRDs, and the two webhook configurations.
namespace csidelta::longhorn_stand_in {

// All kinds of longhorn.io; that of Snapshots with its schema, the others with any fields.
std::vector<Json> CustomResourceDefinitions();

// `url` is where the webhooks are, without a path: "https://127.0.0.1:9443". failurePolicy Fail: a
// webhook that is away refuses what it is asked about, all updates of PVCs included.
std::vector<Json> WebhookConfigurations(const std::string& url, absl::string_view ca_pem);

// Creates them and `namespace_name`, or brings them up to date, and waits until the CRDs are
// served. Errors of the client.
absl::Status Install(const CallContext& ctx, k8s::ApiClient& client,
                     const std::string& namespace_name, const std::string& url,
                     absl::string_view ca_pem);

}  // namespace csidelta::longhorn_stand_in
