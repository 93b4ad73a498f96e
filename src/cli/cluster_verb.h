#pragma once

#include <cstddef>
#include <functional>
#include <optional>
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

// "json", "yaml", "name", "wide", or "table": what -o or --json asks for.
std::string OutputForm(const Session& session);
// Whether that is a table, wide or not.
bool AsksForTable(const Session& session);

// A result in each form that -o knows.
struct ClusterResult {
  Json value;                           // json, yaml
  std::string table = {};               // table, wide
  std::vector<std::string> names = {};  // name: "volumesnapshot.snapshot.storage.k8s.io/orders"
};
// Prints it in the form that was asked for; of a table nothing where that is empty.
void PrintClusterResult(Session& session, const ClusterResult& result);

// One of several values that a verb prints as it goes on, in the form that was asked for: a line of
// JSON, a document of YAML, `text`, or where only names are `name` on a line, unless that is "".
void PrintClusterEvent(Session& session, const Json& value, const std::string& text,
                       const std::string& name = "");

// A list that may be very long, whose elements are made one at a time. Of json and yaml it is the
// member `member` of the object `head`, or, where that is "", all there is.
struct ClusterList {
  std::size_t count = 0;
  std::vector<std::string> columns = {};                             // of the table
  std::function<std::vector<std::string>(std::size_t)> row = {};     // table, wide
  std::function<Json(std::size_t)> value = {};                       // json, yaml
  std::function<std::optional<std::string>(std::size_t)> name = {};  // name; nothing: no line
  std::string member = {};
  Json head = Json::object();
};
// Prints it in the form that was asked for; a table has no line where the list is empty.
void PrintClusterList(Session& session, const ClusterList& list);

}  // namespace csidelta::cli
