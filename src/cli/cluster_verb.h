#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "cli/cluster_access.h"
#include "cli/session.h"

// What verbs on a cluster have in common beside their flags.
namespace csidelta::cli {

// The namespace of a verb that works in one. INVALID_ARGUMENT for -A, and for -l, by which it
// chooses nothing. Reads the kubeconfig.
absl::StatusOr<std::string> OneNamespace(const ClusterOptions& cluster, absl::string_view verb);

// A result in each form that -o knows.
struct ClusterResult {
  Json value;                      // json, yaml
  std::string table;               // table, wide
  std::vector<std::string> names;  // name: "volumesnapshot.snapshot.storage.k8s.io/orders"
};
void PrintClusterResult(Session& session, const ClusterResult& result);

}  // namespace csidelta::cli
