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

// Shared by verbs on a cluster, besides their flags.
namespace csidelta::cli {

// The form that -o or --json requests: "json", "yaml", "name", "wide", or "table".
std::string OutputForm(const Session& session);
// True for a table, wide or not.
bool AsksForTable(const Session& session);

// A result, or one of several values of a running verb, in each form that -o knows.
struct ClusterResult {
  Json value;                           // json, yaml
  std::string table = {};               // table, wide
  std::vector<std::string> names = {};  // name: "volumesnapshot.snapshot.storage.k8s.io/orders"
};
// Prints `result` in the requested form: a line of JSON, or a document of YAML, of which a verb may
// print several. An empty table prints nothing.
void PrintClusterResult(Session& session, const ClusterResult& result);

// A list that may be very long: its elements are made one at a time. In json and yaml it is the
// member `member` of the object `head`, or the whole result if `member` is "".
struct ClusterList {
  std::size_t count = 0;
  std::vector<std::string> columns = {};                             // of the table
  std::function<std::vector<std::string>(std::size_t)> row = {};     // table, wide
  std::function<Json(std::size_t)> value = {};                       // json, yaml
  std::function<std::optional<std::string>(std::size_t)> name = {};  // name; nullopt: no line
  std::string member = {};
  Json head = Json::object();
};
// Prints `list` in the requested form. The table of an empty list has no line.
void PrintClusterList(Session& session, const ClusterList& list);

}  // namespace csidelta::cli
